"""`lm.dependence`: every measure against naive loops, laws, and what is refused."""

import math
from itertools import combinations
from typing import Any

import naive_dependence as naive
import numpy as np
import pytest
import torch
from assets import real_model
from tiny_models import build
from tiny_tokenizers import tiny_bert, word_piece
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint
from transformers import PreTrainedTokenizerFast

import unmask
from unmask.jobs.kinds.dependence import DependenceKind
from unmask.queries.dependence.dependence_map import projective_tree
from unmask.queries.dependence.mapping import _windows
from unmask.queries.dependence.question import MapOptions, read_question

QUIET = unmask.Settings(progress=False)
MEASURES = ("mutual-information", "pmi", "jacobian")
SIZE, LENGTH = 5, 4
TEXT = "t1 t0 t3 t2"


def toy(noise: float = 0.0, *, factored: bool = True, size: int = SIZE) -> unmask.LanguageModel:
    model = ToyMaskedLM(toy_joint(size, LENGTH), noise=noise, factored=factored)
    return unmask.LanguageModel(model, ToyTokenizer(size))


def toy_logits(lm: unmask.LanguageModel) -> naive.Logits:
    model: Any = lm.model
    return lambda ids: np.stack([model._logits(list(ids), p) for p in range(len(ids))])


def same(found: torch.Tensor, expected: naive.Array, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)


PLACES = [[0], [1], [2], [3]]
IDS = [1, 0, 3, 2]


@pytest.mark.parametrize("noise", [0.0, 0.7])
@pytest.mark.parametrize("factored", [True, False])
def test_every_measure_is_what_its_definition_says(noise: float, factored: bool) -> None:
    lm = toy(noise, factored=factored)
    logits = toy_logits(lm)
    found = {m: lm.dependence(TEXT, measure=m, settings=QUIET) for m in MEASURES}
    same(found["pmi"].values, naive.pmi(logits, IDS, PLACES, SIZE))
    same(found["mutual-information"].values, naive.information(logits, IDS, PLACES, SIZE))
    values = naive.jacobian(logits, IDS, PLACES, SIZE, [range(SIZE)] * 4)
    same(found["jacobian"].values, values)
    assert all(one.standard_errors is None for one in found.values())


def test_blanks_stay_masked() -> None:
    lm = toy(0.7)
    found = lm.dependence("[MASK] t0 [MASK] [MASK]", settings=QUIET)
    expected = naive.information(toy_logits(lm), [5, 0, 5, 5], [[0], [2], [3]], SIZE, blanks=True)
    same(found.values, expected)
    assert [place.name for place in found.places] == ["blank 0", "blank 1", "blank 2"]
    assert found.forward_passes == 1 + 3 * SIZE


def test_of_compatible_conditionals_it_is_the_mutual_information_of_the_joint() -> None:
    lm = toy()
    found = lm.dependence(TEXT, settings=QUIET)
    table = lm.model.joint  # type: ignore[attr-defined]
    for i, j in combinations(range(4), 2):
        given = tuple(slice(None) if axis in (i, j) else IDS[axis] for axis in range(4))
        p = table[given] / table[given].sum()
        expected = (p * np.log2(p / p.sum(0) / p.sum(1, keepdims=True))).sum()
        assert found[i, j] == pytest.approx(expected, abs=1e-6)


def rows_asked(lm: unmask.LanguageModel) -> int:
    return lm.model.rows_asked


@pytest.mark.parametrize(
    ("measure", "window", "rows"),
    [
        ("pmi", None, 4 + 6),
        ("pmi", 1, 4 + 3),
        ("mutual-information", None, 6 * (1 + 2 * SIZE)),
        ("mutual-information", 2, 5 * (1 + 2 * SIZE)),
        # the text as it stands is one row of every place
        ("jacobian", None, 4 + 4 * (SIZE - 1) + 1),
    ],
)
def test_no_row_runs_twice(measure: str, window: int | None, rows: int) -> None:
    lm = toy(0.5)
    found = lm.dependence(TEXT, measure=measure, window=window, settings=QUIET)
    assert found.forward_passes == rows_asked(lm) == rows


