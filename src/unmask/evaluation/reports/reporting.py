"""What several runs come to together: result rows, notes and tables.

Needs no model: a report can be made where none runs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from unmask.errors import StoreError
from unmask.evaluation.reports.distance import DistanceBin, by_distance, differences_by_distance
from unmask.evaluation.reports.summary import BASELINE, Difference, Summary, differences, summarise
from unmask.evaluation.reports.syntax import Parser, syntactic_distances
from unmask.evaluation.reports.tables import (
    DISTANCES,
    SYNTACTIC_DISTANCES,
    TOKEN_DISTANCE,
    ReportTable,
    difference_table,
    distance_difference_table,
    distance_table,
    summary_table,
)
from unmask.evaluation.rows import Group, ResultRow
from unmask.evaluation.run import EvaluationPlan, EvaluationRun
from unmask.jobs.model_identity import same_function
from unmask.jobs.software import differing
from unmask.printable import quoted
from unmask.records.corpus import Corpus
from unmask.resampling import Resampling

# kinds of distance, and what tables call them
KINDS = {"distance": TOKEN_DISTANCE, "syntax": "syntactic distance"}
_DAMAGED = (
    "is damaged, or of another plan: if _plan.json was changed since, restore it; otherwise start"
    " unmask evaluate again, which computes its examples again"
)


@dataclass(frozen=True)
class Report:
    """Runs that are reported together.

    `syntactic` has a distance for examples by run, in the order of the runs, where texts were
    parsed; `apart` what was left out of it.
    """

    runs: tuple[EvaluationRun, ...]
    resampling: Resampling
    baseline: str | None
    syntactic: tuple[Mapping[str, int], ...] = ()
    apart: tuple[Mapping[str, int], ...] = ()

    @property
    def rows(self) -> list[ResultRow]:
        """The result rows of all runs."""
        return [row for run in self.runs for row in run.rows]

    @property
    def vocabularies(self) -> dict[str, str]:
        """The vocabulary of each model: models with different ones are not compared."""
        return {run.plan.model.name: run.plan.model.vocabulary for run in self.runs}

    def summaries(self) -> list[Summary]:
        """The paper's metrics for every construction."""
        return summarise(self.rows, self.resampling)

    def differences(self) -> list[Difference]:
        """Every construction minus the baseline."""
        if self.baseline is None:
            return []
        return differences(self.rows, self.baseline, self.resampling)

    @property
    def kinds(self) -> list[str]:
        """The kinds of distance that are known, of `KINDS`."""
        return [kind for kind in KINDS if kind != "syntax" or self.syntactic]

    def bins(self, kind: str) -> list[DistanceBin]:
        """NLLs by a kind of distance."""
        return [
            one
            for rows, distances in self._by(kind)
            for one in by_distance(rows, resampling=self.resampling, distances=distances)
        ]

    def difference_bins(self, kind: str) -> list[DistanceBin]:
        """NLLs minus the baseline's by a kind of distance."""
        if self.baseline is None:
            return []
        cut = partial(differences_by_distance, baseline=self.baseline, resampling=self.resampling)
        return [one for rows, distances in self._by(kind) for one in cut(rows, distances=distances)]

    def naming(self, kind: str) -> dict[str, str]:
        """What a table calls a kind of distance; what it counts, and which examples have none."""
        if kind != "syntax":
            return {"kind": KINDS[kind], "counted": DISTANCES}
        left_out = sum((Counter(one) for one in self.apart), Counter[str]())
        listed = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
        counted = f"{SYNTACTIC_DISTANCES} Examples left out: {listed or 'none'}."
        return {"kind": KINDS[kind], "counted": counted}

    def _by(self, kind: str) -> Sequence[tuple[list[ResultRow], dict[str, int] | None]]:
        """Rows and distances of each model on each corpus: runs may share its constructions."""
        if kind != "syntax":
            return [(self.rows, None)]
        by_owner: dict[tuple[str, str], tuple[list[ResultRow], dict[str, int]]] = {}
        for run, distances in zip(self.runs, self.syntactic, strict=True):
            whose = (run.plan.model.name, run.plan.corpus.name)
            rows, by_example = by_owner.setdefault(whose, ([], {}))
            rows.extend(run.rows)
            by_example.update(distances)
        return list(by_owner.values())


