"""Published pages are what the scripts in runs/ make of published rows."""

import json
import re

import appendix_d
import consistency
import dependence_report
import elbo as elbo_run
import marked_page
import paper_tables
import pivots_report
import pyarrow.parquet as pq
import pytest
import snippets
import unmasking as unmasking_run
from reading_pages import ROOT, check_sentences
from toy_lm import toy

import unmask

VERDICTS = ROOT / "docs" / "results" / "replication.md"


# the casino


def test_the_published_casino_is_made_of_its_figures() -> None:
    folder = ROOT / "docs" / "results"
    found = json.loads((folder / "appendix-d.json").read_text(encoding="utf-8"))
    tables = {"casino": appendix_d.table(found)}
    assert marked_page.stale(marked_page.made(VERDICTS, {}, tables)) == []
    assert "/" not in found["model"]


# the pivot


@pytest.mark.slow
def test_published_pivots_are_made_of_rows_without_text() -> None:
    folder = ROOT / "docs" / "results"
    rows = pivots_report.read(folder / "pivots.jsonl")
    joints = pivots_report.read(folder / "better-joints.jsonl")
    tables = pivots_report.tables(rows, joints)
    assert marked_page.stale(marked_page.made(VERDICTS, {}, tables)) == []
    for row in rows:
        assert row["id"] == f"{row['sentence']}/{row['mask']}"
        strings = {key for key, value in row.items() if isinstance(value, str)}
        assert strings == {"id", "sentence", "mask", "model"}
    # the paper's pivot is what the other page has for `hcb`
    known = {(row["id"], row["mask"]): row["metrics"]["hcb"] for row in joints}
    for row in rows:
        assert row["metrics"]["0"]["likeliest"] == pytest.approx(
            known[row["sentence"], row["mask"]], abs=1e-4
        )


# dependence


@pytest.mark.slow
def test_the_page_of_dependence_is_made_of_rows_without_text() -> None:
    folder = ROOT / "docs" / "results"
    tables = dependence_report.tables(folder / "dependence")
    page = folder / "dependence.md"
    made = marked_page.made(page, dependence_report.blocks(tables), tables)
    assert marked_page.stale(made) == []
    for name, count in (("trees", 300), ("exact", 100), ("together", 200)):
        rows = dependence_report.read(folder / "dependence" / f"{name}.jsonl")
        assert len({row["id"] for row in rows}) == len(rows) == count
        strings = {key for row in rows for key, value in row.items() if isinstance(value, str)}
        assert strings <= {"id", "lie", "mask", "model"}


# log-probabilities of whole texts


@pytest.mark.slow
def test_published_log_probabilities_are_made_of_rows_without_text() -> None:
    folder = ROOT / "docs" / "results"
    record = json.loads((folder / "unmasking.json").read_text(encoding="utf-8"))
    tables, page = unmasking_run.tables(record), folder / "texts.md"
    made = marked_page.made(page, {}, tables, unmasking_run.PREFIX)
    assert marked_page.stale(made) == []
    text = " ".join(page.read_text(encoding="utf-8").split())
    values = [line.split(" | ")[2].split(" [")[0] for line in tables["unmasking"][2:]]
    assert len(values) == 4
    assert all(value in text.split("## Orders of")[1] for value in values)
    for row in record["sentences"]:
        assert set(row) == {"id", "tokens", "unknown_tokens", "scores"}
        assert re.fullmatch("[0-9a-f]{12}", row["id"])


# verdicts by a noisy bound


@pytest.mark.slow
def test_what_is_measured_is_what_the_library_gives() -> None:
    lm = toy(3, 4, seed=1, noise=0.7)
    good, bad = "t0 t1 t2 t2", "t0 t1 t1 t2"
    (row,) = elbo_run.piece(lm, [{"id": "p/0", "sentence_good": good, "sentence_bad": bad}], 1)
    assert set(row) == {"id", "tokens", "unmasking", "elbo"}
    assert set(row["elbo"]) == {elbo_run.EQUAL, *map(str, elbo_run.COUNTS)}
    quiet = unmask.Settings(progress=False)
    for draws in elbo_run.COUNTS:
        for seed in elbo_run.SEEDS:
            how = {"method": "elbo", "draws": draws, "seed": seed, "settings": quiet}
            (ratio,) = lm.log_ratios([(good, bad)], **how)
            assert row["elbo"][str(draws)][seed] == pytest.approx(ratio.log_ratio, abs=2e-5)


@pytest.mark.slow
def test_published_verdicts_are_made_of_rows_without_text() -> None:
    folder = ROOT / "docs" / "results"
    record = json.loads((folder / "elbo.json").read_text(encoding="utf-8"))
    files = marked_page.made(elbo_run.PAGE, {}, elbo_run.tables(record), elbo_run.PREFIX)
    assert marked_page.stale(files) == []
    # chances are stated; the other numbers of the page are of BLiMP and of the harness
    beside = [path for kind in ("blimp", "harness") for path in folder.glob(f"tables/{kind}-*.csv")]
    check_sentences(files | {path: path.read_text("utf-8") for path in beside}, {"0.5", "0.25"})
    for row in (row for rows in record["models"].values() for row in rows):
        assert set(row) == {"id", "tokens", "unmasking", "elbo"}
        assert re.fullmatch("[A-Za-z0-9_]+/[0-9]+", row["id"])


# consistency


@pytest.mark.slow
def test_the_page_of_consistency_is_made_of_rows_without_text() -> None:
    files = consistency.files()
    assert marked_page.stale(files) == []
    check_sentences(files)
    for path in consistency.ROWS.glob("*.parquet"):
        names = pq.read_schema(path).names
        assert not {"text", "contrast"} & set(names)
        if path.stem in consistency.FOREIGN:
            assert not {"first_token", "second_token"} & set(names)


# the page about the paper

PAPER = ROOT / "docs" / "concepts" / "the-paper.md"


def test_the_table_is_that_of_the_script() -> None:
    assert paper_tables.with_table() == PAPER.read_text(encoding="utf-8")


def test_table_1_has_the_papers_five_rows() -> None:
    head, _, *rows = paper_tables.table1()
    assert len(rows) == 5
    assert all(row.count("|") == head.count("|") for row in rows)
    # cells of the paper, as they are printed there
    assert rows[1].startswith("| MRF_L | 71.44 | 9.12 | 76.23 | 7.06 | 13568.17 | 2209.94 |")
    assert rows[4].startswith("| AG | 12.68 | ")


def test_the_script_sets_what_the_page_says() -> None:
    script = (ROOT / "runs" / "table1.sh").read_text(encoding="utf-8")
    assert '"${MEMORY_LIMIT:-20GB}"' in script
    assert '"${DTYPE:-float32}"' in script


def test_appendix_b_prints_the_papers_divergence(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(snippets.python(PAPER), PAPER.name, "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out.replace("-0.00", "0.00").splitlines()
    assert printed == ["mrf      1.27", "hcb      0.00", "ag       0.00", "log-pool 0.00"]
