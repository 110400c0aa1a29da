"""The pages of measured figures are what their scripts make of the published rows."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
sys.path[:0] = [str(ROOT / "runs"), str(ROOT / "benchmarks")]

import better_joints_report as report  # noqa: E402
import pages  # noqa: E402


def rows(name: str) -> list[report.Row]:
    return report.read([RESULTS / name])


@pytest.mark.slow
def test_the_page_is_made_of_its_rows() -> None:
    made = "\n".join(report.page(rows("better-joints.jsonl"), rows("pseudo-counts.jsonl")))
    page = (RESULTS / "better-joints.md").read_text(encoding="utf-8")
    # the last line names versions
    assert made.splitlines()[:-1] == page.splitlines()[:-1]


def test_the_guide_has_the_same_figures() -> None:
    guide = (ROOT / "docs" / "concepts" / "which-joint.md").read_text(encoding="utf-8")
    assert report.with_figures(guide, rows("better-joints.jsonl")) == guide


def test_rows_carry_ids_and_no_text() -> None:
    for name in ("better-joints.jsonl", "pseudo-counts.jsonl"):
        for line in (RESULTS / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            assert row["id"].endswith(("/premise", "/hypothesis"))
            strings = [value for value in row.values() if isinstance(value, str)]
            assert strings == [row["id"], row["mask"]]


def test_enough_examples_were_measured() -> None:
    measured = rows("better-joints.jsonl")
    for mask in ("contiguous", "random"):
        ids = [row["id"] for row in measured if row["mask"] == mask]
        assert len(ids) == len(set(ids)) >= 100


@pytest.mark.parametrize("name", list(pages.PAGES))
def test_pages_of_benchmarks_are_made_of_what_they_printed(name: str) -> None:
    assert (RESULTS / f"{name}.md").read_text(encoding="utf-8") == pages.made(name)


def test_the_solvers_arrive_as_soon_as_is_claimed() -> None:
    found = json.loads((RESULTS / "solver.json").read_text(encoding="utf-8"))
    forest = found["arnold_gokhale"]["forest"]
    assert forest["median"] <= 30
    assert max(forest["passes"]) <= 60
    assert len(found["ids"]) == len(set(found["ids"])) == 50
