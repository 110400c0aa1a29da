"""Block Gibbs over pairs of blanks: its draws against laws that are computed by summing."""

import itertools
import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from toy_lm import ToyMaskedLM, toy_joint

import unmask
from unmask.errors import MethodError, SupportError, UnmaskError
from unmask.model.hugging_face import Positions
from unmask.queries.sampling import conditionals, gibbs, pair_blocks, target
from unmask.queries.sampling.chains import Trace, mixing_of, updates_per_sweep
from unmask.queries.sampling.conditionals import Recent
from unmask.queries.sampling.gibbs import sample_blanks
from unmask.queries.sampling.samples import Samples
from unmask.settings import Settings

Table = NDArray[np.float64]
# Every cell with p > .02 within this many standard errors. Were the draws normal with the errors
# stated, a cell would fail with probability 7e-6, and a test of at most 20 cells with 1.4e-4.
ERRORS = 4.5


def cloze_of(model: ToyMaskedLM, blanks: Sequence[int] | None = None) -> unmask.Cloze:
    """A text of masks, or of token 0 with masks at some places."""
    length = model.joint.ndim
    places = tuple(range(length)) if blanks is None else tuple(blanks)
    ids = tuple(model.mask_id if place in places else 0 for place in range(length))
    return unmask.Cloze("toy", ids, places)


def axis(ids: Sequence[int]) -> unmask.Support:
    return unmask.Support(torch.tensor(list(ids)), [f"t{token}" for token in ids])


def drawn(model: ToyMaskedLM, n: int, **options: object) -> Samples:
    cloze = cloze_of(model)
    whole = axis(range(model.vocabulary_size))
    return sample_blanks(model, cloze, (whole,) * len(cloze.positions), n, **options)


def assert_follows(samples: Samples, law: dict[tuple[int, ...], float]) -> None:
    """Every cell that matters is as frequent as the law says, within the stated error."""
    seen = {f.ids: f.frequency for f in samples.frequencies()}
    cells = {ids: p for ids, p in law.items() if p > 0.02}
    assert len(cells) <= 20
    assert sum(law.values()) == pytest.approx(1)
    for ids, p in cells.items():
        error = math.sqrt(p * (1 - p) / samples.ess)
        assert abs(seen.get(ids, 0.0) - p) <= ERRORS * error, (ids, p, seen.get(ids))


def cells_of(joint: Table) -> dict[tuple[int, ...], float]:
    return {ids: float(joint[ids]) for ids in np.ndindex(joint.shape)}