@pytest.mark.parametrize("measure", MEASURES)
def test_a_window_is_a_band_of_the_same_map(measure: str) -> None:
    whole, band = (
        toy(0.5).dependence(TEXT, measure=measure, window=w, settings=QUIET).values
        for w in (None, 2)
    )
    near = ~band.isnan()
    assert near.sum() == 10
    assert torch.allclose(band[near], whole[near], atol=1e-9)
    assert band[0, 3].isnan()


@pytest.mark.slow
@pytest.mark.parametrize("measure", MEASURES)
def test_neither_batches_nor_other_texts_change_a_map(measure: str) -> None:
    texts = [TEXT, "t4 t1 t0 t8", "t2 t2 t0 t0"]
    if measure != "pmi":
        texts.append("[MASK] t7 [MASK] [MASK]")
    options: dict[str, Any] = {"measure": measure, "samples": 4}
    alone = [toy(0.5, size=9).dependence(text, **options, settings=QUIET) for text in texts]
    for size in (1, 7, None):
        how = unmask.Settings(progress=False, batch_size=size)
        many = toy(0.5, size=9).dependence(texts, **options, settings=how)
        for one, other in zip(alone, many, strict=True):
            assert torch.allclose(one.values, other.values, atol=1e-6, equal_nan=True)
            assert one.forward_passes == other.forward_passes


@pytest.mark.slow
def test_texts_are_taken_as_they_are_needed() -> None:
    how = MapOptions("pmi", toy().support(), 4)
    taken = 0

    def questions() -> Any:
        nonlocal taken
        while True:
            taken += 1
            yield read_question(toy(), TEXT)

    first = next(_windows(questions(), how, QUIET))
    assert len(first) == taken < 200_000


# --- samples -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """200 pairs of a vocabulary of 200, heavy-tailed, against every token in turn."""
    size, held, errors = 200, 0, []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        table = np.exp(rng.normal(0, 1.5, (size, 1)) + rng.normal(0, 1.5, (1, size)))
        table *= np.exp(rng.normal(0, 1.0, (size, size)))
        lm = unmask.LanguageModel(ToyMaskedLM(table), ToyTokenizer(size))
        exact = lm.dependence("[MASK] [MASK]", samples=size, settings=QUIET)
        found = lm.dependence("[MASK] [MASK]", seed=seed, settings=QUIET)
        assert exact.standard_errors is None
        errors.append((found[0, 1] - exact[0, 1]) / float(found.standard_errors[0, 1]))
        held += abs(errors[-1]) < 1.96
    assert 180 <= held <= 198
    # not to one side
    assert abs(np.mean(errors)) < 0.3


@pytest.mark.slow
def test_error_bars_of_few_samples_allow_for_tokens_that_were_not_drawn() -> None:
    """Rare tokens that lock the other place: most draws hold none of them."""
    size, ratios = 60, []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        table = np.outer(rng.dirichlet(np.full(size, 0.3)), rng.dirichlet(np.full(size, 0.3)))
        rare = rng.permutation(size)[:6]
        table[rare, rng.permutation(size)[:6]] += 0.01
        lm = unmask.LanguageModel(ToyMaskedLM(table), ToyTokenizer(size))
        exact = lm.dependence("[MASK] [MASK]", samples=size, settings=QUIET)[0, 1]
        for samples in (4, 8, 16):
            drawn = lm.dependence("[MASK] [MASK]", samples=samples, seed=seed, settings=QUIET)
            ratios.append((drawn[0, 1] - exact) / float(drawn.standard_errors[0, 1]))
    assert np.mean(np.abs(ratios) < 2) > 0.85
    assert np.max(np.abs(ratios)) < 12


def wide_and_narrow(confidence: float) -> tuple[unmask.LanguageModel, unmask.Cloze, float]:
    """A masked word of two pieces before one of one, and their bits by trying every fill."""
    size = 6
    table = toy_joint(size, 3)
    table[2, 4] += confidence * table[2, 4] / table[2, 4].sum()
    lm = unmask.LanguageModel(ToyMaskedLM(table), ToyTokenizer(size))
    cloze = unmask.Cloze("", (size,) * 3, (0, 1, 2), widths=(2, 1))
    exact = naive.information(toy_logits(lm), [size] * 3, [[0, 1], [2]], size, blanks=True)
    return lm, cloze, float(exact[0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.0, 20.0])
