"""What a command says that its work costs, before it runs."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from unmask.printable import readable_seconds

if TYPE_CHECKING:
    from unmask.jobs.kinds import Announcement
    from unmask.language_model import LanguageModel
    from unmask.queries.cost import Cost
    from unmask.settings import Settings
    from unmask.text.cloze import Cloze

# fewer forward passes are over sooner than their time would be measured
_FEW_PASSES = 512
# many texts that take no longer than this need no announcement
_LONG_SECONDS = 10.0


def announce(
    chosen: object,
    name: str,
    lm: "LanguageModel",
    cloze: "Cloze",
    cost: "Cost",
    settings: "Settings",
) -> None:
    """Print what work on rows like a cloze costs, timed where that is worth it."""
    _print(chosen, f"{name}: {_timed(lm, cloze, cost, settings)}")


def announce_rows(
    chosen: object,
    lm: "LanguageModel",
    made: "Announcement",
    settings: "Settings",
    count: int | None,
    noun: str,
) -> None:
    """Print what a row like the first costs, and so many of them, if that is much.

    Without a `count` it is not known how many there are.
    """
    cost = _timed(lm, made.cloze, made.cost, settings, count or 1)
    if _is_dry(chosen) or (cost.seconds or 0.0) * (count or 1) > _LONG_SECONDS:
        shown = times(replace(cost, seconds=None), 1) if made.is_brief else str(cost)
        total = "" if count is None else f"; {count:,} {noun}s: {times(cost, count)}"
        _print(chosen, f"{made.name}: {shown} per {noun} like the first{total}{made.note}")


def times(cost: "Cost", factor: float) -> str:
    """The forward passes, and the time where it is known, of so many times a cost."""
    most, passes = "at most " if cost.at_most else "", cost.forward_passes * factor
    time = "" if cost.seconds is None else f", about {readable_seconds(cost.seconds * factor)}"
    return f"{most}{passes:,.0f} forward passes{time}"


def _timed(
    lm: "LanguageModel", cloze: "Cloze", cost: "Cost", settings: "Settings", count: int = 1
) -> "Cost":
    from unmask.queries.cost import measured

    if cost.forward_passes * count <= _FEW_PASSES:
        return cost
    return measured(lm.model, cloze, cost, settings, count)


def _is_dry(chosen: object) -> bool:
    return bool(getattr(chosen, "dry_run", False))


def _print(chosen: object, line: str) -> None:
    print(line, file=sys.stdout if _is_dry(chosen) else sys.stderr)
