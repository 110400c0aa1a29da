"""The README's figures are those of the published rows.

What its blocks print is for tests/docs/test_shown_outputs.py.
"""

import re
import sys
from pathlib import Path

import pytest

from unmask.evaluation.run import read_run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORDS = " ".join(README.split())
TABLE1 = ROOT / "docs" / "results" / "table1-caption-bert"
RESULTS = ROOT / "docs" / "results"
sys.path.insert(0, str(ROOT / "runs"))

import table1_here_report as table1  # noqa: E402

ROW = re.compile(
    r"^\| ([\w-]+) \| (SNLI|XSum) test, (\w+) \| (\d+) \| (.*) \| (.*) \|$", re.MULTILINE
)


@pytest.mark.slow
def test_the_differences_are_those_of_the_rows() -> None:
    shown = ROW.findall(README)
    assert len(shown) == 4
    for model, corpus, mask, count, guesses, orders in shown:
        run = read_run(RESULTS / f"table1-{model}" / corpus.lower())
        (by,) = [by for group, by in table1.settings(run.rows).items() if group.mask == mask]
        assert len(by["mlm"]) == int(count)
        for said, name in ((guesses, "mlm"), (orders, "orders")):
            found = table1.less(by[name], by["log-pool"], "pairwise_nll")
            assert said == f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


@pytest.mark.slow
def test_the_papers_joint_is_as_the_readme_says() -> None:
    run = read_run(TABLE1 / "xsum")
    (by,) = table1.settings(run.rows).values()
    means = {name: sum(row.metric("pairwise_nll") for row in rows) for name, rows in by.items()}
    assert min(means, key=lambda name: means[name]) == "ag"
    assert table1.less(by["orders"], by["ag"], "pairwise_nll").low > 0
    assert table1.less(by["log-pool"], by["ag"], "gold_kl").high < 0
    lead = table1.less(by["log-pool"], by["ag"], "pairwise_nll")
    assert (
        f"P-NLL is {lead.value:.3f} lower [{lead.low:+.3f}, {lead.high:+.3f}], undecided" in WORDS
    )
    assert f"with {len(by['mlm'])} pairs" in WORDS
    contiguous, random = (
        table1.less(by["log-pool"], by["ag"], "pairwise_nll")
        for _, by in sorted(table1.settings(read_run(TABLE1 / "snli").rows).items())
    )
    assert contiguous.low < 0 < contiguous.high
    assert random.high < 0
    ratios = []
    for corpus in ("snli", "xsum"):
        for some in table1.settings(read_run(TABLE1 / corpus).rows).values():
            pool, paper = (
                sum(row.metric("all_kl") for row in some[name]) for name in ("log-pool", "ag")
            )
            ratios.append(pool / paper)
    assert f"{min(ratios):.0f} to {max(ratios):.0f} times lower" in WORDS
    chinese = read_run(RESULTS / "other-languages" / "albert-tiny-chinese" / "debian-reference")
    (by,) = table1.settings(chinese.rows).values()
    found = table1.less(by["log-pool"], by["ag"], "pairwise_nll")
    assert f"ahead by {found.value:.3f} [{found.low:.3f}, {found.high:.3f}]" in WORDS
    assert f"On {len(by['mlm'])} pairs of" in WORDS


def test_the_picture_has_the_numbers_that_the_blocks_print() -> None:
    """Its cells and its J, as runs/joint_figure.py drew them: one run, one set of numbers."""
    svg = (ROOT / "docs" / "figures" / "two-blanks.svg").read_text(encoding="utf-8")
    texts = re.findall(r"<!-- (.*?) -->", svg)
    ranked = re.findall(r"^\d +(\S+) +(\S+) +([\d.]+) +(\S+) +(\S+) +([\d.]+) \+-", README, re.M)
    assert len(ranked) == 4
    for row in ranked:
        for probability in (row[2], row[5]):
            assert f"{100 * float(probability):.1f}" in texts, row
    (bits,) = re.findall(r"^J = ([\d.]+) \+-", README, re.MULTILINE)
    assert any(text.startswith(f"J = {bits} bits") for text in texts)


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)\s#]+)", README)
    files = [target for target in targets if not target.startswith("https://")]
    assert [name for name in files if not (ROOT / name).exists()] == []