def test_fills_of_several_pieces_average_to_those_of_all(confidence: float) -> None:
    lm, cloze, exact = wide_and_narrow(confidence)
    values, errors = [], []
    for seed in range(100):
        found = lm.dependence(cloze, samples=16, seed=seed, settings=QUIET)
        values.append(found[0, 1])
        errors.append(float(found.standard_errors[0, 1]))
    off = np.array(values) - exact
    assert abs(off.mean()) < 3 * off.std() / math.sqrt(len(off))
    assert np.mean(np.abs(off) < 1.96 * np.array(errors)) > 0.87
    assert 0.8 < np.mean(errors) / off.std() < 1.3


def test_a_word_that_is_all_but_certain_has_an_error_bar() -> None:
    lm, cloze, exact = wide_and_narrow(10_000.0)
    found = lm.dependence(cloze, settings=QUIET)
    error = float(found.standard_errors[0, 1])
    assert 0 < error < 0.2 * exact
    assert abs(found[0, 1] - exact) < 4 * error


@pytest.mark.slow
def test_samples_repeat_with_their_seed() -> None:
    first, again, other = (
        toy(0.5, size=40).dependence(
            TEXT.replace("t3", "t30"), seed=seed, samples=8, settings=QUIET
        )
        for seed in (0, 0, 1)
    )
    assert torch.equal(first.values.nan_to_num(), again.values.nan_to_num())
    assert not torch.equal(first.values.nan_to_num(), other.values.nan_to_num())


# --- real tokenizers and models ----------------------------------------------------------------


def torch_logits(model: Any) -> naive.Logits:
    model = model.double().eval()

    def logits(ids: Any) -> naive.Array:
        with torch.no_grad():
            found: naive.Array = model(input_ids=torch.tensor([ids])).logits[0].numpy()
        return found

    return logits


@pytest.mark.slow
def test_a_word_of_several_pieces_is_one_place() -> None:
    model, tokenizer = tiny_bert(), word_piece()
    lm = unmask.load((model, tokenizer))
    text = "the unhappy man saw cats"
    found = lm.dependence(text, measure="pmi", settings=QUIET)
    assert [place.name for place in found.places] == ["the", "unhappy", "man", "saw", "cats"]
    places = [list(place.positions) for place in found.places]
    assert list(map(len, places)) == [1, 2, 1, 1, 2]
    ids = tokenizer(text)["input_ids"]
    # a copy: the model stays as it was
    logits = torch_logits(tiny_bert())
    same(found.values, naive.pmi(logits, ids, places, tokenizer.mask_token_id), 1e-4)
    near = lm.dependence(text, samples=200, places=["unhappy", "saw"], settings=QUIET)
    expected = naive.information(logits, ids, [places[1], places[3]], tokenizer.mask_token_id)
    assert abs(near[0, 1] - expected[0, 1]) < 5 * float(near.standard_errors[0, 1])
    wide = lm.dependence(text, measure="jacobian", samples=5, settings=QUIET)
    assert not wide.values[1].isnan()[[0, 2, 3, 4]].any()


def test_blanks_of_a_cloze_are_as_far_apart_as_in_the_text() -> None:
    lm = unmask.load((tiny_bert(), word_piece()))
    text = "the man saw the dog"
    cloze = lm.cloze(text, blanks=["dog", "man"])
    found = lm.dependence(cloze, samples=4, settings=QUIET)
    chosen = lm.dependence(text, places=["dog", "man"], samples=4, settings=QUIET)
    assert found.to_rows() == chosen.to_rows()
    assert found.to_rows()[0]["distance"] == 3
    near = lm.dependence(cloze, samples=4, window=1, settings=QUIET)
    assert near.values.isnan().all()


def test_digits_may_stand_in_a_text_that_is_no_sequence() -> None:
    pieces = ["[UNK]", "[MASK]", "room", "has", *"0123456789", "beds"]
    backend = Backend(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", mask_token="[MASK]"
    )
    lm = unmask.load((tiny_bert(), tokenizer))
    found = lm.dependence("room 7 has 2 beds", support="digits", settings=QUIET)
    assert [place.name for place in found.places] == ["room", "7", "has", "2", "beds"]
    assert (found.samples, found.standard_errors) == (10, None)