# --- the law of the draws -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["orders", "log-pool"])
@pytest.mark.parametrize(("size", "blanks"), [(4, 3), (2, 4)])
def test_compatible_conditionals_give_back_their_joint(method: str, size: int, blanks: int) -> None:
    joint = toy_joint(size, blanks, seed=1)
    n = 2000 if method == "orders" else 1000
    samples = drawn(ToyMaskedLM(joint), n, method=method, chains=n // 125, warm_up=10, seed=2)
    # an error that is vacuous would prove nothing
    assert samples.r_hat < 1.05
    assert samples.ess > n / 4
    assert_follows(samples, cells_of(joint))


@pytest.mark.slow
def test_chains_that_mix_converge() -> None:
    samples = drawn(ToyMaskedLM(toy_joint(3, 3, seed=1) ** 0.3), 1200, warm_up=10, seed=3)
    assert samples.r_hat < 1.01
    assert samples.ess >= 400
    assert samples.converged
    assert "not to be trusted" not in repr(samples)


def stationary_law(
    model: ToyMaskedLM, supports: Sequence[Sequence[int]]
) -> dict[tuple[int, ...], float]:
    """Where updates of random pairs by both orders settle: a left eigenvector, by powers."""
    states = list(itertools.product(*supports))
    place = {state: k for k, state in enumerate(states)}
    pairs = list(itertools.combinations(range(len(supports)), 2))
    transition = np.zeros((len(states), len(states)))
    for state, (i, j) in itertools.product(states, pairs):
        for (a, b), p in orders_of(model, supports, state, i, j).items():
            after = [*state]
            after[i], after[j] = a, b
            transition[place[state], place[tuple(after)]] += p / len(pairs)
    law = np.linalg.matrix_power(transition, 4096)[0]
    return {state: float(p) for state, p in zip(states, law, strict=True)}


def orders_of(
    model: ToyMaskedLM, supports: Sequence[Sequence[int]], state: Sequence[int], i: int, j: int
) -> dict[tuple[int, int], float]:
    """(m_j q(i | j) + m_i q(j | i)) / 2, restricted to the supports."""

    def given(blank: int, **tokens: int) -> dict[int, float]:
        row = list(state)
        row[i], row[j] = tokens.get("a", model.mask_id), tokens.get("b", model.mask_id)
        p = np.exp(model._logits(row, blank))
        return {t: p[t] / p[list(supports[blank])].sum() for t in supports[blank]}

    m_a, m_b = given(i), given(j)
    return {
        (a, b): (m_b[b] * given(i, b=b)[a] + m_a[a] * given(j, a=a)[b]) / 2
        for a in supports[i]
        for b in supports[j]
    }


@pytest.mark.slow
def test_orders_settle_where_their_transitions_do() -> None:
    model = ToyMaskedLM(toy_joint(4, 3, seed=3), noise=0.8)
    supports = [[2, 0, 3], [1, 3], [0, 1, 2]]
    law = stationary_law(model, supports)
    axes = tuple(map(axis, supports))
    samples = sample_blanks(model, cloze_of(model), axes, 4000, chains=32, warm_up=10, seed=4)
    assert_follows(samples, law)
    # the test can tell: the joint that the noise was added to is another law
    inside = model.joint[np.ix_(*supports)]
    other = dict(zip(law, (inside / inside.sum()).reshape(-1), strict=True))
    with pytest.raises(AssertionError):
        assert_follows(samples, other)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["log-pool", "ag", "hcb", "pseudo-gibbs"])
def test_tables_over_candidates_give_the_restricted_joint(method: str) -> None:
    model = ToyMaskedLM(toy_joint(5, 3, seed=5), factored=method != "ag")
    supports = [[4, 0], [1, 3, 2], [0, 3]]
    inside = model.joint[np.ix_(*supports)]
    cells = (inside / inside.sum()).reshape(-1)
    law = dict(zip(itertools.product(*supports), cells, strict=True))
    axes, brief = tuple(map(axis, supports)), {"chains": 8, "warm_up": 10, "seed": 6}
    samples = sample_blanks(model, cloze_of(model), axes, 800, method=method, **brief)
    assert_follows(samples, law)
    assert all(draw.tokens == tuple(f"t{token}" for token in draw.ids) for draw in samples.fills)


@pytest.mark.slow
def test_blanks_keep_the_order_they_are_given_in() -> None:
    model = ToyMaskedLM(toy_joint(3, 4, seed=7))
    cloze = cloze_of(model, [3, 0, 2])
    samples = sample_blanks(
        model, cloze, (axis(range(3)),) * 3, 2000, chains=16, warm_up=10, seed=8
    )
    inside = model.joint[:, 0].transpose(2, 0, 1)
    assert_follows(samples, cells_of(inside / inside.sum()))


# --- modes --------------------------------------------------------------------------------------


def locked(blocks: int, width: int, leak: float = 1e-4) -> Table:
    """Binary blanks in blocks that all hold the same token, but for a small leak."""
    joint = np.ones((2,) * (blocks * width))
    for state in np.ndindex(joint.shape):
        for start in range(0, len(state), width):
            joint[state] *= 1.0 if len(set(state[start : start + width])) == 1 else leak
    return joint / joint.sum()


