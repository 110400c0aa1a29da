"""Mutations: their odds and interactions against definitions, and what is refused."""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from assets import real_model
from tiny_models import build
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint
from transformers import AutoModelForMaskedLM, AutoTokenizer

import unmask
from unmask.sequences.residues import parse_mutations, residue_cloze
from unmask.text.residues import check_positions, check_sequence

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "runs"))

import antibody_pairs  # noqa: E402
import marked_page  # noqa: E402

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
QUIET = unmask.Settings(progress=False, announce=False)
# constructions that recover the truth where one joint has all the conditionals
EXACT = ("hcb", "ag", "weighted-ag", "pseudo-gibbs", "log-pool", "orders", "sweep")


class Letters(ToyTokenizer):
    """Residues as tokens: apart ("A C D", as ProtBert) or together ("ACD", as ESM)."""

    def __init__(self, letters: str, *, apart: bool) -> None:
        super().__init__(len(letters))
        self.names = [*letters, self.mask_token]
        self.apart = apart

    def __call__(self, text: str, **_: Any) -> Mapping[str, Any]:
        words = text.split() if self.apart else list(text)
        return {"input_ids": [self.names.index(word) for word in words]}


def toy(table: np.ndarray, *, letters: str = RESIDUES, apart: bool = True, noise: float = 0.0):
    model = ToyMaskedLM(table, noise=noise)
    return unmask.LanguageModel(model, Letters(letters, apart=apart), name="toy")


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    return toy_joint(20, 3, seed=5)


def place(residues: str) -> tuple[int, ...]:
    return tuple(RESIDUES.index(letter) for letter in residues)


# --- mutations of a sequence -------------------------------------------------------------------


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "together"])
@pytest.mark.parametrize("method", EXACT)
def test_a_compatible_model_gives_the_true_odds_ratio(truth, method, apart):
    found = toy(truth, apart=apart).mutations("WCA", "W1G:A3K", method=method)
    log_p = np.log(truth)
    both, first, second, none = (log_p[place(s)] for s in ("GCK", "GCA", "WCK", "WCA"))
    assert found.log_odds == pytest.approx(both - none, abs=2e-5)
    assert found.single_log_odds == pytest.approx((first - none, second - none), abs=2e-5)
    assert found.interaction == pytest.approx(both + none - first - second, abs=4e-5)
    assert found.log_odds == found.joint.log_odds(["G", "K"], ["W", "A"])
    assert abs(found.interaction) > 0.5


def test_the_markov_field_counts_interaction_twice(truth):
    lm = toy(truth)
    pooled, field = (lm.mutations("WCA", "W1G:A3K", method=m) for m in ("log-pool", "mrf"))
    assert field.interaction == pytest.approx(2 * pooled.interaction, abs=1e-5)


@pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
def test_independent_residues_do_not_interact(method):
    factors = np.random.default_rng(3).random((3, 20)) + 0.1
    table = np.einsum("a,b,c->abc", *factors)
    found = toy(table).mutations("WCA", "W1G:C2K", method=method)
    assert found.interaction == pytest.approx(0, abs=1e-5)
    assert abs(found.log_odds) > 0.1


def test_the_independent_joint_has_no_interaction(truth):
    found = toy(truth, noise=0.5).mutations("WCA", "W1G:C2K", method="mlm")
    assert found.interaction == pytest.approx(0, abs=1e-12)
    assert found.forward_passes == 1


@pytest.mark.parametrize("method", ["log-pool", "mrf", "hcb", "orders"])
def test_the_order_and_separator_of_mutations_do_not_matter(truth, method):
    lm = toy(truth, noise=0.5)
    written = ("W1G:A3K", "A3K:W1G", "a3k , w1g", "A3K,W1G")
    found = [lm.mutations("WCA", one, method=method).to_dict() for one in written]
    assert all(one == found[0] for one in found)
    assert found[0]["mutations"] == ["W1G", "A3K"]


@pytest.mark.parametrize(
    ("method", "rows"), [("log-pool", 41), ("mrf", 41), ("ag", 41), ("mlm", 1), ("orders", 9)]
)
def test_rows_are_counted(method, rows):
    # a token beside the alphabet, as every real model has: how much mass it takes is a row
    lm = toy(toy_joint(21, 2), letters=RESIDUES + "X")
    found = lm.mutations("WC", "W1G:C2K", method=method)
    assert found.forward_passes == lm.model.rows_asked == rows
    assert (found.incompatibility is None) == (rows < 41)


