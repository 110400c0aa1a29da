"""Spare a model the positions that are not read.

Elicitation reads one position of a row, and after the last attention no other matters to it. What
is left to do there (an output projection, a feed-forward network, norms, the head) is a series of
calls of modules without children, and a call whose input is cut to the read position computes that
position alone. Adding its output to an uncut residual is right at the read position, and the next
call cuts again. Which calls may be cut is found by trying, so that no architecture is named here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unmask.model.hooks import run_hooked

# the same for every row, or one set of positions per row
Positions = Sequence[int] | Int[Tensor, "rows positions"]

# how far readouts of a trimmed pass may be from those of a whole one, as a part of the largest
_TOLERANCE = {torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}


class TrimmingError(RuntimeError):
    """A pass that did not make the calls that were seen when its trimming was found."""


@dataclass(frozen=True, eq=False)
class Trimming:
    """Which calls see the read position only: one flag per call of these modules, in order."""

    modules: tuple[nn.Module, ...] = ()
    cut: tuple[bool, ...] = ()

    def run(self, positions: Positions, length: int, forward: Callable[[], None]) -> None:
        """One forward pass over rows of a length, with one read position each."""
        calls = 0

        def narrowed(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
            nonlocal calls
            calls += 1
            # beyond the flags the model does what it was not seen doing: raised below
            if calls > len(self.cut) or not self.cut[calls - 1] or args[0].shape[1] != length:
                return None
            return (at_positions(args[0], positions), *args[1:])

        run_hooked(self.modules, narrowed, forward)
        if calls != len(self.cut):
            raise TrimmingError(
                f"{calls} calls of trimmed modules, where {len(self.cut)} were seen"
            )


NOTHING_TRIMMED = Trimming()

# rows of ids, of any shape, and the one position that is read in each
Probe = tuple[Int[Tensor, "_ _"], Int[Tensor, "_ 1"]]
Read = Callable[[Tensor, Tensor, Trimming], Tensor]


def at_positions(values: Tensor, positions: Positions) -> Float[Tensor, "rows positions width"]:
    """The values of each row at its positions."""
    if not isinstance(positions, Tensor):
        # one position is a view, which costs nothing
        first = positions[0] if len(positions) == 1 else None
        return values[:, list(positions)] if first is None else values[:, first : first + 1]
    rows = torch.arange(len(values), device=values.device)
    return values[rows[:, None], positions.to(values.device)]


def captured_input(
    layer: nn.Module, positions: Positions, length: int, forward: Callable[[], None]
) -> list[Tensor]:
    """What enters a layer at some positions during a pass, which spares the layer its work."""
    captured: list[Tensor] = []

    def keep(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        whole = args[0].shape[1] == length
        captured.append(at_positions(args[0], positions) if whole else args[0])
        return (args[0][:0],)

    run_hooked([layer], keep, forward)
    return captured


# --- which calls may be cut --------------------------------------------------------------------


def find_trimming(modules: Iterable[nn.Module], read: Read, probes: Sequence[Probe]) -> Trimming:
    """Cut from the earliest call on that leaves the readouts of every probe as they are.

    Calls are those of the modules that have no children; `read` runs a forward pass under a
    trimming. Probes have as many rows as no probe has tokens, and differ in length, so that rows,
    positions and other numbers are not taken for each other.
    """
    leaves = [module for module in modules if next(module.children(), None) is None]
    whole = [read(ids, positions, NOTHING_TRIMMED) for ids, positions in probes]
    seen = [_calls(leaves, read, probe) for probe in probes]
    order = [module for module, _ in seen[0]]
    if any([module for module, _ in calls] != order for calls in seen):
        return NOTHING_TRIMMED
    each = zip(*([flag for _, flag in calls] for calls in seen), strict=True)
    whole_rows = [all(flags) for flags in each]
    places = [number for number, flag in enumerate(whole_rows) if flag]

    def unchanged(first: int) -> bool:
        trimming = _from_call(places[first], order, whole_rows)
        return all(
            _agree(read, probe, trimming, expected)
            for probe, expected in zip(probes, whole, strict=True)
        )

    # cut at all places from `first` on: the later the first, the less can go wrong
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if unchanged(middle) else (middle + 1, high)
    if low == len(places):
        return NOTHING_TRIMMED
    return _from_call(places[low], order, whole_rows)


def _from_call(first: int, order: list[nn.Module], whole_rows: list[bool]) -> Trimming:
    """Cut the calls from `first` on; earlier calls of the same modules are counted, not cut."""
    calls = [
        (module, flag and number >= first)
        for number, (module, flag) in enumerate(zip(order, whole_rows, strict=True))
    ]
    modules = dict.fromkeys(module for module, cut in calls if cut)
    return Trimming(tuple(modules), tuple(cut for module, cut in calls if module in modules))


def _calls(leaves: list[nn.Module], read: Read, probe: Probe) -> list[tuple[nn.Module, bool]]:
    """Every call of these modules, and whether its input is rows x length x width."""
    ids, positions = probe
    calls: list[tuple[nn.Module, bool]] = []

    def note(module: nn.Module, args: tuple[Any, ...]) -> None:
        hidden = args[0] if args and isinstance(args[0], Tensor) else ids
        calls.append((module, hidden.ndim == 3 and hidden.shape[:2] == ids.shape))

    run_hooked(leaves, note, lambda: read(ids, positions, NOTHING_TRIMMED))
    return calls


def still_valid(trimming: Trimming, read: Read, probe: Probe) -> bool:
    """Whether a trimming leaves the readouts of a probe unchanged."""
    return _agree(read, probe, trimming, read(*probe, NOTHING_TRIMMED))


def _agree(read: Read, probe: Probe, trimming: Trimming, expected: Tensor) -> bool:
    try:
        trimmed = read(*probe, trimming)
    except Exception:  # a pass that breaks, however it does, may not be trimmed there
        return False
    return trimmed.shape == expected.shape and same_numbers(trimmed, expected)


def same_numbers(actual: Tensor, expected: Tensor) -> bool:
    """Whether two results differ by no more than rounding."""
    limit = _TOLERANCE.get(expected.dtype, 2e-5) * (1 + expected.abs().max())
    return bool((actual - expected).abs().max() <= limit)
