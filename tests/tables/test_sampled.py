"""What whole rows of a sketch say, held against all contexts."""

import math

import numpy as np
import pytest
import torch
from sketch_tables import clustered, tables_of

from unmask.constructions.incompatibility import agreement
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Sum
from unmask.joints.sketched import Sketched, missing_entropies
from unmask.tables.law import Factors
from unmask.tables.pair_tables import PairTables
from unmask.tables.sampled import Sampled, stationary
from unmask.tables.sketch import SketchedPair
from unmask.tables.stationary import stationary_law

SIZE = 600


def grown(tables: PairTables, contexts: int, seed: int = 0) -> SketchedPair:
    pair = SketchedPair(tables, seed=seed)
    pair.grow(contexts)
    return pair


def errors_of_law(
    sampled: Sampled, laws: tuple[np.ndarray, np.ndarray], number: int = 0
) -> np.ndarray:
    """Of the logarithms, at the ten likeliest tokens of each blank."""
    errors = []
    for side, law, densities in zip(sampled.sides, laws, sampled.densities, strict=True):
        exact = law[side.places.numpy()]
        best = np.argsort(-exact)[:10]
        errors.append(np.log(densities[number].numpy()[best] / exact[best]))
    return np.concatenate(errors)


@pytest.mark.parametrize("seed", range(3))
def test_the_law_of_compatible_conditionals_is_exact_whatever_was_drawn(seed):
    joint = clustered(SIZE, seed)
    pair = grown(tables_of(joint), 50, seed)
    sampled = pair.sampled()
    assert any(side.tail.any() for side in sampled.sides)
    # the sample's weights, and those of two replicates
    for number in (0, 1, 2):
        errors = errors_of_law(sampled, (joint.sum(axis=1), joint.sum(axis=0)), number)
        # to what float32 keeps of a table; the scale of either blank is estimated
        first, second = errors[:10], errors[10:]
        assert np.abs(np.concatenate([first - first.mean(), second - second.mean()])).max() < 1e-5
        assert np.abs(errors).max() < 0.02
        # replicates have more or less mass beyond the heads, for contexts that were not drawn
        more = 0.6 * max(0.0, float(sampled.unseen[number]))
        assert float(sampled.incompatibilities[number]) - more < 1e-5


@pytest.mark.slow
def test_the_control_halves_the_error_of_a_law_without_it():
    joint = clustered(SIZE, 1)
    tables = tables_of(joint, noise=0.3)
    law = stationary_law(tables)
    exact = law.log_a.exp().numpy(), law.log_b.exp().numpy()
    squares = {"controlled": [], "plain": []}
    for seed in range(8):
        pair = grown(tables, 60, seed)
        squares["controlled"].append(np.square(errors_of_law(pair.sampled(), exact)).mean())
        # the chain of the tables of masses, which knows nothing of the flow back
        tables_of_masses = pair.tables()
        tables_of_masses.law = None
        plain = stationary_law(tables_of_masses)
        weights = [side.log_weights.exp() for side in pair.sides]
        sampled = pair.sampled()
        sampled.__dict__["densities"] = (
            (plain.log_a.exp() / weights[0])[None],
            (plain.log_b.exp() / weights[1])[None],
        )
        squares["plain"].append(np.square(errors_of_law(sampled, exact)).mean())
    assert np.mean(squares["controlled"]) < 0.5 * np.mean(squares["plain"])


@pytest.mark.parametrize("noise", [0.0, 0.8])
def test_with_every_context_nothing_is_missing(noise):
    tables = tables_of(clustered(120, 2), noise=noise)
    pair = grown(tables, 120)
    sampled, law = pair.sampled(), stationary_law(tables)
    for densities, log_r in zip(sampled.densities, (law.log_a, law.log_b), strict=True):
        np.testing.assert_allclose(densities[0], log_r.exp(), rtol=1e-5)
    measured = agreement(tables)
    assert float(sampled.incompatibility()) == pytest.approx(measured.bits, abs=1e-6)
    assert missing_entropies(sampled, pair.entropies).abs().max() < 1e-5


def halved(log_others: Factors, _: object = None) -> Sum:
    """The mean of q(a | b) r_b and q(b | a) r_a, whose entropies rows estimate."""
    return Sum(tuple(log - math.log(2) for log in log_others))


@pytest.mark.slow
def test_entropy_and_information_are_nearer_with_whole_rows():
    tables = tables_of(clustered(SIZE, 3), noise=0.3)
    form = halved(stationary_law(tables).log_others)
    exact = form_joint(form, tables, method="factorisations", diagnostics={})
    of_cells, of_rows = [], []
    for seed in range(8):
        pair = grown(tables, 60, seed)
        joint = Sketched(pair, halved)
        # of the first blank, of the second, and of both
        more = missing_entropies(pair.sampled(), pair.entropies)[:, 0]
        cells = joint.entropies[:, 0] - more
        entropy, information = float(cells[2]), float(cells[0] + cells[1] - cells[2])
        of_cells.append((entropy - exact.entropy(), information - exact.mutual_information()))
        of_rows.append(np.add(of_cells[-1], (more[2], more[0] + more[1] - more[2])))
    squares = [np.square(errors).mean(axis=0) for errors in (of_rows, of_cells)]
    assert (np.sqrt(squares[0]) < 0.6 * np.sqrt(squares[1])).all()