@pytest.mark.parametrize("method", ["log-pool", "ag", "hcb", "orders"])
def test_three_mutations_of_a_compatible_model(method):
    table = toy_joint(5, 4, seed=1)
    lm, log_p = toy(table, letters="ACDEF"), np.log(table)
    found = lm.mutations("ACDE", "E4A:A1D:C2E", method=method, support=list("ACDEF"))
    none, every = log_p[0, 1, 2, 3], log_p[2, 3, 2, 0]
    alone = [log_p[2, 1, 2, 3] - none, log_p[0, 3, 2, 3] - none, log_p[0, 1, 2, 0] - none]
    assert found.single_log_odds == pytest.approx(alone, abs=2e-5)
    assert found.interaction == pytest.approx(every - none - sum(alone), abs=5e-5)


def test_one_mutation_is_the_models_own_distribution(truth):
    found = toy(truth).mutations("WCA", "C2K")
    log_p = np.log(truth)
    assert found.log_odds == pytest.approx(log_p[place("WKA")] - log_p[place("WCA")], abs=1e-5)
    assert found.single_log_odds == (found.log_odds,)
    assert (found.interaction, found.incompatibility, found.forward_passes) == (0.0, None, 1)
    assert json.loads(json.dumps(found.to_dict()))["mutations"] == ["C2K"]
    assert "Joint" not in repr(found)


def test_another_alphabet_and_lower_case():
    table = toy_joint(4, 3, seed=2)
    log_p = np.log(table)
    expected = log_p[1, 1, 0] + log_p[0, 1, 3] - log_p[1, 1, 3] - log_p[0, 1, 0]
    for letters in ("ACGT", "acgt"):
        lm = toy(table, letters=letters)
        for sequence in ("ACT", "a c\nt"):
            found = lm.mutations(sequence, "A1C:T3A", support="nucleotides")
            assert found.interaction == pytest.approx(expected, abs=4e-5)


def test_candidates_in_hand(truth):
    lm = toy(truth)
    found = lm.mutations("WCA", "W1G:A3K", support=["A", "G", "K", "W"])
    assert found.joint.shape == (4, 4)
    assert found.forward_passes == 9


SEQUENCE = "WCAG"


@pytest.mark.parametrize(
    ("mutations", "said"),
    [
        ("W1", "'W1' in 'W1' is not a mutation; write A42G or A42G:L45K"),
        ("", "'' in '' is not a mutation; write A42G or A42G:L45K"),
        ("W1A:", "'' in 'W1A:' is not a mutation; write A42G or A42G:L45K"),
        (
            "W1A C2A",
            "'W1A C2A' in 'W1A C2A' is not a mutation; write A42G or A42G:L45K",
        ),
        ("W١A", "'W١A' in 'W١A' is not a mutation; write A42G or A42G:L45K"),
        (
            "W\x1b1A",
            "'W\\x1b1A' in 'W\\x1b1A' is not a mutation; write A42G or A42G:L45K",
        ),
        (7, "mutations are a string such as A42G:L45K, not 7"),
        ("W5A", "W5A: there is no position 5; the sequence has 1 to 4"),
        ("W0A", "W0A: there is no position 0; the sequence has 1 to 4"),
        ("W1A:D2K", "D2K: the sequence has C at position 2, not D"),
        ("C2A:W1A:C2K", "C2A and C2K are both at position 2; give each position once"),
        ("W1W", "W1W changes nothing: it puts W where W is"),
    ],
)
def test_mutations_that_cannot_be(mutations, said):
    with pytest.raises(unmask.ClozeError) as raised:
        parse_mutations(mutations, SEQUENCE)
    assert str(raised.value) == said


def test_any_number_of_mutations_is_read():
    found = parse_mutations("G4A,C2K:W1A", SEQUENCE)
    assert list(map(str, found)) == ["W1A", "C2K", "G4A"]


@pytest.mark.parametrize(
    ("sequence", "said"),
    [
        (None, "a sequence is a string of residues, not NoneType"),
        (" \n", "the sequence is empty"),
        ("AC-D", "a sequence is letters A to Z; at position 3 it has '-'"),
        # upper case would make two letters of it
        ("Aß", "a sequence is letters A to Z; at position 2 it has 'ß'"),
    ],
)
def test_sequences_that_cannot_be(sequence, said):
    with pytest.raises(unmask.ClozeError) as raised:
        check_sequence(sequence)
    assert str(raised.value) == said


