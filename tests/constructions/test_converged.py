"""What `converged` says: right for blocks of tokens that hardly meet and for impossible tokens.

All tables here are those of one joint, known in long double but for the float32 that logits are
kept in, which moves it by some 1e-7.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from examples import SEARCHED, log_table
from numpy.typing import NDArray
from thinned import thinned
from toy_lm import ToyMaskedLM, ToyTokenizer

import unmask
from unmask.constructions.incompatibility import agreement
from unmask.constructions.solvers import fits, groups, pair_graph, pair_passes
from unmask.language_model import LanguageModel
from unmask.tables import kernels
from unmask.tables.probabilities import probabilities

Logs = NDArray[np.longdouble]
SIZE = 5
NOTHING = -1e4
# (blocks, whether only neighbours meet)
BLOCKS = [(2, False), (4, False), (4, True), (10, False), (10, True)]
LEAKS = [1e-4, 1e-7, 1e-10, 1e-14]


def blocks(count: int, leak: float, *, chained: bool = False, seed: int = 1) -> Logs:
    """Log joint of diffuse blocks of unequal mass that meet once in 1 / leak."""
    rng = np.random.default_rng(seed)
    block = np.repeat(np.arange(count), SIZE)
    apart = np.abs(block[:, None] - block)
    far = -60.0 if chained else np.log(leak)
    log_joint = rng.normal(0, 0.5, apart.shape)
    log_joint += np.where(apart == 0, 0, np.where(apart == 1, np.log(leak), far))
    height = rng.normal(0, 0.5, count)[block]
    return (log_joint + height[:, None] + height).astype(np.longdouble)


def impossible(
    log_joint: Logs, axes: str, nothing: float = NOTHING
) -> tuple[NDArray[np.float64], NDArray[np.float64], Logs]:
    """Logits of both tables and the joint, with two tokens more per axis that no context allows.

    As contexts they say something, as any token does.
    """
    rng = np.random.default_rng(2)
    joint = np.exp(log_joint - log_joint.max())
    given_b = log_joint - log_joint.max(axis=0)
    given_a = log_joint - log_joint.max(axis=1, keepdims=True)
    for axis, name in enumerate("ab"):
        if name in axes:
            shape = (2, joint.shape[1]) if axis == 0 else (joint.shape[0], 2)
            never, says = np.full(shape, nothing), rng.normal(0, 1, shape)
            joint = np.concatenate([joint, np.zeros(shape)], axis)
            given_b = np.concatenate([given_b, never if axis == 0 else says], axis)
            given_a = np.concatenate([given_a, says if axis == 0 else never], axis)
    if axes == "ab":
        given_b[-2:], given_a[:, -2:] = nothing, nothing
    return given_b.astype(np.float64), given_a.astype(np.float64), joint / joint.sum()


def marginals(joint: Logs, floor: float) -> unmask.MaskedMarginals:
    """Every token's mass off by a nat or so; what is impossible is at the floor."""
    rng = np.random.default_rng(3)
    each = []
    for axis in (1, 0):
        mass = joint.sum(axis=axis).astype(np.float64)
        log_mass = np.log(np.maximum(mass, 1e-300)) + rng.normal(0, 1, len(mass))
        log_mass = np.where(mass > 0, log_mass, floor)
        each.append(torch.tensor(log_mass - np.logaddexp.reduce(log_mass)))
    return unmask.MaskedMarginals(*each)


def tables(
    log_joint: Logs,
    axes: str = "",
    *,
    nothing: float = NOTHING,
    floor: float = NOTHING,
    **options: int,
) -> tuple[unmask.PairTables, Logs]:
    given_b, given_a, joint = impossible(log_joint, axes, nothing)
    logits = (unmask.DenseLogits(torch.tensor(t, dtype=torch.float32)) for t in (given_b, given_a))
    found = unmask.PairTables.from_logits(*logits, marginals=marginals(joint, floor), **options)
    return found, joint


