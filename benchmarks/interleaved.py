"""Times of things that are run in turns in one process, and the ratios between them.

A shared machine changes speed from one minute to the next, and its other work takes seconds of the
clock from whichever side is running. What is compared is therefore run side by side, in one repeat
after the other, ratios are taken within a repeat, and seconds are of the process's CPU time.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Run = Callable[[], object]


def seconds_of(run: Run, clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of CPU time, of all threads, that something takes."""
    began = clock()
    run()
    return clock() - began


def in_turns(
    runs: Mapping[str, Run], repeats: int, clock: Callable[[], float] = time.process_time
) -> dict[str, list[float]]:
    """Seconds of each by name; the order is turned round from one repeat to the next."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats):
        gc.collect()
        names = list(runs) if repeat % 2 == 0 else list(runs)[::-1]
        for name in names:
            found[name].append(seconds_of(runs[name], clock))
    return found


def spread(values: list[float]) -> dict[str, float]:
    """Median, least and most, to four digits."""
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def ratios(over: list[float], under: list[float]) -> list[float]:
    """The ratio of every repeat."""
    return [one / other for one, other in zip(over, under, strict=True)]


@dataclass(frozen=True)
class Comparison:
    """One ratio: seconds of `over` divided by seconds of `under`, repeat by repeat.

    `kind` says what is compared and `subject` on what; together they name floors.
    """

    kind: str
    subject: str
    over: str
    under: str
    seconds: tuple[list[float], list[float]]
    size: Mapping[str, object]
    dtype: str = "float32"
    more: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.subject}"

    def to_dict(self) -> dict[str, Any]:
        over, under = self.seconds
        return {
            "name": self.name,
            "kind": self.kind,
            "subject": self.subject,
            "ratio": spread(ratios(over, under)),
            "over": self.over,
            "under": self.under,
            "seconds_over": [round(s, 6) for s in over],
            "seconds_under": [round(s, 6) for s in under],
            "size": dict(self.size),
            "dtype": self.dtype,
            **self.more,
        }