def refused(error, lm, *arguments, **options) -> str:
    with pytest.raises(error) as raised:
        lm.mutations(*arguments, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_what_the_model_or_the_support_does_not_have(truth):
    lm = toy(truth)
    said = refused(unmask.ClozeError, lm, "WXA", "W1G")
    assert said == "this model has no token for residue X, at position 2"
    said = refused(unmask.SupportError, lm, "WCA", "W1B")
    assert said == f"residue B is not in the support, which has {RESIDUES}"
    said = refused(unmask.SupportError, lm, "WCA", "W1G:C2A", support=["A", "G", "W"])
    assert said == "residue C is not in the support, which has AGW"
    assert refused(
        unmask.SupportError, toy(toy_joint(3, 3), letters="ACG"), "ACG", "A1C"
    ).startswith("this model has no token for 'D', 'E'")
    # nothing was asked of the model
    assert lm.model.rows_asked == 0


def test_a_model_of_texts_is_refused():
    lm = unmask.load(build("roberta"))
    # it has all these letters, but makes one piece of them
    said = refused(unmask.ClozeError, lm, "THE", "T1C", support="vocabulary")
    assert said.startswith("this tokenizer has no single token per residue")


@pytest.mark.slow
def test_a_sequence_longer_than_the_model_takes_is_cut_to_a_window():
    lm = unmask.load(build("esm"))
    long = "ACDEFGHIKLMNPQRSTVWY" * 5
    found = lm.mutations(long, "A41C:F45G")
    first, last = found.window
    part = lm.mutations(long[first - 1 : last], f"A{42 - first}C:F{46 - first}G")
    assert (found.log_odds, found.interaction) == (part.log_odds, part.interaction)
    assert part.window is None
    said = refused(unmask.ClozeError, lm, long, "A1C:Y100A")
    assert "are 100 residues apart, and the model reads" in said


def test_a_joint_over_all_letters_and_one_over_wild_type_and_mutant_have_two_names(truth):
    """One name, one number: a table of both keeps them apart."""
    lm = toy(truth, noise=0.5)
    over_letters = lm.mutations("WCA", "W1G:A3K", settings=QUIET)
    (over_two,) = lm.variants("WCA", ["W1G:A3K"], method="log-pool", settings=QUIET)
    assert abs(over_letters.log_odds - over_two.score) > 0.01
    assert (over_letters.method, over_two.method) == ("log-pool-20", "log-pool")
    assert over_letters.to_dict()["method"] == "log-pool-20"
    assert lm.interactions("WCA", [1, 3])[0].method == "log-pool-20"
    few = lm.mutations("WCA", "W1G:A3K", support=list("AGKW"))
    assert few.method == "log-pool-4"


@pytest.mark.slow
@pytest.mark.parametrize("sequence", ["MKALWYA", "m k a l w y a"])
def test_the_tiny_esm_reads_residues_together(sequence):
    lm = unmask.load(build("esm"))
    cloze = residue_cloze(lm, check_sequence(sequence), [3, 7])
    assert cloze.positions == (3, 7)  # one token in front
    assert lm.tokenizer.convert_ids_to_tokens(list(cloze.gold)) == ["A", "A"]
    found = lm.mutations(sequence, "A3G:L4K")
    by_text = lm.joint("M K <mask> <mask> W Y A", support="amino-acids")
    expected = by_text.interaction(["G", "K"], ["A", "L"])
    assert found.interaction == pytest.approx(expected, abs=1e-5)


# --- pairs of positions ------------------------------------------------------------------------


def test_a_map_of_all_pairs_against_the_definition(truth):
    found = toy(truth).interactions("WCA", [3, 1, 2], method="log-pool")
    assert [pair.positions for pair in found] == [(1, 2), (1, 3), (2, 3)]
    w = place("WCA")
    for pair in found:
        i, j = (position - 1 for position in pair.positions)
        (rest,) = {0, 1, 2} - {i, j}
        p = np.take(truth, w[rest], axis=rest)
        p /= p.sum()
        apart = np.outer(p.sum(1), p.sum(0))
        mutual = float((p * np.log2(p / apart)).sum())
        assert pair.mutual_information == pytest.approx(mutual, abs=1e-5)
        ratios = np.log(p) - np.log(p[w[i]]) - np.log(p[:, [w[j]]]) + np.log(p[w[i], w[j]])
        a, b = np.unravel_index(np.abs(ratios).argmax(), ratios.shape)
        assert pair.interaction == pytest.approx(ratios[a, b], abs=4e-5)
        named = [f"{'WCA'[k]}{k + 1}{RESIDUES[t]}" for k, t in ((i, a), (j, b))]
        assert list(map(str, pair.mutations)) == named
        assert pair.forward_passes == 41
        assert pair.incompatibility == pytest.approx(0, abs=1e-6)
        single = toy(truth).mutations("WCA", ":".join(named))
        assert single.interaction == pytest.approx(pair.interaction, abs=1e-9)


def test_the_strongest_of_a_joint_in_blocks(monkeypatch, truth):
    whole = toy(truth).interactions("WCA", [1, 2])
    monkeypatch.setattr("unmask.logspace.TILE_CELLS", 45)
    assert toy(truth).interactions("WCA", [1, 2])[0].mutations == whole[0].mutations


@pytest.mark.parametrize(
    ("positions", "said"),
    [
        ([1], "pairs need at least two positions, not 1"),
        ([1, 4], "there is no position 4; the sequence has 1 to 3"),
        ([1, 2, 1], "positions name 1 twice; give each once"),
        ([1, 1.5], "a position is a number from 1, not 1.5"),
        ("12", "positions are a list of numbers from 1, not '12'"),
    ],
)
def test_positions_that_cannot_be(positions, said):
    with pytest.raises(unmask.ClozeError) as raised:
        check_positions(positions, "WCA")
    assert str(raised.value) == said


# --- the page, and the real model --------------------------------------------------------------


def test_the_published_page_is_made_of_its_figures():
    folder = ROOT / "docs" / "results"
    found = json.loads((folder / "antibody-pairs.json").read_text(encoding="utf-8"))
    whole = (folder / "tables" / "antibody-pairs.csv").read_text(encoding="utf-8")
    assert marked_page.as_csv(antibody_pairs.table(found["pairs"])) == whole
    page = " ".join((folder / "variants.md").read_text(encoding="utf-8").split())
    near, far = (
        [
            pair["mutual_information"]
            for pair in found["pairs"]
            if (pair["positions"][1] - pair["positions"][0] == 1) == neighbours
        ]
        for neighbours in (True, False)
    )
    means = [sum(values) / len(values) for values in (near, far)]
    assert f"{means[0]:.3f} bits of mutual information on average, {means[1]:.3f} for other" in page
    assert f"at most {max(pair['incompatibility'] for pair in found['pairs']):.3f} bits" in page
    assert found["sequence"] == antibody_pairs.SEQUENCE
    assert len(found["pairs"]) == math.comb(len(found["positions"]), 2)
    assert found["forward_passes"] == 41 * len(found["pairs"])
    assert "/" not in found["model"]


# half of the chain, for time; runs/antibody_pairs.py does the same on all of it
CHAIN_END = antibody_pairs.SEQUENCE[60:]
PAIR = (41, 42)
# the model's float32 rounds: measured 3e-6 and, as `mrf` counts all twice, 7e-6; up to 7e-6 and
# 1.5e-5 at other pairs
LOOP_ERROR = {"log-pool": 1e-5, "mrf": 2e-5}


@pytest.fixture(scope="module")
def antiberty() -> unmask.LanguageModel:
    return unmask.load(real_model("antiberty"))


@pytest.fixture(scope="module")
def plain_tables() -> np.ndarray:
    """log q(a|b) + log q(b|a), forty passes by hand in float64: no part of this package."""
    path = real_model("antiberty")
    model = AutoModelForMaskedLM.from_pretrained(path, dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(path)
    letters = tokenizer.convert_tokens_to_ids(list(RESIDUES))
    # a residue's number is its token's index: one token stands in front
    plain = tokenizer(" ".join(CHAIN_END))["input_ids"]

    def log_table(outcome: int, context: int) -> np.ndarray:
        rows = []
        for token in letters:
            ids = list(plain)
            ids[outcome], ids[context] = tokenizer.mask_token_id, token
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids])).logits[0, outcome]
            rows.append(torch.log_softmax(logits[letters], dim=0).numpy())
        return np.stack(rows)

    return log_table(*PAIR).T + log_table(*reversed(PAIR))


