"""Results as JSON in the manner of EleutherAI's lm-evaluation-harness.

Its readers find `results` by task with keys "metric,filter" and "metric_stderr,filter", and
`configs`, `versions`, `n-samples` and `higher_is_better` by the same tasks. What it has no place
for stands beside: `intervals` and `differences`.
"""

import json
import math
from dataclasses import asdict
from typing import Any

from unmask import __version__
from unmask.evaluation.reports.paper import MEASURES as PAPER_MEASURES
from unmask.evaluation.reports.paper import published
from unmask.evaluation.reports.reporting import Report
from unmask.evaluation.reports.summary import MEASURES, Summary
from unmask.evaluation.rows import Group
from unmask.evaluation.run import EvaluationRun
from unmask.resampling import Estimate

# of what a task's numbers mean; raised when a definition changes
TASK_VERSION = 1


def results_json(report: Report) -> str:
    """The document as text: pure ASCII, names kept exactly, what is not finite as null."""
    tasks = {task_name(summary.group): summary for summary in report.summaries("results")}
    differences = report.summaries("differences")
    results = {
        "results": {name: _numbers(name, summary) for name, summary in tasks.items()},
        "intervals": {
            name: {measure: _interval(summary[measure]) for measure in MEASURES}
            for name, summary in tasks.items()
        },
        "differences": {task_name(summary.group): _difference(summary) for summary in differences},
        "configs": {name: _config(summary.group) for name, summary in tasks.items()},
        "versions": dict.fromkeys(tasks, TASK_VERSION),
        "n-samples": {
            name: {"original": row.examples + row.failed, "effective": row.examples}
            for name, row in tasks.items()
        },
        "higher_is_better": {name: dict.fromkeys(MEASURES, False) for name in tasks},
        "config": {
            "runs": [*map(_facts, report.runs)],
            "bootstrap": asdict(report.resampling),
            "baseline": report.baseline,
            "aggregation": "mean NLL over examples, then the exponential",
        },
        "unmask_version": __version__,
    }
    return json.dumps(results, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _facts(run: EvaluationRun) -> dict[str, Any]:
    return {
        "plan": run.job.to_dict(),
        "plan_sha256": run.job.digest,
        "examples_not_done": run.missing,
        "examples_failed": len(run.failed),
        "seconds": run.seconds,
        "computed_by": run.values("software"),
        "devices": run.values("device"),
    }


def task_name(group: Group) -> str:
    r"""A group between bars; a bar inside a part becomes `\|`, so no two are mixed up."""
    return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in group)


def _numbers(name: str, summary: Summary) -> dict[str, Any]:
    numbers: dict[str, Any] = {"alias": name}
    for measure in MEASURES:
        value, error = _parts(summary[measure], "value", "stderr")
        numbers |= {f"{measure},none": value, f"{measure}_stderr,none": error}
    return numbers


def _difference(summary: Summary) -> dict[str, Any]:
    numbers: dict[str, Any] = {"baseline": summary.baseline, "examples": summary.examples}
    for metric, estimate in summary.estimates.items():
        value, error = _parts(estimate, "value", "stderr")
        numbers |= {metric: value, f"{metric}_stderr": error}
        numbers[f"{metric}_interval"] = _interval(estimate)
    return numbers


def _config(group: Group) -> dict[str, Any]:
    paper = {measure: published(group, measure) for measure in PAPER_MEASURES}
    return {**group._asdict(), **({"paper": paper} if any(paper.values()) else {})}


def _interval(estimate: Estimate | None) -> list[float | None] | None:
    return _parts(estimate, "low", "high") if estimate else None


def _parts(estimate: Estimate | None, *names: str) -> list[float | None]:
    values = [getattr(estimate, name, math.nan) for name in names]
    return [value if math.isfinite(value) else None for value in values]