def report(
    runs: Sequence[EvaluationRun], *, resampling: Resampling, baseline: str | None = None
) -> Report:
    """Combine runs into tables of means, with intervals and differences from a baseline.

    Args:
        runs: What `read_run` gives, of one model or several.
        resampling: How intervals are bootstrapped: how many resamples, and their seed.
        baseline: A construction to compare with. Default: the paper's, if it was measured.
    Returns:
        A report, which `unmask.evaluation.reports.rendering` writes.
    Raises:
        StoreError: The runs cannot be combined.
    Examples:
        >>> from unmask.evaluation import read_run, report
        >>> from unmask.resampling import Resampling
        >>> combined = report([read_run("results")], resampling=Resampling(resamples=100))
        >>> [summary.examples for summary in combined.summaries()]
        [1]
    """
    if not any(run.rows for run in runs):
        for damaged in (one for run in runs for one in run.damaged):
            raise StoreError(f"{damaged} {_DAMAGED}")
        raise StoreError("there are no results yet: run unmask evaluate first")
    _reject_namesakes(run.plan for run in runs)
    _reject_repetitions(runs)
    _reject_other_blanks(runs)
    measured = {row.construction for run in runs for row in run.rows}
    if baseline is None and BASELINE in measured:
        baseline = BASELINE
    return Report(tuple(runs), resampling, baseline)


def with_syntax(report: Report, corpora: Sequence[Corpus], parse: Parser) -> Report:
    """The report with syntactic distances from the texts of its runs."""
    texts = _texts(report, corpora)
    distances = [
        syntactic_distances(run.rows, texts[run.plan.corpus.name], parse) for run in report.runs
    ]
    return replace(
        report,
        syntactic=tuple(one.by_example for one in distances),
        apart=tuple(one.apart for one in distances),
    )


def _by_distance(report: Report, kind: str) -> ReportTable:
    return distance_table(report.bins(kind), **report.naming(kind))


def _differences_by_distance(report: Report, kind: str) -> ReportTable:
    return distance_difference_table(report.difference_bins(kind), **report.naming(kind))


TABLES: Mapping[str, Callable[[Report], ReportTable]] = {
    "results": lambda report: summary_table(report.summaries(), report.vocabularies),
    "differences": lambda report: difference_table(report.differences()),
    **{kind: partial(_by_distance, kind=kind) for kind in KINDS},
    **{f"{kind}-differences": partial(_differences_by_distance, kind=kind) for kind in KINDS},
}


def table(report: Report, name: str) -> ReportTable:
    """One of `TABLES`, with its notes."""
    made = TABLES[name](report)
    return replace(made, notes=(*made.notes, *notes(report)))


def tables(report: Report, names: Iterable[str]) -> list[ReportTable]:
    """Tables of one document: a term or a note is explained in the first that has it."""
    tables_made: list[ReportTable] = []
    for made in (table(report, name) for name in names):
        terms = [term for one in tables_made for term in one.terms]
        notes_made = [note for one in tables_made for note in one.notes]
        tables_made.append(
            replace(
                made,
                terms=tuple(term for term in made.terms if term not in terms),
                notes=tuple(note for note in made.notes if note not in notes_made),
            )
        )
    return tables_made


def notes(report: Report) -> list[str]:
    """What a reader must know of examples that are not there, and of solvers."""
    run_notes = [note for run in report.runs for note in _run_notes(run)]
    return list(dict.fromkeys(run_notes))


def config(report: Report) -> dict[str, Any]:
    """The facts of the runs, as JSON values."""
    return {
        "runs": [
            {
                "plan": run.job.to_dict(),
                "plan_sha256": run.job.digest,
                "examples_not_done": run.missing,
                "examples_failed": len(_failed(run)),
                "computed_by": sorted({row.software for row in run.rows if row.software}),
                "devices": sorted({row.device for row in run.rows if row.device}),
            }
            for run in report.runs
        ],
        "bootstrap": asdict(report.resampling),
        "baseline": report.baseline,
        "aggregation": "mean NLL over examples, then the exponential",
    }


