"""A result row has finite numbers or an error, and it survives JSON."""

import json
import math

import pytest
from evaluation_rows import HOSTILE, a_row

from unmask import UnmaskError
from unmask.evaluation.rows import METRICS, ResultRow, grouped, measured


def test_a_row_survives_json() -> None:
    row = a_row(positions=(7, 2))
    assert ResultRow.from_dict(json.loads(json.dumps(row.to_dict()))) == row


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_kept_exactly(name: str) -> None:
    row = a_row(model=name, construction=name, sentence_id=name)
    assert ResultRow.from_dict(json.loads(json.dumps(row.to_dict()))) == row


def test_a_failed_row_survives_json_and_has_no_metrics() -> None:
    row = a_row(reason="out of memory")
    assert row.failed
    assert ResultRow.from_dict(json.loads(json.dumps(row.to_dict()))) == row
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
        ({"pairwise_nll": math.nan}, "pairwise_nll of a result row is a finite number, not nan"),
        ({"all_kl": math.inf}, "all_kl"),
        ({"gold_kl": None}, "gold_kl"),
        ({"incompatibility": math.inf}, "incompatibility"),
        ({"reason": "broken", "all_kl": 1.0}, "has no all_kl; leave one out"),
    ],
)
def test_wrong_values_are_rejected(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UnmaskError, match=said):
        a_row(**changes)


def test_wrong_fields_are_rejected() -> None:
    good = a_row().to_dict()
    with pytest.raises(UnmaskError, match=r"not a result row: .*colour"):
        ResultRow.from_dict({**good, "colour": 1})
    with pytest.raises(UnmaskError, match=r"not a result row: .*corpus"):
        ResultRow.from_dict({name: value for name, value in good.items() if name != "corpus"})
    with pytest.raises(UnmaskError, match="not a result row"):
        ResultRow.from_dict({**good, "positions": None})


def test_an_example_counts_once() -> None:
    with pytest.raises(UnmaskError, match="two result rows of 'mlm'"):
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
