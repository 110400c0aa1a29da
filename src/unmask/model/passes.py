"""One pass of a model, and what it changes of the model for that time.

The model belongs to the caller. So every change is undone when its pass ends, whatever interrupts
it, and a hook acts only in the thread that made it. A forked process has the model but not the
other threads: what their passes had changed is undone there.
"""

import logging
import os
import threading
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

# of the model's own dictionaries: an entry by its name, before a pass and after
Replaced = list[tuple[dict[str, Any], str, Any, Any]]

_LOCKS: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()


def lock_of(model: Any) -> threading.RLock:
    """The one lock of a model object: held by every caller that runs it.

    Kept here and not by what wraps the model: two wrappers of one model share it, and neither
    holds anything that cannot be pickled.
    """
    # a dictionary's own `setdefault` is one step: of two threads both get the same lock
    return _LOCKS.setdefault(model, threading.RLock())


@dataclass(eq=False)
class Pass:
    """One pass of a model without gradients, undone whatever happens.

    With a `layer` it is a hook there, which keeps what enters and hands nothing of it on. With
    `unfused`, a configuration, attention is not fused.

    A pass may also replace modules, settings and attributes: BigBird turns to full attention at
    the first short text, Reformer chooses its number of buckets by the first long one, both for
    good; every text must find the model as it was. The first pass over rows of a length finds out
    what is `replaced`; later ones get the same put in, so that they have nothing to replace.
    """

    model: Any = None
    replaced: Replaced | None = None
    layer: nn.Module | None = None
    unfused: Any = None
    inputs: list[Tensor] = field(default_factory=list)
    # None in a copy, which has no effect
    thread: int | None = None
    _attention: Any = None
    # dictionaries of the model as they were, the random state, the logger as it was
    _before: tuple[Any, ...] | None = None
    _guards: list[Any] = field(default_factory=list)

    def run(self, **inputs: Any) -> Any:
        """The output of the model.

        Not a context manager: an interrupt between entering one and its block would leave the
        undoing to whenever the traceback is dropped.
        """
        self.thread = threading.get_ident()
        self._attention = getattr(self.unfused, "_attn_implementation", None)
        try:
            try:
                _UNDER_WAY[self] = None
                # `torch.inference_mode` is Python's, so that an interrupt could leave it on. This
                # guard is left where it is dropped, and to leave it twice changes nothing
                self._guards.append(torch._C._InferenceMode(True))
                if self.replaced is None:
                    modules = list(self.model.modules())
                    lasting = [module._modules for module in modules]
                    if hasattr(self.model, "config"):
                        lasting.append(vars(self.model.config))
                    owners = [(owner, dict(owner)) for owner in (*lasting, *map(vars, modules))]
                    log = logging.getLogger(type(self.model).__module__)
                    state = torch.get_rng_state()
                    self._before = owners, len(lasting), state, log, log.disabled
                    # its message about a change that is undone would mislead
                    log.disabled = True
                for owner, name, _, replacement in self.replaced or ():
                    owner[name] = replacement
                if self.unfused is not None:
                    self.unfused._attn_implementation = "eager"
                if self.layer is not None:
                    self.layer.register_forward_pre_hook(self)
                return self.model(**inputs)
            finally:
                self.undo()
        finally:
            # whole, even if undoing is interrupted: it comes twice
            _UNDER_WAY.pop(self, None)
            self.undo()

    def __call__(self, _: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """Keep the input of the layer, unless another thread calls it, as those of the caller."""
        if threading.get_ident() != self.thread:
            return None
        self.inputs.append(args[0])
        return (args[0][:0],)

    def undo(self) -> None:
        """Leave the model as it was; may come twice, and before anything is changed."""
        if self.layer is not None:
            hooks = self.layer._forward_pre_hooks
            # without the handle: an interrupt may come before it is handed out
            for key in [key for key, hook in hooks.items() if hook is self]:
                hooks.pop(key, None)
        if self.unfused is not None:
            self.unfused._attn_implementation = self._attention
        if self._before is not None:
            owners, lasting, state, log, log.disabled = self._before
            # attributes alone do not count: models keep what they computed for a length in them
            if any(
                owner.keys() != before.keys() or any(owner[n] is not before[n] for n in owner)
                for owner, before in owners[:lasting]
            ):
                self.replaced = [
                    (owner, name, value, owner[name])
                    for owner, before in owners
                    for name, value in before.items()
                    if name in owner and owner[name] is not value
                ]
                torch.set_rng_state(state)
            self.replaced = self.replaced or []
        for owner, name, value, _ in self.replaced or ():
            owner[name] = value
        self._before = None
        # the mode is one of the thread, and nothing of it is left in a forked process
        for guard in self._guards if threading.get_ident() == self.thread else ():
            guard.__exit__(None, None, None)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of the model, pickled during the pass, has one without effect."""
        return Pass, ()


# in order; a dictionary, as a set has none
_UNDER_WAY: dict[Pass, None] = {}


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
    for other in [under_way for under_way in reversed(_UNDER_WAY) if under_way.thread != here]:
        del _UNDER_WAY[other]
        other.undo()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