def single_site_switches(joint: Table, sweeps: int, seed: int) -> int:
    """How often blank 0 changes when blanks are drawn one at a time."""
    rng, state, switches = np.random.default_rng(seed), [0] * joint.ndim, 0
    for step in range(sweeps * joint.ndim):
        blank, before = step % joint.ndim, state[0]
        options = np.array([joint[(*state[:blank], t, *state[blank + 1 :])] for t in (0, 1)])
        state[blank] = int(rng.random() < options[1] / options.sum())
        switches += state[0] != before
    return switches


@pytest.mark.slow
def test_pairs_cross_where_single_blanks_stick() -> None:
    joint = locked(blocks=2, width=2)
    assert single_site_switches(joint, sweeps=1000, seed=0) < 5
    samples = drawn(ToyMaskedLM(joint), 2400, chains=12, warm_up=10, seed=9)
    assert samples.r_hat < 1.05
    assert samples.ess > 300
    assert_follows(samples, cells_of(joint))


def test_what_pairs_cannot_cross_is_said() -> None:
    samples = drawn(ToyMaskedLM(locked(blocks=1, width=3)), 400, chains=8, warm_up=5, seed=10)
    assert samples.r_hat > 1.5
    assert samples.ess < 50
    assert not samples.converged
    assert "not to be trusted: R-hat" in repr(samples)


def test_modes_that_no_single_blank_shows_are_seen() -> None:
    # three bits of even parity in two chains, of odd parity in the others: each bit is a fair coin
    bits = torch.randint(2, (4, 500, 2), generator=torch.Generator().manual_seed(11))
    odd = torch.tensor([0, 0, 1, 1])[:, None]
    tokens = torch.cat([bits, ((bits.sum(dim=-1) + odd) % 2)[:, :, None]], dim=-1)
    found = mixing_of(Trace(tokens, torch.zeros(4, 500).double(), 500), (axis(range(2)),) * 3)
    assert max(m.r_hat for m in found if m.of.startswith("blank ")) < 1.03
    assert max(m.r_hat for m in found if m.of.startswith("fill ")) > 1.05


# --- one and two blanks -------------------------------------------------------------------------


def test_two_blanks_are_independent_exact_draws() -> None:
    model = ToyMaskedLM(toy_joint(4, 2, seed=12), noise=0.5)
    samples = drawn(model, 5000, chains=3, seed=13)
    assert samples.independent
    assert samples.converged
    assert (samples.updates, samples.ess, samples.r_hat) == (1, 5000.0, 1.0)
    law = orders_of(model, [range(4)] * 2, [0, 0], 0, 1)
    assert_follows(samples, law)
    # one row per blank, and one a token that was drawn first
    assert samples.forward_passes == model.rows_asked <= 2 + 8


@pytest.mark.parametrize("method", ["orders", "log-pool"])
def test_one_blank_is_drawn_from_its_own_distribution(method: str) -> None:
    model = ToyMaskedLM(toy_joint(4, 2, seed=14))
    cloze, axes = cloze_of(model, [1]), (axis(range(4)),)
    samples = sample_blanks(model, cloze, axes, 3000, method=method, seed=15)
    row = model.joint[0] / model.joint[0].sum()
    assert_follows(samples, {(token,): float(p) for token, p in enumerate(row)})
    assert samples.forward_passes == model.rows_asked == 1
    assert samples.method == "mlm"


# --- seeds, batches, memory ---------------------------------------------------------------------


@pytest.mark.parametrize("method", ["orders", "log-pool", "sweep", "mlm"])
def test_a_seed_gives_the_same_draws_in_any_batches(method: str) -> None:
    model = ToyMaskedLM(toy_joint(3, 3, seed=16), noise=0.3)
    runs = [
        drawn(model, 20, method=method, warm_up=2, seed=17, settings=Settings(batch_size=size))
        for size in (None, None, 1, 3)
    ]
    assert all(run == runs[0] for run in runs)
    assert drawn(model, 20, method=method, warm_up=2, seed=18).fills != runs[0].fills


class SmallMemory(ToyMaskedLM):
    """Runs out of memory at more than two rows."""

    def readouts(self, ids: Tensor, positions: Positions) -> Tensor:
        if len(ids) > 2:
            raise MemoryError("out of memory")
        return super().readouts(ids, positions)


