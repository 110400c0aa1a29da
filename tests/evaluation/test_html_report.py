"""The page of a report: whole, inert whatever names hold, the same bytes, and its numbers right."""

import base64
import copy
import hashlib
import json
import math
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import plans
import pytest
from evaluation_rows import HOSTILE, a_row
from plans import a_plan

from unmask import cli, markup
from unmask.cli import command, evaluate
from unmask.constructions import CONSTRUCTIONS
from unmask.errors import StoreError
from unmask.evaluation.reports.html.charts import WITHOUT, inline
from unmask.evaluation.reports.html.examples import SOUND, settings_of
from unmask.evaluation.reports.html.page import environment, page
from unmask.evaluation.reports.html.provenance import evaluate_command, report_command
from unmask.evaluation.reports.html.sentences import sentence
from unmask.evaluation.reports.reporting import Report, report, with_text
from unmask.evaluation.reports.reporting import tables as made_tables
from unmask.evaluation.reports.tables import DISTANCES, TERMS
from unmask.evaluation.rows import ResultRow
from unmask.evaluation.run import EvaluationRun, LabelledMethod, read_run
from unmask.plots.styles import STYLES
from unmask.printable import printable
from unmask.records.corpus import Occurrence, gather
from unmask.resampling import Estimate, Resampling

TABLE1 = Path(__file__).parents[2] / "docs" / "results" / "table1-caption-bert"
QUICK = Resampling(resamples=20, seed=0)
VOID = {"meta", "input", "br", "hr", "img", "link"}
NASTY = [
    *HOSTILE,
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>",
    "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    "\u2028line\u2029",
    "\u0338\u0301struck",
    "e" + "\u0301" * 500,
    "\ud800lone",
    "&lt;b&gt;",
    "javascript:alert(1)",
    "\u05d0\u05d1\u05d2",
]


@dataclass
class Tag:
    """An element with its attributes and all text within it."""

    name: str
    attributes: dict[str, str | None]
    said: list[str] = field(default_factory=list)
    inside: list["Tag"] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.said)

    def all(self, name: str) -> list["Tag"]:
        return [one for one in self.inside if one.name == name]