def away(joint: unmask.Joint, right: Logs) -> float:
    """The total variation between two joints."""
    return float(np.abs(np.exp(log_table(joint).astype(np.longdouble)) - right).sum() / 2)


def check(asked: unmask.PairTables, right: Logs) -> None:
    """Every construction with a solver says that it is right, and is."""
    for name in SEARCHED:
        joint = unmask.construct(name, asked)
        assert away(joint, right) < 1e-6, name
        assert joint.diagnostics["converged"] is True, (name, joint.diagnostics["residual"])
        assert float(str(joint.diagnostics["error_bound"])) < groups.ERROR


@pytest.mark.slow
@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize(("count", "chained"), BLOCKS)
def test_blocks_that_hardly_meet_are_weighed_against_each_other(
    count: int, chained: bool, leak: float
) -> None:
    check(*tables(blocks(count, leak, chained=chained)))


@pytest.mark.slow
@pytest.mark.parametrize(("leak", "axes"), list(zip(LEAKS, ["a", "b", "ab", "ab"], strict=True)))
def test_blocks_with_impossible_tokens_are_weighed_too(leak: float, axes: str) -> None:
    check(*tables(blocks(4, leak, chained=True), axes))


@pytest.mark.slow
@pytest.mark.parametrize("axes", ["a", "b", "ab"])
@pytest.mark.parametrize(("nothing", "floor"), [(-1e3, -1e4), (-1e4, -10.0), (-1e9, -1e9)])
def test_impossible_tokens_are_no_reason_to_doubt(axes: str, nothing: float, floor: float) -> None:
    """Whatever the doubly masked model says of them."""
    rng = np.random.default_rng(4)
    log_joint = rng.normal(0, 1.5, (20, 15)).astype(np.longdouble)
    check(*tables(log_joint, axes, nothing=nothing, floor=floor))


@pytest.mark.parametrize("leak", [1e-6, 1e-10, 1e-14])
def test_one_pair_that_locks_is_weighed(leak: float) -> None:
    rng = np.random.default_rng(5)
    log_joint = rng.normal(0, 1, (20, 20)).astype(np.longdouble)
    log_joint[0, :] = log_joint[:, 0] = np.log(np.longdouble(leak))
    log_joint[0, 0] = 5.0
    check(*tables(log_joint))


@pytest.mark.slow
def test_a_rare_token_between_two_blocks_does_not_make_them_one() -> None:
    """It is tied to both, and both hardly to it."""
    log_joint = blocks(2, 1e-30)
    between = np.full((1, log_joint.shape[1]), np.log(1e-12), np.longdouble)
    check(*tables(np.concatenate([log_joint, between])))


@pytest.mark.slow
def test_what_nothing_ties_is_not_claimed() -> None:
    block = np.repeat(np.arange(2), SIZE)
    given, right = tables(np.where(block[:, None] == block, blocks(2, 1e-4), -1e5))
    for name in SEARCHED:
        said = unmask.construct(name, given).diagnostics
        assert (said["converged"], said["error_bound"]) == (False, 1.0)
    assert not fits.stationary_law(given).converged
    assert right.shape == given.shape


