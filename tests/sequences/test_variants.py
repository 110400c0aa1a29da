"""Variants: every convention and joint against loops over the model, laws, and forward passes."""

import itertools
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import naive_variants
import numpy as np
import pytest
import reference_several
import torch
from assets import real_model
from naive_variants import Naive, changed
from tiny_models import build
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint
from transformers import AutoModelForMaskedLM, AutoTokenizer

import unmask
from unmask.sequences.variants import scoring
from unmask.sequences.variants.cubes import log_mean_over_orders, path_moments
from unmask.sequences.variants.laws import stationary_laws
from unmask.sequences.variants.methods import JOINTS, METHODS

QUIET = unmask.Settings(progress=False, announce=False)
WILDTYPE = "MKTAYIAKQRLEDWGHCSPV"
VARIANTS = ["A4G", "A4G:K8L", "K2R:Q9W:V20F", "M1A:K2R:A4G:K8L:W14A", "K8E"]
# of a heavy chain's end
ANTIBODY = "EVQLVESGGGLVQPGGSLRLSCAAS"
OF_ANTIBODY = ["G8A", "R19K:A24G", "S7T:L11F:S21T"]


@pytest.fixture(scope="module")
def tiny() -> unmask.LanguageModel:
    return unmask.load(build("esm"))


@pytest.fixture(scope="module")
def naive_tiny() -> Naive:
    return Naive(*build("esm"), apart=False)


def scored(lm: unmask.LanguageModel, variants: Any, wildtype: Any, method: str, **how: Any) -> Any:
    return lm.variants(wildtype, variants, method=method, settings=QUIET, **how)


def changes_of(variant: str) -> list[tuple[int, str]]:
    return [(int(one[1:-1]) - 1, one[-1]) for one in variant.split(":")]


# --- conventions against loops -----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", list(naive_variants.CONVENTIONS))
def test_conventions_are_those_of_a_loop_over_a_tiny_esm(method, tiny, naive_tiny) -> None:
    found = scored(tiny, VARIANTS, WILDTYPE, method)
    for variant, one in zip(VARIANTS, found, strict=True):
        changes = changes_of(variant)
        expected = naive_variants.CONVENTIONS[method](naive_tiny, WILDTYPE, changes)
        assert one.score == pytest.approx(expected, abs=1e-5)
        assert (one.method, one.reason) == (method, None)
        assert ":".join(map(str, one.mutations)) == variant
        if method == "hcb-path":
            sums = naive_variants.path_sums(naive_tiny, WILDTYPE, changes)
            expected_spread = float(np.std(sums)) if len(changes) > 1 else None
            assert one.spread == pytest.approx(expected_spread, abs=1e-5)
        else:
            assert one.spread is None


@pytest.mark.real
@pytest.mark.assets("antiberty")
@pytest.mark.parametrize("method", [*naive_variants.CONVENTIONS, "log-pool", "orders"])
def test_conventions_and_joints_are_those_of_a_loop_over_antiberty(method) -> None:
    lm, naive = _antiberty()
    for variant, one in zip(OF_ANTIBODY, scored(lm, OF_ANTIBODY, ANTIBODY, method), strict=True):
        changes = changes_of(variant)
        if method in naive_variants.CONVENTIONS:
            expected = naive_variants.CONVENTIONS[method](naive, ANTIBODY, changes)
        else:
            expected = reference_odds(naive, ANTIBODY, changes, method)
        # float32 passes of other batches: a few 1e-6 for each of up to six logs that are summed
        assert one.score == pytest.approx(expected, abs=3e-5)


@cache
def _antiberty() -> tuple[unmask.LanguageModel, Naive]:
    folder = real_model("antiberty")
    model = AutoModelForMaskedLM.from_pretrained(folder)
    naive = Naive(model, AutoTokenizer.from_pretrained(folder), apart=True)
    return unmask.load(str(folder)), naive


# --- joints ------------------------------------------------------------------------------------


def reference_odds(naive: Any, wildtype: str, changes: list[tuple[int, str]], method: str) -> float:
    """The log-odds of all mutants against all wild types by the definition of a joint."""
    if len(changes) == 1:
        return naive_variants.single_mask_marginals(naive, wildtype, changes)
    given = cache(naive_variants.given_function(naive, wildtype, changes))
    shape = (2,) * len(changes)
    if method == "ag":
        table = reference_several.steps(given, shape, 4000)
    else:
        name = method.replace("-", "_")
        table = getattr(reference_several, name)(given, shape)
    log = np.log(table)
    return float(log[(1,) * len(changes)] - log[(0,) * len(changes)])