@pytest.mark.real
@pytest.mark.assets("the antibody model")
@pytest.mark.parametrize("method", ["log-pool", "mrf"])
def test_an_antibodys_interactions_are_those_of_a_plain_loop(antiberty, plain_tables, method):
    """All 19 x 19 double mutants of two residues, from 20 + 20 rows and one for captured mass."""
    # both joints are a power of q(a|b) q(b|a) times factors of one blank, which cancel
    log_p = plain_tables * {"log-pool": 0.5, "mrf": 1.0}[method]
    a, b = (RESIDUES.index(CHAIN_END[position - 1]) for position in PAIR)
    expected = log_p - log_p[a] - log_p[:, [b]] + log_p[a, b]

    effect = antiberty.mutations(CHAIN_END, "G41A:D42Y", method=method, settings=QUIET)
    assert effect.forward_passes == 41
    both = RESIDUES.index("A"), RESIDUES.index("Y")
    assert effect.interaction == pytest.approx(expected[both], abs=1e-5)
    assert abs(effect.interaction) > 0.01
    log_rows = effect.joint.log_rows(slice(0, 20)).numpy()
    found = log_rows - log_rows[a] - log_rows[:, [b]] + log_rows[a, b]
    assert np.abs(found - expected).max() < LOOP_ERROR[method]
