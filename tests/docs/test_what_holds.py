"""The page of verdicts, and what README counts of it, are those of the published rows."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "runs"))

import marked_page  # noqa: E402
import what_holds  # noqa: E402
from table1_here_report import CLAIMS  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def every() -> list[what_holds.Setting]:
    return what_holds.settings()


def words(path: Path) -> str:
    return " ".join(path.read_text(encoding="utf-8").split())


def test_the_tables_are_those_of_the_rows(every: list[what_holds.Setting]) -> None:
    files = marked_page.made(what_holds.PAGE, what_holds.blocks(every), what_holds.tables(every))
    assert marked_page.stale(files) == []


def test_the_verdict_counts_findings_as_they_are(every: list[what_holds.Setting]) -> None:
    by = {(one.group.model, one.run, one.group.mask): one for one in every}
    contiguous, random = (by["caption-bert", "snli", mask] for mask in ("contiguous", "random"))
    distil = by["english-distil", "snli-dev", "contiguous"]
    assert [what_holds.pairs(one) for one in (contiguous, random, distil)] == [250, 250, 20]
    yes, no = (what_holds.counts(one)["yes"] for one in (contiguous, random))
    held, open_ = (what_holds.counts(distil)[word] for word in ("yes", "undecided"))
    page = words(what_holds.PAGE)
    assert (
        f"{yes} of {len(CLAIMS)} findings hold between contiguous blanks and {no} between" in page
    )
    assert f"{held} findings hold and {open_} are undecided" in page
    readme = words(ROOT / "README.md")
    assert f"{yes} of the paper's {len(CLAIMS)} findings hold between contiguous blanks" in readme
    assert f"and {no} between random ones" in readme
    assert f"{held} hold, {open_} are undecided" in readme


def test_hcb_is_better_than_two_guesses_where_the_page_says_so(
    every: list[what_holds.Setting],
) -> None:
    (claim,) = (one for one in CLAIMS if one.text == "MLM is better than HCB")
    _, interval = what_holds.verdict(claim, every[0])
    assert f"with caption-bert it is better by {interval[1:5]}" in words(what_holds.PAGE)
