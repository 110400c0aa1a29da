"""The page about the paper has its Table 1 and appendix B."""

import paper_tables
import pytest
import snippets
from reading_pages import ROOT

PAGE = ROOT / "docs" / "concepts" / "the-paper.md"


def test_the_table_is_that_of_the_script() -> None:
    assert paper_tables.with_table() == PAGE.read_text(encoding="utf-8")


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
    exec(compile(snippets.python(PAGE), PAGE.name, "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out.replace("-0.00", "0.00").splitlines()
    assert printed == ["mrf      1.27", "hcb      0.00", "ag       0.00", "log-pool 0.00"]