# two to five mutations
VARIANTS = ["A4G:K8L", "K2R:Q9W:V20F", "K2R:A4G:Q9W:V20F", "M1A:K2R:A4G:K8L:W14A"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["log-pool", "pseudo-gibbs", "ag", "weighted-ag", "orders"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_joints_are_those_of_their_definitions(method, variant, tiny, naive_tiny) -> None:
    (found,) = scored(tiny, [variant], WILDTYPE, method)
    expected = reference_odds(naive_tiny, WILDTYPE, changes_of(variant), method)
    assert found.score == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("method", JOINTS)
@pytest.mark.parametrize("variant", ["A4G:K8L", "K2R:Q9W:V20F", "M1A:K2R:A4G:K8L:W14A"])
def test_joints_are_those_that_the_library_builds(method, variant, tiny) -> None:
    (found,) = scored(tiny, [variant], WILDTYPE, method)
    changes = changes_of(variant)
    cloze = tiny.cloze(WILDTYPE, blanks=[1 + place for place, _ in changes])
    before, after = [WILDTYPE[place] for place, _ in changes], [letter for _, letter in changes]
    axes = {t: list(both) for t, both in enumerate(zip(before, after, strict=True))}
    pivot = {"pivot": before[0] if len(before) == 2 else before} if method == "hcb" else {}
    joint = tiny.joint(cloze, method=method, support=axes, settings=QUIET, **pivot)
    assert found.score == pytest.approx(joint.log_odds(after, before), abs=1e-6)
    if method not in ("mlm", "orders"):
        known = tiny.joint(cloze, method="log-pool", support=axes, settings=QUIET)
        assert found.incompatibility == pytest.approx(known.incompatibility(), abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_landscape_has_the_numbers_of_its_variants(variant, tiny) -> None:
    methods = ["hcb-path", *JOINTS]
    whole = tiny.landscape(WILDTYPE, variant, methods=methods, settings=QUIET)
    for method in methods:
        (found,) = scored(tiny, [variant], WILDTYPE, method)
        assert found.score == pytest.approx(float(whole.of(method).flatten()[-1]), abs=1e-5), method


@pytest.mark.parametrize("k", [1, 2, 3, 5, 7])
def test_laws_are_stationary_to_rounding_however_unlikely(k) -> None:
    log_odds = np.random.default_rng(k).normal(0, 12, (3, k, 2**k))
    for law, odds in zip(stationary_laws(log_odds), log_odds, strict=True):
        mass, after = np.exp(law), np.zeros(2**k)
        for t, filled in itertools.product(range(k), range(2**k)):
            if not filled >> t & 1:
                both, full = mass[filled] + mass[filled | 1 << t], filled | 1 << t
                after[full] += both / (1 + np.exp(-odds[t, filled])) / k
                after[filled] += both / (1 + np.exp(odds[t, filled])) / k
        assert np.log(after) == pytest.approx(law, abs=1e-9)
        assert law.min() < (-5 if k > 1 else 0)


@pytest.mark.slow
def test_laws_of_many_states_are_those_of_power_iteration() -> None:
    """More states than one panel of the elimination has."""
    k = 6
    odds = np.random.default_rng(0).normal(0, 1, (k, 2**k))
    law = np.full(2**k, 2.0**-k)
    for _ in range(3000):
        after = np.zeros_like(law)
        for t in range(k):
            lacks = np.array([s for s in range(2**k) if not s >> t & 1])
            both = law[lacks] + law[lacks | 1 << t]
            after[lacks | 1 << t] += both / (1 + np.exp(-odds[t, lacks])) / k
            after[lacks] += both / (1 + np.exp(odds[t, lacks])) / k
        law = after
    assert stationary_laws(odds[None])[0] == pytest.approx(np.log(law), abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_moments_and_means_over_orders_are_those_of_a_list_of_orders(k) -> None:
    odds = np.random.default_rng(k).normal(0, 2, (k, 2**k))
    sums = []
    for order in itertools.permutations(range(k)):
        filled, total = 0, 0.0
        for t in order:
            total, filled = total + odds[t, filled], filled | 1 << t
        sums.append(total)
    mean, variance = (by_set[-1] for by_set in path_moments(odds))
    assert (mean, variance) == pytest.approx((np.mean(sums), np.var(sums)), abs=1e-12)
    log_mean = np.logaddexp.reduce(sums) - np.log(len(sums))
    assert log_mean_over_orders(odds) == pytest.approx(log_mean, abs=1e-12)


# --- laws --------------------------------------------------------------------------------------


class Letters(ToyTokenizer):
    """Residues as tokens, together."""

    def __init__(self, letters: str) -> None:
        super().__init__(len(letters))
        self.names = [*letters, self.mask_token]

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        return {"input_ids": [self.names.index(letter) for letter in text]}


def toy(axes: int, *, noise: float = 0.0, letters: str = "ACG", seed: int = 0) -> Any:
    model = ToyMaskedLM(toy_joint(len(letters), axes, seed), noise=noise)
    return unmask.LanguageModel(model, Letters(letters), name="toy")


# each of these takes conditionals alone, and gives back the joint that has them
RECOVERS = ["hcb-path", "hcb", "ag", "weighted-ag", "pseudo-gibbs", "log-pool"]


@pytest.mark.parametrize("method", RECOVERS)
def test_compatible_conditionals_give_the_true_odds(method) -> None:
    lm = toy(5)
    variants = ["A1C", "A1C:C2G", "A1G:G3A:A5C", "A1C:C2A:G3A:C4G:A5G"]
    log_p = np.log(lm.model.joint)
    for variant, one in zip(
        variants, scored(lm, variants, "ACGCA", method, support=list("ACG")), strict=True
    ):
        mutant = changed("ACGCA", changes_of(variant))
        cells = [tuple("ACG".index(letter) for letter in text) for text in (mutant, "ACGCA")]
        assert one.score == pytest.approx(log_p[cells[0]] - log_p[cells[1]], abs=5e-5)
        if method == "hcb-path" and len(one.mutations) > 1:
            assert one.spread == pytest.approx(0, abs=1e-5)
        if one.incompatibility is not None:
            assert one.incompatibility == pytest.approx(0, abs=1e-6)


def test_orders_is_exact_where_wild_type_and_mutant_are_all_that_there_is() -> None:
    """It reads with others masked, and what those may be are all letters."""
    lm = toy(4, letters="AC")
    (one,) = scored(lm, ["A1C:C2A:A4C"], "ACCA", "orders", support=["A", "C"])
    log_p = np.log(lm.model.joint)
    assert one.score == pytest.approx(log_p[1, 0, 1, 1] - log_p[0, 1, 1, 0], abs=5e-5)


def test_orders_of_a_path_disagree_where_conditionals_do() -> None:
    (one,) = scored(toy(4, noise=1.0), ["A1C:C2G:G3A"], "ACGC", "hcb-path", support=list("ACG"))
    assert one.spread > 0.1


# those that read a mutation with itself masked, and nothing else
MASKING = [name for name in METHODS if name not in ("wt-marginals", "mutant-marginals", "pll")]


@pytest.mark.parametrize("method", MASKING)
def test_one_mutation_has_one_score_by_whatever_masks_it(method, tiny) -> None:
    (one,) = scored(tiny, ["K8E"], WILDTYPE, method)
    (other,) = scored(tiny, ["K8E"], WILDTYPE, "single-mask-marginals")
    assert one.score == pytest.approx(other.score, abs=1e-9)
    assert (one.single_scores, one.interaction) == ((one.score,), None)


@pytest.mark.parametrize("method", METHODS)
def test_the_interaction_is_the_score_less_those_of_single_variants(method, tiny) -> None:
    both, *alone = scored(tiny, ["A4G:K8L", "A4G", "K8L"], WILDTYPE, method)
    if method in ("mutant-marginals", "pll"):
        assert (both.single_scores, both.interaction) == (None, None)
        return
    assert both.single_scores == pytest.approx([one.score for one in alone], abs=1e-9)
    expected = both.score - sum(one.score for one in alone)
    assert both.interaction == pytest.approx(expected, abs=1e-9)
    additive = method in ("wt-marginals", "single-mask-marginals")
    assert (abs(both.interaction) < 1e-9) == additive


@pytest.mark.parametrize("method", METHODS)
def test_scores_depend_on_no_other_variant_and_on_no_batch(method, tiny) -> None:
    together = scored(tiny, [*VARIANTS, "nonsense", VARIANTS[1]], WILDTYPE, method)
    # five mutations are many batches of one row, and show no more
    for variant, one in zip(VARIANTS[:3], together, strict=False):
        small = unmask.Settings(progress=False, batch_size=1)
        (alone,) = tiny.variants(WILDTYPE, [variant], method=method, settings=small)
        assert alone.score == pytest.approx(one.score, abs=1e-5)
        assert alone.forward_passes == one.forward_passes
    assert together[-1].score == together[1].score
    assert together[-2].reason is not None


@pytest.mark.parametrize("method", ["hcb-path", "log-pool"])
def test_blocks_telescope(method) -> None:
    """Exact for compatible conditionals, and said."""
    lm, variant = toy(5), "A1C:C2A:G3A:C4G:A5G"
    whole, cut = (
        scored(lm, [variant], "ACGCA", method, support=list("ACG"), largest_block=n)[0]
        for n in (11, 2)
    )
    assert (whole.blocks, cut.blocks) == (1, 3)
    assert cut.score == pytest.approx(whole.score, abs=5e-5)
    assert cut.forward_passes < whole.forward_passes
    assert cut.incompatibility is None


def test_blocks_are_those_of_their_definition() -> None:
    """Each with the earlier ones mutated and the later ones at wild type."""
    lm, how = toy(5, noise=1.0), {"support": list("ACG")}
    (cut,) = scored(lm, ["A1C:C2A:G3A:C4G"], "ACGCA", "log-pool", largest_block=2, **how)
    (first,) = scored(lm, ["A1C:C2A"], "ACGCA", "log-pool", **how)
    (second,) = scored(lm, ["G3A:C4G"], "CAGCA", "log-pool", **how)
    assert cut.score == pytest.approx(first.score + second.score, abs=1e-9)
    assert cut.blocks == 2


@pytest.mark.parametrize("alphabet", ["nucleotides", "rna"])
def test_dna_and_rna(alphabet) -> None:
    letters = {"nucleotides": "ACGT", "rna": "ACGU"}[alphabet]
    table = toy_joint(4, 3)
    lm = unmask.LanguageModel(ToyMaskedLM(table), Letters(letters), name="toy")
    last = letters[-1]
    (one,) = scored(lm, [f"A1C:{last}3G"], f"AC{last}", "log-pool", support=alphabet)
    expected = np.log(table[1, 1, 2]) - np.log(table[0, 1, 3])
    assert one.score == pytest.approx(expected, abs=1e-5)


# --- forward passes ----------------------------------------------------------------------------

PASSES = {
    "wt-marginals": 1,
    # one per set of positions that is not empty, per distinct mutant, and per position
    "masked-marginals": 31,
    "mutant-marginals": 31,
    "single-mask-marginals": 5,
    "mut-fill": 5 * 2**4,
    "match-fill": 5 * 2**4,
    # the wild type too, each position masked: with it masked, a mutant is another one
    "pll": 5 * 2**4 + 2**5,
    "hcb-path": 5 * 2**4,
    "log-pool": 5 * 2**4,
    "pseudo-gibbs": 5 * 2**4,
    "ag": 5 * 2**4,
    "mrf": 5 * 2**4,
    # every set masked, every part of the rest mutated
    "orders": 3**5 - 2**5,
}


def landscape(wildtype: str, mutant: str) -> list[str]:
    """All combinations of these mutations but none."""
    single = [f"{w}{n}{m}" for n, (w, m) in enumerate(zip(wildtype, mutant, strict=True), 1)]
    sets = itertools.chain.from_iterable(
        itertools.combinations(single, size) for size in range(1, len(single) + 1)
    )
    return [":".join(one) for one in sets]


@pytest.mark.parametrize(("method", "passes"), PASSES.items())
def test_a_landscape_takes_the_forward_passes_that_it_must(method, passes) -> None:
    lm = toy(6, noise=0.5, letters="AC")
    variants = landscape("AAAAA", "CCCCC")
    found = scored(lm, variants, "AAAAAA", method, support=["A", "C"])
    assert len(found) == 31
    assert all(one.reason is None for one in found)
    assert lm.model.rows_asked == passes
    # on its own, the last takes those that it says
    lm.model.rows_asked = 0
    (last,) = scored(lm, variants[-1:], "AAAAAA", method, support=["A", "C"])
    assert lm.model.rows_asked == last.forward_passes == found[-1].forward_passes
    assert last.score == pytest.approx(found[-1].score, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_variant_takes_the_forward_passes_that_are_documented(k: int) -> None:
    lm = toy(6, noise=0.5, letters="AC")
    variant = ":".join(f"A{position}C" for position in range(1, k + 1))
    cubes = k * 2 ** (k - 1)
    others = {"weighted-ag": cubes + 1, "orders": 2 ** (k + 1) - 3, "mlm": 1 + k}
    for method in ("hcb-path", *JOINTS):
        (found,) = scored(lm, [variant], "AAAAAA", method, support=["A", "C"])
        assert found.forward_passes == others.get(method, cubes), method


@pytest.mark.slow
def test_methods_of_one_call_share_their_rows() -> None:
    lm = toy(6, noise=0.5, letters="AC")
    reader = scoring.VariantReader(lm, "AAAAAA", ["A", "C"])
    read = [reader.read(one) for one in landscape("AAAAA", "CCCCC")]
    methods = ["single-mask-marginals", "hcb-path", "log-pool", "pseudo-gibbs", "ag", "mrf"]
    found = scoring.scores_by_methods(lm, read, methods, settings=QUIET)
    assert lm.model.rows_asked == 5 * 2**4
    assert [list(one) for one in found] == [methods] * 31


@pytest.mark.slow
@pytest.mark.long
def test_a_landscape_of_eleven_positions_is_exact() -> None:
    """11 x 2^10 rows, by a model that counts them and whose readouts are made up."""

    seen: Counter[tuple[int, ...]] = Counter()

    class Counting(ToyMaskedLM):
        def _logits(self, row: list[int], position: int) -> Any:
            seen[tuple(row)] += 1
            return np.array([0.3 * row.count(1) + 0.1 * position, 0.0])

    model = Counting(np.ones((2,) * 12))
    lm = unmask.LanguageModel(model, Letters("AC"), name="toy")
    variants = landscape("A" * 11, "C" * 11)
    found = scored(lm, variants, "A" * 12, "log-pool", support=["A", "C"])
    assert len(found) == 2**11 - 1
    assert {one.blocks for one in found} == {1}
    assert model.rows_asked == 11 * 2**10 == len(seen)


@pytest.mark.slow
def test_rows_in_flight_are_bounded_and_results_are_the_same(tiny, monkeypatch) -> None:
    variants = [*VARIANTS, *(f"{WILDTYPE[p]}{p + 1}C:V20W" for p in range(5, 15))]
    whole = scored(tiny, variants, WILDTYPE, "log-pool")
    kept: list[int] = []
    real = scoring.run_rows

    def counting(reader: Any, requests: Any) -> Any:
        kept.append(len(requests))
        return real(reader, requests)

    monkeypatch.setattr(scoring, "run_rows", counting)
    monkeypatch.setattr(scoring, "_ROWS_AT_ONCE", 10)
    pieces = scored(tiny, variants, WILDTYPE, "log-pool")
    # the one with five mutations takes 80 by itself
    assert sorted(kept)[-1] == 80
    assert max(sorted(kept)[:-2]) <= 12
    for one, other in zip(whole, pieces, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-6)


# --- what is read ------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_wild_type_comes_of_the_mutated_sequence(tiny) -> None:
    rows = [
        {"mutant": one, "mutated_sequence": changed(WILDTYPE, changes_of(one)), "DMS_score": 1}
        for one in VARIANTS
    ]
    plain = scored(tiny, VARIANTS, WILDTYPE, "log-pool")
    assert scored(tiny, rows, None, "log-pool") == plain
    # with both, they must agree
    assert scored(tiny, rows, WILDTYPE, "log-pool") == plain
    rows[0]["mutated_sequence"] = "C" + str(rows[0]["mutated_sequence"])[1:]
    one, *_ = scored(tiny, rows, WILDTYPE, "log-pool")
    assert one.reason == ("the mutated_sequence has C at position 1, where the mutations leave M")


MUTATED = changed(WILDTYPE, [(3, "G")])
BAD: list[tuple[Any, str | None, str]] = [
    ("K4G", WILDTYPE, "K4G: the sequence has A at position 4, not K"),
    ("A21G", WILDTYPE, "A21G: there is no position 21; the sequence has 1 to 20"),
    ("M0G", WILDTYPE, "M0G: there is no position 0; the sequence has 1 to 20"),
    ("A4*", WILDTYPE, "'A4*' in 'A4*' is not a mutation; write A42G or A42G:L45K"),
    ("A4del", WILDTYPE, "'A4del' in 'A4del' is not a mutation; write A42G or A42G:L45K"),
    ("A4_Y5insG", WILDTYPE, "'A4_Y5insG' in 'A4_Y5insG' is not a mutation"),
    ("A4GG", WILDTYPE, "'A4GG' in 'A4GG' is not a mutation"),
    ("p.Ala4Gly", WILDTYPE, "'p.Ala4Gly' in 'p.Ala4Gly' is not a mutation"),
    ("A4G:A4L", WILDTYPE, "A4G and A4L are both at position 4; give each position once"),
    ("A4G:A4G", WILDTYPE, "A4G and A4G are both at position 4; give each position once"),
    ("A4A", WILDTYPE, "A4A changes nothing: it puts A where A is"),
    ("", WILDTYPE, "there is no mutation; write A24G or A24G:K31R"),
    ("  ", WILDTYPE, "there is no mutation; write A24G or A24G:K31R"),
    ("WT", WILDTYPE, "'WT' in 'WT' is not a mutation"),
    ("A4G:", WILDTYPE, "'' in 'A4G:' is not a mutation"),
    ("A4G K8L", WILDTYPE, "'A4G K8L' in 'A4G K8L' is not a mutation"),
    ("A9999999999G", WILDTYPE, "'A9999999999G' in 'A9999999999G' is not a mutation"),
    ("A4Ä", WILDTYPE, "'A4Ä' in 'A4Ä' is not a mutation"),
    ("A-4G", WILDTYPE, "'A-4G' in 'A-4G' is not a mutation"),
    ("A4X", WILDTYPE, "residue X is not in the support, which has ACDEFGHIKLMNPQRSTVWY"),
    (None, WILDTYPE, "mutations are a string such as A42G:L45K, not None"),
    (float("nan"), WILDTYPE, "mutations are a string such as A42G:L45K, not nan"),
    (4, WILDTYPE, "mutations are a string such as A42G:L45K, not 4"),
    ({"mutations": "A4G"}, WILDTYPE, "a variant has a 'mutant' such as A24G:K31R"),
    ({"mutant": None}, WILDTYPE, "mutations are a string such as A42G:L45K, not None"),
    (
        {"mutant": "A4G", "mutated_sequence": MUTATED[:-1]},
        WILDTYPE,
        "the mutated_sequence has 19 residues, and the wild type 20",
    ),
    (
        {"mutant": "A4G", "mutated_sequence": WILDTYPE},
        None,
        "A4G: the mutated_sequence has A at position 4, not G",
    ),
    (
        {"mutant": "A4G", "mutated_sequence": "MKTG-YIAKQ"},
        None,
        "a sequence is letters A to Z; at position 5 it has '-'",
    ),
    ("A4G", None, "there is no wild type: give one, or a 'mutated_sequence' with the variant"),
    (
        {"mutant": "A4G", "mutated_sequence": float("nan")},
        None,
        "there is no wild type: give one, or a 'mutated_sequence' with the variant",
    ),
]


@pytest.mark.parametrize(("variant", "wildtype", "said"), BAD)
def test_a_bad_variant_has_a_reason_and_the_others_go_on(variant, wildtype, said, tiny) -> None:
    good = {"mutant": "A4G", "mutated_sequence": MUTATED}
    bad, other = scored(tiny, [variant, good], wildtype, "log-pool")
    assert bad.reason.startswith(said)
    assert (bad.score, bad.forward_passes, other.reason) == (None, 0, None)
    assert json.loads(json.dumps(bad.to_dict()))["mutations"] == []


def test_lower_case_and_separators_are_read(tiny) -> None:
    found = scored(tiny, ["A4G:K8L", "a4g:k8l", "K8L,A4G", " A4G : K8L "], WILDTYPE, "log-pool")
    assert [one.score for one in found] == [found[0].score] * 4


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"method": "sweep"}, "no method 'sweep' of variants; methods: wt-marginals, "),
        (
            {"method": "log-pool-20"},
            "no method 'log-pool-20' of variants; did you mean 'log-pool'?",
        ),
        ({"method": 3}, "no method 3 of variants"),
        ({"method": "hcbpath"}, "no method 'hcbpath' of variants; did you mean 'hcb-path'?"),
        ({"largest_block": 12}, "a block has from 1 to 11 mutations, not 12"),
        ({"largest_block": 0}, "a block has from 1 to 11 mutations, not 0"),
        ({"support": "codons"}, "codons"),
        ({"sequence": "MK-T"}, "a sequence is letters A to Z; at position 3 it has '-'"),
        ({"sequence": " "}, "the sequence is empty"),
    ],
)
def test_what_no_variant_can_have_raises_at_once(how, said, tiny) -> None:
    given = {"sequence": WILDTYPE, **how}
    with pytest.raises(unmask.UnmaskError, match=said):
        tiny.variants(mutants=["A4G"], **given)


def test_aliases_of_constructions_are_methods(tiny) -> None:
    one, other = (scored(tiny, ["A4G:K8L"], WILDTYPE, m)[0] for m in ("ag", "Arnold_Gokhale"))
    assert one == other
    assert one.method == "ag"


# --- sequences longer than the model -----------------------------------------------------------


@pytest.mark.slow
def test_a_long_sequence_is_read_through_a_window(tiny) -> None:
    """The tiny model takes 24 tokens, two of them special."""
    long = (WILDTYPE * 5)[:90]
    variants = ["M1A", "A44G:K48L", "V60A", "A84G", "K2R:A24G", "L11A:T23K"]
    found = scored(tiny, variants, long, "masked-marginals")
    assert [one.window for one in found[:4]] == [(1, 22), (35, 56), (49, 70), (69, 90)]
    assert "K2R and A24G are 23 residues apart, and the model reads 22 at a time" in str(
        found[4].reason
    )
    for variant, one in zip(variants, found, strict=True):
        if one.window is None:
            continue
        first, last = one.window
        moved = ":".join(f"{m.wildtype}{m.position - first + 1}{m.mutant}" for m in one.mutations)
        (cut,) = scored(tiny, [moved], long[first - 1 : last], "masked-marginals")
        assert cut.score == pytest.approx(one.score, abs=1e-6), variant
        assert cut.window is None


def test_scores_are_values_ready_for_json(tiny) -> None:
    (one,) = scored(tiny, ["A4G:K8L"], WILDTYPE, "log-pool")
    found = json.loads(json.dumps(one.to_dict(), allow_nan=False))
    assert found["mutations"] == ["A4G", "K8L"]
    assert found["score"] == one.score
    assert found["single_scores"] == list(one.single_scores)


@pytest.mark.slow
def test_memory_stays_flat_however_many_variants_there_are() -> None:
    """700 random double mutants of 300 residues, against 100."""
    lm, wildtype = long_tiny()
    letters = "ACDEFGHIKLMNPQRSTVWY"
    rng = np.random.default_rng(0)

    def double() -> str:
        places = sorted(rng.choice(300, 2, replace=False).tolist())
        new = [rng.choice([letter for letter in letters if letter != wildtype[p]]) for p in places]
        return ":".join(f"{wildtype[p]}{p + 1}{m}" for p, m in zip(places, new, strict=True))

    variants = [double() for _ in range(700)]
    peaks = []
    for count in (100, 700):
        Path("/proc/self/clear_refs").write_text("5")
        found = scored(lm, variants[:count], wildtype, "log-pool")
        assert all(one.reason is None for one in found)
        status = Path("/proc/self/status").read_text()
        peaks.append(int(status.split("VmHWM:")[1].split()[0]) / 1024)
    assert peaks[1] - peaks[0] < 13


def long_tiny() -> tuple[unmask.LanguageModel, str]:
    """A tiny ESM that reads 302 tokens, and a protein of 300 residues."""
    model, tokenizer = build("esm")
    config = type(model.config)(**{**model.config.to_dict(), "max_position_embeddings": 310})
    torch.manual_seed(0)
    long = type(model)(config).eval()
    letters = list("ACDEFGHIKLMNPQRSTVWY")
    wildtype = "".join(np.random.default_rng(1).choice(letters, 300))
    return unmask.load((long, tokenizer)), wildtype
