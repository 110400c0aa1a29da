"""What the engine is meant to reach, and what it may not fall below.

Targets are what was aimed for, by kind of comparison or of one subject, and are shown beside what
was measured.
Floors are by kind and subject, and fail a run with --check: they are set well away from what a
quiet machine measures, because a shared one may give either side of a ratio a bad moment, and
they still catch what would undo the work.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bound:
    """A ratio that must not be below, or not above, a value."""

    value: float
    at_least: bool = True

    def holds(self, ratio: float) -> bool:
        return ratio >= self.value if self.at_least else ratio <= self.value

    def __str__(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.value:g}"


def at_least(value: float) -> Bound:
    return Bound(value)


def at_most(value: float) -> Bound:
    return Bound(value, at_least=False)


TARGETS = {
    # no engine that runs every row can be faster than the trunk, but by computing less
    "readouts-of-trunk": at_least(0.97),
    "elicitation-of-trunk": at_least(0.97),
    "elicitation-over-loop/bert-base-random": at_least(1.4),
    "bfloat16-over-loop/bert-base-random": at_least(3.0),
    "dense-over-elicitation/caption-bert": at_most(0.3),
}

FLOORS = {
    # the forward passes are nearly all of an elicitation: below this, something else has grown
    "readouts-of-trunk/caption-bert": at_least(0.85),
    "readouts-of-trunk/albert-tiny-chinese": at_least(0.85),
    # not slower, in the worst moment, than what a user would write without this package
    "elicitation-over-loop/caption-bert": at_least(1.0),
    "elicitation-over-loop/albert-tiny-chinese": at_least(1.0),
    # 0.88 on two quiet threads and 0.78 on one; a law of too many products made it 2.2
    "dense-over-elicitation/caption-bert": at_most(1.5),
}


def _aim(kind: str, subject: str) -> Bound | None:
    return TARGETS.get(f"{kind}/{subject}", TARGETS.get(kind))


def target(kind: str, subject: str) -> dict[str, Any] | None:
    """What is aimed for, to be written beside a ratio."""
    bound = _aim(kind, subject)
    return {"value": bound.value, "at_least": bound.at_least} if bound else None


def met(comparison: dict[str, Any]) -> bool | None:
    """Whether the median reaches the target; None where there is none."""
    bound = _aim(comparison["kind"], comparison["subject"])
    return bound.holds(comparison["ratio"]["median"]) if bound else None


def broken(comparisons: list[dict[str, Any]], floors: dict[str, Bound]) -> list[str]:
    """A line for every comparison whose median is beyond its floor."""
    return [
        f"{one['name']}: {one['ratio']['median']:.3g}, must be {floors[one['name']]}"
        for one in comparisons
        if one["name"] in floors and not floors[one["name"]].holds(one["ratio"]["median"])
    ]