class Reader(HTMLParser):
    """Refuses a page whose tags are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Tag("", {})
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert self.open == [self.root], f"never closed: {[one.name for one in self.open[1:]]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute twice: {attrs}"
        found = Tag(tag, dict(attrs))
        for one in self.open:
            one.inside.append(found)
        if tag not in VOID:
            self.open.append(found)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"{tag} closes {self.open[-1].name}"
        self.open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        for one in self.open:
            one.said.append(data)

    def handle_comment(self, data: str) -> None:
        pytest.fail(f"a comment: {data}")


def read(text: str) -> Tag:
    return Reader(text).root


def rows_of(
    *constructions: str, count: int = 70, seed: int = 0, **changes: object
) -> Iterator[ResultRow]:
    """Half of the examples at distance 0, half at 3, so that there is something to draw."""
    rng = random.Random(seed)
    for name in constructions or ("mlm", "ag", "log-pool"):
        for i in range(count):
            numbers = {"pairwise_nll": rng.uniform(0, 9), "unary_nll": rng.uniform(0, 9)}
            where = (2, 3 if 2 * i < count else 6)
            yield a_row(i, **{"construction": name, "positions": where, **numbers, **changes})


def a_run(rows: Sequence[ResultRow], **changes: object) -> EvaluationRun:
    one = rows[0]
    plan = a_plan()
    plan = replace(
        plan,
        model=replace(plan.model, name=one.model),
        corpus=replace(plan.corpus, name=one.corpus),
        **changes,
    )
    return plans.a_run("a/run", plan, rows)


def a_report(*runs: EvaluationRun) -> Report:
    return report(runs or [a_run(list(rows_of()))], resampling=QUICK)


def published() -> Report:
    return report([read_run(TABLE1 / name) for name in ("snli", "xsum")], resampling=QUICK)


def tables(root: Tag, caption: str) -> list[list[list[str]]]:
    """The cells of the tables with this caption."""
    return [
        [[cell.text for cell in row.inside if cell.name in ("th", "td")] for row in one.all("tr")]
        for one in root.all("table")
        if one.all("caption")[0].text == caption
    ]


def data(root: Tag) -> list[dict[str, list]]:
    found = [one for one in root.all("script") if one.attributes.get("type")]
    assert all(one.attributes == {"type": "application/json"} for one in found)
    return [json.loads(one.text) for one in found]


def check_self_contained(root: Tag) -> None:
    ids = Counter(one.attributes["id"] for one in root.inside if "id" in one.attributes)
    assert max(ids.values()) == 1
    for one in root.inside:
        assert one.name not in ("iframe", "object", "embed", "link", "base", "form", "img")
        for name, value in one.attributes.items():
            assert not name.startswith("on"), f"{one.name} has {name}"
            assert name not in ("style", "src", "srcset", "action", "xlink:href")
            assert "://" not in (value or "") or name in ("aria-label",)
            if name == "href":
                assert value[0] == "#"
                assert value[1:] in ids
            if name == "for":
                assert value in ids
            for pointed in re.findall(r"url\(([^)]*)\)", value or ""):
                assert pointed[1:] in ids


# --- the page as a file ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made() -> tuple[Report, str, Tag]:
    """The published runs, their page, and that page read."""
    it = published()
    text = page(it)
    return it, text, read(text)


@pytest.mark.slow
def test_a_page_of_the_published_rows_is_whole_and_needs_nothing(made) -> None:
    _, text, root = made
    check_self_contained(root)
    assert len(root.all("h3")) == 3 * 3 + 3
    # no frontier, for these plans do not say how many tokens there are; contiguous blanks have one
    # distance: nothing to draw
    assert len(root.all("figure")) == (1 if find_spec("matplotlib") else 0)
    assert [len(one["ids"]) for one in data(root)] == [250, 250, 138]
    assert len(text.encode()) < 1_000_000


@pytest.mark.slow
def test_the_policy_allows_this_style_and_this_script_and_nothing_else() -> None:
    root = read(page(a_report()))
    (policy,) = (
        one.attributes["content"]
        for one in root.all("meta")
        if one.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == rules.pop("base-uri") == rules.pop("form-action") == "'none'"
    for rule, name in (("style-src", "style"), ("script-src", "script")):
        (one,) = (one for one in root.all(name) if "type" not in one.attributes)
        assert one.attributes == {}
        digest = base64.b64encode(hashlib.sha256(one.text.encode()).digest()).decode()
        assert rules.pop(rule) == f"'sha256-{digest}'"
    assert not rules


@pytest.mark.slow
def test_ten_thousand_examples_are_below_five_megabytes() -> None:
    rng = random.Random(1)
    rows = []
    for one in rows_of(*CONSTRUCTIONS, count=1):
        for i in range(10_000):
            row = copy.copy(one)
            # without the checks of a row, which take longer than the page
            row.__dict__["example_id"] = f"{i:09}.jpg#3r1n/hypothesis/random"
            row.__dict__["pairwise_nll"] = rng.uniform(0, 20)
            row.__dict__["unary_nll"] = rng.uniform(0, 20)
            rows.append(row)
    text = page(report([a_run(rows)], resampling=Resampling(resamples=1)))
    assert len(text.encode()) < 5_000_000
    root = read(text)
    assert len(data(root)[0]["ids"]) == 10_000
    ((*_, body),) = ([one.all("tbody")[0]] for one in root.all("div") if is_examples(one))
    assert len(body.all("tr")) == 200
    assert "200 of 10,000 examples are shown." in root.text


def is_examples(one: Tag) -> bool:
    return one.attributes.get("class") == "examples"


@pytest.mark.slow
def test_a_page_depends_neither_on_the_order_of_examples_nor_on_the_clock() -> None:
    rows = list(rows_of())
    places = {"mlm": 0, "ag": 1, "log-pool": 2}
    rng = random.Random(3)
    mixed = sorted(rows, key=lambda row: (places[row.construction], rng.random()))
    assert mixed != rows
    text = page(a_report(a_run(rows)))
    assert page(a_report(a_run(mixed))) == text
    assert not re.search(r"20[23]\d-\d\d", text)


# --- numbers -----------------------------------------------------------------------------------


def shown(estimate: Estimate, digits: int, sign: str = "", star: str = "") -> str:
    value, low, high = (
        f"{one:{sign}.{digits}f}" for one in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} [{low}, {high}]{star}"


@pytest.mark.slow
def test_tables_have_the_numbers_of_the_summaries(made) -> None:
    it, _, root = made
    found = [row for table in tables(root, "Results") for row in table[1:]]
    assert len(found) == len(it.summaries()) == 33
    for cells, one in zip(found, it.summaries(), strict=True):
        assert cells[:3] == [one.group.construction, str(one.examples), "0"]
        assert cells[3:7] == [
            shown(one.unary_ppl, 2),
            shown(one.pairwise_ppl, 2),
            shown(one.all_kl, 3),
            shown(one.gold_kl, 3),
        ]
        assert cells[8] == shown(one.pairwise_nats_per_byte, 3)


@pytest.mark.slow
def test_tables_have_the_paired_differences(made) -> None:
    it, _, root = made
    found = [row for table in tables(root, "Paired differences to mlm") for row in table[1:]]
    assert len(found) == len(it.differences()) == 30
    marked = 0
    for cells, one in zip(found, it.differences(), strict=True):
        star = " *" if one.pairwise_nll.leaves_out_zero() else ""
        marked += bool(star)
        assert cells[:3] == [
            one.group.construction,
            str(one.examples),
            shown(one.pairwise_nll, 3, "+", star),
        ]
    assert 0 < marked < 30


@pytest.mark.slow
def test_examples_have_the_numbers_of_their_rows_twice() -> None:
    rows = list(rows_of("mlm", "ag", "log-pool", count=250, incompatibility=0.0123456))
    root = read(page(a_report(a_run(rows))))
    (values,) = data(root)
    (part,) = filter(is_examples, root.all("div"))
    heads = [button.attributes["aria-label"] for button in part.all("button")[1:]]
    assert heads[:5] == ["example id", "distance", "J", "spread", "P-NLL of mlm"]
    assert len(heads) == 1 + len(values["numbers"]) == 4 + 6
    by_place = {(row.example_id, row.construction): row for row in rows}
    assert values["ids"] == sorted({row.example_id for row in rows})
    for name in ("mlm", "ag", "log-pool"):
        column = values["numbers"][heads.index(f"P-NLL of {name}") - 1]
        for example, number in zip(values["ids"], column, strict=True):
            assert number == pytest.approx(by_place[example, name].pairwise_nll, abs=5.1e-4)
    body = [
        [cell.text for cell in row.inside if cell.name in ("th", "td")]
        for row in part.all("tbody")[0].all("tr")
    ]
    assert len(body) == 200
    for place, cells in enumerate(body):
        numbers = zip(values["numbers"], values["digits"], strict=True)
        assert cells == [
            values["ids"][place],
            *(f"{column[place]:.{digits}f}" for column, digits in numbers),
        ]


def test_numbers_that_are_not_there_are_empty() -> None:
    rows = [
        *rows_of("mlm", count=40, incompatibility=None),
        *rows_of("ag", count=40, incompatibility=None, seed=1),
    ]
    rows[3] = a_row(3, reason="KeyError: the text of C:\\secret", incompatibility=None)
    text = page(a_report(a_run(rows)))
    assert "secret" not in text
    assert "1 examples failed, 1 of them with: KeyError" in read(text).text
    (values,) = data(read(text))
    # neither J nor a spread of one sound construction
    assert len(values["numbers"]) == 1 + 4
    assert [place for place, one in enumerate(values["numbers"][1]) if one is None] == [3]
    assert "so there is no spread" in text


@pytest.mark.slow
def test_the_largest_disagreements_are_found_by_the_rule() -> None:
    rows = list(rows_of("mlm", "hcb", "ag", "weighted-ag", "log-pool", "ag(pseudo_counts=1)"))
    (setting,) = settings_of(rows)
    by_example: dict[str, list[float]] = {}
    for row in rows:
        if row.construction in ("ag", "weighted-ag", "log-pool"):
            by_example.setdefault(row.example_id, []).append(row.pairwise_nll)
    spread = {one: max(found) - min(found) for one, found in by_example.items()}
    wanted = sorted(spread, key=spread.__getitem__, reverse=True)[:10]
    assert [one.id for one in setting.disagreements(10)] == wanted
    caption = "Where constructions disagree most: bert-base-cased, snli, random blanks"
    ((_, *cells),) = tables(read(page(a_report(a_run(rows)))), caption)
    assert [row[0] for row in cells] == wanted
    assert [row[3] for row in cells] == [f"{spread[one]:.3f}" for one in wanted]
    assert {row[1] for row in cells} <= {"0", "3"}
    lowest = min(by_example[wanted[0]])
    assert cells[0][4].endswith(f" {lowest:.3f}")


def test_sound_constructions_are_constructions() -> None:
    assert set(SOUND) < CONSTRUCTIONS.keys()


@pytest.mark.slow
def test_a_construction_has_the_colour_of_the_figures() -> None:
    root = read(page(a_report()))
    dots = {
        row.all("bdi")[0].text: row.all("circle")[0].attributes["fill"]
        for row in root.all("th")
        if row.all("circle")
    }
    assert dots == {name: STYLES[name].colour for name in ("mlm", "ag", "log-pool")}


# --- what comes from outside -------------------------------------------------------------------


@pytest.mark.parametrize("text", NASTY)
def test_html_of_a_text_is_that_text_between_tags_and_in_attributes(text: str) -> None:
    written = markup.html(text)
    root = read(f'<p title="{written}">{written}</p>')
    assert [one.name for one in root.inside] == ["p"]
    assert root.text == root.inside[0].attributes["title"] == printable(text)
    assert not set(written) & set("<>\"'\u202e\u2028\n\0")


def test_normalising_a_page_does_not_change_its_markup() -> None:
    written = f"<b>{markup.html(NASTY[-6])}</b>"
    assert NASTY[-6].startswith("\u0338")
    assert unicodedata.normalize("NFC", written).startswith("<b>&#x338;")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Glyph:UserWarning", "ignore:constrained_layout:UserWarning")
def test_hostile_names_stay_text() -> None:
    pytest.importorskip("matplotlib")
    known = page(a_report(a_run(list(rows_of("mlm", "hcb", "ag")))))
    plain = Counter(one.name for one in read(known).inside)
    bad = " ".join(NASTY)
    rows = [
        replace(row, example_id=NASTY[i % len(NASTY)] + str(i), construction=row.construction)
        for i, row in enumerate(rows_of("mlm"))
    ]
    names = {"model": bad, "corpus": bad, "support": bad}
    rows = [replace(row, **names) for row in rows]
    rows += [replace(row, construction=bad) for row in rows]
    rows += [replace(row, construction="ag") for row in rows[:70]]
    software = [replace(row, software=bad, device=bad) for row in rows]
    run = a_run(software, support=(bad,))
    text = page(a_report(replace(run, job=replace(run.job, software=bad))))
    root = read(text)
    check_self_contained(root)
    found = Counter(one.name for one in root.inside)
    for name in ("script", "table", "section", "input", "style", "meta", "figure"):
        assert found[name] == plain[name]
    assert printable(bad) in root.text
    assert not set(text) & set("\u202e\u2028\u2029\0\x1b\ud800")
    (values,) = data(root)
    assert values["ids"] == sorted(row.example_id for row in rows[:70])


def test_json_in_a_script_comes_back_and_ends_no_script() -> None:
    written = environment.from_string("{{ values|tojson }}").render(values=NASTY)
    assert json.loads(written) == NASTY
    assert written.isascii()
    assert not set(written) & set("<>&\n")


def test_a_figure_in_a_page_has_ids_of_its_own_and_no_style() -> None:
    svg = b"""<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"
      xmlns:xlink="http://www.w3.org/1999/xlink" width="9pt" viewBox="0 0 9 9">
      <metadata><title>a</title></metadata><defs><style>*{x: y}</style></defs><!-- --><path
      id="p" style="fill: none; clip-path: url(#c)" d="M 0 0\nL 1 1"/>
      <use xlink:href="#p"/></svg>"""
    written = inline(svg, key="k", label='a "b" <c> \u202e')
    root = read(written)
    assert [one.name for one in root.inside] == ["svg", "defs", "path", "use"]
    path = {"id": "k-p", "fill": "none", "clip-path": "url(#k-c)", "d": "M 0 0 L 1 1"}
    assert root.inside[2].attributes == path
    assert root.inside[3].attributes == {"href": "#k-p"}
    assert root.inside[0].attributes["aria-label"] == 'a "b" <c> \\u202e'
    assert "width" not in root.inside[0].attributes


@pytest.mark.slow
def test_figures_beside_each_other_do_not_clash() -> None:
    pytest.importorskip("matplotlib")
    runs = [
        a_run(list(rows_of(mask="random"))),
        a_run(list(rows_of(mask="contiguous")), half_tables=True),
    ]
    root = read(page(a_report(*runs)))
    check_self_contained(root)
    assert len(root.all("figure")) == 2
    drawn = {
        "viewbox role aria-label id d fill stroke clip-path href x y width height transform",
        "opacity",
        "stroke-width stroke-linecap stroke-linejoin stroke-opacity stroke-dasharray fill-opacity",
        "stroke-dashoffset",
    }
    allowed = set(" ".join(drawn).split())
    for figure in root.all("figure"):
        assert {name for one in figure.inside for name in one.attributes} <= allowed


@pytest.mark.slow
def test_syntactic_distances_stand_beside_those_in_tokens() -> None:
    pytest.importorskip("matplotlib")
    it = a_report()
    distances = {row.example_id: place % 2 for place, row in enumerate(it.rows)}
    it = replace(it, syntactic=(distances,), apart=({"in two parsed sentences": 2},))
    root = read(page(it))
    check_self_contained(root)
    assert len(root.all("figure")) == 2
    ((_, first, *_),) = tables(root, "NLL by syntactic distance")
    assert first[:4] == ["mlm", "0", "0", "35"]
    assert "Examples left out: 2 in two parsed sentences." in root.text
    assert "--parser PARSER --corpus CORPUS" in root.text


@pytest.mark.slow
def test_differences_by_distance_stand_under_their_figure_as_text() -> None:
    it = a_report(a_run(list(rows_of("mlm", "hcb", "ag-paper"))))
    root = read(page(it))
    ((heads, *cells),) = tables(root, "Differences to mlm by token distance")
    assert heads[:4] == ["construction", "distance from", "to", "examples"]
    drawn = it.difference_bins("distance")
    assert [row[:4] for row in cells] == [
        [one.group.construction, str(one.first), str(one.last), str(one.examples)] for one in drawn
    ]
    for row, one in zip(cells, drawn, strict=True):
        star = " *" if one.pairwise_nll.leaves_out_zero() else ""
        assert row[4] == shown(one.pairwise_nll, 3, "+", star)
    if find_spec("matplotlib"):
        (figure,) = root.all("figure")
        assert "hcb from " in figure.all("svg")[0].attributes["aria-label"]


def test_one_document_explains_terms_and_notes_once() -> None:
    names = ["results", "differences", "distance-differences"]
    found = made_tables(a_report(), names)
    for kind in ("terms", "notes"):
        said = [one for table in found for one in getattr(table, kind)]
        assert len(said) == len(set(said)) > 2


@pytest.mark.slow
def test_terms_are_explained_once_and_before_they_are_used() -> None:
    rows = [
        row
        for mask in ("random", "contiguous")
        for row in rows_of("mlm", "ag", "log-pool", mask=mask)
    ]
    said = read(page(a_report(a_run(rows)))).text
    for name in ("contiguous", "random", "vocabulary", "P-NLL", "U-NLL", "P-PPL", "A-KL", "G-KL"):
        assert said.count(TERMS[name]) == 1
        assert said.index(TERMS[name]) < said.index("U nats/byte")
    assert said.count(DISTANCES) == 1
    for start in ("Spread: the highest P-NLL", "J: how far the model's two conditionals"):
        assert said.count(start) == 1
        assert said.index(start) < said.index("Where constructions disagree most")


# --- sentences ---------------------------------------------------------------------------------


def with_sentences(text: str, count: int = 70, **changes: object) -> Report:
    found = rows_of("mlm", "hcb", "ag", "log-pool", count=count, **changes)
    it = a_report(a_run(list(found)))
    return replace(it, texts={"snli": {row.sentence_id: text for row in it.rows}})


def test_sentences_are_shown_on_request_alone() -> None:
    it = with_sentences("A man rides a horse.", count=6, spans=((2, 5), (14, 19)))
    root = read(page(it))
    caption = "Where constructions disagree most: bert-base-cased, snli, random blanks"
    (table,) = (one for one in root.all("table") if one.all("caption")[0].text == caption)
    for row in table.all("tbody")[0].all("tr"):
        assert row.all("th")[0].text.endswith("A man rides a horse.")
        assert [one.text for one in row.all("mark")] == ["man", "horse"]
    (values,) = data(root)
    assert values["sentences"][0] == [
        *(["A ", False], ["man", True], [" rides a ", False], ["horse", True], [".", False])
    ]
    assert "Publish it only if you may publish the corpus" in root.text
    assert "--with-text --corpus CORPUS" in root.text
    plain = page(replace(it, texts={}))
    for absent in ("horse", '"sentences"', "<mark>", "Publish it only"):
        assert absent not in plain


@pytest.mark.parametrize("text", NASTY)
def test_hostile_sentences_stay_text(text: str) -> None:
    spans = ((0, len(text)), (len(text) + 5, 10**6))
    root = read(page(with_sentences(f"{text} and {text}", count=2, spans=spans)))
    check_self_contained(root)
    assert printable(text) in {one.text for one in root.all("mark")}
    (values,) = data(root)
    assert values["sentences"][0][0] == [text, True]
    assert len(root.all("script")) == 2


@pytest.mark.parametrize(
    ("spans", "pieces"),
    [
        (((0, 1), (2, 3)), [("a", True), (" ", False), ("b", True), (" c", False)]),
        (((2, 3), (0, 1)), [("a", True), (" ", False), ("b", True), (" c", False)]),
        # two tokens of one character; a token without any; no offsets
        (((2, 3), (2, 3)), [("a ", False), ("b", True), (" c", False)]),
        (((2, 2), (4, 5)), [("a ", False), ("b ", False), ("c", True)]),
        (None, [("a b c", False)]),
    ],
)
def test_the_pieces_of_a_sentence(spans, pieces: list[tuple[str, bool]]) -> None:
    found = sentence(a_row(spans=spans), {"s0000": "a b c"})
    assert [tuple(one) for one in found] == pieces
    assert sentence(a_row(spans=spans), {}) == ()


def test_long_sentences_are_cut_away_from_their_blanks() -> None:
    text = "x" * 500 + "B" + "y" * 500 + "C" + "z" * 500
    found = sentence(a_row(spans=((500, 501), (1001, 1002))), {"s0000": text})
    cut = "\N{HORIZONTAL ELLIPSIS}"
    assert [one.text for one in found] == [
        *(cut + "x" * 120, "B", "y" * 120 + cut + "y" * 120, "C", "z" * 120 + cut)
    ]


@pytest.mark.slow
def test_examples_that_failed_are_listed_with_their_sentence() -> None:
    rows = [*rows_of("mlm", spans=((0, 1), (2, 3))), *rows_of("ag", spans=((0, 1), (2, 3)))]
    rows[3] = a_row(3, reason="KeyError: the text of C:\\secret", spans=((0, 1), (2, 3)))
    it = replace(a_report(a_run(rows)), texts={"snli": {"s0003": "a b c"}})
    root = read(page(it))
    ((_, *cells),) = tables(root, "Examples that failed: bert-base-cased, snli, random blanks")
    assert [[" ".join(cell.split()) for cell in row] for row in cells] == [
        ["s0003/randoma b c", "mlm", "KeyError"]
    ]


def test_texts_are_those_of_the_corpus_that_was_measured() -> None:
    it = a_report()
    corpus = gather("c", "c", [Occurrence("s0000", "a b c", "line 1")])
    with pytest.raises(StoreError, match="none of the corpora given is 'snli' as it was measured"):
        with_text(it, [corpus])
    run = it.runs[0]
    measured = replace(run.plan, corpus=replace(run.plan.corpus, digest=corpus.digest))
    it = replace(it, runs=(replace(run, plan=measured),))
    assert with_text(it, [corpus]).texts == {"snli": {"s0000": "a b c"}}


@pytest.mark.slow
def test_a_plan_with_the_size_of_its_support_has_a_frontier_to_scale() -> None:
    pytest.importorskip("matplotlib")
    names = ("mlm", "ag", "log-pool")
    every = tuple(LabelledMethod(name, {}) for name in names)
    run = a_run(list(rows_of(*names)), constructions=every, support_size=30_000)
    root = read(page(a_report(run)))
    check_self_contained(root)
    assert len(root.all("figcaption")) == 1
    ((_, *cells),) = tables(root, "Forward passes and P-NLL")
    assert [row[:2] for row in cells] == [["mlm", "1"], ["ag", "60,001"], ["log-pool", "60,001"]]
    by_name = {one.group.construction: one for one in a_report(run).summaries()}
    for name, _, nll in cells:
        assert nll.split()[0] == f"{math.log(by_name[name].pairwise_ppl.value):.3f}"


@pytest.mark.slow
def test_models_of_different_vocabularies_have_their_own_costs() -> None:
    every = tuple(LabelledMethod(name, {}) for name in ("mlm", "ag"))
    sizes = {"small": 100, "large": 30_000}
    runs = [
        a_run(list(rows_of("mlm", "ag", model=name)), constructions=every, support_size=size)
        for name, size in sizes.items()
    ]
    found = tables(read(page(a_report(*runs))), "Forward passes and P-NLL")
    assert [cells[2][:2] for cells in found] == [["ag", "201"], ["ag", "60,001"]]


def test_without_matplotlib_a_line_says_how_to_get_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    root = read(page(a_report()))
    assert not root.all("figure")
    assert WITHOUT in root.text
    assert len(tables(root, "NLL by token distance")) == 1


# --- where it comes from -----------------------------------------------------------------------


@pytest.mark.slow
def test_provenance_is_told(made) -> None:
    it, _, root = made
    said = root.text
    for run in it.runs:
        plan = run.plan
        for one in (plan.model.weights, plan.corpus.digest, plan.draw.digest, run.job.digest):
            assert one in said
    assert "torch 2.13.0+cpu, transformers 5.22.2" in said
    (when,) = {
        json.loads((run.folder / "_manifest-0-of-1.json").read_text())["updated"]
        for run in it.runs[:1]
    }
    assert when in said
    assert str(TABLE1) not in said


@pytest.mark.slow
def test_a_manifest_that_cannot_be_read_is_no_failure(tmp_path: Path) -> None:
    run = replace(a_run(list(rows_of())), folder=tmp_path)
    for place, text in enumerate(["{", "[]", '{"updated": 3}', '{"updated": "then"}']):
        (tmp_path / f"_manifest-{place}-of-4.json").write_text(text)
    terms = [one.text for one in read(page(a_report(run))).all("dd")]
    assert "then" in terms


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"support": ("a", "b c")},
        {"support": ("a",), "half_tables": True},
        {"constructions": (LabelledMethod("orders", {"mean": "geometric"}),)},
    ],
    ids=str,
)
def test_the_command_asks_for_the_plan(changes: dict[str, object]) -> None:
    plan = a_plan(**changes)
    plan = replace(plan, model=replace(plan.model, name="it's", revision="v1"))
    words = shlex.split(evaluate_command(plan))
    chosen = cli._parser().parse_args(words[1:])
    request = command.value(evaluate.EvaluateCommand, vars(chosen))._request()
    assert (request.model_name, request.corpus_name) == ("it's", "c")
    assert request.model.revision == "v1"
    assert (request.examples, request.seed) == (plan.draw.limit, plan.draw.seed)
    assert tuple(request.masks) == plan.draw.masks
    support = "vocabulary" if request.exact else request.support
    assert support == (plan.support if isinstance(plan.support, str) else list(plan.support))
    assert [
        LabelledMethod(name, request.options.get(name, {})) for name in request.methods
    ] == list(plan.constructions)
    assert request.settings.half_tables == plan.half_tables


def test_the_command_of_the_page_is_a_command() -> None:
    chosen = cli._parser().parse_args(shlex.split(report_command(a_report()))[1:])
    assert (chosen.runs, chosen.html, chosen.baseline) == (["run"], "FILE", "mlm")
    assert (chosen.resamples, chosen.seed) == (20, 0)


# --- the command -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_writes_a_page_beside_the_tables(tmp_path: Path, capsys) -> None:
    place = tmp_path / "out.html"
    assert (
        cli.main(["report", str(TABLE1 / "xsum"), "--resamples", "20", "--html", str(place)]) == 0
    )
    out, err = capsys.readouterr()
    assert out.startswith("Results")
    assert "wrote" in err
    text = place.read_text(encoding="utf-8")
    assert text == page(report([read_run(TABLE1 / "xsum")], resampling=QUICK))
    assert list(tmp_path.iterdir()) == [place]


REFUSED = {
    "folder": (["--html", "."], "cannot write '.': give a file in a folder that exists"),
    "missing": (["--html", "no/out.html"], "cannot write 'no/out.html': give a file"),
    "empty": (["--html", ""], "cannot write '': give a file in a folder"),
    "twice": (["--html", "x", "-o", "./x"], "--html and --output are two files"),
    "baseline": (
        ["--html", "x", "--baseline", "magic"],
        "no result row is of the baseline 'magic'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_line_and_leave_no_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, said = REFUSED[name]
    assert cli.main(["report", str(TABLE1 / "xsum"), "--resamples", "5", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


# --- the script, without a browser -------------------------------------------------------------

# as much of a browser as the script asks for: what it finds, and what it makes
BROWSER = """
const input = JSON.parse(require("fs").readFileSync(0, "utf8"));
class Fake {
  constructor() { Object.assign(this, { value: "", hidden: true, textContent: "", heard: {} });
    this.attributes = {}; this.dataset = {}; this.children = []; }
  addEventListener(what, act) { this.heard[what] = act; }
  setAttribute(name, value) { this.attributes[name] = value; }
  append(one) { this.children.push(one); }
  replaceChildren(...all) { this.children = all; }
  closest() { return this.head; }
}
const found = {};
const get = (selector) => (found[selector] ??= new Fake());
get("script").textContent = input.data;
const buttons = input.columns.map((column) => {
  const one = new Fake(); one.dataset.column = column; one.head = new Fake(); return one; });
