"""Joints that ask for a few contexts only: what they rank and draw is what the tables say."""

from collections.abc import Sequence

import examples
import numpy as np
import pytest
from examples import Example, log_table
from torch import Tensor
from toy_lm import toy

import unmask
from unmask.tables.conditional import ConditionalTable


class CountingTables(unmask.PairTables):
    """Tables that count contexts, and that may not be read whole."""

    def __init__(self, example: Example) -> None:
        self.inner = example.tables()
        super().__init__(self.inner.supports)
        self.masked, self.asked = self.inner.masked, []

    def table(self, outcome: int) -> ConditionalTable:
        raise AssertionError(f"the table of blank {outcome} was asked for")

    def log_rows(self, contexts: Sequence[Sequence[int]]) -> list[Tensor]:
        for outcome, places in enumerate(contexts):
            self.asked.extend(("a" if outcome else "b", context) for context in places)
        return self.inner.log_rows(contexts)

    def diagnostics(self) -> dict[str, object]:
        return {"forward_passes": len(self.asked)}


def lazy(example: Example, monkeypatch: pytest.MonkeyPatch) -> tuple[unmask.PairTables, list]:
    """Tables that have to be asked for context by context."""
    tables = CountingTables(example)
    monkeypatch.setattr(tables, "holds_all", lambda: False)
    return tables, tables.asked


def peaked(rows: int, columns: int, seed: int) -> Example:
    """Masked marginals as peaked as a language model's, so that a bound can certify."""
    rng = np.random.default_rng(seed)
    base = examples.heavy_tailed(rows, columns, seed)
    m_a, m_b = (rng.permutation(0.5 ** np.arange(size) + 1e-9) for size in (rows, columns))
    return Example(base.name, base.logits_A, base.logits_B, m_a / m_a.sum(), m_b / m_b.sum())


CASES: list[tuple[str, dict[str, object]]] = [("orders", {})]


@pytest.mark.parametrize(("method", "options"), CASES)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [1, 7, 40])
def test_the_ranking_is_that_of_the_whole_table(
    method: str, options: dict, seed: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = peaked(60, 90, seed)
    whole = unmask.construct(method, example.tables(), **options).top(n)
    tables, _ = lazy(example, monkeypatch)
    found = unmask.construct(method, tables, **options).top(n)
    assert [fill.ids for fill in found] == [fill.ids for fill in whole]
    for one, other in zip(found, whole, strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-9)


def test_ranking_asks_for_few_contexts_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, asked = lazy(peaked(400, 400, 1), monkeypatch)
    joint = unmask.construct("orders", tables)
    joint.top(3)
    assert len(asked) == len(set(asked)) < 80
    assert joint.diagnostics["forward_passes"] == len(asked)
    before = len(asked)
    joint.top(3)
    assert len(asked) == before


def test_a_flat_joint_is_ranked_in_the_end_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be certified before every context has been asked for."""
    example = examples.random(25, 30, 4)
    flat = Example(
        "flat", example.logits_A, example.logits_B, np.full(25, 1 / 25), np.full(30, 1 / 30)
    )
    tables, asked = lazy(flat, monkeypatch)
    found = unmask.construct("orders", tables).top(25 * 30)
    assert len(asked) == 55
    assert len(found) == 25 * 30
    assert sum(fill.probability for fill in found) == pytest.approx(1)


@pytest.mark.parametrize(("method", "options"), CASES)
def test_a_pair_needs_one_context_of_each_table(
    method: str, options: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = peaked(20, 30, 2)
    tables, asked = lazy(example, monkeypatch)
    joint = unmask.construct(method, tables, **options)
    before = len(asked)
    right = log_table(unmask.construct(method, example.tables(), **options))
    assert joint.log_prob(3, 4) == pytest.approx(right[3, 4], abs=1e-9)
    assert sorted(asked[before:]) == [("a", 3), ("b", 4)]


def test_samples_are_seeded_and_ask_for_what_they_drew(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, asked = lazy(peaked(300, 300, 5), monkeypatch)
    joint = unmask.construct("orders", tables)
    first = joint.sample(4, seed=3)
    assert len(asked) <= 3 * 4
    assert first == joint.sample(4, seed=3)
    assert joint.sample(0) == []
    with pytest.raises(unmask.errors.SupportError, match="from 0 to 10,000,000, not -1"):
        joint.sample(-1)


def test_many_samples_are_drawn_from_the_tables() -> None:
    joint = unmask.construct("orders", peaked(8, 8, 1).tables())
    assert len(joint.sample(1000, seed=0)) == 1000


def test_summaries_of_a_joint_without_tables_leave_out_what_needs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables, _ = lazy(peaked(30, 30, 1), monkeypatch)
    joint = unmask.construct("orders", tables)
    said = joint.to_dict(2)
    assert (said["entropy"], said["mutual_information"], said["incompatibility"]) == (None,) * 3
    assert unmask.construct("orders", peaked(30, 30, 1).tables()).to_dict(2)["entropy"] is not None


def test_ranking_takes_the_tables_where_contexts_would_fill_the_memory() -> None:
    joint = toy(60, 3, noise=1.0).joint(
        "t1 [MASK] [MASK]", method="orders", settings=unmask.Settings(memory_limit=0)
    )
    whole = toy(60, 3, noise=1.0).joint("t1 [MASK] [MASK]", method="orders")
    assert not joint.is_tabulated()
    assert [fill.ids for fill in joint.top(300)] == [fill.ids for fill in whole.top(300)]
    assert joint.is_tabulated()


def test_ties_go_to_the_lower_token_with_and_without_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second and third pair are equally likely; the contexts are asked for in another order."""
    A, B = np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([[0.75, 0.25], [0.75, 0.25]])
    example = Example("tied", np.log(A), np.log(B), np.array([0.25, 0.75]), np.array([0.5, 0.5]))
    tables, _ = lazy(example, monkeypatch)
    found = unmask.construct("orders", tables).top(2)
    assert found[1].ids == unmask.construct("orders", example.tables()).top(2)[1].ids


def test_a_look_at_a_joint_does_not_run_the_model() -> None:
    lm = toy(20, 3, noise=1.0)
    joint = lm.joint("t1 [MASK] [MASK]", method="orders")
    before = lm.model.rows_asked
    assert "by orders; .top(5) ranks its fills" in repr(joint)
    assert lm.model.rows_asked == before
