"""The whole page: its parts in order, its style and script, and a policy that allows nothing else.

The same runs are the same bytes: nothing is said of when or where the page was made.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from unmask.evaluation.reports.bootstrap import Resampling
from unmask.evaluation.reports.distance import DistanceBin
from unmask.evaluation.reports.figures import construction_styles
from unmask.evaluation.reports.html.charts import chart
from unmask.evaluation.reports.html.example_table import (
    RULE,
    disagreement_table,
    example_table,
)
from unmask.evaluation.reports.html.examples import Setting, settings_of
from unmask.evaluation.reports.html.frontier import Passes, frontier_part, passes_by_label
from unmask.evaluation.reports.html.glossary import glossary
from unmask.evaluation.reports.html.provenance import command, report_command, run_section
from unmask.evaluation.reports.html.tables import table_of
from unmask.evaluation.reports.reporting import Report, notes, table
from unmask.evaluation.reports.summary import Difference, Summary
from unmask.evaluation.reports.tables import (
    DISTANCES,
    Table,
    difference_table,
    distance_table,
    summary_table,
)
from unmask.evaluation.store.run_folder import Damaged, Run
from unmask.markup import Markup, element, joined, name, paragraph, text

_PARTS = {
    "results": "Results",
    "disagreement": "Where constructions disagree",
    "examples": "Examples",
    "provenance": "Where the numbers come from",
    "glossary": "What the numbers mean",
}
_DISTANCES = {
    "token distance": "tokens between the blanks",
    "syntactic distance": "edges between the blanks' words in the dependency tree",
}
_ROUNDED = (
    "Press a column's head to sort by it, again to turn the order. NLLs are rounded to three"
    " decimals, J to four; the rows of the run have all of them."
)
_NO_SCRIPT = "Sorting, filtering and showing all need JavaScript; the first examples are below."


@dataclass(frozen=True)
class Findings:
    """The numbers of a report, computed once: resampling takes its time."""

    settings: Sequence[Setting]
    colours: Mapping[str, str]
    summaries: Sequence[Summary]
    differences: Sequence[Difference]
    passes: Mapping[str, Mapping[str, Passes]]
    bins: Mapping[str, Sequence[DistanceBin]]
    distance_notes: Mapping[str, str]
    vocabularies: Mapping[str, str]
    notes: Sequence[str]


def page(it: Report) -> str:
    """The page of a report, one file that needs no other."""
    shared = replace(it, runs=tuple(map(_without_detail, it.runs)))
    found = _findings(shared)
    title = f"Evaluation: {', '.join(dict.fromkeys(run.plan.model.name for run in it.runs))}"
    sections = {
        "results": joined(_results(found)),
        "disagreement": joined(_disagreements(found)),
        "examples": joined(_examples(found)),
        "provenance": joined(_provenance(shared)),
        "glossary": glossary(),
    }
    body = [
        element("header", element("h1", name(title))),
        _contents(),
        element("main", joined(_section(key, part) for key, part in sections.items())),
    ]
    return _document(title, joined(body))


def _without_detail(run: Run) -> Run:
    """An error may name machines, folders and text: its kind is what others need."""
    rows = (r if r.error is None else replace(r, error=_kind(r.error)) for r in run.rows)
    damaged = (Damaged(one.path, f"{one.path.name} cannot be read") for one in run.damaged)
    return replace(run, rows=tuple(rows), damaged=tuple(damaged))


def _kind(error: str) -> str:
    return error.split(":")[0] or "an error"


def _findings(it: Report) -> Findings:
    rows = it.rows
    labels = list(dict.fromkeys(row.construction for row in rows))
    syntax = {"syntactic distance": it.syntactic_bins()} if it.syntactic else {}
    summaries, differences = it.summaries(), it.differences()
    said = [*summary_table(summaries, it.vocabularies).notes]
    said += difference_table(differences).notes if differences else ()
    return Findings(
        settings=settings_of(rows),
        colours={label: style.colour for label, style in construction_styles(labels).items()},
        summaries=summaries,
        differences=differences,
        passes=_passes(it),
        bins={"token distance": it.token_bins(), **syntax},
        distance_notes=_distance_notes(it),
        vocabularies=it.vocabularies,
        notes=[*dict.fromkeys([*said, *notes(it), _resampled(it.resampling)])],
    )


def _passes(it: Report) -> dict[str, dict[str, Passes]]:
    plans = [run.plan for run in it.runs]
    return {name: passes_by_label(plans, name) for name in {plan.support_name for plan in plans}}


def _distance_notes(it: Report) -> dict[str, str]:
    if not it.syntactic:
        return {"token distance": DISTANCES}
    # for what it says of examples that were left out, not for its intervals
    quick = replace(it, resampling=Resampling(resamples=1))
    return {"token distance": DISTANCES, "syntactic distance": table(quick, "syntax").notes[0]}


def _resampled(resampling: Resampling) -> str:
    return f"Bootstrap: {resampling.resamples:,} resamples, seed {resampling.seed}."


def _results(found: Findings) -> Iterator[Markup]:
    yield element("ul", *(element("li", text(note)) for note in found.notes))
    for place, setting in enumerate(found.settings):
        yield _heading(setting)
        for made, caption in _tables(found, setting):
            yield table_of(made, found.colours, caption=caption)
        yield _frontier(found, setting, f"frontier-{place}")
        for kind, axis_label in _DISTANCES.items():
            yield from _distances(found, setting, kind, axis_label, f"figure-{place}")


def _tables(found: Findings, setting: Setting) -> Iterator[tuple[Table, str]]:
    summaries = [one for one in found.summaries if _is_of(one.group, setting)]
    yield summary_table(summaries, found.vocabularies), "Results"
    if differences := [one for one in found.differences if _is_of(one.group, setting)]:
        yield difference_table(differences), f"Paired differences to {differences[0].baseline}"


def _frontier(found: Findings, setting: Setting, key: str) -> Markup:
    summaries = [one for one in found.summaries if _is_of(one.group, setting)]
    passes = found.passes.get(setting.group.support, {})
    return frontier_part(summaries, passes, found.colours, key=key, title=setting.title)


def _distances(
    found: Findings, setting: Setting, kind: str, axis_label: str, key: str
) -> Iterator[Markup]:
    bins = [one for one in found.bins.get(kind, ()) if _is_of(one.group, setting)]
    if not bins:
        return
    key = f"{key}-{kind.split()[0]}"
    yield chart(bins, key=key, title=setting.title, axis_label=axis_label)
    shown = table_of(distance_table(bins, distance=kind), found.colours, caption=f"NLL by {kind}")
    note = paragraph(found.distance_notes[kind])
    yield element("details", element("summary", text(f"Numbers by {kind}")), shown, note)


def _is_of(group: tuple[str, ...], setting: Setting) -> bool:
    return group[:-1] == setting.group[:-1]


def _disagreements(found: Findings) -> Iterator[Markup]:
    yield paragraph(RULE)
    for setting in found.settings:
        yield _heading(setting)
        yield disagreement_table(setting, found.colours)


def _examples(found: Findings) -> Iterator[Markup]:
    yield element("noscript", paragraph(_NO_SCRIPT))
    yield paragraph(_ROUNDED)
    for place, setting in enumerate(found.settings):
        yield _heading(setting)
        yield example_table(setting, found.colours, key=f"examples-{place}")


def _provenance(it: Report) -> Iterator[Markup]:
    for run in it.runs:
        yield element("h3", name(f"{run.plan.model.name} on {run.plan.corpus.name}"))
        yield run_section(run)
    yield element("h3", text("How to make this page"))
    yield command(report_command(it))


def _heading(setting: Setting) -> Markup:
    return element("h3", name(setting.title))


def _section(key: str, part: Markup) -> Markup:
    return element("section", element("h2", text(_PARTS[key])), part, id=key)


def _contents() -> Markup:
    links = (element("li", element("a", text(_PARTS[k]), href=f"#{k}")) for k in _PARTS)
    return element("nav", element("ul", *links), aria_label="Contents")


def _document(title: str, body: Markup) -> str:
    style, script = _asset("style.css"), _asset("script.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)};"
        " base-uri 'none'; form-action 'none'"
    )
    head = [
        '<meta charset="utf-8">',
        # single quotes stand in a policy, which escaping would make unreadable
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        element("title", text(title)),
        f"<style>{style}</style>",
    ]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            element("head", joined(map(Markup, head))),
            element("body", body, Markup(f"\n<script>{script}</script>")),
            "</html>",
            "",
        ]
    )


def _asset(file: str) -> str:
    """A file of this package; line ends as a browser sees them, since it hashes them."""
    return "\n".join(files(__package__).joinpath(file).read_text(encoding="utf-8").splitlines())


def _hash(source: str) -> str:
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return f"'sha256-{digest}'"
