"""Texts filled step by step: the loop against filling by hand, drawn tokens, batches, limits."""

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import build, two_blanks
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask.model.row_reader import RowReader
from unmask.queries.decode import decoding
from unmask.queries.decode.decoding import Decoding, fill_blanked
from unmask.queries.decode.rules import Step

QUIET = unmask.Settings(progress=False)
FOUR = "[MASK] [MASK] [MASK] [MASK]"


def toy(noise: float = 0.0) -> unmask.LanguageModel:
    return unmask.LanguageModel(ToyMaskedLM(toy_joint(4, 4), noise=noise), ToyTokenizer(4))


def two_surest(step: Step) -> list[int]:
    return step.surest_first[:2]


def unattending(step: Step, attention: torch.Tensor, threshold: float) -> list[int]:
    first = step.surest_first[0]
    return [first, *(n for n in step.surest_first[1:] if attention[first, n] < threshold)]


def at_random(step: Step) -> np.ndarray:
    count = len(step.log_probs)
    return step.generator.permutation(count)[: step.generator.integers(1, count + 1)]


def unmoved(step: Step) -> list[int]:
    if step.before is None:
        return step.surest_first[:1]
    moves = (step.log_probs - step.before).abs().amax(dim=1)
    return [n for n in step.surest_first if moves[n] < 0.1] or step.surest_first[:1]


OWN = {
    "attention": partial(unattending, threshold=0.3),
    "chance": at_random,
    "before": unmoved,
}


def test_a_step_writes_the_likeliest_given_the_steps_before() -> None:
    model = ToyMaskedLM(toy_joint(5, 4), noise=0.3)
    lm = unmask.LanguageModel(model, ToyTokenizer(5))
    fill = lm.decode(FOUR, rule=two_surest, settings=QUIET)
    ids, log_prob, left = [5] * 4, 0.0, [0, 1, 2, 3]
    for group in fill["groups"]:
        table = {p: torch.tensor(model._logits(ids, p)).log_softmax(dim=0) for p in left}
        surest = sorted(left, key=lambda p: -float(table[p].max()))
        assert list(group) == surest[:2]
        for blank in group:
            ids[blank] = int(table[blank].argmax())
            log_prob += float(table[blank].max())
            left.remove(blank)
    assert fill["token"] == ids
    assert fill["log_prob"] == pytest.approx(log_prob, abs=1e-5)
    assert (fill["method"], fill["rule"], fill["forward_passes"]) == ("decode", "two_surest", 2)


@pytest.mark.parametrize(
    ("rule", "one", "every"),
    [
        ("confidence", 1.0, 0.0),
        ("entropy-bound", 0.0, math.inf),
        ("mutual-information", 0.0, math.inf),
    ],
)
@pytest.mark.parametrize("draw", [False, True])
def test_at_its_limits_a_rule_is_one_at_a_time_or_all_at_once(
    rule: str, one: float, every: float, draw: bool
) -> None:
    lm = toy(noise=0.5)
    for threshold, limit in ((one, "surest"), (every, "all-at-once")):
        fills = [
            lm.decode(FOUR, rule=name, threshold=bound, draw=draw, settings=QUIET)
            for name, bound in ((rule, threshold), (limit, None))
        ]
        for key in ("token", "groups", "score", "log_prob"):
            assert fills[0][key] == fills[1][key]


