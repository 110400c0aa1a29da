"""Tables say what was measured, and no name in them does anything."""

import csv
import io
import math
import re
from dataclasses import asdict, replace

import pytest
from evaluation_rows import HOSTILE, a_row
from plans import MODEL, a_plan, a_run

from unmask import markup
from unmask.evaluation.reports.rendering import comma_separated, latex, markdown, text
from unmask.evaluation.reports.reporting import report
from unmask.evaluation.reports.summary import (
    by_distance,
    differences,
    summarise,
)
from unmask.evaluation.reports.tables import (
    ReportTable,
    report_table,
)
from unmask.evaluation.rows import ResultRow
from unmask.resampling import FEWEST, Resampling

QUICK = Resampling(resamples=200)
RENDERERS = [text, markdown, latex, comma_separated]
# a bar that no backslash escapes ends a Markdown cell
BARE_BAR = re.compile(r"(?<!\\)(?:\\\\)*\|")


def rows(count: int = 10, **changes: object) -> list[ResultRow]:
    return [
        a_row(place, construction=name, pairwise_nll=2.0 + shift + place / 10, **changes)
        for name, shift in (("mlm", 0.0), ("ag", -0.3))
        for place in range(count)
    ]


def tables(found: list[ResultRow]) -> list[ReportTable]:
    return [
        report_table("results", summarise(found, QUICK)),
        report_table("differences", differences(found, resampling=QUICK)),
        report_table("distance-differences", by_distance(found, QUICK)),
    ]


def hostile_tables(name: str) -> list[ReportTable]:
    """The name everywhere a name can be: in every setting, alone and beside others."""
    inside = dict.fromkeys(["corpus", "mask", "model", "support"], name)
    extra = [a_row(place, construction=name) for place in range(10)]
    return tables(rows(**inside)) + tables(rows() + extra + rows(model=name))


def test_differences_that_leave_out_zero_are_marked() -> None:
    table = report_table("differences", differences(rows(FEWEST), resampling=QUICK))
    assert "-0.300 [-0.300, -0.300] *" in text(table)
    assert "| **-0.300 [-0.300, -0.300]** | +0.000 [+0.000, +0.000] |" in markdown(table)
    assert r"\textbf{$-$0.300 [$-$0.300, $-$0.300]} & +0.000" in latex(table)
    few = report_table("differences", differences(rows(FEWEST - 1), resampling=QUICK))
    assert "-0.300 [-0.300, -0.300] *" not in text(few)


def test_csv_has_every_column_at_full_precision() -> None:
    (line, *_) = csv.DictReader(
        io.StringIO(comma_separated(report_table("results", summarise(rows(), QUICK))))
    )
    assert (line["corpus"], line["model"]) == ("snli", "bert-base-cased")
    (found, *_) = summarise(rows(), QUICK)
    for part, value in asdict(found["pairwise_ppl"]).items():
        assert float(line["P-PPL" if part == "value" else f"P-PPL {part}"]) == value
    assert float(line["P-PPL, paper"]) == 19.01


@pytest.mark.parametrize("render", RENDERERS)
def test_an_empty_table_can_be_written(render) -> None:
    assert render(report_table("results", [])).endswith("\n")


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("name", HOSTILE)
def test_no_control_character_comes_through(name: str, render) -> None:
    for table in hostile_tables(name):
        assert all(ch.isprintable() or ch == "\n" for ch in render(table))


@pytest.mark.parametrize("render", RENDERERS)
def test_names_in_notes_are_escaped(render) -> None:
    run = a_run(a_plan(model=replace(MODEL, name="\x1b[31mred")), rows(2))
    table = report([run], resampling=QUICK).tables(["results"])[0]
    assert any("\x1b[31mred on c" in note for note in table.notes)
    assert "\x1b" not in render(table)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_add_neither_lines_nor_columns_to_markdown(name: str) -> None:
    for table in hostile_tables(name):
        shown = table.compact()
        lines = markdown(table).split("\n\n")[2].splitlines()
        assert len(lines) == 2 + len(shown.rows)
        assert {len(BARE_BAR.findall(line)) for line in lines} == {len(shown.columns) + 1}
        assert not re.search(r"<|(?<!\\)`", markdown(table))


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_no_latex(name: str) -> None:
    for table in hostile_tables(name):
        body = latex(table).split(r"\toprule")[1].split(r"\bottomrule")[0]
        lines = body.replace("\\midrule\n", "").strip().splitlines()
        width = len(table.compact().columns)
        assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {width - 1}
        assert not any(line.startswith(("[", "*")) for line in lines)
        # after what our own escapes use, no command, comment or open brace is left
        safe = re.sub(r"\\(text[a-z]+\b|[{}$&#%_]|\\$)", "", body, flags=re.MULTILINE)
        assert not re.search(r"\\(?!midrule)|[%#~^_]", safe)
        assert safe.count("{") == safe.count("}")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_no_formulas_in_csv(name: str) -> None:
    for table in hostile_tables(name):
        lines = list(csv.reader(io.StringIO(comma_separated(table))))
        assert len(lines) == 1 + len(table.rows)
        assert len({len(line) for line in lines}) == 1
        for cell in (cell for line in lines for cell in line):
            assert not cell.startswith(tuple("=+-@\t\r")) or math.isfinite(float(cell))


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("=cmd()", "'=cmd()"),
        (" =cmd()", "' =cmd()"),
        ("-1e-3", "-1e-3"),
        ("+5", "+5"),
        ("-", "'-"),
        ("-1+cmd()", "'-1+cmd()"),
        ("-٣", "'-٣"),
        ("\t=x", "'\\t=x"),
        ("＝x", "'＝x"),
        ("a=b", "a=b"),
    ],
)
def test_csv_formulas_get_a_quote_and_numbers_do_not(given: str, made: str) -> None:
    assert markup.csv(given) == made


@pytest.mark.parametrize(
    ("given", "in_markdown", "in_latex"),
    [
        ("a|b", r"a\|b", r"a\textbar{}b"),
        ("\\|", r"\\\|", r"\textbackslash{}\textbar{}"),
        ("<b>&", "&lt;b&gt;&amp;", r"\textless{}b\textgreater{}\&"),
        ("x\ny", r"x\\ny", r"x\textbackslash{}ny"),
        ("[x]_1", r"\[x\]\_1", r"{[}x{]}\_1"),
        ("log-pool", "log-pool", "log-pool"),
    ],
)
def test_escapes_are_those_of_the_format(given: str, in_markdown: str, in_latex: str) -> None:
    assert markup.markdown(given) == in_markdown
    assert markup.latex(given) == in_latex


def test_one_document_explains_terms_and_notes_once() -> None:
    run = a_run(a_plan(), rows())
    document = report([run], resampling=QUICK).tables(
        ["results", "differences", "distance-differences"]
    )
    for kind in ("terms", "notes"):
        explained = [one for table in document for one in getattr(table, kind)]
        assert len(explained) == len(set(explained)) > 2
