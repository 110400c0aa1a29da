"""What `unmask score` prints beside its rows: what the numbers are, and accuracies of pairs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from unmask.printable import printable

if TYPE_CHECKING:
    from unmask.jobs.counts import Counts
    from unmask.jobs.kinds.score import ScoreKind
    from unmask.sequences.minimal_pairs import Verdict


def notes(kind: "ScoreKind", counts: "Counts") -> Iterator[str]:
    """What the numbers are, and of how many of the texts or pairs each method has none, and why."""
    if kind.is_pairs:
        yield (
            f"log-ratios in {kind.unit}, above 0 where the first text of a pair wins; a tie counts "
            "half; intervals are Wilson's, and for a mean over paradigms combined from theirs"
        )
    elif scores := [name for name in kind.methods if name not in ("unmasking", "elbo")]:
        yield f"{', '.join(scores)}: in {kind.unit}; a score, not a log-probability"
    if kind.order is not None:
        of = "differences of log-probabilities, each" if kind.is_pairs else "the log-probability"
        yield (
            f"unmasking, {kind.order}: in {kind.unit}; {of} of a text among all with equally many "
            "tokens"
        )
    if "elbo" in kind.methods:
        yield (
            f"elbo: in {kind.unit}; an estimate from {kind.draws} random masks of the mean of the "
            "log-probability over all orders of the tokens"
        )
    what, done = ("pairs", "compared") if kind.is_pairs else ("texts", "scored")
    if counts["unknown"]:
        counted = "" if kind.is_pairs else "unknown_tokens counts them, and "
        if kind.words:
            counted = "these words have a reason instead of a surprisal, and "
        unknown, texts = counts["unknown"], counts["texts"]
        yield (
            f"{unknown} of {texts} {what} have words that the vocabulary has no token "
            f"for: {counted}the model reads the unknown token there"
        )
    for method in kind.methods:
        if method in counts["without"]:
            without = counts["without"][method]
            share = f"{without['count']} of {counts['texts']} {what} not {done}"
            yield f"{method}: {share}, e.g.: {printable(without['example'])}"


def summary(kind: "ScoreKind", counts: "Counts") -> str:
    """Tables of accuracy: by each kind of group, of which the first are paradigms, and overall."""
    from unmask.sequences.minimal_pairs import accuracies, accuracy
    from unmask.sequences.outputs import accuracy_table

    # a shard may have no pairs
    if not kind.is_pairs or not counts["texts"]:
        return ""
    groups, verdicts, tables = kind.groups, _verdicts(kind.methods, counts), []
    for place, name in enumerate(groups):
        by_method = {
            method: accuracies(ones, name if place else None) for method, ones in verdicts.items()
        }
        parts = next(iter(by_method.values()))
        turned = {part: {method: by_method[method][part] for method in by_method} for part in parts}
        tables.append(accuracy_table(turned, name))
    overall = {method: accuracy(ones) for method, ones in verdicts.items()}
    mean = f"mean over {printable(groups[0])}" if groups else "all pairs"
    return "\n\n".join([*tables, accuracy_table({mean: overall}, "overall")])


def _verdicts(methods: Sequence[str], counts: "Counts") -> "Mapping[str, Sequence[Verdict]]":
    """Which texts won, pair by pair again."""
    from unmask.sequences.minimal_pairs import Verdict

    verdicts: dict[str, list[Verdict]] = {method: [] for method in methods}
    for verdict, pairs in counts["pairs"].items():
        method, groups, correct = json.loads(verdict)
        paradigm = groups[0][1] if groups else ""
        for number in range(pairs["count"]):
            passes = pairs["passes"] if number == 0 else 0
            verdicts[method].append(Verdict(paradigm, correct, passes, dict(groups)))
    return verdicts