def test_mutual_information_keeps_dependent_blanks_apart() -> None:
    pair = np.full((3, 3), 0.01)
    np.fill_diagonal(pair, [0.5, 0.3, 0.2])
    joint = np.einsum("ab,cd->abcd", pair, pair)
    lm = unmask.LanguageModel(ToyMaskedLM(joint), ToyTokenizer(3))
    fill = lm.decode(FOUR, rule="mutual-information", threshold=0.1, settings=QUIET)
    assert [sorted(blank // 2 for blank in group) for group in fill["groups"]] == [[0, 1], [0, 1]]
    # two steps, and before the first 4 blanks with 3 tokens each and the masked row, before the
    # second 2 blanks
    assert fill["forward_passes"] == 2 + (1 + 4 * 3) + (1 + 2 * 3)


@pytest.mark.slow
def test_drawn_one_at_a_time_texts_have_their_probabilities() -> None:
    joint = toy_joint(2, 3)
    lm = unmask.LanguageModel(ToyMaskedLM(joint), ToyTokenizer(2))
    text, draws = "[MASK] [MASK] [MASK]", 200
    counts = dict.fromkeys(itertools.product(range(2), repeat=3), 0)
    for seed in range(draws):
        fill = lm.decode(text, rule="surest", draw=True, seed=seed, settings=QUIET)
        counts[tuple(fill["token"])] += 1
    expected = (joint / joint.sum()).reshape(-1) * draws
    observed = np.array(list(counts.values()))
    # 7 degrees of freedom: beyond 24.3 once in a thousand
    assert ((observed - expected) ** 2 / expected).sum() < 24.3


@pytest.mark.parametrize("rule", ["entropy-bound", *OWN])
@pytest.mark.parametrize("draw", [False, True])
def test_texts_do_not_depend_on_those_beside_them(rule: str, draw: bool) -> None:
    lm = unmask.load(build("bert"))
    texts = [
        "the [MASK] sat [MASK] the [MASK].",
        "a [MASK] [MASK] on the [MASK] [MASK].",
        "the [MASK] dog [MASK] the cat.",
        "[MASK] [MASK] [MASK] [MASK] [MASK] [MASK]",
    ]
    how = {"rule": OWN.get(rule, rule), "threshold": None if rule in OWN else 0.3, "draw": draw}
    together = lm.decode(texts, settings=QUIET, **how)
    for text, one in zip(texts, together, strict=True):
        alone = lm.decode(text, settings=QUIET, **how)
        assert (alone["token"], alone["groups"]) == (one["token"], one["groups"])
        assert alone["log_prob"] == pytest.approx(one["log_prob"], abs=1e-4)
        assert one["forward_passes"] == len(one["groups"])
    halved = lm.decode(texts, settings=unmask.Settings(progress=False, batch_size=1), **how)
    assert [one["token"] for one in halved] == [one["token"] for one in together]


def test_rules_side_by_side_fill_as_each_alone() -> None:
    lm = unmask.load(build("bert"))
    axis = lm.support("tokens")
    cloze = lm.cloze("the [MASK] sat [MASK] the [MASK] [MASK].")
    ways = [("surest", 0), *((rule, 0) for rule in OWN.values()), ("mutual-information", 0.05)]
    ways += [("all-at-once", 0), ("surest", 0)]
    hows = [Decoding(rule, threshold, axis) for rule, threshold in ways]
    reader = RowReader(lm.model, QUIET)
    together = fill_blanked(reader, [cloze] * len(hows), hows)
    for how, one in zip(hows, together, strict=True):
        (alone,) = fill_blanked(RowReader(lm.model, QUIET), [cloze], [how])
        assert (one.tokens, one.steps) == (alone.tokens, alone.steps)
        assert one.forward_passes == alone.forward_passes
        assert one.log_prob == pytest.approx(alone.log_prob, abs=1e-4)


def test_a_batch_that_does_not_fit_is_filled_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = toy(noise=0.5)
    how = {"rule": at_random, "draw": True, "settings": QUIET}
    texts = [FOUR, "[MASK] t1 [MASK] [MASK]", "t0 [MASK] [MASK] [MASK]"]
    expected = lm.decode(texts, **how)
    decided, calls = decoding.Filling.decided, list[int]()

    def fails_late(filling: decoding.Filling, *step: Any) -> Any:
        calls.append(1)
        if len(calls) == len(texts):
            raise MemoryError
        return decided(filling, *step)

    monkeypatch.setattr(decoding.Filling, "decided", fails_late)
    assert lm.decode(texts, **how) == expected


def test_a_function_is_handed_what_a_step_knows() -> None:
    lm, steps = unmask.load(build("bert")), list[tuple[Step, torch.Tensor]]()

    def noted(step: Step, *, attention: torch.Tensor) -> list[int]:
        steps.append((step, attention))
        return step.surest_first[:1]

    text = "the [MASK] sat [MASK] the [MASK]."
    fill = lm.decode(text, rule=noted, settings=QUIET)
    # the last blank is filled by every rule
    assert [len(step.log_probs) for step, _ in steps] == [3, 2]
    (first, weights), (second, fewer) = steps
    assert (first.before, first.dependence) == (None, None)
    still_open = sorted({0, 1, 2} - set(fill["groups"][0]))
    assert torch.equal(second.before, first.log_probs[still_open])
    assert (weights.shape, fewer.shape) == ((3, 3), (2, 2))
    assert torch.equal(weights, weights.T)
    assert 0 < weights.min() < weights.max() < 1
    # log-probabilities of the blanks, as any other question reads them
    single = lm.decode(text, rule="all-at-once", settings=QUIET)
    assert float(first.likeliest[0].sum()) == pytest.approx(single["log_prob"], abs=1e-4)


def test_attention_is_the_models_own_and_its_setting_stays() -> None:
    network, tokenizer = build("bert")
    lm = unmask.load((network, tokenizer))
    before = network.config._attn_implementation
    ids = torch.tensor([tokenizer("the cat sat on the mat.")["input_ids"]] * 2)
    positions = torch.tensor([[1, 3], [2, 4]])
    inside = lm.model.inside(ids, positions)
    assert network.config._attn_implementation == before
    network.set_attn_implementation("eager")
    with torch.no_grad():
        own = network(input_ids=ids, output_attentions=True, output_hidden_states=True)
    network.set_attn_implementation(before)
    for row, at in enumerate(positions):
        for layer, weights in enumerate(own.attentions):
            torch.testing.assert_close(inside.attention[row, layer], weights[row][:, at][:, :, at])
        for number, states in enumerate((own.hidden_states[1], own.hidden_states[-1])):
            torch.testing.assert_close(inside.hidden[row, number], states[row, at])
    readouts = lm.model.readouts(ids, positions)
    torch.testing.assert_close(inside.readouts, readouts, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["distilbert", "esm", "albert", "modernbert"])
def test_other_architectures(name: str) -> None:
    network, tokenizer = build(name)
    lm = unmask.load((network, tokenizer))
    text = two_blanks(tokenizer)
    rule = partial(unattending, threshold=0.0)
    fill = lm.decode(text, rule=rule, settings=QUIET)
    one = lm.decode(text, rule="surest", settings=QUIET)
    assert fill["groups"] == one["groups"]
    assert (fill["rule"], fill["threshold"]) == ("unattending", None)


def test_the_default_rule_needs_neither_threshold_nor_head() -> None:
    lm = unmask.load(build("bert"))
    text = "the [MASK] sat [MASK] the [MASK]."
    fill = lm.decode(text, settings=QUIET)
    assert (fill["rule"], fill["threshold"]) == ("entropy-bound", 1.0)
    assert fill == lm.decode(text, rule="entropy-bound", threshold=1.0, settings=QUIET)
    assert lm.decode([text], settings=QUIET) == [fill]
    assert lm.decode(lm.cloze(text), settings=QUIET) == fill
    assert lm.decode([], settings=QUIET) == []


def test_a_hundred_blanks_have_a_finite_log_probability() -> None:
    network, tokenizer = build("bert")
    sizes = {"vocab_size": 8192, "max_position_embeddings": 128}
    config = type(network.config).from_dict({**network.config.to_dict(), **sizes})
    lm = unmask.load((type(network)(config).eval(), tokenizer))
    how = {"rule": "all-at-once", "support": "vocabulary", "settings": QUIET}
    fills = [lm.decode(" ".join(["[MASK]"] * count), **how) for count in (99, 100)]
    assert fills[1]["score"] == 0.0
    assert fills[1]["log_prob"] < fills[0]["log_prob"] < -700


def test_what_is_filled_step_by_step_is_not_ranked() -> None:
    lm = toy()
    for name, value in (("together", 0.1), ("passes", 2), ("rule", "surest"), ("threshold", 1)):
        with pytest.raises(unmask.errors.MethodError, match=rf"takes no {name}; lm.decode\("):
            lm.fill(FOUR, **{name: value})
    for name, call in (
        ("fill_together", r"decode\(texts\)"),
        ("independent_blanks", r"dependence\(text\).groups"),
        ("train_head", r"unmask.DependenceHead.train\(lm, texts\)"),
    ):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; use {call}"):
            getattr(lm, name)


def test_what_cannot_be_filled_is_refused() -> None:
    lm = toy()
    for how, said in (
        ({"rule": "best"}, "no rule 'best'"),
        ({"rule": "entropy"}, "did you mean 'entropy-bound'"),
        ({"rule": "confidence"}, "the rule confidence needs a threshold"),
        ({"rule": "surest", "threshold": 1}, "the rule surest has no threshold"),
        ({"rule": "surest", "seed": -1}, "seed is a whole number from 0"),
        ({"rule": "surest", "support": 5}, "step by step have one support"),
        ({"rule": OWN["attention"]}, "shows neither attention nor hidden states"),
        ({"rule": OWN["chance"], "threshold": 1}, "a function has no threshold"),
        ({"rule": lambda step: []}, "at least one number from 0 to 3"),
    ):
        with pytest.raises(unmask.UnmaskError, match=said):
            lm.decode(FOUR, settings=QUIET, **how)
