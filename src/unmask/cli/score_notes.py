"""What `unmask score` prints beside its rows: what the numbers are, and accuracies of pairs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from unmask.printable import printable

if TYPE_CHECKING:
    from unmask.cli.score_options import Task
    from unmask.sequences.inputs import Item
    from unmask.sequences.minimal_pairs import Verdict
    from unmask.sequences.scores import LogRatio


def notes(reasons: Mapping[str, Counter[str]], count: int, task: "Task") -> Iterator[str]:
    """What the numbers are, and of how many of the texts or pairs each method has none, and why."""
    if task.is_pairs:
        yield (
            f"log-ratios in {task.unit}, above 0 where the first text of a pair wins; a tie counts "
            "half; intervals are Wilson's, and for a mean over paradigms combined from theirs"
        )
    elif scores := [method for method in reasons if method != "unmasking"]:
        yield f"{', '.join(scores)}: in {task.unit}; a score, not a log-probability"
    if task.order is not None:
        of = "differences of log-probabilities, each" if task.is_pairs else "the log-probability"
        yield (
            f"unmasking, {task.order}: in {task.unit}; {of} of a text among all with equally many "
            "tokens"
        )
    what, done = ("pairs", "compared") if task.is_pairs else ("texts", "scored")
    for method, found in reasons.items():
        if found:
            example = printable(next(iter(found)))
            yield f"{method}: {found.total()} of {count} {what} not {done}, e.g.: {example}"


def summary(groups: Sequence[str], verdicts: "Mapping[str, Sequence[Verdict]]") -> str:
    """Tables of accuracy: by each kind of group, of which the first are paradigms, and overall."""
    from unmask.sequences.minimal_pairs import accuracies, accuracy
    from unmask.sequences.outputs import accuracy_table

    tables = []
    for place, name in enumerate(groups):
        found = {
            method: accuracies(ones, name if place else None) for method, ones in verdicts.items()
        }
        parts = next(iter(found.values()))
        turned = {part: {method: found[method][part] for method in found} for part in parts}
        tables.append(accuracy_table(turned, name))
    overall = {method: accuracy(ones) for method, ones in verdicts.items()}
    said = f"mean over {printable(groups[0])}" if groups else "all pairs"
    return "\n\n".join([*tables, accuracy_table({said: overall}, "overall")])


def verdict(item: "Item", ratio: "LogRatio", groups: Sequence[str]) -> "Verdict":
    """Which text of a pair won, and what it is grouped by: all that a summary needs."""
    from unmask.sequences.minimal_pairs import Verdict, correct

    # BLiMP writes one of its fields in two ways
    values = {
        name: str(item.columns.get(name, "")).replace("syntax/semantics", "syntax_semantics")
        for name in groups
    }
    return Verdict(
        paradigm=values[groups[0]] if groups else "",
        correct=correct(ratio.log_ratio, places=ratio.places),
        forward_passes=ratio.forward_passes,
        groups=values,
    )
