"""Hooks on a model's modules that cannot outlive the forward pass they were made for.

A pass reads and spares work through hooks, and the modules belong to the caller. So a hook acts in
the thread that made it and only until its pass ends; it is taken off whatever interrupts the pass,
also where the interrupt comes between registering a hook and remembering it. A forked process has
the model but not the other threads: what their passes had changed is undone there.
"""

import os
import threading
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
# what a module's arguments are replaced by; None leaves them unchanged
Act = Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...] | None]

_LOCKS: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()
# how to undo what the passes under way have changed, and the thread of each
_UNDER_WAY: dict[Callable[[], None], int] = {}


def lock_of(model: Any) -> threading.RLock:
    """The one lock of a model object: held by every caller that runs it through hooks.

    Kept here and not by what wraps the model: two wrappers of one model share it, and neither
    holds anything that cannot be pickled.
    """
    # a dictionary's own `setdefault` is one step: of two threads both get the same lock
    return _LOCKS.setdefault(model, threading.RLock())


def run_and_undo(run: Callable[[], Result], undo: Callable[[], None]) -> Result:
    """Run, and undo whatever happens: whole, even if an interrupt comes while it is undone.

    A function and not a context manager: an interrupt between entering one and its block would
    leave the undoing to whenever the traceback is dropped.
    """
    try:
        try:
            _UNDER_WAY[undo] = threading.get_ident()
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


def without_gradients(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """`torch.inference_mode` that an interrupt cannot leave on.

    That is a context manager in Python, which an interrupt can enter without leaving.
    """

    @wraps(function)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        # made, it is entered; dropped or left, it is undone; to leave it twice changes nothing
        guards: list[Any] = []

        def guarded() -> Result:
            guards.append(torch._C._InferenceMode(True))
            return function(*args, **kwargs)

        thread = threading.get_ident()

        def leave() -> None:
            # the mode is one of the thread, and nothing of it is left in a forked process
            for guard in guards if threading.get_ident() == thread else ():
                guard.__exit__(None, None, None)

        return run_and_undo(guarded, leave)

    return run


class _PassHook:
    """A forward pre-hook of one pass: without effect in other threads, and after the pass."""

    def __init__(self, act: Act | None = None) -> None:
        self._act, self._thread = act, threading.get_ident()
        self.live = act is not None

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self._act is None or not self.live or threading.get_ident() != self._thread:
            return None
        return self._act(module, args)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of the model, pickled during the pass, has one without effect."""
        return _PassHook, ()


def run_hooked(modules: Iterable[nn.Module], act: Act, run: Callable[[], Result]) -> Result:
    """Run with `act` before every call of these modules, and take it off again."""
    hooked, hook = list(modules), _PassHook(act)

    def register_and_run() -> Result:
        for module in hooked:
            module.register_forward_pre_hook(hook)
        return run()

    def take_off() -> None:
        hook.live = False
        for module in hooked:
            _drop(module._forward_pre_hooks, hook)

    return run_and_undo(register_and_run, take_off)


def _drop(hooks: dict[int, Callable[..., Any]], mine: _PassHook) -> None:
    """Remove a hook, and those of passes that are over, without a handle of them."""
    over = [
        key
        for key, hook in hooks.items()
        if hook is mine or (isinstance(hook, _PassHook) and not hook.live)
    ]
    for key in over:
        hooks.pop(key, None)