def _texts(report: Report, corpora: Sequence[Corpus]) -> dict[str, dict[str, str]]:
    """Sentences by corpus and id; a run and its corpus are matched by a hash."""
    texts = {corpus.digest: {one.id: one.text for one in corpus.sentences} for corpus in corpora}
    for run in report.runs:
        if run.plan.corpus.digest not in texts:
            raise StoreError(
                f"none of the corpora given is {quoted(run.plan.corpus.name)} as it was measured"
                f" ({run.plan.corpus.digest[:12]}); give its file, with the same columns"
            )
    return {run.plan.corpus.name: texts[run.plan.corpus.digest] for run in report.runs}


def _reject_namesakes(plans: Iterable[EvaluationPlan]) -> None:
    """Two models, or two corpora, under one name would be averaged together."""
    first: dict[str, EvaluationPlan] = {}
    for plan in plans:
        model = first.setdefault(f"model {plan.model.name}", plan).model
        corpus = first.setdefault(f"corpus {plan.corpus.name}", plan).corpus
        for kinds, name, same in (
            ("models", model.name, same_function(model, plan.model)),
            ("corpora", corpus.name, corpus.digest == plan.corpus.digest),
        ):
            if not same:
                raise StoreError(
                    f"two runs name different {kinds} {quoted(name)}; report them apart, or"
                    " evaluate one under another name"
                )


def _reject_repetitions(runs: Iterable[EvaluationRun]) -> None:
    """Two draws of one corpus share sentences: they are not one sample to average over."""
    seen: set[Group] = set()
    for run in runs:
        groups = {row.group for row in run.rows}
        if again := sorted(groups & seen):
            raise StoreError(
                f"two runs measure {quoted(again[0].construction)} of {quoted(again[0].model)} on"
                f" {quoted(again[0].corpus)}, {again[0].mask}; report them apart"
            )
        seen |= groups


def _reject_other_blanks(runs: Iterable[EvaluationRun]) -> None:
    """Examples are paired by sentence and mask, so both runs must have masked the same tokens."""
    seen: dict[tuple[Group, str], tuple[int, int]] = {}
    for run in runs:
        own: dict[tuple[Group, str], tuple[int, int]] = {}
        for row in run.rows:
            setting = row.group._replace(construction="")
            own[setting, row.example_id] = row.positions
        for (setting, example), positions in own.items():
            if seen.get((setting, example), positions) != positions:
                raise StoreError(
                    f"two runs mask different tokens of {quoted(example)}, of"
                    f" {quoted(setting.corpus)} with {quoted(setting.model)}, as another seed"
                    " does, so their examples cannot be paired; report them apart"
                )
        seen |= own


def _run_notes(run: EvaluationRun) -> list[str]:
    plan, notes = run.plan, []
    where = f"{plan.model.name} on {plan.corpus.name}"
    if failed := _failed(run):
        most, count = Counter(failed.values()).most_common(1)[0]
        notes.append(f"{where}: {len(failed)} examples failed, {count} of them with: {most}")
    if run.missing:
        notes.append(
            f"{where}: {run.missing} of {plan.draw.count} examples are not done yet; they come in"
            " hashed order, so those that are done are a random sample."
        )
    for mask, reasons in plan.draw.refused.items():
        if reasons:
            listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            notes.append(f"{where}, {mask}: sentences rejected before the last example: {listed}.")
    notes += [f"{where}: {one} {_DAMAGED}" for one in run.damaged]
    if mixed := differing({row.software for row in run.rows if row.software}):
        listed = "; ".join(f"{name} {' and '.join(each)}" for name, each in mixed.items())
        notes.append(f"{where}: result rows were computed with several versions: {listed}.")
    return notes + [f"{where}: {one}" for one in _unsolved(run)]


def _failed(run: EvaluationRun) -> dict[str, str]:
    return {row.example_id: row.reason for row in run.rows if row.reason is not None}


def _unsolved(run: EvaluationRun) -> list[str]:
    """Convergence is reported, never assumed."""
    solved = Counter(row.construction for row in run.rows if row.converged is not None)
    missed = Counter(row.construction for row in run.rows if row.converged is False)
    return [
        f"{name} did not converge on {missed[name]} of {solved[name]} examples." for name in missed
    ]
