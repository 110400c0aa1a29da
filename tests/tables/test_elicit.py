"""Rows, batches and memory, with a model that remembers what it was asked."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from unmask import Cloze, Settings, Support, UnmaskError
from unmask.errors import MemoryLimitError, NumericsError
from unmask.model.output_layer import OutputEmbedding
from unmask.model.row_reader import RowReader, rows_per_batch
from unmask.queries.cost import seconds_per_row
from unmask.tables.blank_reader import BlankReader
from unmask.tables.pair_tables import PairTables

VOCABULARY, WIDTH, MASK = 12, 3, 11
CLOZE = Cloze("", (1, 5, MASK, 7, MASK, 2), (2, 4))
EVERY = slice(None)


class RememberingLM:
    """Meets the `MaskedLM` protocol; every row's answer depends on that row alone."""

    vocabulary_size, mask_id, max_length = VOCABULARY, MASK, None
    special_ids = frozenset({0, 1, 2, MASK})
    device = torch.device("cpu")

    def __init__(self, *, factored: bool = True) -> None:
        generator = torch.Generator().manual_seed(3)
        self.layer = OutputEmbedding(
            torch.randn(VOCABULARY, WIDTH, generator=generator),
            torch.randn(VOCABULARY, generator=generator),
        )
        self.output_embedding = self.layer if factored else None
        self.asked: list[tuple[list[list[int]], list[int]]] = []
        self.before: Callable[[int], None] = lambda rows: None

    def readouts(self, ids: Tensor, positions: Sequence[int]) -> Tensor:
        self.asked.append((ids.tolist(), list(positions)))
        self.before(len(ids))
        return torch.stack([self._row(row, positions) for row in ids])

    def _row(self, row: Tensor, positions: Sequence[int]) -> Tensor:
        places = torch.arange(1, len(row) + 1)
        at = torch.tensor([[p * 10 + k for k in range(WIDTH)] for p in positions])
        readout = torch.sin(at + torch.cos(row * places).sum())
        layer = self.layer
        return readout if self.output_embedding else linear(readout, layer.weight, layer.bias)

    @property
    def batch_sizes(self) -> list[int]:
        return [len(rows) for rows, _ in self.asked]


WHOLE = Support.of(f"t{i}" for i in range(VOCABULARY))
A = Support(torch.tensor([4, 0, 9]), ["t4", "t0", "t9"])
B = Support(torch.tensor([10, 3, 8, 6, 1]), ["t10", "t3", "t8", "t6", "t1"])


def source(model: RememberingLM, supports=(WHOLE, WHOLE), cloze=CLOZE, **settings):
    return PairTables(BlankReader(RowReader(model, Settings(**settings)), cloze, supports))


def both(of: PairTables) -> tuple[Tensor, Tensor]:
    return of.table(0).log_prob(EVERY), of.table(1).log_prob(EVERY)


def fails_above(capacity: int, error: BaseException) -> Callable[[int], None]:
    def check(rows: int) -> None:
        if rows > capacity:
            raise error

    return check


# --- rows --------------------------------------------------------------------------------------


def filled(position: int, token: int) -> list[int]:
    return [token if place == position else t for place, t in enumerate(CLOZE.ids)]


# blanks keep the order they were given in, which need not be that of the text
@pytest.mark.parametrize("positions", [(2, 4), (4, 2)])
def test_a_row_is_the_cloze_with_one_token_changed(positions: tuple[int, int]):
    model = RememberingLM()
    elicited = source(model, (A, B), Cloze("", CLOZE.ids, positions), batch_size=100)
    elicited.table(0)
    elicited.table(1)
    first, second = model.asked
    assert first == ([filled(positions[1], b) for b in B.ids.tolist()], [positions[0]])
    assert second == ([filled(positions[0], a) for a in A.ids.tolist()], [positions[1]])
    assert elicited.diagnostics() == {
        "forward_passes": 8,
        "length": 6,
        "batch_size": 100,
        "tables_because": "a cell is computed from 3 numbers sooner than it is read",
        "tables": "factored",
    }