@pytest.mark.slow
def test_residues_are_places() -> None:
    model, tokenizer = build("esm")
    lm = unmask.load((model, tokenizer))
    found = lm.dependence("MKTCAY", measure="jacobian", support="amino-acids", settings=QUIET)
    assert [place.name for place in found.places] == ["M1", "K2", "T3", "C4", "A5", "Y6"]
    assert found.forward_passes == 6 + 6 * 19 + 1
    assert found.samples == 20
    some = lm.dependence(
        "MKTCAY", measure="jacobian", support="amino-acids", places=[4, 2], settings=QUIET
    )
    assert some["K2", "C4"] == pytest.approx(found["K2", "C4"], rel=1e-5)
    exact = lm.dependence("MKTCAY", places=[2, 4], support="amino-acids", settings=QUIET)
    assert exact.standard_errors is None
    with pytest.raises(unmask.errors.ClozeError, match="no position 9"):
        lm.dependence("MKTCAY", places=[2, 9], support="amino-acids")


@pytest.mark.real
def test_a_real_model_is_read_as_its_logits_say() -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    place = real_model("tiny-english")
    lm, tokenizer = unmask.load(str(place)), AutoTokenizer.from_pretrained(place)
    logits = torch_logits(AutoModelForMaskedLM.from_pretrained(place))
    text = "Two men are playing football."
    ids, mask = tokenizer(text)["input_ids"], tokenizer.mask_token_id
    found = {m: lm.dependence(text, measure=m, samples=6, settings=QUIET) for m in MEASURES}
    places = [list(one.positions) for one in found["pmi"].places]
    same(found["pmi"].values, naive.pmi(logits, ids, places, mask))

    # the likeliest tokens, and instead of the last the one that stands there
    tokens = []
    for (here,) in places:
        log_p = logits(naive.written(ids, [here], [mask]))[here]
        best = np.argsort(-log_p)[:6].tolist()
        tokens.append(best if ids[here] in best else [*best[:-1], ids[here]])
    values = naive.jacobian(logits, ids, places, mask, tokens)
    same(found["jacobian"].values, values, 1e-4)

    # over a few tokens every fill is tried
    few = ["men", "women", "dogs", "boys", "are", "football"]
    short = lm.dependence(text, support=few, samples=6, settings=QUIET)
    chosen = tokenizer.convert_tokens_to_ids(few)
    assert short.standard_errors is None
    naive_one = by_hand(logits, ids, chosen, places[1][0], places[4][0], mask)
    assert short[1, 4] == pytest.approx(naive_one, rel=1e-4)


def by_hand(
    logits: naive.Logits, ids: list[int], chosen: list[int], one: int, other: int, mask: int
) -> float:
    """Bits, over some tokens."""
    masked = naive.written(ids, [one, other], [mask, mask])
    before = naive.log_softmax(logits(masked)[:, chosen])
    total = 0.0
    for here, there in ((one, other), (other, one)):
        for rank, token in enumerate(chosen):
            after = naive.log_softmax(logits(naive.written(masked, [here], [token]))[:, chosen])
            moved = (np.exp(after[there]) * (after[there] - before[there])).sum()
            total += math.exp(before[here, rank]) * float(moved)
    return total / 2 / math.log(2)


# --- the map as a value ------------------------------------------------------------------------


def test_what_a_map_gives() -> None:
    found = toy(0.5).dependence(TEXT, measure="pmi", settings=QUIET)
    assert found.unit == "nats"
    best = found.top(2)
    assert best[0].value >= best[1].value
    assert found[best[0].first, best[0].second] == best[0].value
    assert all(one.second - one.first > 1 for one in found.top(9, apart=2))
    assert found["t1", "t3"] == found[0, 2] == found[2, 0]
    frame = found.to_pandas()
    assert list(frame.columns)[:5] == ["first", "second", "first_name", "second_name", "distance"]
    assert len(frame) == 6
    assert "strongest" in repr(found)
    assert str(found).splitlines()[1].split()[:2] == list(best[0].names)
    for pair in (("t9", "t0"), (0, 4), (0, 1.5)):
        with pytest.raises(unmask.UnmaskError, match="place"):
            found[pair]
    with pytest.raises(unmask.errors.SupportError, match="top takes whole numbers from 1"):
        found.top(0)