def test_a_probe_has_the_probability_that_it_has_in_the_sample():
    joint = clustered(SIZE, 4)
    pair = grown(tables_of(joint), 50)
    outside = next(a for a in range(SIZE) if a not in set(pair.sides[0].places.tolist()))
    probed = pair.sampled(probes=((outside,), ()))
    place = probed.sides[0].places.tolist().index(outside)
    others = pair.sampled().densities[0][0] / joint.sum(axis=1)[pair.sides[0].places.numpy()]
    assert float(probed.densities[0][0, place]) / joint.sum(axis=1)[outside] == pytest.approx(
        np.median(others), rel=1e-3
    )


def solved(*flows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    matrices = torch.tensor(np.array(flows))

    def step(laws: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        return torch.bmm(laws[:, None], matrices[which])[:, 0]

    return stationary(step, torch.ones(len(flows), len(flows[0]), dtype=torch.float64))


def test_the_eigenvector_is_that_of_a_library():
    rng = np.random.default_rng(0)
    flow = np.exp(4 * rng.normal(size=(40, 40)))
    flow /= flow.sum(axis=1, keepdims=True) * rng.uniform(0.8, 1.2, (40, 1))
    (law,), (residual,) = solved(flow)
    values, vectors = np.linalg.eig(flow.T)
    expected = np.abs(vectors[:, np.argmax(values.real)].real)
    np.testing.assert_allclose(law, expected / expected.sum(), rtol=1e-8)
    assert residual < 1e-9


def test_tokens_that_hardly_meet_are_solved_too():
    """Two blocks with a leak of a millionth: power iteration would take a million rounds."""
    block = np.full((10, 10), 0.1)
    flow = np.kron(np.eye(2), block)
    flow[:10, 10:], flow[10:, :10] = 1e-7, 3e-7
    flow /= flow.sum(axis=1, keepdims=True)
    (law,), _ = solved(flow)
    assert float(law[:10].sum() / law[10:].sum()) == pytest.approx(3, rel=1e-3)
    assert law.isfinite().all()


def test_replicates_have_the_laws_of_a_solve_each_where_tokens_hardly_meet():
    """Two groups with an eigenvalue ratio of .999: a start at another's law would not move."""
    rng = np.random.default_rng(1)
    flows = []
    for _ in range(8):
        flow = rng.gamma(0.3, size=(60, 60))
        flow[:30, 30:] *= 0
        flow[30:, :30] *= 0
        flow /= flow.sum(axis=1, keepdims=True)
        # half a thousandth leaves each group: the second eigenvalue is .999 of the first
        leaks = np.kron([[0.0, 1.0], [1.0, 0.0]], rng.dirichlet(np.ones(30), 30))
        flows.append((1 - 5e-4) * flow + 5e-4 * leaks)
    laws, residuals = solved(*flows)
    assert residuals.max() < 1e-8
    for flow, law in zip(flows, laws.numpy(), strict=True):
        values = np.sort(np.abs(np.linalg.eigvals(flow)))[::-1]
        assert values[1] / values[0] == pytest.approx(0.999, abs=2e-5)
        system = np.vstack([flow.T - np.eye(60), np.ones(60)])
        alone = np.linalg.lstsq(system, np.append(np.zeros(60), 1.0), rcond=None)[0]
        np.testing.assert_allclose(law, alone, rtol=1e-7, atol=1e-15)


def test_laws_that_mix_more_slowly_than_the_first_are_solved_too():
    """The first weighting says when steps are enough: the others may need another round."""
    rng = np.random.default_rng(2)
    flow = rng.dirichlet(np.ones(40), 40)
    slow = np.kron(np.eye(2), flow[:20, :20] / flow[:20, :20].sum(axis=1, keepdims=True))
    slow = 0.998 * slow + 0.002 * flow
    laws, residuals = solved(flow, slow)
    assert residuals.max() < 1e-8
    for matrix, law in zip((flow, slow), laws.numpy(), strict=True):
        np.testing.assert_allclose(law @ matrix, law, rtol=1e-8)


def test_replicates_count_contexts_that_were_not_drawn():
    pair = grown(tables_of(clustered(SIZE, 5), noise=0.3), 60)
    sampled = pair.sampled()
    signs = sampled.unseen.sign()
    assert signs[0] == 0
    assert signs[1:].sum() == 0
    # in what was drawn, and in what a context counts in its own cross entropy, halves differ too:
    # were it the same halves, one uncertainty could cancel the other
    assert (signs[1:] * torch.tensor([-1.0, 1.0]).repeat(16)).sum() == 0
    for side, masses in zip(pair.sides, sampled.masses, strict=True):
        torch.testing.assert_close(masses.sum(dim=1), torch.ones_like(signs))
        beyond = masses[:, side.tail].sum(dim=1)
        odds = (beyond / (1 - beyond)).log()
        # two contexts more, or two fewer, beside the spread of the sample
        more, fewer = odds[signs > 0].mean(), odds[signs < 0].mean()
        step = 2 * math.log(1 + 2 / int(side.tail.sum()))
        spread = odds[1:].std() / 4
        assert abs(more - fewer - step) < 3 * spread


def test_every_replicate_is_solved():
    pair = grown(tables_of(clustered(SIZE, 5), noise=0.5), 60)
    assert len(pair.sampled().residuals) == 33
    assert pair.sampled().residuals.max() < 1e-8