def test_the_doubly_masked_distributions_take_one_row():
    model = RememberingLM()
    source(model, (A, B)).masked  # noqa: B018
    assert model.asked == [([list(CLOZE.ids)], [2, 4])]


def test_one_context_takes_one_row():
    model = RememberingLM()
    elicited = source(model, (A, B))
    a_given_b, b_given_a = both(source(RememberingLM(), (A, B)))
    of_a, of_b = elicited.log_rows(([3], ()))[0], elicited.log_rows(((), [1]))[1]
    torch.testing.assert_close(of_a[0], a_given_b[:, 3], atol=1e-6, rtol=0)
    torch.testing.assert_close(of_b[0], b_given_a[1], atol=1e-6, rtol=0)
    assert model.asked == [([filled(4, 6)], [2]), ([filled(2, 0)], [4])]


@pytest.mark.parametrize("factored", [True, False])
def test_a_cell_is_the_models_answer_to_its_row(factored: bool):
    model = RememberingLM(factored=factored)
    a_given_b, b_given_a = both(source(model, (A, B)))
    plain = RememberingLM(factored=False)
    for place, b in enumerate(B.ids.tolist()):
        logits = plain.readouts(torch.tensor([filled(4, b)]), [2])[0, 0, A.ids]
        expected = torch.log_softmax(logits.double(), dim=0)
        torch.testing.assert_close(a_given_b[:, place], expected, atol=1e-6, rtol=0)
    for place, a in enumerate(A.ids.tolist()):
        logits = plain.readouts(torch.tensor([filled(2, a)]), [4])[0, 0, B.ids]
        expected = torch.log_softmax(logits.double(), dim=0)
        torch.testing.assert_close(b_given_a[place], expected, atol=1e-6, rtol=0)


def test_one_blank_is_renormalised_and_says_what_it_captured():
    model = RememberingLM()
    cloze = Cloze("", (1, 5, MASK, 7), (2,))
    reader = RowReader(model, Settings())
    ((whole, everything),) = BlankReader(reader, cloze, [WHOLE]).all_masked()
    ((part, captured),) = BlankReader(reader, cloze, [A]).all_masked()
    assert reader.forward_passes == 2
    mass = float(whole[A.ids].exp().sum())
    assert everything == pytest.approx(1)
    assert captured == pytest.approx(mass)
    torch.testing.assert_close(part, whole[A.ids] - torch.tensor(mass).double().log())
    assert model.asked == [([list(cloze.ids)], [2])] * 2


# --- batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("factored", [True, False])
@pytest.mark.parametrize("size", [1, 5, 7, 12, 64, None])
def test_batches_are_no_larger_than_asked_and_do_not_matter(size: int | None, factored: bool):
    model = RememberingLM(factored=factored)
    found = both(source(model, batch_size=size))
    assert max(model.batch_sizes) == min(size or VOCABULARY, VOCABULARY)
    assert sum(model.batch_sizes) == 2 * VOCABULARY
    expected = both(source(RememberingLM(factored=factored), batch_size=3))
    torch.testing.assert_close(found, expected, atol=0, rtol=0)