def test_the_average_product_correction() -> None:
    found = toy(0.5).dependence(TEXT, measure="jacobian", settings=QUIET)
    values, size = found.values.numpy(), 4
    corrected = found.corrected()
    assert corrected.corrected() is corrected
    for i, j in combinations(range(size), 2):
        row, column = (np.mean([values[k, m] for m in range(size) if m != k]) for k in (i, j))
        every = np.mean([values[a, b] for a in range(size) for b in range(size) if a != b])
        assert corrected[i, j] == pytest.approx(values[i, j] - row * column / every)


def trees(size: int) -> list[tuple[tuple[int, int], ...]]:
    """All trees over so many places, by trying."""
    found = []
    for edges in combinations(combinations(range(size), 2), size - 1):
        group = list(range(size))
        for one, other in edges:
            group = [group[one] if g == group[other] else g for g in group]
        if len(set(group)) == 1:
            found.append(edges)
    return found


def crosses(edges: Any) -> bool:
    return any(a < c < b < d for a, b in edges for c, d in edges)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_trees_are_the_best_of_all(size: int) -> None:
    every = trees(size)
    for seed in range(5):
        values = np.random.default_rng(seed).normal(size=(size, size))
        values += values.T

        def weight(edges: Any, values: Any = values) -> float:
            return sum(values[edge] for edge in edges)

        flat = projective_tree(values)
        assert not crosses(flat)
        planar = [edges for edges in every if not crosses(edges)]
        assert weight(flat) == pytest.approx(max(map(weight, planar)))


def test_trees_of_a_map() -> None:
    found = toy(0.5).dependence(TEXT, measure="pmi", window=1, settings=QUIET)
    assert found.tree() == [(0, 1), (1, 2), (2, 3)]
    apart = np.full((3, 3), np.nan)
    with pytest.raises(unmask.UnmaskError, match="no tree joins them all"):
        projective_tree(apart)


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("t1", {}, "text 0 has 1 place; dependence is between two or more"),
        ("[MASK] t1 [MASK]", {"measure": "pmi"}, "pmi is of the words that stand in a text"),
        (TEXT, {"measure": "mi"}, "no measure 'mi'; measures: mutual-information, pmi, jacobian"),
        (TEXT, {"samples": 3}, "samples is a whole number from 4 to 100,000, not 3"),
        (TEXT, {"window": 0}, "window is a whole number from 1"),
        (TEXT, {"seed": -1}, "seed is a whole number from 0"),
        (TEXT, {"support": "words"}, "no support 'words'"),
        (TEXT, {"places": [0, 9]}, "there is no token 9"),
        ("", {}, "the text is empty"),
        (7, {}, "a text is a string, not int"),
    ],
)
def test_what_cannot_be_mapped_ends_in_one_line(
    text: Any, options: dict[str, Any], said: str
) -> None:
    lm = toy()
    with pytest.raises(unmask.UnmaskError, match=said) as refused:
        lm.dependence(text, **options)
    assert "\n" not in str(refused.value)
    assert rows_asked(lm) == 0


def test_candidates_of_pmi_are_refused() -> None:
    lm = toy()
    with pytest.raises(
        unmask.errors.SupportError, match="pmi is of the tokens that stand in the text"
    ):
        lm.dependence(TEXT, measure="pmi", support=["t0", "t1"])
    with pytest.raises(
        unmask.errors.SupportError, match="pmi is of the tokens that stand in the text"
    ):
        DependenceKind(measure="pmi", support=("t0", "t1"))
    assert rows_asked(lm) == 0


def test_a_jacobian_beyond_the_memory_limit_is_refused() -> None:
    lm = toy()
    little = unmask.Settings(memory_limit=1000, progress=False)
    with pytest.raises(
        unmask.errors.MemoryLimitError, match=r"the jacobian of 4 places holds .* 1.0 kB"
    ):
        lm.dependence(TEXT, measure="jacobian", settings=little)
    assert rows_asked(lm) == 0
