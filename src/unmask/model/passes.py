"""One pass of a model, and what it changes of the model for that time.

The model belongs to the caller. So every change is undone when its pass ends, whatever interrupts
it, and a hook acts only in the thread that made it. A forked process has the model but not the
other threads: what their passes had changed is undone there.
"""

import logging
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

Result = TypeVar("Result")

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


class Capture:
    """A forward pre-hook that keeps what enters a layer, and hands nothing of it on.

    It has no effect in other threads, as those of the caller.
    """

    def __init__(self, layer: nn.Module | None = None) -> None:
        self.layer, self.inputs = layer, list[Tensor]()
        self._thread = None if layer is None else threading.get_ident()

    def __call__(self, _: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        if threading.get_ident() != self._thread:
            return None
        self.inputs.append(args[0])
        return (args[0][:0],)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of the model, pickled during the pass, has one without effect."""
        return Capture, ()


class Replaced:
    """The modules, settings and attributes that passes over rows of one length replace.

    BigBird turns to full attention at the first short text, Reformer chooses its number of buckets
    by the first long one, both for good; every text must find the model as it was. The first pass
    finds out, if it ends; later ones get the same put in, so that they have nothing to replace.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        # of the model's own dictionaries: an entry by its name, before and after; None until known
        self._entries: list[tuple[dict[str, Any], str, Any, Any]] | None = None
        # during the first pass: dictionaries as they were, the random state, the logger as it was
        self._before: tuple[Any, ...] | None = None

    def put_in(self) -> None:
        """Replace what the first pass replaced; for that one, note the model as it is."""
        for owner, name, _, replacement in self._entries or ():
            owner[name] = replacement
        if self._entries is None:
            modules = list(self._model.modules())
            lasting = [module._modules for module in modules]
            if hasattr(self._model, "config"):
                lasting.append(vars(self._model.config))
            dictionaries = [(owner, dict(owner)) for owner in (*lasting, *map(vars, modules))]
            log = logging.getLogger(type(self._model).__module__)
            state = torch.get_rng_state()
            self._before = dictionaries, len(lasting), state, log, log.disabled
            # its message about a change that is undone would mislead
            log.disabled = True

    def put_back(self) -> None:
        """Leave the model as it was; may come twice, and before `put_in` has ended."""
        if self._before is not None:
            dictionaries, lasting, state, log, log.disabled = self._before
            # attributes alone do not count: models keep what they computed for a length in them
            if any(
                owner.keys() != before.keys() or any(owner[n] is not before[n] for n in owner)
                for owner, before in dictionaries[:lasting]
            ):
                self._entries = [
                    (owner, name, value, owner[name])
                    for owner, before in dictionaries
                    for name, value in before.items()
                    if name in owner and owner[name] is not value
                ]
                torch.set_rng_state(state)
            self._entries = self._entries or []
        for owner, name, value, _ in self._entries or ():
            owner[name] = value
        self._before = None


def run_pass(
    call: Callable[[], Result],
    replaced: Replaced,
    *,
    capture: Capture | None = None,
    fused: Any = None,
) -> Result:
    """Run a model without gradients, and undo every change whatever happens.

    `capture` is hooked to its layer, and attention is not fused with the configuration `fused`.
    A function and not a context manager: an interrupt between entering one and its block would
    leave the undoing to whenever the traceback is dropped.
    """
    # `torch.inference_mode` is Python's, so that an interrupt could leave it on. This guard is left
    # where it is dropped, and to leave it twice changes nothing
    guards: list[Any] = []
    thread = threading.get_ident()
    attention = getattr(fused, "_attn_implementation", None)

    def undo() -> None:
        # whole, even if undoing is interrupted: it comes twice
        if capture is not None and capture.layer is not None:
            hooks = capture.layer._forward_pre_hooks
            # without the handle: an interrupt may come before it is handed out
            for key in [key for key, hook in hooks.items() if hook is capture]:
                hooks.pop(key, None)
        if fused is not None:
            fused._attn_implementation = attention
        replaced.put_back()
        # the mode is one of the thread, and nothing of it is left in a forked process
        for guard in guards if threading.get_ident() == thread else ():
            guard.__exit__(None, None, None)

    try:
        try:
            _UNDER_WAY[undo] = thread
            guards.append(torch._C._InferenceMode(True))
            replaced.put_in()
            if fused is not None:
                fused._attn_implementation = "eager"
            if capture is not None and capture.layer is not None:
                capture.layer.register_forward_pre_hook(capture)
            return call()
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
