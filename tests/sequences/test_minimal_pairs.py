"""Accuracies of minimal pairs and their intervals, against formulas written out here."""

import json
import math
from pathlib import Path
from typing import Any

import blimp_report
import numpy as np
import pytest
from wilson import wilson_by_roots

from unmask.errors import UnmaskError
from unmask.sequences.minimal_pairs import Verdict, accuracies, accuracy, correct, wilson


@pytest.mark.parametrize("trials", [1, 2, 5, 37, 1000])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_wilson_solves_its_equation(trials: int, share: float) -> None:
    successes = round(2 * share * trials) / 2
    assert wilson(successes, trials) == pytest.approx(wilson_by_roots(successes, trials), abs=1e-7)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # Newcombe (1998), table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_has_its_published_values(successes, trials, low, high) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


def test_a_tie_is_half() -> None:
    assert [correct(ratio) for ratio in (2.0, -1e-9, 0.0, -0.0, None)] == [1, 0, 0.5, 0.5, None]
    # rounding does not tell apart what is the same
    assert [correct(1e-7, places=places) for places in (0, 1, None)] == [0.5, 1, 1]
    assert correct(None, places=0) is None


def verdicts(paradigm: str, values: list[float | None], field: str = "f") -> list[Verdict]:
    return [Verdict(paradigm, value, 3, {"field": field}) for value in values]


def test_one_paradigm_by_hand() -> None:
    found = accuracy(verdicts("p", [1, 1, 0, 0.5, None, 1]))
    assert found.value == pytest.approx(3.5 / 5)
    assert (found.low, found.high) == pytest.approx(wilson_by_roots(3.5, 5))
    assert (found.pairs, found.compared, found.ties, found.paradigms) == (6, 5, 1, 1)
    assert found.coverage == pytest.approx(5 / 6)
    # of pairs that were not compared, too: they were paid for
    assert found.forward_passes == 18


def test_paradigms_count_the_same_however_many_pairs() -> None:
    found = accuracy(verdicts("large", [1] * 90 + [0] * 10) + verdicts("small", [0, 1]))
    assert found.value == pytest.approx((0.9 + 0.5) / 2)
    (l1, h1), (l2, h2) = wilson_by_roots(90, 100), wilson_by_roots(1, 2)
    assert found.low == pytest.approx(0.7 - math.hypot(0.9 - l1, 0.5 - l2) / 2)
    assert found.high == pytest.approx(0.7 + math.hypot(h1 - 0.9, h2 - 0.5) / 2)


def test_the_interval_of_a_mean_covers_as_it_should() -> None:
    rng = np.random.default_rng(0)
    shares, pairs, covered = np.array([0.5, 0.7, 0.95, 0.99]), 20, 0
    draws = rng.random((1000, 4, pairs)) < shares[:, None]
    for drawn in draws:
        found = accuracy(
            [Verdict(str(k), float(v)) for k, values in enumerate(drawn) for v in values]
        )
        covered += found.low <= shares.mean() <= found.high
    assert 0.93 <= covered / len(draws) <= 0.985


def test_a_paradigm_without_verdicts_is_not_in_the_mean() -> None:
    found = accuracy(verdicts("a", [1, 1]) + verdicts("b", [None, None]))
    assert (found.value, found.paradigms, found.compared, found.pairs) == (1, 1, 2, 4)
    nothing = accuracy(verdicts("b", [None]))
    assert math.isnan(nothing.value)
    assert (nothing.low, nothing.high, nothing.coverage) == (0, 1, 0)
    with pytest.raises(UnmaskError, match="at least one pair"):
        accuracy([])


def test_groups_are_means_of_their_paradigms() -> None:
    every = [
        *verdicts("a", [1, 1, 1, 0], "syntax"),
        *verdicts("b", [0, 0.5], "syntax"),
        *verdicts("c", [1], "semantics"),
    ]
    by_paradigm = accuracies(every)
    assert {name: one.value for name, one in by_paradigm.items()} == {"a": 0.75, "b": 0.25, "c": 1}
    by_field = accuracies(every, "field")
    assert list(by_field) == ["syntax", "semantics"]
    assert by_field["syntax"].value == pytest.approx(0.5)
    assert by_field["syntax"].paradigms == 2
    assert by_field["semantics"] == by_paradigm["c"]