@pytest.mark.slow
def test_batches_shrink_when_memory_runs_out() -> None:
    joint = toy_joint(3, 3, seed=19)
    assert (
        drawn(SmallMemory(joint), 40, chains=8).fills
        == drawn(ToyMaskedLM(joint), 40, chains=8).fills
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["orders", "log-pool"])
def test_contexts_that_come_back_are_not_paid_twice(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    joint = toy_joint(3, 3, seed=20)
    model = ToyMaskedLM(joint)
    kept = drawn(model, 24, method=method, warm_up=4)
    # all that there is: 3 pairs x 3 contexts, masked and filled in, and a row per blank to start;
    # filled in by orders is one blank given both others, whichever pair it belongs to
    each = {"orders": 2 * 9 + 27 + 3, "log-pool": 9 * 7 + 3}[method]
    assert kept.forward_passes == model.rows_asked <= each
    monkeypatch.setattr(conditionals, "_REMEMBERED_BYTES", 0)
    monkeypatch.setattr(pair_blocks, "_REMEMBERED_BYTES", 0)
    forgotten = drawn(ToyMaskedLM(joint), 24, method=method, warm_up=4)
    assert forgotten.fills == kept.fills
    assert forgotten.forward_passes > 1.5 * kept.forward_passes


def test_what_was_used_last_is_kept() -> None:
    recent: Recent[str] = Recent(2)
    for key in "abc":
        recent.keep(key, key.upper())
    assert [recent.get(key) for key in "abc"] == [None, "B", "C"]
    recent.get("b")
    recent.keep("d", "D")
    recent.keep("d", "D")
    assert [recent.get(key) for key in "bcd"] == ["B", None, "D"]
    one: Recent[str] = Recent(0)
    one.keep("large", "L")
    assert one.get("large") == "L"


def test_chains_that_agree_share_rows() -> None:
    model = ToyMaskedLM(np.ones((1, 1, 1)))
    samples = drawn(model, 64, chains=16)
    assert samples.forward_passes == model.rows_asked <= 3 + 6 + 6
    assert samples.counts() == {("t0", "t0", "t0"): 64}
    assert (samples.r_hat, samples.ess) == (1.0, 64.0)


# --- what a person sees -------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "chains"), [(10, 4), (3, 4), (1, 4), (9, 3)])
def test_as_many_draws_as_asked_for(n: int, chains: int) -> None:
    samples = drawn(ToyMaskedLM(toy_joint(3, 3)), n, chains=chains, warm_up=1)
    assert len(samples) == len(samples.fills) == n
    assert samples.chains == min(n, chains)
    assert samples.updates == (1 + math.ceil(n / samples.chains)) * 2
    assert not samples.converged


def test_a_sweep_draws_each_blank_once_on_average() -> None:
    assert [updates_per_sweep(blanks) for blanks in (3, 4, 5, 8)] == [2, 2, 3, 4]


@pytest.mark.slow
def test_thinning_keeps_states_further_apart() -> None:
    model = ToyMaskedLM(toy_joint(3, 3, seed=21))
    every = drawn(model, 60, chains=1, warm_up=0)
    assert drawn(model, 20, chains=1, warm_up=0, thin=3).fills == every.fills[2::3]
    assert drawn(model, 50, chains=1, warm_up=10).fills == every.fills[10:]


@pytest.mark.slow
def test_frequencies_state_their_errors() -> None:
    samples = drawn(ToyMaskedLM(toy_joint(3, 3, seed=22)), 400)
    found = samples.frequencies()
    assert sum(f.count for f in found) == 400
    assert [f.count for f in found] == sorted((f.count for f in found), reverse=True)
    first = found[0]
    assert samples.counts()[first.tokens] == first.count
    p = first.count / 400
    assert first.standard_error == pytest.approx(math.sqrt(p * (1 - p) / samples.ess))
    tokens = samples.frequencies(blank=1)
    assert sum(f.frequency for f in tokens) == pytest.approx(1)
    assert tokens[0].count == sum(d.ids[1] == tokens[0].ids[0] for d in samples.fills)


def test_results_are_plain_json_and_hide_nothing() -> None:
    samples = drawn(ToyMaskedLM(locked(blocks=1, width=3)), 20, chains=8, seed=10)
    told = json.loads(json.dumps(samples.to_dict(), allow_nan=False))
    assert told["converged"] is False
    assert told["r_hat"] is None
    assert told["draws"] == 20
    assert {"log-score", "blank 0 = 't0'"} <= {m["of"] for m in told["mixing"]}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n": 0}, "n is a whole number from 1, not 0"),
        ({"chains": 0}, "chains is a whole number from 1, not 0"),
        ({"warm_up": -1}, "warm_up is a whole number from 0, not -1"),
        ({"thin": 0}, "thin is a whole number from 1, not 0"),
        ({"seed": -1}, "seed is a whole number from 0, not -1"),
        ({"method": "nothing"}, "no method 'nothing'"),
        ({"options": {"pivot": 0}}, "orders has no option 'pivot'"),
        ({"method": "hcb", "options": {"pivot": "t9"}}, "'t9' is not one of the 3 tokens"),
    ],
)
def test_refusals(options: dict[str, object], said: str) -> None:
    model = ToyMaskedLM(toy_joint(3, 3))
    with pytest.raises(UnmaskError, match=said) as refused:
        drawn(model, **{"n": 5, **options})
    assert "\n" not in str(refused.value)
    assert model.rows_asked == 0


