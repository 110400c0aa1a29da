"""What a forward pass changes of a model's own modules, and how to put it back.

A model may change itself while it runs: BigBird turns to full attention at the first short text,
Reformer chooses its number of buckets by the first long one, both for good. Every text must
find the model as it was.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

from unmask.model.hooks import run_and_undo

Result = TypeVar("Result")


# entries of a model's own dictionaries that a pass replaced: where, by name, before and after
Replaced = tuple[tuple[dict[str, Any], str, Any, Any], ...]


def _restore(replaced: Replaced) -> None:
    for owner, name, before, _ in replaced:
        owner[name] = before


class Arrangement:
    """The submodules, configuration and attributes that a model has now."""

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        lasting = [module._modules for module in modules]
        if hasattr(model, "config"):
            lasting.append(vars(model.config))
        self._lasting = [(owner, dict(owner)) for owner in lasting]
        self._attributes = [(vars(module), dict(vars(module))) for module in modules]

    def replaced(self) -> Replaced | None:
        """The objects that were replaced; None while submodules and configuration are the same.

        Attributes alone do not count: models keep what they computed for a length in them.
        """
        if all(_same(owner, kept) for owner, kept in self._lasting):
            return None
        return tuple(
            (owner, name, before, owner[name])
            for owner, kept in (*self._lasting, *self._attributes)
            for name, before in kept.items()
            if name in owner and owner[name] is not before
        )


def _same(owner: dict[str, Any], earlier: dict[str, Any]) -> bool:
    return len(owner) == len(earlier) and all(owner.get(name) is earlier[name] for name in earlier)


def run_and_restore(model: nn.Module, run: Callable[[], Result]) -> tuple[Result, Replaced | None]:
    """Run, restore what the run replaced, and return it; random numbers are restored too."""
    before, random_state = Arrangement(model), torch.get_rng_state()
    # its message about a change that is undone would mislead
    log = logging.getLogger(type(model).__module__)
    was_silent, replaced = log.disabled, None

    def run_silently() -> Result:
        log.disabled = True
        return run()

    def restore() -> None:
        nonlocal replaced
        log.disabled = was_silent
        change = before.replaced()
        if change is not None:
            replaced = change
            _restore(change)
            torch.set_rng_state(random_state)

    result = run_and_undo(run_silently, restore)
    return result, replaced


def run_rearranged(replaced: Replaced, run: Callable[[], Result]) -> Result:
    """Run with what an earlier pass replaced put in, and put it back."""

    def put_in_and_run() -> Result:
        # as the pass wants it, so that it has nothing to replace
        for owner, name, _, after in replaced:
            owner[name] = after
        return run()

    return run_and_undo(put_in_and_run, lambda: _restore(replaced))
