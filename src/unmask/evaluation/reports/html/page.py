"""The whole page: what `page.html.j2` shows, and how texts from outside get into it.

The same runs are the same bytes: the page has no date and no place.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from markupsafe import Markup

from unmask.evaluation.reports.distance import DistanceBin
from unmask.evaluation.reports.figures import AXES
from unmask.evaluation.reports.html.charts import chart
from unmask.evaluation.reports.html.examples import (
    SOUND,
    Setting,
    number_columns,
    script_data,
    settings_of,
)
from unmask.evaluation.reports.html.frontier import frontier_part, passes_by_label
from unmask.evaluation.reports.html.provenance import report_command, run_part, whole_options
from unmask.evaluation.reports.rendering import shown_rows
from unmask.evaluation.reports.reporting import Report, notes
from unmask.evaluation.reports.summary import Difference, Summary
from unmask.evaluation.reports.tables import (
    difference_table,
    distance_difference_table,
    distance_table,
    summary_table,
)
from unmask.evaluation.run import EvaluationRun
from unmask.markup import asset, templates
from unmask.plots.styles import construction_styles


class Distances(NamedTuple):
    """NLLs by one kind of distance, and what it is called; `differences` are those drawn."""

    axis_label: str
    naming: dict[str, str]
    bins: Sequence[DistanceBin]
    differences: Sequence[DistanceBin]


def page(report: Report) -> str:
    """The page of a report, one file that needs no other."""
    shared = replace(report, runs=tuple(map(_without_detail, report.runs)))
    models = dict.fromkeys(run.plan.model.name for run in report.runs)
    return environment.get_template("page.html.j2").render(
        title=f"Evaluation: {', '.join(models)}",
        style=Markup(asset(__package__, "style.css")),
        script=Markup(asset(__package__, "script.js")),
        sound=SOUND,
        with_text=bool(report.texts),
        runs=[run_part(run) for run in shared.runs],
        command=report_command(shared),
        **_results(shared),
    )


def _without_detail(run: EvaluationRun) -> EvaluationRun:
    return replace(run, rows=tuple(row.without_detail() for row in run.rows))


def _results(report: Report) -> dict[str, Any]:
    """Everything that is resampled, computed once: it takes its time."""
    summaries, differences = report.summaries(), report.differences()
    distances = [
        Distances(AXES[kind], report.naming(kind), report.bins(kind), report.difference_bins(kind))
        for kind in report.kinds
    ]
    tables = [summary_table(summaries, report.vocabularies)]
    tables += [difference_table(differences)] if differences else []
    terms = [term for one in tables for term in one.terms]
    listed = [note for one in tables for note in one.notes] + [
        one.naming["counted"] for one in distances
    ]
    draws = report.resampling
    resampled = f"Bootstrap: {draws.resamples:,} resamples, seed {draws.seed}."
    labels = list(dict.fromkeys(row.construction for row in report.rows))
    return {
        "terms": list(dict.fromkeys(terms)),
        "notes": list(dict.fromkeys([*listed, *notes(report), resampled])),
        "colours": {label: one.colour for label, one in construction_styles(labels).items()},
        "settings": [
            _setting(report, setting, place, summaries, differences, distances)
            for place, setting in enumerate(settings_of(report.rows, report.texts))
        ],
    }


def _setting(
    report: Report,
    setting: Setting,
    place: int,
    summaries: Sequence[Summary],
    differences: Sequence[Difference],
    distances: Sequence[Distances],
) -> dict[str, Any]:
    own = [one for one in summaries if setting.has(one.group)]
    tables = [("Results", summary_table(own, report.vocabularies))]
    if apart := [one for one in differences if setting.has(one.group)]:
        caption = f"Paired differences to {apart[0].baseline}"
        tables.append((caption, difference_table(apart)))
    plans = [run.plan for run in report.runs if run.plan.model.name == setting.group.model]
    passes = passes_by_label(plans, setting.group.support)
    columns = number_columns(setting)
    return {
        "setting": setting,
        "tables": tables,
        "frontier": frontier_part(own, passes, key=f"frontier-{place}", title=setting.title),
        "distances": [
            _distance_part(one, setting, key=f"figure-{place}-{one.naming['kind'].split()[0]}")
            for one in distances
            if any(setting.has(bin.group) for bin in one.bins)
        ],
        "columns": columns,
        "data": script_data(setting, columns),
    }


def _distance_part(one: Distances, setting: Setting, *, key: str) -> dict[str, Any]:
    bins = [bin for bin in one.bins if setting.has(bin.group)]
    apart = [bin for bin in one.differences if setting.has(bin.group)]
    several = len({(bin.first, bin.last) for bin in apart}) > 1
    return {
        "kind": one.naming["kind"],
        "picture": chart(apart, key=key, title=setting.title, axis_label=one.axis_label),
        # of one bin the table of all examples has the differences
        "differences": distance_difference_table(apart, **one.naming) if several else None,
        "baseline": apart[0].baseline if apart else None,
        "table": distance_table(bins, **one.naming),
    }


def _fixed(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _sha256(source: str) -> str:
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


environment = templates(__package__)
environment.filters |= {
    "fixed": _fixed,
    "sha256": _sha256,
    "shown_rows": shown_rows,
    "whole_options": whole_options,
}
environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