@pytest.mark.parametrize("value", [2.5, "x", None, True])
def test_counts_are_whole_numbers(value: object) -> None:
    with pytest.raises(UnmaskError, match=f"n is a whole number from 1, not .?{value}"):
        gibbs.check_counts(n=(value, 1))


@pytest.mark.slow
def test_updates_of_many_rows_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ToyMaskedLM(toy_joint(3, 3))
    monkeypatch.setattr(target, "_ROWS_PER_UPDATE", 6)
    with pytest.raises(MethodError, match=r"ag takes 7 forward passes .* above the limit of 6"):
        drawn(model, 5, method="ag")
    assert model.rows_asked == 0
    monkeypatch.setattr(target, "_ROWS_PER_UPDATE", 7)
    assert len(drawn(model, 5, method="log-pool")) == 5
    assert len(drawn(model, 5, method="sweep", options={"contexts": 1})) == 5


def test_a_blank_that_is_not_there() -> None:
    with pytest.raises(SupportError, match="there is no blank 3; blanks count from 0 to 2"):
        drawn(ToyMaskedLM(toy_joint(3, 3)), 5).frequencies(blank=3)


def test_a_solver_that_gives_up_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    built = pair_blocks.build

    def unsolved(*arguments: object, **options: object) -> unmask.Joint:
        joint = built(*arguments, **options)
        return joint.named(joint.method, {"converged": False})

    monkeypatch.setattr(pair_blocks, "build", unsolved)
    samples = drawn(ToyMaskedLM(toy_joint(2, 3)), 5, method="log-pool", chains=1, warm_up=0)
    assert samples.unsolved >= 1
    assert "did not converge" in repr(samples)


@pytest.mark.real
def test_a_real_model_fills_three_blanks(tiny_english: unmask.LanguageModel) -> None:
    mask = tiny_english.tokenizer.mask_token
    cloze = unmask.text.cloze.parse_cloze(f"a {mask} {mask} is {mask} .", tiny_english.tokenizer)
    axes = (tiny_english.support("no-special"),) * 3
    model = tiny_english.model
    first, again = (sample_blanks(model, cloze, axes, 24, warm_up=5, seed=1) for _ in range(2))
    assert first == again
    assert first.fills != sample_blanks(model, cloze, axes, 24, warm_up=5, seed=2).fills
    assert all(token not in model.special_ids for draw in first.fills for token in draw.ids)
