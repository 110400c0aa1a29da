"""What `unmask score` says beside its rows: what the numbers are, and accuracies of pairs."""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from unmask.printable import printable

if TYPE_CHECKING:
    from unmask.sequences.inputs import Item
    from unmask.sequences.minimal_pairs import Verdict
    from unmask.sequences.scores import LogRatio


class Tally:
    """How many texts or pairs a method has seen, and why it has no number for some."""

    def __init__(self) -> None:
        self.total = 0
        self.reasons: Counter[str] = Counter()

    def add(self, reasons: Iterable[str | None]) -> None:
        """Some more, each with the reason why it has no number, or None."""
        for reason in reasons:
            self.total += 1
            if reason is not None:
                self.reasons[reason] += 1

    @property
    def has_none(self) -> bool:
        """Whether there is not one number so far."""
        return self.reasons.total() == self.total


Tallies = Mapping[str, Tally]


def text_notes(tallies: Tallies, unit: str) -> Iterator[str]:
    """What the numbers are, and how many are missing."""
    yield f"{', '.join(tallies)}: in {unit}; a score, not a log-probability"
    yield from _missing(tallies, "texts", "scored")


def pair_notes(tallies: Tallies, unit: str) -> Iterator[str]:
    """What accuracies and intervals are, and how many pairs were not compared."""
    yield (
        f"log-ratios in {unit}, above 0 where the first text of a pair wins; a tie counts half; "
        "intervals are Wilson's, and for a mean over paradigms combined from theirs"
    )
    yield from _missing(tallies, "pairs", "compared")


def _missing(tallies: Tallies, what: str, done: str) -> Iterator[str]:
    for method, one in tallies.items():
        if one.reasons:
            example = printable(next(iter(one.reasons)))
            yield (
                f"{method}: {one.reasons.total()} of {one.total} {what} not {done}, e.g.: {example}"
            )


def summary(chosen: argparse.Namespace, verdicts: "Mapping[str, Sequence[Verdict]]") -> str:
    """Tables of accuracy: by paradigm, by what else pairs are grouped by, and overall."""
    from unmask.sequences.minimal_pairs import accuracies, accuracy
    from unmask.sequences.outputs import accuracy_table

    paradigm, groups = _grouped_by(chosen)
    tables = []
    for name in ([paradigm] if paradigm else []) + groups:
        by = None if name == paradigm else name
        found = {method: accuracies(ones, by) for method, ones in verdicts.items()}
        parts = next(iter(found.values()))
        turned = {part: {method: found[method][part] for method in found} for part in parts}
        tables.append(accuracy_table(turned, name))
    overall = {method: accuracy(ones) for method, ones in verdicts.items()}
    said = f"mean over {printable(paradigm)}" if paradigm else "all pairs"
    return "\n\n".join([*tables, accuracy_table({said: overall}, "overall")])


def _grouped_by(chosen: argparse.Namespace) -> tuple[str | None, list[str]]:
    from unmask.sequences import blimp

    if chosen.blimp is not None:
        return blimp.PARADIGM, list(blimp.GROUPS)
    first, *others = chosen.by or [None]
    return first, others


def verdicts(
    chosen: argparse.Namespace, items: "Sequence[Item]", ratios: "Sequence[LogRatio]"
) -> "list[Verdict]":
    """For every pair, which text won and what it is grouped by: all that a summary needs."""
    from unmask.sequences.minimal_pairs import Verdict, correct

    paradigm, groups = _grouped_by(chosen)

    def of(item: "Item", name: str) -> str:
        # BLiMP writes one of its fields in two ways
        return str(item.columns.get(name, "")).replace("syntax/semantics", "syntax_semantics")

    return [
        Verdict(
            paradigm=of(item, paradigm) if paradigm else "",
            correct=correct(ratio.log_ratio, places=ratio.places),
            forward_passes=ratio.forward_passes,
            groups={name: of(item, name) for name in groups},
        )
        for item, ratio in zip(items, ratios, strict=True)
    ]