@pytest.mark.slow
@pytest.mark.parametrize("leak", thinned([1e-6, 1e-12], 2))
def test_every_way_to_read_the_tables_says_the_same(
    leak: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_joint = blocks(4, leak, chained=True)
    # far blocks out of the range of float32 would not be kept as copies
    log_joint = np.maximum(log_joint, -50)
    check(*tables(log_joint))
    check(*tables(log_joint, memory_limit=0))
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    compiled, right = tables(log_joint)
    assert probabilities(compiled).fused()
    check(compiled, right)


@pytest.mark.slow
def test_compiled_sums_between_groups_are_the_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    log_joint = np.random.default_rng(6).normal(0, 2, (70, 45)).astype(np.longdouble)
    rng = np.random.default_rng(7)
    point = rng.normal(-3, 2, 70 + 45)
    contest = pair_passes.Contest(
        *(torch.tensor(rng.uniform(0.1, 1, size)) for size in (70, 45, 70, 45))
    )
    few, many = ((rng.integers(0, count, 70 + 45), count) for count in (4, 30))
    plain, _ = tables(log_joint)
    here = pair_graph.read_tables(plain, point, contest)
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    compiled, _ = tables(log_joint)
    assert probabilities(compiled).fused()
    there = pair_graph.read_tables(compiled, point, contest)
    for labels in itertools.product((few, many), repeat=2):
        for one, other in zip(here.between(*labels), there.between(*labels), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-13)
    strength, net = here.between(many, few)
    np.testing.assert_allclose(strength.sum(1), np.bincount(many[0], here.degree, 30))
    np.testing.assert_allclose(net.sum(1), np.bincount(many[0], here.gradient, 30), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("many", [2, 8, 30])
def test_more_trees_than_are_told_apart_are_no_lie(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Light trees join heavy ones that they are tied to; what is still too many is not claimed."""
    monkeypatch.setattr(groups, "_MANY", many)
    for leak in (1e-4, 1e-12):
        asked, right = tables(blocks(4, leak))
        for name in SEARCHED:
            joint = unmask.construct(name, asked)
            assert joint.diagnostics["converged"] is False or away(joint, right) < 1e-3
    if many == 30:
        check(*tables(np.random.default_rng(8).normal(0, 1, (150, 140)).astype(np.longdouble)))


@pytest.mark.slow
@pytest.mark.parametrize("leak", [1e-5, 1e-9, 1e-13])
def test_chained_blocks_of_three_blanks(leak: float) -> None:
    block = np.repeat(np.arange(3), 2)
    apart = sum(
        np.abs(one - other) for one, other in itertools.combinations(np.ix_(*[block] * 3), 2)
    )
    joint = leak ** (apart / 2.0) * np.random.default_rng(9).uniform(0.5, 1.5, (6, 6, 6))
    lm = LanguageModel(ToyMaskedLM(joint), ToyTokenizer(6))
    text = "[MASK] [MASK] [MASK]"
    quiet = unmask.Settings(progress=False, announce=False)
    for name in SEARCHED:
        found = lm.joint(text, method=name, support=list(range(6)), settings=quiet)
        table = found.log_rows(slice(0, 6)).exp().numpy()
        # what float64 can say of the masses of fills that leave a block once in 1 / leak
        limit = max(1e-5, 1e-16 / leak)
        assert np.abs(table - joint / joint.sum()).sum() / 2 < limit, name
        assert found.diagnostics["converged"] is True or leak < 1e-9


@pytest.mark.slow
def test_ordinary_tables_are_looked_at_once_more_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = []
    read = pair_graph.read_tables

    def counting(*arguments: object) -> object:
        here = read(*arguments)  # type: ignore[arg-type]
        return replace(here, between=lambda *labels: looked.append(1) or here.between(*labels))

    monkeypatch.setattr(pair_graph, "read_tables", counting)
    asked, right = tables(np.random.default_rng(10).normal(0, 2, (60, 50)).astype(np.longdouble))
    assert away(unmask.construct("ag", asked), right) < 1e-6
    assert len(looked) <= 1


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A model with tokens that it never proposes."""
    model, tokenizer = tiny_models.build("bert")
    with torch.no_grad():
        model.get_output_embeddings().bias[-6:] = NOTHING
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return str(tmp_path)


@pytest.mark.slow
def test_fill_does_not_warn_of_impossible_tokens_nor_is_j_left_out(
    folder: str, fill: Callable[..., tuple[str, str]]
) -> None:
    lm = unmask.load(folder)
    text = tiny_models.two_blanks(lm.tokenizer)
    _, said = fill(text, "--method", ",".join(SEARCHED))
    assert "converged" not in said
    found = agreement(lm.tables(text))
    assert found.converged
    assert found.bits > 0
