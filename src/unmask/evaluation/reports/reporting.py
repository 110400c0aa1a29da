"""Several runs in one report: their rows together, their tables, and what readers must know.

Needs no model: a report can be made where none runs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from unmask.errors import StoreError
from unmask.evaluation.reports.summary import (
    BASELINE,
    Summary,
    by_distance,
    differences,
    summarise,
)
from unmask.evaluation.reports.tables import ReportTable, report_table
from unmask.evaluation.rows import Group, Positions, ResultRow
from unmask.evaluation.run import EvaluationRun
from unmask.jobs.plan import FUNCTION, ModelIdentity, model_changes
from unmask.printable import quoted
from unmask.resampling import Resampling

_DAMAGED = (
    "is damaged, or of another plan: if _plan.json was changed since, restore it; otherwise start"
    " unmask evaluate again, which computes its examples again"
)


@dataclass(frozen=True)
class Report:
    """Runs that are reported together, and the construction that others are compared with."""

    runs: tuple[EvaluationRun, ...]
    resampling: Resampling
    baseline: str | None

    @property
    def rows(self) -> list[ResultRow]:
        """The result rows of all runs."""
        return [row for run in self.runs for row in run.rows]

    def summaries(self, name: str) -> list[Summary]:
        """The numbers of a table; differences need a baseline, and without one there are none."""
        if name == "results":
            return summarise(self.rows, self.resampling)
        if self.baseline is None:
            return []
        compared = differences if name == "differences" else by_distance
        return compared(self.rows, resampling=self.resampling, baseline=self.baseline)

    def tables(self, names: Iterable[str]) -> list[ReportTable]:
        """Tables of one document: a term or a note is explained in the first that has it."""
        vocabularies = {run.plan.model.name: run.plan.model.vocabulary for run in self.runs}
        seen: set[str] = set()
        document = []
        for name in names:
            table = report_table(name, self.summaries(name), vocabularies=vocabularies)
            texts = table.terms, (*table.notes, *self.notes())
            terms, notes = (tuple(text for text in each if text not in seen) for each in texts)
            seen.update(terms, notes)
            document.append(replace(table, terms=terms, notes=notes))
        return document

    def notes(self) -> list[str]:
        """Notes on missing examples, and on what did not converge."""
        return list(dict.fromkeys(note for run in self.runs for note in _notes(run)))


def report(
    runs: Sequence[EvaluationRun], *, resampling: Resampling, baseline: str | None = None
) -> Report:
    """Runs in one report; a `StoreError` where they cannot be averaged together.

    The `baseline`, with which others are compared, is the paper's by default, if it was measured.
    """
    if not any(run.rows for run in runs):
        for damaged in (name for run in runs for name in run.damaged):
            raise StoreError(f"{damaged} {_DAMAGED}")
        raise StoreError("there are no results yet: run unmask evaluate first")
    _check_one_sample(runs)
    constructions = {row.construction for run in runs for row in run.rows}
    if baseline is None and BASELINE in constructions:
        baseline = BASELINE
    return Report(tuple(runs), resampling, baseline)


def _check_one_sample(runs: Iterable[EvaluationRun]) -> None:
    """Raise where numbers of different models, corpora or examples would be averaged together."""
    models: dict[str, ModelIdentity] = {}
    corpora: dict[str, str] = {}
    groups: set[Group] = set()
    positions: dict[tuple[Group, str], Positions] = {}
    for run in runs:
        model, corpus = run.plan.model, run.corpus
        other = models.setdefault(model.name, model)
        digest = corpora.setdefault(corpus.name, corpus.digest)
        for noun, is_same in (
            (f"models {quoted(model.name)}", not any(model_changes(other, model, FUNCTION))),
            (f"corpora {quoted(corpus.name)}", digest == corpus.digest),
        ):
            if not is_same:
                raise StoreError(
                    f"two runs name different {noun}; report them apart, or evaluate one under"
                    " another name"
                )
        run_groups = {row.group for row in run.rows}
        for group in sorted(groups & run_groups):
            raise StoreError(
                f"two runs measure {quoted(group.construction)} of {quoted(group.model)} on"
                f" {quoted(group.corpus)}, {group.mask}; report them apart"
            )
        groups |= run_groups
        for row in run.rows:
            # examples are paired by sentence and mask
            example = row.group.setting, row.example_id
            if positions.setdefault(example, row.positions) != row.positions:
                raise StoreError(
                    f"two runs mask different tokens of {quoted(row.example_id)}, of"
                    f" {quoted(row.corpus)} with {quoted(row.model)}, as another seed does, so"
                    " their examples cannot be paired; report them apart"
                )


def _notes(run: EvaluationRun) -> list[str]:
    notes = []
    if run.failed:
        most, count = Counter(run.failed.values()).most_common(1)[0]
        notes.append(f": {len(run.failed)} examples failed, {count} of them with: {most}")
    if run.missing:
        notes.append(
            f": {run.missing} of {run.draw['count']} examples are not done yet; they come in"
            " hashed order, so those that are done are a random sample."
        )
    for mask, reasons in run.draw["refused"].items():
        if reasons:
            listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            notes.append(f", {mask}: sentences rejected before the last example: {listed}.")
    notes += [f": {part} {_DAMAGED}" for part in run.damaged]
    # convergence is reported, never assumed
    solved = Counter(row.construction for row in run.rows if row.converged is not None)
    missed = Counter(row.construction for row in run.rows if row.converged is False)
    notes += [
        f": {name} did not converge on {missed[name]} of {solved[name]} examples."
        for name in missed
    ]
    return [f"{run.plan.model.name} on {run.corpus.name}{note}" for note in notes]