const part = { querySelector: get, querySelectorAll: () => buttons };
globalThis.document = { querySelectorAll: () => [part], createElement: () => new Fake() };
(0, eval)(input.script);
const said = [];
for (const [what, value] of input.actions) {
  if (what === "sort") buttons[value].heard.click();
  else if (what === "all") get(".all").heard.click();
  else { get(what).value = value; get(what).heard.input(); }
  said.push({
    ids: get("tbody").children.map((row) => row.children[0].children[0].textContent),
    sentences: get("tbody").children.map((row) => row.children[0].children.slice(1)
      .flatMap((one) => one.children.map((piece) => piece.textContent)).join("")),
    cells: get("tbody").children.map((row) => row.children.slice(1).map((c) => c.textContent)),
    sort: buttons.map((one) => one.head.attributes["aria-sort"]),
    shown: get(".shown").textContent, all: !get(".all").hidden,
    controls: !get(".controls").hidden });
}
console.log(JSON.stringify(said));
"""


def played(text: str, actions: list[tuple[str, object]]) -> list[dict]:
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI"):
            pytest.fail("the page's script is tried with node, which is not here")
        pytest.skip("needs node")
    root = read(text)
    (part,) = filter(is_examples, root.all("div"))
    (script,) = (one.text for one in root.all("script") if not one.attributes)
    columns = [one.attributes["data-column"] for one in part.all("button")[1:]]
    given = {
        "data": part.all("script")[0].text,
        "script": script,
        "columns": columns,
        "actions": actions,
    }
    command = [node, "-e", BROWSER]
    done = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_the_script_sorts_filters_and_shows_all() -> None:
    rows = list(rows_of("mlm", "ag", count=250))
    rows[7] = a_row(7, positions=(2, 3), reason="Error: x")
    text = page(a_report(a_run(rows)))
    (values,) = data(read(text))
    # distance and J, then two numbers per construction
    column = 3
    up, down, every, kept, near = played(
        text,
        [("sort", column), ("sort", column), ("all", None), (".filter", "S000"), (".from", "3")],
    )
    numbers = dict(zip(values["ids"], values["numbers"][column - 1], strict=True))
    known = [one for one in numbers if numbers[one] is not None]
    missing = [one for one in numbers if numbers[one] is None]
    assert len(missing) == 1
    ascending = sorted(known, key=numbers.__getitem__)
    assert up["ids"] == ascending[:200]
    assert (up["sort"][column], set(up["sort"])) == ("ascending", {"ascending", "none"})
    descending = sorted(known, key=lambda one: -numbers[one])
    assert down["ids"] == descending[:200]
    assert down["sort"][column] == "descending"
    assert (down["all"], every["all"], down["controls"]) == (True, False, True)
    # what has no number comes last whatever the order
    assert every["ids"] == descending + missing
    assert every["cells"][0][column - 1] == f"{numbers[descending[0]]:.3f}"
    assert every["cells"][-1][column - 1] == ""
    assert every["shown"] == "250 of 250 examples are shown."
    assert sorted(kept["ids"]) == [one for one in values["ids"] if one.startswith("s000")]
    assert kept["shown"] == "10 of 250 examples are shown; 10 match."
    # these are all at distance 0
    assert near["ids"] == []


def test_the_script_shows_sentences_as_the_template_does() -> None:
    text = page(with_sentences("A \u202eman rides a <b>.", count=6, spans=((2, 6), (15, 18))))
    (part,) = filter(is_examples, read(text).all("div"))
    first = part.all("tbody")[0].all("tr")[0]
    (shown,) = played(text, [("sort", 0)])
    assert shown["sentences"][-1] == first.all("bdi")[1].text == "A \\u202eman rides a <b>."


def test_the_script_shows_what_python_shows() -> None:
    rows = [
        replace(row, example_id=f"{text}{i}", sentence_id="s")
        for text in [*NASTY, "\U000e0001", "\u00a0", "\u200d", "\ue000"]
        for i, row in enumerate(rows_of("mlm", count=2))
    ]
    text = page(a_report(a_run(rows)))
    (values,) = data(read(text))
    up, down = played(text, [(".filter", ""), ("sort", 0)])
    assert up["ids"] == [printable(one) for one in values["ids"]]
    assert down["ids"] == up["ids"][::-1]
    assert down["sort"][0] == "descending"
