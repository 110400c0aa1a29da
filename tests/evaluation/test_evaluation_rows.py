"""A result row has finite numbers or an error."""

import math

import pytest
from evaluation_rows import a_row

from unmask import UnmaskError
from unmask.evaluation.rows import grouped, measured


def test_a_failed_row_has_no_metrics() -> None:
    row = a_row(reason="out of memory")
    assert row.failed
    with pytest.raises(UnmaskError, match="because it failed"):
        row.metric("pairwise_nll")
    assert measured([row, a_row()]) == [a_row()]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pairwise_nll": math.nan}, "pairwise_nll of a result row is a finite number, not nan"),
        ({"all_kl": math.inf}, "all_kl"),
        ({"gold_kl": None}, "gold_kl"),
        ({"incompatibility": math.inf}, "incompatibility"),
    ],
)
def test_wrong_values_are_rejected(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UnmaskError, match=said):
        a_row(**changes)


def test_groups_keep_settings_apart_and_examples_sorted() -> None:
    rows = [a_row(2), a_row(1), a_row(1, support="no-special"), a_row(1, construction="ag")]
    groups = grouped(rows)
    assert [group.support for group in groups] == ["vocabulary", "no-special", "vocabulary"]
    assert [row.example_id for row in next(iter(groups.values()))] == [
        "s0001/random",
        "s0002/random",
    ]
