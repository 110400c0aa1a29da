"""Summaries, paired differences, distances and the paper's table, on rows made by hand."""

import math
from statistics import fmean

import numpy as np
import pytest
from evaluation_rows import a_row

from unmask.evaluation.reports.paper import MEASURES, TABLE, Entry, published
from unmask.evaluation.reports.summary import (
    by_distance,
    differences,
    pooled,
    summarise,
)
from unmask.evaluation.rows import Group, ResultRow
from unmask.resampling import Resampling

QUICK = Resampling(resamples=200)


def some_rows(
    construction: str, offset: float = 0.0, count: int = 20, **changes: object
) -> list[ResultRow]:
    hard = np.random.default_rng(0).normal(3, 1, size=count)
    return [
        a_row(
            place,
            construction=construction,
            pairwise_nll=float(nll) + offset,
            unary_nll=float(nll) / 2,
            gold_bytes=2 + place % 7,
            **changes,
        )
        for place, nll in enumerate(hard)
    ]


def test_perplexities_are_exponentials_of_means_and_failures_are_counted() -> None:
    rows = some_rows("mlm")
    (found,) = summarise([*rows, a_row(99, reason="out of memory")], QUICK)
    assert (found.examples, found.failed) == (20, 1)
    assert found["pairwise_ppl"].value == pytest.approx(
        math.exp(fmean(r.pairwise_nll for r in rows))
    )
    assert found["unary_ppl"].value == pytest.approx(math.exp(fmean(r.unary_nll for r in rows)))
    assert found["all_kl"].value == pytest.approx(0.25)
    assert found["gold_kl"].value == pytest.approx(0.125)
    assert found["pairwise_ppl"].low < found["pairwise_ppl"].value < found["pairwise_ppl"].high


def test_nats_per_byte_are_all_nats_over_all_bytes() -> None:
    rows = some_rows("mlm")
    (found,) = summarise(rows, QUICK)
    count = sum(row.gold_bytes for row in rows)
    # the rows have nats per token, and a pair has two tokens
    nats = 2 * sum(row.pairwise_nll for row in rows)
    assert found["pairwise_nats_per_byte"].value == pytest.approx(nats / count)
    assert found["unary_nats_per_byte"].value == pytest.approx(nats / 2 / count)
    (bare,) = summarise([a_row(gold_bytes=0)], QUICK)
    assert bare["pairwise_nats_per_byte"] is None


def test_differences_are_over_shared_examples() -> None:
    baseline, other = some_rows("mlm"), some_rows("ag", offset=-0.5)
    other[3] = a_row(3, construction="ag", reason="broken")
    (found,) = differences([*baseline[:15], *other], resampling=QUICK)
    assert (found.group.construction, found.baseline, found.examples) == ("ag", "mlm", 14)
    assert found["pairwise_nll"].value == pytest.approx(-0.5)
    assert found["pairwise_nll"].high == pytest.approx(-0.5)
    assert found["unary_nll"].value == 0


@pytest.mark.parametrize(
    ("counts", "bins"),
    [
        ({0: 50, 1: 40, 2: 30}, [(0, 0), (1, 1), (2, 2)]),
        ({0: 50, 1: 40, 2: 20, 3: 10}, [(0, 0), (1, 1), (2, 3)]),
        ({0: 50, 1: 40, 2: 10, 5: 10}, [(0, 0), (1, 5)]),
        ({0: 50, 1: 5, 2: 40}, [(0, 0), (1, 2)]),
        ({0: 20, 1: 20, 2: 20, 4: 10, 5: 3}, [(0, 1), (2, 5)]),
        ({0: 5, 1: 6}, [(0, 1)]),
        ({4: 31}, [(4, 4)]),
        ({}, []),
    ],
)
def test_no_bin_is_nearly_empty(counts: dict[int, int], bins: list[tuple[int, int]]) -> None:
    assert pooled(counts, 30) == bins


def test_all_constructions_get_the_same_bins() -> None:
    places = {0: 10, 1: 8, 2: 5, 3: 3}
    ends = [(1, 2 + distance) for distance, count in places.items() for _ in range(count)]
    rows = [
        a_row(place, construction=name, positions=pair)
        for name in ("mlm", "ag", "hcb")
        for place, pair in enumerate(ends)
    ]
    # one failure leaves too few at distance 1, and so moves the bins of the other too
    rows[12] = a_row(12, positions=ends[12], reason="broken")
    found = by_distance(rows, QUICK, least_count=8)
    assert [(b.group.construction, b.first, b.last, b.examples) for b in found] == [
        ("ag", 0, 0, 10),
        ("hcb", 0, 0, 10),
        ("ag", 1, 3, 15),
        ("hcb", 1, 3, 15),
    ]


def test_the_paper_stands_beside_the_same_only() -> None:
    same = Group("snli", "contiguous", "bert-base-cased", "vocabulary", "ag")
    assert [published(same, measure) for measure in MEASURES] == [13.26, 21.59, 0.018, 0.181]
    assert published(same._replace(model="google-bert/bert-large-cased"), "unary_ppl") == 9.64
    for changes in (
        {"model": "roberta-base"},
        {"corpus": "wikitext"},
        {"mask": "words"},
        {"support": "no-special"},
        {"construction": "log-pool"},
    ):
        assert published(same._replace(**changes), "unary_ppl") is None


def test_the_paper_has_160_numbers() -> None:
    assert len(TABLE) == 2 * 2 * 2 * 5 * 4
    # the line of which the paper's text speaks most: MRF_L's extreme pairwise perplexity
    assert max(TABLE, key=TABLE.get) == Entry(
        "snli", "contiguous", "bert-base-cased", "mrf-logit", "pairwise_ppl"
    )
    assert all(math.isfinite(value) and value > 0 for value in TABLE.values())
