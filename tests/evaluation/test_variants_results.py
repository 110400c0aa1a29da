"""The page of variants: its rows are what the library says, and its figures those of its rows."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from assets import real_data
from pairwise_lm import LETTERS, pairwise_lm

import unmask
from unmask.names import DEFAULT_VARIANT_METHOD

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
FOLDER = RESULTS / "variants"
sys.path.insert(0, str(ROOT / "runs"))

import marked_page  # noqa: E402
import variants  # noqa: E402
import variants_report  # noqa: E402

QUIET = unmask.Settings(progress=False, announce=False)
SEQUENCE = "ACDEFGHIKL"
POSITIONS = [1, 3, 4, 8]
ABOUT = {
    "germline": SEQUENCE,
    "positions": POSITIONS,
    "germline_residues": "".join(SEQUENCE[p - 1] for p in POSITIONS),
    "somatic_residues": "".join(LETTERS[(p + 6) % 20] for p in POSITIONS),
}
MUTATIONS = [
    f"{old}{place}{new}"
    for old, place, new in zip(
        ABOUT["germline_residues"], POSITIONS, ABOUT["somatic_residues"], strict=True
    )
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Path:
    lm, _ = pairwise_lm(10, noise=0.5)
    place = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    landscape = variants.Landscape(lm, ABOUT, QUIET)
    every = list(dict.fromkeys(variants.contexts("cr6261", 4, 0)))
    with place.open("a", encoding="utf-8") as file:
        variants.write(landscape, every, file)
    return place


def test_every_context_is_read_once(rows):
    lines = rows.read_text("utf-8").splitlines()
    # a mask at each of four places in every context, every variant, every set of two or more masks
    assert len(lines) == 4 * 2**3 + 2**4 + (2**4 - 1 - 4)


@pytest.mark.slow
def test_scores_are_those_of_the_library(rows):
    found, bits = variants_report.scores(variants_report.read(rows))
    lm, _ = pairwise_lm(10, noise=0.5)
    joints = [*variants_report.JOINTS, "hcb-path"]
    expected = lm.landscape(SEQUENCE, MUTATIONS, methods=joints, settings=QUIET)
    assert bits == pytest.approx(expected.incompatibility, abs=1e-5)
    for variant, values in found.items():
        cell = tuple(map(int, variant))
        for name in joints:
            assert values[name] == pytest.approx(float(expected.of(name)[cell]), abs=1e-3), name
    names = {
        variant: ":".join(m for m, bit in zip(MUTATIONS, variant, strict=True) if bit == "1")
        for variant in found
        if "1" in variant
    }
    for method in ("wt-marginals", "mutant-marginals", "masked-marginals", "single-mask-marginals"):
        scored = lm.variants(SEQUENCE, names.values(), method=method)
        for variant, one in zip(names, scored, strict=True):
            assert found[variant][method] == pytest.approx(one.score, abs=1e-3), method
    # all that pairs know of two mutations is how they interact in the wild type
    double = {variant: name for variant, name in names.items() if variant.count("1") == 2}
    scored = lm.variants(SEQUENCE, double.values(), method="hcb-path")
    for variant, one in zip(double, scored, strict=True):
        assert found[variant]["pairs"] == pytest.approx(one.score, abs=1e-3)


@pytest.mark.slow
def test_draws_are_the_same_every_time_and_hold_the_near_variants():
    drawn = variants.drawn(16, 5000)
    assert drawn == variants.drawn(16, 5000)
    assert len(drawn) == len(set(drawn)) == 5000
    assert sum(one.count("1") <= 2 for one in drawn[:137]) == 137


# --- what is published -------------------------------------------------------------------------


def test_the_tables_of_the_page_are_those_of_its_summary():
    page, given = (
        RESULTS / "variants.md",
        (variants_report.blocks(FOLDER), variants_report.tables(FOLDER)),
    )
    assert marked_page.stale(marked_page.made(page, *given)) == []


def test_the_default_ranks_no_worse_than_the_joints():
    """Of all joints and measurements only `mrf` is ahead, once; `log-pool` is behind everywhere."""
    found = json.loads((FOLDER / "summary.json").read_text("utf-8"))
    gaps = {
        (column, row["method"]): row
        for column, metrics in found["cr6261"]["measured"].items()
        for row in metrics["all"]
        if row["metric"] == "spearman"
    }
    assert DEFAULT_VARIANT_METHOD == variants_report.BASELINE
    joints = (*variants_report.JOINTS, "hcb-path")
    ahead = [key for key, row in gaps.items() if key[1] in joints and row["difference_low"] > 0]
    behind = [row for key, row in gaps.items() if key[1] == "log-pool"]
    assert ahead == [("h9_log_kd", "mrf")]
    assert len(behind) == 3
    assert all(row["difference_high"] < 0 for row in behind)
    low, high = sorted(round(-row["difference"], 2) for row in behind)[::2]
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"was lower by {low:.2f} to {high:.2f}" in readme


def test_published_scores_are_of_bits_and_numbers():
    for name, bits, least in (("cr6261", 11, 2**11), ("cr9114", 16, 5000)):
        with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            found = list(csv.DictReader(file))
        ids = [row.pop("variant") for row in found]
        assert len(ids) == len(set(ids)) >= least
        assert all(len(one) == bits and set(one) <= {"0", "1"} for one in ids)
        assert all(np.isfinite(float(value)) for row in found for value in row.values())
        assert (FOLDER / f"{name}.csv").stat().st_size < 400_000


@pytest.mark.slow
@pytest.mark.assets("measured landscapes of antibodies")
@pytest.mark.long
def test_the_summary_is_that_of_scores_and_measurements():
    published = json.loads((FOLDER / "summary.json").read_text("utf-8"))
    # intervals take minutes
    found = variants_report.summary(FOLDER, real_data("antibody/cr6261.csv").parent, resamples=2)
    for landscape, about in published.items():
        for column, metrics in about["measured"].items():
            again = found[landscape]["measured"][column]
            kept = ("variants", "above", "number")
            assert [metrics[name] for name in kept] == [again[name] for name in kept]
            for name in ("all", "within", "above the floor"):
                for one, other in zip(metrics.get(name, []), again.get(name, []), strict=True):
                    kept = ("metric", "method", "n", "value", "difference", "reason")
                    assert {k: one[k] for k in kept} == {k: other[k] for k in kept}
                    assert one["low"] is None or one["low"] <= one["value"] <= one["high"]
