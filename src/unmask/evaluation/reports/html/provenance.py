"""Where a report's numbers come from, and how to compute them again.

From plans, result rows and manifests. Of folders only the last name is shown: the page may be read
elsewhere.
"""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from markupsafe import Markup

from unmask import markup
from unmask.evaluation.reports.reporting import Report
from unmask.evaluation.rows import WHOLE_VOCABULARY
from unmask.evaluation.run import EvaluationPlan, EvaluationRun

_OPTIONS = ("steps", "mean", "contexts")
_LONGEST_PART = 100
_OPTION = re.compile(r"(?<= )(--?[a-z-]+)")


def run_part(run: EvaluationRun) -> dict[str, Any]:
    """The facts of a run, and the command that repeats it."""
    plan = run.plan
    return {
        "title": f"{plan.model.name} on {plan.corpus.name}",
        "facts": list(_facts(run)),
        "command": evaluate_command(plan),
        "has_other_options": _has_other_options(plan),
    }


def _has_other_options(plan: EvaluationPlan) -> bool:
    """Whether only Python can ask for this plan."""
    sketch = plan.sketch
    return any(set(one.options) - set(_OPTIONS) for one in plan.constructions) or (
        sketch is not None and (sketch.precision is None or sketch.seed != plan.draw.seed)
    )


def whole_options(command: str) -> Markup:
    """A command whose options are not broken after their hyphens."""
    # of what is escaped, so that nothing but letters and hyphens gets within a tag
    return Markup(_OPTION.sub(r"<span>\1</span>", markup.html(command)))


def evaluate_command(plan: EvaluationPlan) -> str:
    """The command that measures this plan."""
    words = ["unmask", "evaluate", "CORPUS", "-m", "MODEL", "-o", "FOLDER"]
    words += ["--corpus-name", plan.corpus.name, "--model-name", plan.model.name]
    words += ["--revision", plan.model.revision] if plan.model.revision else []
    words += ["--mask", ",".join(plan.draw.masks), "--examples", str(plan.draw.limit)]
    words += ["--seed", str(plan.draw.seed)]
    words += _support_words(plan)
    words += ["--method", ",".join(one.method for one in plan.constructions)]
    for option in _OPTIONS:
        values = [one.options[option] for one in plan.constructions if option in one.options]
        words += [f"--{option}", str(values[-1])] if values else []
    words += ["--dtype", plan.model.dtype]
    words += ["--half-tables"] if plan.half_tables else []
    return shlex.join(words)


def _support_words(plan: EvaluationPlan) -> list[str]:
    sketch = plan.sketch
    if sketch is None:
        is_exact = plan.support == WHOLE_VOCABULARY
        return ["--exact"] if is_exact else ["--support", plan.support_name]
    precision = ["--precision", str(sketch.precision)] if sketch.precision is not None else []
    return [*precision, "--max-passes", str(sketch.max_passes)]


def report_command(report: Report) -> str:
    """The command that makes the page of the runs' folders."""
    words = ["unmask", "report", *(run.folder.name or "RUN" for run in report.runs)]
    words += ["--html", "FILE", "--resamples", str(report.resampling.resamples)]
    words += ["--seed", str(report.resampling.seed)]
    words += [] if report.baseline is None else ["--baseline", report.baseline]
    words += ["--parser", "PARSER"] if report.syntactic else []
    words += ["--with-text"] if report.texts else []
    if report.syntactic or report.texts:
        words += ["--corpus", "CORPUS"] * len({run.plan.corpus.digest for run in report.runs})
    return shlex.join(words)


def updated(run: EvaluationRun) -> list[str]:
    """When each shard was last written, as its manifest has it, if it has one."""
    notes = []
    for path in sorted(run.folder.glob("_manifest-*.json")):
        # a manifest is for people: result rows are whole without it
        with suppress(OSError, ValueError, TypeError, KeyError):
            notes.append(json.loads(path.read_text(encoding="utf-8"))["updated"][:_LONGEST_PART])
    return sorted(notes)


def _facts(run: EvaluationRun) -> Iterator[tuple[str, str]]:
    plan = run.plan
    yield "Folder", run.folder.name
    yield "Model", plan.model.name
    yield "Revision of the model", plan.model.revision or ""
    yield "SHA-256 of the weights", plan.model.weights
    yield "SHA-256 of the vocabulary", plan.model.vocabulary
    yield "Precision", plan.model.dtype + (", compiled" if plan.model.compiled else "")
    yield "Corpus", f"{plan.corpus.name}, {plan.corpus.sentences:,} distinct sentences"
    yield "SHA-256 of the corpus", plan.corpus.digest
    draw, masks = plan.draw, ", ".join(plan.draw.masks)
    done = f"{draw.count - run.missing:,} of {draw.count:,} are here"
    yield "Examples", f"{done}; at most {draw.limit:,} per mask ({masks}), seed {draw.seed}"
    yield "SHA-256 of the examples", draw.digest
    yield "Support", plan.support_name
    yield "Constructions", ", ".join(one.label for one in plan.constructions)
    yield "SHA-256 of the plan", run.job.digest
    yield "Planned by", run.job.software
    yield "Computed by", "; ".join(sorted({row.software for row in run.rows if row.software}))
    yield "Devices", ", ".join(sorted({row.device for row in run.rows if row.device}))
    dates = updated(run)
    yield "Last written", ", ".join(dict.fromkeys([*dates[:1], *dates[-1:]]))
