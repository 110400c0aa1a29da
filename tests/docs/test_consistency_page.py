"""The page of how far models contradict themselves: its tables, its numbers, its rows."""

import re
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from test_runs_pages import check_sentences

from unmask.sequences.consistency.result import Consistency

sys.path.insert(0, str(Path(__file__).parents[2] / "runs"))

import consistency
import marked_page


@pytest.mark.slow
def test_the_page_is_made_of_rows_without_text() -> None:
    files = consistency.files()
    assert marked_page.stale(files) == []
    check_sentences(files)
    for path in consistency.ROWS.glob("*.parquet"):
        names = pq.read_schema(path).names
        assert not {"text", "contrast"} & set(names)
        if path.stem in consistency.FOREIGN:
            assert not {"first_token", "second_token"} & set(names)


def row(text: str, place: int, bits: float) -> dict[str, object]:
    return {
        "text_id": text,
        "part": "adjacent",
        "first_token": f"a{place}",
        "second_token": "b",
        "incompatibility": bits,
        "mutual_information": 2 * bits,
        "marginal_divergence": 0.5,
        "first_then_second": -3.0,
        "second_then_first": -4.0,
        "distance": 1,
    }


def test_estimates_are_held_against_the_same_pairs_alone() -> None:
    exact = [row("x", 0, 0.1), row("y", 0, 0.2)]
    sampled = [row("x", 0, 0.11), row("y", 0, 0.24), row("z", 0, 0.9)]
    head, _, *lines = consistency._estimates(Consistency(sampled, {}), Consistency(exact, {}))
    assert head.startswith("| 2 pairs | exact |")
    cells = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in lines}
    assert set(cells) == {"J", "mutual information"}
    assert cells["J"][1] == "0.150"
    assert cells["J"][2].startswith("0.025 [")
    assert cells["J"][3].startswith("0.040")


def test_correlations_are_of_pairs_and_their_intervals_of_texts() -> None:
    rng = np.random.default_rng(0)
    groups = [[(float(x), float(x) + 0.1 * rng.random())] for x in rng.random(40)]
    value, low, high = map(float, re.findall(r"-?\d\.\d+", consistency.interval(groups)))
    assert 0.9 < low <= value <= high <= 1
