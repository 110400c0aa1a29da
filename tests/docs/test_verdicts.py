"""Numbers in sentences of README and of the page of verdicts are those of published rows.

tests/docs/test_readme.py and test_what_holds.py hold the tables and the counts of findings.
"""

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from reading_pages import DOCS, ROOT
from scipy.stats import spearmanr

import unmask
from unmask.evaluation.reports.paper import TABLE, Entry

RESULTS = DOCS / "results"


def words(page: Path) -> str:
    return " ".join(page.read_text(encoding="utf-8").split())


README = words(ROOT / "README.md")
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
