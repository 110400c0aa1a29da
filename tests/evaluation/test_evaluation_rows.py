"""A row is whole or it is refused, and it survives JSON."""

import json
import math

import pytest
from evaluation_rows import HOSTILE, a_row

from unmask import UnmaskError
from unmask.evaluation.rows import METRICS, Row, grouped, measured


def test_a_row_survives_json() -> None:
    row = a_row(positions=(7, 2))
    assert Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_kept_exactly(name: str) -> None:
    row = a_row(model=name, construction=name, sentence_id=name)
    assert Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row


def test_a_failed_row_survives_json_and_has_no_metrics() -> None:
    row = a_row(error="out of memory")
    assert row.failed
    assert Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row
    with pytest.raises(UnmaskError, match="because it failed"):
        row.metric("pairwise_nll")
    assert measured([row, a_row()]) == [a_row()]


@pytest.mark.parametrize(("positions", "distance"), [((3, 4), 0), ((4, 3), 0), ((0, 11), 10)])
def test_distance_counts_the_tokens_between(positions: tuple[int, int], distance: int) -> None:
    assert a_row(positions=positions).token_distance == distance
    assert a_row(positions=positions).to_dict()["token_distance"] == distance


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"corpus": ""}, "corpus of a row is a text"),
        ({"model": 3}, "model of a row is a text"),
        ({"gold_bytes": -1}, "gold_bytes of a row is a whole number from 0, not -1"),
        ({"gold_bytes": 2.5}, "gold_bytes"),
        ({"length": True}, "length"),
        ({"positions": (3, 3)}, "two different whole numbers from 0 to 11"),
        ({"positions": (3, 12)}, "positions"),
        ({"positions": (-1, 3)}, "positions"),
        ({"positions": (True, 3)}, "positions"),
        ({"positions": (1, 2, 3)}, "positions"),
        ({"positions": "12"}, "positions"),
        ({"seconds": -1.0}, "seconds of a row is a finite number from 0"),
        ({"pairwise_nll": math.nan}, "says why in `error`"),
        ({"all_kl": math.inf}, "all_kl"),
        ({"gold_kl": None}, "gold_kl"),
        ({"unary_nll": "1.5"}, "unary_nll"),
        ({"incompatibility": math.inf}, "incompatibility"),
        ({"error": ""}, "error of a row is a text"),
        ({"error": "broken", "all_kl": 1.0}, "has no metrics, not all_kl"),
    ],
)
def test_wrong_values_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UnmaskError, match=said):
        a_row(**changes)


def test_wrong_fields_are_refused() -> None:
    good = a_row().to_dict()
    with pytest.raises(UnmaskError, match="no field 'colour'"):
        Row.from_dict({**good, "colour": 1})
    with pytest.raises(UnmaskError, match="corpus are missing"):
        Row.from_dict({name: value for name, value in good.items() if name != "corpus"})
    with pytest.raises(UnmaskError, match="token_distance is 1"):
        Row.from_dict({**good, "token_distance": 4})


def test_an_example_counts_once() -> None:
    with pytest.raises(UnmaskError, match="two rows of 'mlm'"):
        grouped([a_row(), a_row()])


def test_groups_keep_settings_apart_and_examples_sorted() -> None:
    rows = [a_row(2), a_row(1), a_row(1, support="no-special"), a_row(1, construction="ag")]
    groups = grouped(rows)
    assert [group.support for group in groups] == ["vocabulary", "no-special", "vocabulary"]
    assert [row.example_id for row in next(iter(groups.values()))] == [
        "s0001/random",
        "s0002/random",
    ]


def test_metrics_have_the_names_of_the_library() -> None:
    from dataclasses import fields

    from unmask import PairMetrics

    assert tuple(field.name for field in fields(PairMetrics)) == METRICS