# -- the page of BLiMP


def blimp_row(paradigm: str, n: int, method: str, ratio: float | None, **more: Any) -> Any:
    return {
        "id": f"{paradigm}/{n}",
        "UID": paradigm,
        "method": method,
        "model": "m|<b>",
        "linguistics_term": f"term of {paradigm}",
        "field": "syntax/semantics",
        "log_ratio": ratio,
        "correct": correct(ratio),
        "standard_error": None,
        "forward_passes": 10,
        "unit": "nats",
        "reason": None,
        **more,
    }


@pytest.fixture
def blimp_rows() -> list[Any]:
    """Two paradigms of four pairs; the path compares three of the first and none of the other."""
    path = [(1.0, 0.1), (-1.0, 0.4), (0.6, 0.4), (None, None)]
    return [
        *(blimp_row("a", n, "pll", ratio) for n, ratio in enumerate([1.0, 1.0, -1.0, 1.0])),
        *(blimp_row("b", n, "pll", ratio) for n, ratio in enumerate([-1.0, 0.0, -1.0, 1.0])),
        *(blimp_row("a", n, "hcb-path", r, standard_error=se) for n, (r, se) in enumerate(path)),
        *(blimp_row("b", n, "hcb-path", None) for n in range(4)),
    ]


def test_the_page_of_blimp_by_hand(blimp_rows: list[Any]) -> None:
    page = "\n".join(line for lines in blimp_report.tables(blimp_rows).values() for line in lines)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    of_pll, of_path = [row for row in cells if row and row[0] in ("`pll`", "`hcb-path`")][:2]
    assert of_pll[1].startswith(f"{(0.75 + 0.375) / 2:.3f} [")
    assert of_pll[2:6] == ["8 of 8 (100.0%)", "2", "1", "10.0"]
    assert of_pll[6].startswith(f"{2 / 3:.3f} [")
    assert of_path[2:4] == ["3 of 8 (37.5%)", "1"]
    # pairs 0, 1 and 2 of the first paradigm: 0, -1 and +1
    (gap,) = [row for row in cells if row[:2] == ["`hcb-path`", "`pll`"]]
    # one paradigm does not say how paradigms differ
    assert gap[2] == "+0.000"
    assert gap[3:] == ["3", "1"]
    low, high = wilson_by_roots(1, 2)
    assert f"| beyond 2 standard errors | 2 | 66.7% | 0.500 [{low:.3f}, {high:.3f}] |" in page
    assert "| within 2 standard errors | 1 | 33.3% | 1.000 [" in page
    (field,) = [row for row in cells if row and row[0] == r"syntax\_semantics"]
    assert field[3] == "38%"
    head, *paradigms = blimp_report.paradigms(blimp_rows)
    assert head == [
        *("paradigm", "pll", "pll low", "pll high", "hcb-path", "hcb-path low", "hcb-path high"),
        "hcb-path compares",
    ]
    assert [row[0] for row in paradigms] == ["a", "b"]
    assert paradigms[0][1] == "0.750"
    assert paradigms[1][4:] == ["", "", "", "0.00"]


def test_rows_of_blimp_are_read_from_a_folder(blimp_rows: list[Any], tmp_path: Path) -> None:
    with pytest.raises(UnmaskError, match=r"holds no rows; run runs/blimp\.sh"):
        blimp_report.read(tmp_path)
    for name in "ba":
        rows = [row for row in blimp_rows if row["UID"] == name]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert [row["UID"] for row in blimp_report.read(tmp_path)] == ["a"] * 8 + ["b"] * 8
    # each order of a method is one of its own
    ordered = [
        blimp_row(name, n, "unmasking", 1.0, order="margin") for name in "ab" for n in range(4)
    ]
    (tmp_path / "u.jsonl").write_text("\n".join(map(json.dumps, ordered)))
    assert blimp_report.read(tmp_path)[-1]["method"] == "unmasking margin"
    (tmp_path / "c.jsonl").write_text(json.dumps(blimp_row("c", 0, "pll", 1.0, model="n")))
    with pytest.raises(UnmaskError, match="rows are of one model"):
        blimp_report.read(tmp_path)
