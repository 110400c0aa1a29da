"""What a command says that its work costs, before it runs."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from unmask.printable import readable_seconds

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.queries.costs.cost import Cost
    from unmask.settings import Settings
    from unmask.text.cloze import Cloze

# fewer forward passes are over sooner than their time would be measured
_FEW_PASSES = 512
# many texts that take no longer than this need no announcement
_LONG_SECONDS = 10.0


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """The option to print a cost instead of running."""
    parser.add_argument(
        "--dry-run", action="store_true", help="print the cost to stdout, and run nothing"
    )


def announce(
    chosen: object,
    name: str,
    lm: "LanguageModel",
    cloze: "Cloze",
    cost: "Cost",
    settings: "Settings",
    more: "Callable[[Cost], str]" = lambda _: "",
) -> None:
    """Print what work on rows like a cloze costs, timed where that is worth it."""
    cost = _timed(lm, cloze, cost, settings)
    _print(chosen, f"{name}: {cost}{more(cost)}")


def announce_many(
    chosen: object,
    name: str,
    lm: "LanguageModel",
    cloze: "Cloze",
    cost: "Cost",
    settings: "Settings",
    count: int | None,
    *,
    unit: str = "text",
    shown: "Callable[[Cost], str]" = str,
    more: str = "",
) -> None:
    """Print what so many texts like the first cost, if it is much; None is not known how many."""
    cost = _timed(lm, cloze, cost, settings, count or 1)
    if _is_dry(chosen) or (cost.seconds or 0.0) * (count or 1) > _LONG_SECONDS:
        total = "" if count is None else f"; {count:,} {unit}s: {times(cost, count)}"
        _print(chosen, f"{name}: {shown(cost)} per {unit} like the first{total}{more}")


def times(cost: "Cost", factor: float) -> str:
    """The forward passes, and the time where it is known, of so many times a cost."""
    most, passes = "at most " if cost.at_most else "", cost.forward_passes * factor
    time = "" if cost.seconds is None else f", about {readable_seconds(cost.seconds * factor)}"
    return f"{most}{passes:,.0f} forward passes{time}"


def _timed(
    lm: "LanguageModel", cloze: "Cloze", cost: "Cost", settings: "Settings", count: int = 1
) -> "Cost":
    from unmask.queries.costs.estimate import measured

    if cost.forward_passes * count <= _FEW_PASSES:
        return cost
    return measured(lm.model, cloze, cost, settings, count)


def _is_dry(chosen: object) -> bool:
    return bool(getattr(chosen, "dry_run", False))


def _print(chosen: object, line: str) -> None:
    print(line, file=sys.stdout if _is_dry(chosen) else sys.stderr)
