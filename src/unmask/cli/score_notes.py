"""What `unmask score` says beside its rows: what the numbers are, and how often pairs win."""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from unmask.printable import printable

if TYPE_CHECKING:
    from unmask.sentences.inputs import Item
    from unmask.sentences.lengths import LengthPrior
    from unmask.sentences.minimal_pairs import Verdict
    from unmask.sentences.outputs import Unscored
    from unmask.sentences.scores import LogRatio, TextScore

_LOG_POOL = "log-pool"
_GIVEN_LENGTH = "log p(text | its number of tokens)"


def prior_notes(prior: "LengthPrior | None") -> Iterator[str]:
    """What a prior of lengths assumes, and whether it is a probability at all."""
    if prior is None or not prior.note:
        return
    improper = "" if prior.proper else "; improper, so that only differences mean something"
    yield f"length prior {printable(prior.spec)}: {printable(prior.note)}{improper}"


def text_notes(
    chosen: argparse.Namespace,
    scores: "Mapping[str, Sequence[TextScore | Unscored]]",
    unit: str,
    prior: "LengthPrior | None" = None,
) -> Iterator[str]:
    """What each method's numbers are, and how many are missing."""
    pseudo = [method for method in scores if method != _LOG_POOL]
    if pseudo:
        yield f"{', '.join(pseudo)}: in {unit}; a score, not a log-probability"
    if _LOG_POOL in scores and chosen.length_prior is None:
        yield (
            f"{_LOG_POOL}: in {unit}; {_GIVEN_LENGTH}, so texts of different lengths cannot be "
            "compared without --length-prior"
        )
    elif _LOG_POOL in scores:
        shown = printable(chosen.length_prior)
        yield f"{_LOG_POOL}: in {unit}; {_GIVEN_LENGTH} + log p(that number) by {shown}"
        yield from prior_notes(prior)
    yield from _missing(
        {
            method: [getattr(one, "reason", None) for one in found]
            for method, found in scores.items()
        },
        "texts",
        "scored",
    )


def pair_notes(ratios: "Mapping[str, Sequence[LogRatio]]", unit: str) -> Iterator[str]:
    """How accuracies and intervals are meant, and how many pairs were not compared."""
    yield (
        f"log-ratios in {unit}, above 0 where the first text of a pair wins; a tie counts half; "
        "intervals are Wilson's, and for a mean over paradigms put together from theirs"
    )
    yield from _missing(
        {method: [one.reason for one in found] for method, found in ratios.items()},
        "pairs",
        "compared",
    )


def _missing(reasons: Mapping[str, Sequence[str | None]], what: str, done: str) -> Iterator[str]:
    for method, found in reasons.items():
        said = Counter(reason for reason in found if reason is not None)
        if said:
            example = printable(next(iter(said)))
            yield f"{method}: {said.total()} of {len(found)} {what} not {done}, as: {example}"


def summary(
    chosen: argparse.Namespace,
    items: "Sequence[Item]",
    ratios: "Mapping[str, Sequence[LogRatio]]",
) -> str:
    """Tables of accuracy: by paradigm, by what else pairs are grouped by, and overall."""
    from unmask.sentences.minimal_pairs import accuracies, accuracy
    from unmask.sentences.outputs import accuracy_table

    paradigm, groups = _grouped_by(chosen)
    verdicts = {
        method: _verdicts(items, found, paradigm, groups) for method, found in ratios.items()
    }
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
    from unmask.sentences import blimp

    if chosen.blimp is not None:
        return blimp.PARADIGM, list(blimp.GROUPS)
    first, *others = chosen.by or [None]
    return first, others


def _verdicts(
    items: "Sequence[Item]",
    ratios: "Sequence[LogRatio]",
    paradigm: str | None,
    groups: Sequence[str],
) -> "list[Verdict]":
    from unmask.sentences.minimal_pairs import Verdict, correct

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
