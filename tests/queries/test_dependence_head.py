"""The dependence head: its features by definition, training, the file, and what uses it."""

import math

import numpy as np
import pytest
import torch
from tiny_models import build

import unmask
from unmask.model.inside import Inside
from unmask.model.row_reader import Outcomes
from unmask.queries.decode import training
from unmask.queries.decode.head import FILE, place_of
from unmask.queries.decode.training import feature_groups, pair_features
from unmask.queries.dependence.dependence_map import Place
from unmask.queries.dependence.mapping import dependence_maps
from unmask.queries.dependence.question import MapOptions, MapQuestion

QUIET = unmask.Settings(progress=False)
WORDS = ["the", "a", "cat", "dog", "man", "sat", "ran", "on", "in", "red", "big", "mat", "hat"]
TEXT = "the [MASK] sat [MASK] the [MASK] [MASK]."


def texts(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, 10)) for _ in range(count)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> unmask.LanguageModel:
    folder = tmp_path_factory.mktemp("models") / "small"
    for part in build("bert"):
        part.save_pretrained(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_STEPS", 200)
        patch.setattr(training, "BOUNDS", (0.01, 0.5, 3.0))
        patch.setattr(training, "_COUNTED_TEXTS", 3)
        lm = unmask.load(folder)
        lm.head = unmask.DependenceHead.train(lm, texts(24), samples=4, settings=QUIET)
    return lm


def test_features_are_those_of_their_definition() -> None:
    rng = torch.Generator().manual_seed(0)
    attention = torch.rand(1, 2, 3, 4, 4, generator=rng)
    hidden = torch.randn(1, 2, 4, 5, generator=rng)
    log_probs = torch.randn(4, 6, generator=rng).double().log_softmax(dim=1)
    inside, positions = Inside(torch.zeros(1, 4, 5), attention, hidden), [3, 9, 4, 6]
    features = pair_features(inside, log_probs[None], torch.tensor([positions]))[0]
    assert feature_groups(inside)["attention"] == 12
    assert features.shape == (6, sum(feature_groups(inside).values()))
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    p = log_probs.exp()
    for row, (i, j) in enumerate(pairs):
        heads = [attention[0, layer, one] for layer in (0, 1) for one in range(3)]
        both = [(one[i, j], one[j, i]) for one in heads]
        entropy = [-float((p[b] * p[b].log()).sum()) for b in (i, j)]
        sure = [float(p[b].max()) for b in (i, j)]
        apart = abs(positions[i] - positions[j])
        expected = [math.log((one + other) / 2) for one, other in both]
        expected += [math.log(max(one, other)) for one, other in both]
        expected += [min(entropy), max(entropy), min(sure), max(sure)]
        expected += [1 / (apart + 1), float(apart == 1), float(apart == 2)]
        for state in (0, 1):
            one, other = hidden[0, state, i], hidden[0, state, j]
            expected.append(float(one @ other / one.norm() / other.norm()))
        expected.append(float((p[i] * p[j]).sqrt().sum()))
        assert features[row].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_a_head_learns_what_features_determine() -> None:
    rng = torch.Generator().manual_seed(1)
    features = torch.randn(600, 10, generator=rng)
    bits = (features[:, 0] - 2).exp().double()
    pairs = training.LabelledPairs(
        features, bits, 0.05 * bits, torch.arange(600) // 6, {"attention": 0}
    )
    held_out = pairs.texts >= 90
    head = unmask.DependenceHead(training.fit(pairs, held_out))
    predicted = head.bits(features[held_out])
    assert np.corrcoef(predicted.log(), bits[held_out].log())[0, 1] > 0.97


@pytest.mark.slow
def test_the_head_predicts_in_one_pass_per_step(trained: unmask.LanguageModel) -> None:
    head = trained.head
    assert head.facts["features"]["attention"] == 2 * 2 * 4
    one = trained.decode(TEXT, rule="head", threshold=0.0, settings=QUIET)
    surest = trained.decode(TEXT, rule="surest", settings=QUIET)
    assert one["token"] == surest["token"]
    every = trained.decode(TEXT, rule="head", threshold=99, settings=QUIET)
    assert (len(every["groups"]), every["forward_passes"]) == (1, 1)
    some = trained.decode(TEXT, rule="head", threshold=0.3, settings=QUIET)
    assert some["forward_passes"] == len(some["groups"])


@pytest.mark.slow
def test_a_map_by_the_head_is_what_the_head_predicts(trained: unmask.LanguageModel) -> None:
    head, model = trained.head, trained.model

    def predicted(ids: list[int], positions: list[int]) -> torch.Tensor:
        at = torch.tensor([positions])
        inside = model.inside(torch.tensor([ids]), at)
        outcomes = Outcomes.of(model, trained.support("vocabulary"))
        return head.predict(inside, outcomes.log_probs(inside.readouts[0])[None], at)[0]

    cloze = trained.cloze(TEXT)
    blanks = trained.dependence(TEXT, measure="head", settings=QUIET)
    assert (blanks.forward_passes, blanks.unit, blanks.standard_errors) == (1, "bits", None)
    expected = predicted(list(cloze.ids), list(cloze.positions)).fill_diagonal_(math.nan)
    torch.testing.assert_close(blanks.values, expected, equal_nan=True, rtol=1e-4, atol=1e-6)
    # of a whole text, two words at a time are masked
    whole = trained.dependence("the cat sat on", measure="head", window=2, settings=QUIET)
    ids = list(trained.tokenizer("the cat sat on")["input_ids"])
    (first,), (second,) = (place.positions for place in (whole.places[0], whole.places[2]))
    ids[first] = ids[second] = model.mask_id
    expected = predicted(ids, [first, second])
    assert float(whole.values[0, 2]) == pytest.approx(float(expected[0, 1]), rel=1e-4)
    assert whole.values[0, 3].isnan()
    assert whole.forward_passes == 5


@pytest.mark.slow
def test_a_word_of_several_tokens_has_the_sum_of_theirs(trained: unmask.LanguageModel) -> None:
    text = "the cat sat on the mat."
    alone = trained.cloze("the [MASK] [MASK] on the [MASK].")
    one, two, three = alone.positions
    bits = trained.dependence(alone, measure="head", settings=QUIET).values
    question = MapQuestion(
        text, alone.ids, (Place("cat sat", (one, two)), Place("mat", (three,))), is_whole=True
    )
    options = MapOptions("head", trained.support("vocabulary"), by_head=trained.head.measure)
    (mapped,) = dependence_maps(trained.model, [question], options, QUIET)
    expected = float(bits[0, 2] + bits[1, 2])
    assert float(mapped.values[0, 1]) == pytest.approx(expected, rel=1e-4)


def test_without_a_head_there_is_one_to_be_had() -> None:
    lm = unmask.load(build("bert"))
    for ask in (
        lambda: lm.dependence(TEXT, measure="head"),
        lambda: lm.decode(TEXT, rule="head", threshold=0.3),
        lambda: lm.decode(TEXT, passes=2),
    ):
        with pytest.raises(
            unmask.errors.ModelError, match=r"no dependence head; train one .*any-rate"
        ):
            ask()


@pytest.mark.slow
def test_passes_choose_the_bound(trained: unmask.LanguageModel) -> None:
    head = trained.head
    bounds = [head.threshold_for(passes, 6) for passes in (1, 1.5, 2, 3, 4, 5, 6)]
    assert bounds == sorted(bounds, reverse=True)
    assert (bounds[0], bounds[-1]) == (math.inf, 0.0)
    fill = trained.decode(TEXT, passes=4, settings=QUIET)
    assert fill["forward_passes"] == 4
    fill = trained.decode(TEXT, passes=1, settings=QUIET)
    assert (fill["forward_passes"], fill["rule"], fill["threshold"]) == (1, "head", None)
    # of each text its own bound
    clozes = [TEXT, "the [MASK] sat on the [MASK]."]
    fills = trained.decode(clozes, rule="head", passes=2, settings=QUIET)
    assert [one["threshold"] for one in fills] == [head.threshold_for(2, n) for n in (4, 2)]
    for more in ({"rule": "surest"}, {"rule": "head", "threshold": 0.1}):
        with pytest.raises(unmask.errors.MethodError, match="passes chooses the threshold"):
            trained.decode(clozes, passes=2, **more)
    with pytest.raises(unmask.UnmaskError, match="a number of forward passes from 1"):
        trained.decode(clozes, passes=0)


def test_a_bound_lies_between_those_that_were_counted() -> None:
    passes = [[4.0, 2.0, 1.0], [8.0, 4.0, 2.0]]
    table = {"bounds": [0.1, 0.4, 1.6], "blanks": [4, 8], "passes": passes}
    head = unmask.DependenceHead({}, {"passes": table})
    assert head.threshold_for(2, 4) == pytest.approx(0.4)
    assert head.threshold_for(3, 4) == pytest.approx(0.2)
    # of six blanks the mean of both rows: 6, 3, 1.5
    assert head.threshold_for(3, 6) == pytest.approx(0.4)
    assert head.threshold_for(1.2, 6) == pytest.approx(1.6)


@pytest.mark.slow
def test_a_file_gives_back_the_head_and_knows_its_model(
    trained: unmask.LanguageModel, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = trained.head
    head.save(tmp_path / "sub" / FILE)
    again = unmask.DependenceHead.load(tmp_path / "sub" / FILE)
    assert again.to_dict() == head.to_dict()
    assert again.facts["model"] == "small", "no folder of this machine"
    assert all(torch.equal(again.tensors[name], one) for name, one in head.tensors.items())
    again.check(trained.model, "bert")
    other = unmask.load(build("roberta"))
    with pytest.raises(unmask.errors.ModelError, match="was trained for other weights"):
        again.check(other.model, "roberta")
    (tmp_path / "bad").write_bytes(b"x")
    with pytest.raises(unmask.errors.ModelError, match="is no dependence head"):
        unmask.DependenceHead.load(tmp_path / "bad")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert place_of(str(tmp_path)) == tmp_path / FILE
    assert place_of("a/model").is_relative_to(tmp_path / "cache")


@pytest.mark.slow
def test_a_model_in_a_folder_has_the_head_beside_it(
    trained: unmask.LanguageModel, tmp_path
) -> None:
    for part in build("bert"):
        part.save_pretrained(tmp_path)
    assert unmask.load(tmp_path).head is None
    assert trained.head is not None
    trained.head.save(tmp_path / FILE)
    lm = unmask.load(tmp_path)
    how = {"rule": "head", "threshold": 0.3, "settings": QUIET}
    assert lm.decode(TEXT, **how) == trained.decode(TEXT, **how)


@pytest.mark.slow
def test_without_attention_the_model_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_STEPS", 100)
    monkeypatch.setattr(training, "BOUNDS", (0.5, 3.0))
    monkeypatch.setattr(training, "_COUNTED_TEXTS", 1)
    lm = unmask.load(build("bert"))
    head = unmask.DependenceHead.train(lm, texts(12), samples=4, attention=False, settings=QUIET)
    assert not head.reads_attention
    lm.head = head
    fill = lm.decode(TEXT, rule="head", threshold=0.3, settings=QUIET)
    assert fill["forward_passes"] == len(fill["groups"])


def test_too_few_texts_are_refused() -> None:
    lm = unmask.load(build("bert"))
    with pytest.raises(unmask.UnmaskError, match="at least 10 texts of 4 or more tokens"):
        unmask.DependenceHead.train(lm, ["the cat sat.", *texts(3)], settings=QUIET)


def test_a_sorted_file_is_learnt_from_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[str]()

    def record(_: object, some: list[str], **__: object) -> list[object]:
        given.extend(some)
        return []

    monkeypatch.setattr(training, "masked_texts", record)
    every = sorted(set(texts(40)))
    with pytest.raises(unmask.UnmaskError, match="at least 10 texts"):
        unmask.DependenceHead.train(unmask.load(build("bert")), every)
    assert sorted(given) == every
    assert given != every
