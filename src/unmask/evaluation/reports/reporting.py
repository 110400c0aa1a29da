"""Several runs in one report: their rows together, their tables, and what readers must know.

Needs no model: a report can be made where none runs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from unmask.errors import StoreError
from unmask.evaluation.reports.summary import (
    BASELINE,
    TOKEN_DISTANCE,
    Distance,
    Summary,
    by_distance,
    differences,
    differences_by_distance,
    summarise,
)
from unmask.evaluation.reports.tables import (
    ReportTable,
    difference_table,
    distance_difference_table,
    distance_table,
    summary_table,
)
from unmask.evaluation.rows import Group, ResultRow
from unmask.evaluation.run import EvaluationRun
from unmask.jobs.model_identity import same_function
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

    @property
    def vocabularies(self) -> dict[str, str]:
        """The vocabulary of each model: models with different ones are not compared."""
        return {run.job.model.name: run.job.model.vocabulary for run in self.runs}

    def summaries(self) -> list[Summary]:
        """The paper's metrics for every construction."""
        return summarise(self.rows, self.resampling)

    def differences(self) -> list[Summary]:
        """Every construction minus the baseline; none without a baseline."""
        if self.baseline is None:
            return []
        return differences(self.rows, self.baseline, self.resampling)

    def bins(self, distance: Distance = TOKEN_DISTANCE) -> list[Summary]:
        """NLLs by the distance between the blanks."""
        return by_distance(self.rows, distance, self.resampling)

    def difference_bins(self, distance: Distance = TOKEN_DISTANCE) -> list[Summary]:
        """NLLs minus the baseline's by the distance between the blanks."""
        if self.baseline is None:
            return []
        return differences_by_distance(self.rows, self.baseline, distance, self.resampling)


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
    _reject_namesakes(runs)
    _reject_mixtures(runs)
    constructions = {row.construction for run in runs for row in run.rows}
    if baseline is None and BASELINE in constructions:
        baseline = BASELINE
    return Report(tuple(runs), resampling, baseline)


TABLES: Mapping[str, Callable[[Report], ReportTable]] = {
    "results": lambda report: summary_table(report.summaries(), report.vocabularies),
    "differences": lambda report: difference_table(report.differences()),
    "distance": lambda report: distance_table(report.bins()),
    "distance-differences": lambda report: distance_difference_table(report.difference_bins()),
}


def table(report: Report, name: str) -> ReportTable:
    """One of `TABLES`, with its notes."""
    return with_notes(report, TABLES[name](report))


def with_notes(report: Report, table: ReportTable) -> ReportTable:
    """The table with the notes of the report behind its own."""
    return replace(table, notes=(*table.notes, *notes(report)))


def tables(report: Report, names: Iterable[str]) -> list[ReportTable]:
    """Tables of one document: a term or a note is explained in the first that has it."""
    seen: set[str] = set()
    document = []
    for whole in (table(report, name) for name in names):
        terms = tuple(term for term in whole.terms if term not in seen)
        news = tuple(note for note in whole.notes if note not in seen)
        seen.update(terms, news)
        document.append(replace(whole, terms=terms, notes=news))
    return document


def notes(report: Report) -> list[str]:
    """What a reader must know of examples that are not there, and of what did not converge."""
    return list(dict.fromkeys(note for run in report.runs for note in _run_notes(run)))


def config(report: Report) -> dict[str, Any]:
    """The facts of the runs, as JSON values."""
    return {
        "runs": [
            {
                "plan": run.job.to_dict(),
                "plan_sha256": run.job.digest,
                "examples_not_done": run.missing,
                "examples_failed": len(_failed(run)),
                "seconds": run.seconds,
                "computed_by": sorted({row.software for row in run.rows if row.software}),
                "devices": sorted({row.device for row in run.rows if row.device}),
            }
            for run in report.runs
        ],
        "bootstrap": asdict(report.resampling),
        "baseline": report.baseline,
        "aggregation": "mean NLL over examples, then the exponential",
    }


def _reject_namesakes(runs: Iterable[EvaluationRun]) -> None:
    """Two models, or two corpora, under one name would be averaged together."""
    first: dict[str, EvaluationRun] = {}
    for run in runs:
        model = first.setdefault(f"model {run.job.model.name}", run).job.model
        corpus = first.setdefault(f"corpus {run.corpus.name}", run).corpus
        for kinds, name, same in (
            ("models", model.name, same_function(model, run.job.model)),
            ("corpora", corpus.name, corpus.digest == run.corpus.digest),
        ):
            if not same:
                raise StoreError(
                    f"two runs name different {kinds} {quoted(name)}; report them apart, or"
                    " evaluate one under another name"
                )


def _reject_mixtures(runs: Iterable[EvaluationRun]) -> None:
    """Runs that are not one sample: two draws of one corpus, or other tokens under one id."""
    groups: set[Group] = set()
    positions: dict[tuple[Group, str], tuple[int, int]] = {}
    for run in runs:
        run_groups = {row.group for row in run.rows}
        if again := sorted(groups & run_groups):
            raise StoreError(
                f"two runs measure {quoted(again[0].construction)} of {quoted(again[0].model)} on"
                f" {quoted(again[0].corpus)}, {again[0].mask}; report them apart"
            )
        run_positions = {(row.group.setting, row.example_id): row.positions for row in run.rows}
        for (setting, example), blanks in run_positions.items():
            # examples are paired by sentence and mask
            if positions.get((setting, example), blanks) != blanks:
                raise StoreError(
                    f"two runs mask different tokens of {quoted(example)}, of"
                    f" {quoted(setting.corpus)} with {quoted(setting.model)}, as another seed"
                    " does, so their examples cannot be paired; report them apart"
                )
        groups |= run_groups
        positions |= run_positions


def _run_notes(run: EvaluationRun) -> list[str]:
    notes = []
    if failed := _failed(run):
        most, count = Counter(failed.values()).most_common(1)[0]
        notes.append(f": {len(failed)} examples failed, {count} of them with: {most}")
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
    if mixed := _mixed_versions({row.software for row in run.rows if row.software}):
        notes.append(f": result rows were computed with several versions: {mixed}.")
    # convergence is reported, never assumed
    solved = Counter(row.construction for row in run.rows if row.converged is not None)
    missed = Counter(row.construction for row in run.rows if row.converged is False)
    notes += [
        f": {name} did not converge on {missed[name]} of {solved[name]} examples."
        for name in missed
    ]
    return [f"{run.job.model.name} on {run.corpus.name}{note}" for note in notes]


def _mixed_versions(lines: Iterable[str]) -> str:
    """The packages that have several versions in lines such as "torch 2.13.0, numpy 2.4.0"."""
    versions: dict[str, set[str]] = {}
    for part in (part for line in lines for part in line.split(", ")):
        name, _, version = part.partition(" ")
        versions.setdefault(name, set()).add(version)
    mixed = {name: sorted(each) for name, each in sorted(versions.items()) if len(each) > 1}
    return "; ".join(f"{name} {' and '.join(each)}" for name, each in mixed.items())


def _failed(run: EvaluationRun) -> dict[str, str]:
    return {row.example_id: row.reason for row in run.rows if row.reason is not None}
