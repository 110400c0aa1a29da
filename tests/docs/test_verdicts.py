"""Numbers in sentences of README and of the pages of verdicts are those of published rows.

What blocks of the README print is for test_shown_outputs.py.
"""

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import marked_page
import pytest
import table1_here_report as table1
import what_holds
from reading_pages import DOCS, ROOT, text_of
from scipy.stats import spearmanr
from table1_here_report import CLAIMS

import unmask
from unmask.evaluation.reports.paper import TABLE, Entry
from unmask.evaluation.run import read_run

RESULTS = DOCS / "results"
TABLE1 = RESULTS / "table1-caption-bert"


def words(page: Path) -> str:
    return " ".join(page.read_text(encoding="utf-8").split())


LINES = text_of(ROOT / "README.md")
README = " ".join(LINES.split())
VERDICTS = words(RESULTS / "replication.md")


def table(name: str) -> list[dict[str, str]]:
    with (RESULTS / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def worse_than_two_guesses(mask: str) -> list[float]:
    """HCB minus MLM in the paper's four settings, in nats per token."""
    return [
        math.log(TABLE[Entry(corpus, mask, model, "hcb", "pairwise_ppl")])
        - math.log(TABLE[Entry(corpus, mask, model, "mlm", "pairwise_ppl")])
        for model in ("bert-base-cased", "bert-large-cased")
        for corpus in ("snli", "xsum")
    ]


def test_how_far_hcb_is_from_two_guesses_in_the_paper() -> None:
    contiguous, random = (sorted(worse_than_two_guesses(mask)) for mask in ("contiguous", "random"))
    assert f"worse by {contiguous[0]:.2f} to {contiguous[-1]:.2f} nats per token" in VERDICTS
    page = words(RESULTS / "which-joint.md")
    assert f"by {contiguous[0]:.2f} to {contiguous[-1]:.2f} nats per token" in page
    assert f"differs by {random[0]:+.2f} to {random[-1]:+.2f}." in page


def test_what_hcb_loses() -> None:
    *rows, _ = table("table1-what-hcb-loses")
    moved, lost = (
        [float(row[name]) for row in rows] for name in ("A-KL of mlm", "hcb minus ag, P-NLL")
    )
    assert f"Over {len(rows)} settings" in VERDICTS
    assert f"with HCB's loss against AG is {spearmanr(moved, lost).statistic:.2f}" in VERDICTS
    (row, *_) = table("replication-hcb-contexts-contiguous")
    more = float(row["the vocabulary minus K = 4,096"])
    assert f"add only {more:.2f} nats to HCB's loss ({row['pairs']} pairs" in VERDICTS


def test_the_pivot() -> None:
    rows = table("replication-pivots")
    low, high = sorted(float(row["moved within an example"]) for row in rows)
    assert VERDICTS.count(f"move by {low:.1f} to {high:.1f} nats") == 2
    assert {row["better"] for row in rows} == {"none"}
    (count,) = {row["examples"] for row in rows}
    assert f"{count} exact pairs of SNLI test per kind" in VERDICTS
    assert f"caption-bert, {sum(int(row['examples']) for row in rows)} pairs:" in VERDICTS


def test_the_casino() -> None:
    content = json.loads((RESULTS / "appendix-d.json").read_text(encoding="utf-8"))
    text = content["texts"][0]
    first, second, third, fourth = (one["probability"] for one in text["conditionals"])
    ratio = first * second / (third * fourth)
    assert f'"man is" is {ratio:.0f} times likelier' in VERDICTS
    (paper,) = {
        (float(a["paper, about"]) * float(b["paper, about"]))
        / (float(c["paper, about"]) * float(d["paper, about"]))
        for c, d, a, b in [table("replication-casino")[:4]]
    }
    assert f'"man was" {paper:,.0f} times likelier' in VERDICTS
    masses = text["masses"]
    share = masses["mrf"]["man is"] / masses["mlm"]["man is"]
    assert f'`mrf` gives "man is" {share:.2f} times the mass that two guesses give it' in VERDICTS
    assert text["likeliest"]["mrf"] == ["United", "States"]


def passes(vocabulary: int) -> str:
    return f"{2 * vocabulary + 1:,}"


def test_passes_of_exact_joints() -> None:
    assert f"({passes(8192)} passes; {passes(28996)} for BERT-base)" in README


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
def test_the_exact_numbers_beside_the_estimate() -> None:
    lm: Any = unmask.load(ROOT / "models" / "tiny-english")
    joint = lm.joint("The [MASK] [MASK] at the casino.", support="vocabulary")
    likeliest = math.exp(joint.log_prob("people", "are"))
    assert f'"people are" is exactly {likeliest:.3f}' in README
    bits, nats = joint.incompatibility(), joint.mutual_information()
    assert f"J {bits:.3f} bits, the mutual information {nats:.2f} nats" in README
    apart = lm.joint("The [MASK] [MASK] at the casino.", method="mlm")
    for one, percents in ((apart, '"man are" 5% and "man is" 6%'), (joint, "0.1% and 11%")):
        shares = [100 * math.exp(one.log_prob("man", verb)) for verb in ("are", "is")]
        assert shares == pytest.approx(
            [float(n) for n in re.findall(r"([\d.]+)%", percents)], rel=0.2
        )
        assert percents in README


# --- the README -------------------------------------------------------------------------------

ROW = re.compile(
    r"^\| ([\w-]+) \| (SNLI|XSum) test, (\w+) \| (\d+) \| (.*) \| (.*) \|$", re.MULTILINE
)


@pytest.mark.slow
def test_the_differences_are_those_of_the_rows() -> None:
    shown = ROW.findall(LINES)
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
        f"P-NLL is {lead.value:.3f} lower [{lead.low:+.3f}, {lead.high:+.3f}], undecided" in README
    )
    assert f"with {len(by['mlm'])} pairs" in README
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
    assert f"{min(ratios):.0f} to {max(ratios):.0f} times lower" in README
    chinese = read_run(RESULTS / "other-languages" / "albert-tiny-chinese" / "debian-reference")
    (by,) = table1.settings(chinese.rows).values()
    found = table1.less(by["log-pool"], by["ag"], "pairwise_nll")
    assert f"ahead by {found.value:.3f} [{found.low:.3f}, {found.high:.3f}]" in README
    assert f"On {len(by['mlm'])} pairs of" in README


