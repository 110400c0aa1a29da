"""Passes of a model, and what they change of it: hooks, settings, modules that a pass replaces.

The model belongs to the caller. So every change is undone when its pass ends, whatever interrupts
it, and a hook acts only in the thread that made it. A forked process has the model but not the
other threads: what their passes had changed is undone there.
"""

import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

Result = TypeVar("Result")
# what a module's arguments are replaced by; None leaves them unchanged
Act = Callable[[tuple[Tensor, ...]], tuple[Tensor, ...] | None]

_LOCKS: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()
# how to undo what the passes under way have changed, and the thread of each
_UNDER_WAY: dict[Callable[[], None], int] = {}


def lock_of(model: Any) -> threading.RLock:
    """The one lock of a model object: held by every caller that runs it.

    Kept here and not by what wraps the model: two wrappers of one model share it, and neither
    holds anything that cannot be pickled.
    """
    # a dictionary's own `setdefault` is one step: of two threads both get the same lock
    return _LOCKS.setdefault(model, threading.RLock())


class Change(NamedTuple):
    """A change for the time of a pass; `undo` may come twice, and before `make` has ended."""

    make: Callable[[], object]
    undo: Callable[[], object]


def run_changed(run: Callable[[], Result], *changes: Change) -> Result:
    """Run with changes, and undo them whatever happens: whole, even if undoing is interrupted.

    A function and not a context manager: an interrupt between entering one and its block would
    leave the undoing to whenever the traceback is dropped.
    """

    def undo() -> None:
        for change in reversed(changes):
            change.undo()

    try:
        try:
            _UNDER_WAY[undo] = threading.get_ident()
            for change in changes:
                change.make()
            return run()
        finally:
            undo()
    finally:
        _UNDER_WAY.pop(undo, None)
        undo()


def _start_anew() -> None:
    """In a forked process: free every model of the threads that ran it, and are not here."""
    global _LOCKS
    if len(_LOCKS):
        # OpenMP would wait for the threads that helped with the passes of this one; and torch makes
        # its pool of threads anew at first use, which two threads must not do at once
        torch.set_num_threads(1)
    # a copy of a lock that another thread held would never be released
    _LOCKS = WeakKeyDictionary()
    here = threading.get_ident()
    for undo, thread in reversed(list(_UNDER_WAY.items())):
        if thread != here:
            del _UNDER_WAY[undo]
            undo()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


# --- changes -----------------------------------------------------------------------------------


def no_gradients() -> Change:
    """`torch.inference_mode`, whose context manager is Python's: an interrupt could leave it on."""
    # made, it is entered; dropped or left, it is undone; to leave it twice changes nothing
    guards: list[Any] = []
    thread = threading.get_ident()

    def leave() -> None:
        # the mode is one of the thread, and nothing of it is left in a forked process
        for guard in guards if threading.get_ident() == thread else ():
            guard.__exit__(None, None, None)

    return Change(lambda: guards.append(torch._C._InferenceMode(True)), leave)


def with_setting(owner: Any, name: str, value: object) -> Change:
    """Another value of an attribute."""
    before = getattr(owner, name)
    return Change(partial(setattr, owner, name, value), partial(setattr, owner, name, before))


class _PassHook:
    """A forward pre-hook without effect in other threads, as those of the caller."""

    def __init__(self, act: Act | None = None) -> None:
        self._act, self._thread = act, threading.get_ident()

    def __call__(self, _: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self._act is None or threading.get_ident() != self._thread:
            return None
        return self._act(args)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of the model, pickled during the pass, has one without effect."""
        return _PassHook, ()


def hooked(module: nn.Module, act: Act) -> Change:
    """`act` before every call of a module."""
    hook, hooks = _PassHook(act), module._forward_pre_hooks

    def take_off() -> None:
        # without the handle: an interrupt may come before it is handed out
        for key in [key for key, other in hooks.items() if other is hook]:
            hooks.pop(key, None)

    return Change(lambda: module.register_forward_pre_hook(hook), take_off)


class Arrangement:
    """The modules, settings and attributes that passes over rows of one length replace.

    BigBird turns to full attention at the first short text, Reformer chooses its number of buckets
    by the first long one, both for good; every text must find the model as it was. The first pass
    finds out, if it ends; later ones get the same put in, so that they have nothing to replace.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        # of the model's own dictionaries: an entry by its name, before and after; None until known
        self._replaced: list[tuple[dict[str, Any], str, Any, Any]] | None = None

    def changes(self) -> list[Change]:
        """What the next pass replaces, put back after it."""
        if self._replaced is not None:
            put_in = Change(partial(self._put, after=True), self._put)
            return [put_in] if self._replaced else []
        modules = list(self._model.modules())
        lasting = [module._modules for module in modules]
        if hasattr(self._model, "config"):
            lasting.append(vars(self._model.config))
        kept = [(owner, dict(owner)) for owner in lasting]
        kept_attributes = [(vars(module), dict(vars(module))) for module in modules]
        random_state = torch.get_rng_state()
        # its message about a change that is undone would mislead
        log = logging.getLogger(type(self._model).__module__)
        silence = with_setting(log, "disabled", True)

        def restore() -> None:
            silence.undo()
            # attributes alone do not count: models keep what they computed for a length in them
            if all(
                owner.keys() == earlier.keys() and all(owner[n] is earlier[n] for n in owner)
                for owner, earlier in kept
            ):
                # nothing, or it is put back already
                self._replaced = self._replaced or []
                return
            self._replaced = [
                (owner, name, before, owner[name])
                for owner, earlier in (*kept, *kept_attributes)
                for name, before in earlier.items()
                if name in owner and owner[name] is not before
            ]
            self._put()
            torch.set_rng_state(random_state)

        return [Change(silence.make, restore)]

    def _put(self, *, after: bool = False) -> None:
        for owner, name, before, replacement in self._replaced or ():
            owner[name] = replacement if after else before
