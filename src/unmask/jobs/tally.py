"""Counters per unit, summed over all units."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# which text of a pair won: the method, what the pair is grouped by, and 1, 0, a half or nothing
Verdict = tuple[str, tuple[tuple[str, str], ...], float | None]


@dataclass
class Tally:
    """How many rows came in, by method how many have no number and an example of why, and who won.

    `verdicts` counts pairs by who won, and `passes` their forward passes. `unknown` counts rows
    with words that the vocabulary has no token for, `failed` those that ended in an unexpected
    error.
    """

    texts: int = 0
    without: dict[str, tuple[int, str]] = field(default_factory=dict)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    passes: Counter[Verdict] = field(default_factory=Counter)
    unknown: int = 0
    failed: int = 0

    def add(self, other: "Tally") -> None:
        """Count another's too."""
        self.texts += other.texts
        for method, (count, example) in other.without.items():
            before, first = self.without.get(method, (0, example))
            self.without[method] = before + count, first
        self.verdicts.update(other.verdicts)
        self.passes.update(other.passes)
        self.unknown += other.unknown
        self.failed += other.failed

    @property
    def unanswered(self) -> int:
        """The number of rows that the worst method could not score."""
        return max((count for count, _ in self.without.values()), default=0)

    def has_none(self, methods: Sequence[str]) -> bool:
        """Whether there is not one number by any of some methods."""
        counts = [self.without.get(method, (0, ""))[0] for method in methods]
        return bool(counts) and all(count == self.texts for count in counts)

    def note(self, method: str, reasons: Iterable[str]) -> None:
        """Remember rows without a number by a method."""
        for reason in reasons:
            count, example = self.without.get(method, (0, reason))
            self.without[method] = count + 1, example

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "texts": self.texts,
            "unknown": self.unknown,
            "failed": self.failed,
            "without": {method: list(counts) for method, counts in self.without.items()},
            "verdicts": [
                [method, groups, correct, count, self.passes[method, groups, correct]]
                for (method, groups, correct), count in self.verdicts.items()
            ],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Tally":
        """Read back what `to_dict` made."""
        tally = cls(values["texts"], unknown=values["unknown"], failed=values["failed"])
        tally.without = {method: (int(n), why) for method, (n, why) in values["without"].items()}
        for method, groups, correct, count, passes in values["verdicts"]:
            key = method, tuple((name, value) for name, value in groups), correct
            tally.verdicts[key], tally.passes[key] = count, passes
        return tally