def test_the_picture_has_the_numbers_that_the_blocks_print() -> None:
    """Its cells and its J, as runs/joint_figure.py drew them: one run, one set of numbers."""
    svg = (ROOT / "docs" / "figures" / "two-blanks.svg").read_text(encoding="utf-8")
    texts = re.findall(r"<!-- (.*?) -->", svg)
    ranked = re.findall(r"^\d +(\S+) +(\S+) +([\d.]+) +(\S+) +(\S+) +([\d.]+) \+-", LINES, re.M)
    assert len(ranked) == 4
    for row in ranked:
        for probability in (row[2], row[5]):
            assert f"{100 * float(probability):.1f}" in texts, row
    (bits,) = re.findall(r"^J = ([\d.]+) \+-", LINES, re.MULTILINE)
    assert any(text.startswith(f"J = {bits} bits") for text in texts)


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)\s#]+)", LINES)
    files = [target for target in targets if not target.startswith("https://")]
    assert [name for name in files if not (ROOT / name).exists()] == []


# --- findings of the paper ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def every() -> list[what_holds.Setting]:
    return what_holds.settings()


@pytest.mark.slow
def test_the_tables_are_those_of_the_rows(every: list[what_holds.Setting]) -> None:
    files = marked_page.made(what_holds.PAGE, what_holds.blocks(every), what_holds.tables(every))
    assert marked_page.stale(files) == []


@pytest.mark.slow
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
    assert f"{yes} of the paper's {len(CLAIMS)} findings hold between contiguous blanks" in README
    assert f"and {no} between random ones" in README
    assert f"{held} hold, {open_} are undecided" in README


@pytest.mark.slow
def test_hcb_is_better_than_two_guesses_where_the_page_says_so(
    every: list[what_holds.Setting],
) -> None:
    (claim,) = (one for one in CLAIMS if one.text == "MLM is better than HCB")
    _, interval = what_holds.verdict(claim, every[0])
    assert f"with caption-bert it is better by {interval[1:5]}" in words(what_holds.PAGE)