@pytest.mark.parametrize(("length", "rows"), [(6, 2048 // 6), (2048, 1), (5000, 1)])
def test_unless_asked_a_batch_is_as_long_as_the_device_likes(length: int, rows: int):
    assert rows_per_batch(RememberingLM(), length, Settings()) == rows
    assert rows_per_batch(RememberingLM(), length, Settings(batch_size=9)) == 9


def test_batches_of_dense_logits_are_bounded_by_their_cells():
    model = RememberingLM(factored=False)
    model.vocabulary_size = 2**20
    assert rows_per_batch(model, 16, Settings()) == 4


@pytest.mark.parametrize("bad", [{"batch_size": 0}, {"batch_size": -2}, {"memory_limit": -1}])
def test_settings_that_cannot_run_are_refused(bad: dict[str, int]):
    with pytest.raises(UnmaskError, match=str(next(iter(bad.values())))):
        Settings(**bad)


def test_timing_runs_a_few_rows_and_one_batch():
    model = RememberingLM()
    assert seconds_per_row(model, CLOZE, 9) > 0
    assert seconds_per_row(model, CLOZE, 256) > 0
    # as many to warm up as make a model find out what it can leave out
    assert model.batch_sizes == [9, 9, 16, 256]


# --- memory ------------------------------------------------------------------------------------

OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"),
    RuntimeError("MPS backend out of memory (MPS allocated: 9.1 GB)"),
    MemoryError(),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda e: type(e).__name__)
def test_out_of_memory_halves_the_batch_and_changes_nothing(error: BaseException):
    model = RememberingLM()
    model.before = fails_above(3, error)
    elicited = source(model, batch_size=8)
    found = elicited.table(0).log_prob(EVERY)
    # 8 and 4 fail; nothing is asked twice that was answered
    assert model.batch_sizes == [8, 4, 2, 2, 2, 2, 2, 2]
    assert elicited.diagnostics()["forward_passes"] == VOCABULARY
    expected = source(RememberingLM()).table(0).log_prob(EVERY)
    torch.testing.assert_close(found, expected, atol=0, rtol=0)


def test_memory_that_runs_out_half_way_keeps_what_was_read():
    model = RememberingLM()
    model.before = lambda rows: fails_above(2 if len(model.asked) > 1 else 5, MemoryError())(rows)
    found = source(model, batch_size=5).table(0).log_prob(EVERY)
    assert model.batch_sizes == [5, 5, 2, 2, 2, 1]
    expected = source(RememberingLM()).table(0).log_prob(EVERY)
    torch.testing.assert_close(found, expected, atol=0, rtol=0)


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda e: type(e).__name__)
def test_one_row_that_does_not_fit_is_refused(error: BaseException):
    model = RememberingLM()
    model.before = fails_above(0, error)
    with pytest.raises(MemoryLimitError, match="one forward pass of this text"):
        source(model, batch_size=8).table(1)
    assert model.batch_sizes == [8, 4, 2, 1]


def test_other_errors_are_not_taken_for_memory():
    model = RememberingLM()
    model.before = fails_above(0, RuntimeError("index out of range in self"))
    with pytest.raises(RuntimeError, match="index out of range"):
        source(model, batch_size=8).table(0)
    assert model.batch_sizes == [8]


def test_tables_that_must_be_dense_are_refused_before_anything_runs():
    model = RememberingLM(factored=False)
    needed = 8 * len(A) * len(B)
    for outcome in (0, 1):
        with pytest.raises(MemoryLimitError, match=r"120 B.*119 B.*memory limit"):
            source(model, (A, B), memory_limit=needed - 1).table(outcome)
    assert model.asked == []
    both(source(model, (A, B), memory_limit=needed))
    assert len(model.asked) == 2


def spoilt(value: float, *, token: int) -> RememberingLM:
    """A model that answers with one bad number when a token stands at the second blank."""
    model = RememberingLM(factored=False)
    plain = model._row

    def row_with_bad_number(row: Tensor, positions: Sequence[int]) -> Tensor:
        logits = plain(row, positions)
        if int(row[4]) == token:
            logits[:, 5] = value
        return logits

    model._row = row_with_bad_number
    return model


NOT_FINITE = [float("nan"), float("inf"), float("-inf")]


@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize("token", [0, MASK])
def test_a_table_with_a_number_that_is_not_finite_is_refused(value: float, token: int):
    with pytest.raises(NumericsError, match="not finite"):
        source(spoilt(value, token=token), batch_size=5).table(0)


@pytest.mark.parametrize("value", NOT_FINITE)
def test_single_rows_with_a_number_that_is_not_finite_are_refused(value: float):
    model = spoilt(value, token=MASK)
    with pytest.raises(NumericsError, match="not finite"):
        source(model).masked  # noqa: B018
    with pytest.raises(NumericsError, match="not finite"):
        source(model).log_rows(([MASK], ()))
    one = BlankReader(RowReader(model, Settings()), Cloze("", CLOZE.ids, (4,)), [WHOLE])
    with pytest.raises(NumericsError, match="not finite"):
        one.all_masked()
