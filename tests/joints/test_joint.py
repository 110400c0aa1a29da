"""The distribution a person holds, against brute force on one, two and three axes."""

import json
import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import unmask
from unmask import logspace

SHAPES = [(5,), (4, 6), (3, 4, 5)]


def given(shape: tuple[int, ...], seed: int = 0) -> tuple[NDArray[np.float64], unmask.Joint]:
    """Probabilities, and the joint of those unnormalised."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(math.prod(shape))).reshape(shape)
    axes = tuple(
        unmask.Support.of(f"{'xyz'[axis]}{i}" for i in range(size))
        for axis, size in enumerate(shape)
    )
    return p, unmask.Joint.from_scores(torch.tensor(np.log(p) + 3.7), axes)


@pytest.fixture(params=[2**20, 7, 1], ids=["one tile", "few rows", "row by row"], autouse=True)
def _tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logspace, "TILE_CELLS", request.param)


@pytest.mark.parametrize("shape", SHAPES)
def test_log_prob_by_name_and_by_id(shape: tuple[int, ...]) -> None:
    p, joint = given(shape)
    for cell in np.ndindex(*shape):
        names = [f"{'xyz'[axis]}{i}" for axis, i in enumerate(cell)]
        assert joint.log_prob(*names) == pytest.approx(math.log(p[cell]), abs=1e-12)
        assert joint.log_prob(*cell) == joint.log_prob(*names)


@pytest.mark.parametrize("shape", SHAPES)
def test_marginals(shape: tuple[int, ...]) -> None:
    p, joint = given(shape)
    for axis in range(len(shape)):
        others = tuple(i for i in range(len(shape)) if i != axis)
        marginal = joint.marginal(axis)
        assert marginal.supports == (joint.supports[axis],)
        for i, mass in enumerate(p.sum(others)):
            assert marginal.log_prob(i) == pytest.approx(math.log(mass), abs=1e-12)


def test_conditionals_of_three_axes_sum_out_what_is_not_given() -> None:
    p, joint = given((3, 4, 5))
    full = joint.conditional(1, given={0: "x1", 2: "z4"})
    part = joint.conditional(2, given={1: "y0"})
    first = joint.conditional(0, given={2: "z1"})
    assert full.log_prob(2) == pytest.approx(math.log(p[1, 2, 4] / p[1, :, 4].sum()), abs=1e-12)
    assert part.log_prob(3) == pytest.approx(math.log(p[:, 0, 3].sum() / p[:, 0].sum()), abs=1e-12)
    assert first.log_prob(2) == pytest.approx(
        math.log(p[2, :, 1].sum() / p[:, :, 1].sum()), abs=1e-12
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 4, 1000])
def test_top_is_the_sorted_table(shape: tuple[int, ...], n: int) -> None:
    p, joint = given(shape)
    best = sorted(np.ndindex(*shape), key=lambda cell: -p[cell])[:n]
    fills = joint.top(n)
    assert [fill.ids for fill in fills] == best
    assert [f.probability for f in fills] == pytest.approx([p[cell] for cell in best], abs=1e-12)


def test_ties_go_to_the_lower_index() -> None:
    axes = (unmask.Support.of("abc"), unmask.Support.of("de"))
    joint = unmask.Joint.from_scores(torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), axes)
    assert [fill.tokens for fill in joint.top(3)] == [("a", "e"), ("b", "d"), ("c", "d")]


@pytest.mark.parametrize("shape", SHAPES)
def test_samples_follow_the_joint(shape: tuple[int, ...]) -> None:
    p, joint = given(shape)
    fills = joint.sample(4000, seed=3)
    counts = np.zeros(shape)
    for fill in fills:
        counts[fill.ids] += 1
    # five standard errors of a binomial proportion
    assert np.all(np.abs(counts / 4000 - p) < 5 * np.sqrt(p * (1 - p) / 4000) + 1e-9)
    assert fills[0].log_prob == pytest.approx(math.log(p[fills[0].ids]), abs=1e-12)


def test_samples_repeat_with_their_seed_and_only_then() -> None:
    _, joint = given((4, 6))
    one, same, other = ([f.ids for f in joint.sample(50, seed=seed)] for seed in (1, 1, 2))
    assert one == same != other
    assert joint.sample(0) == []


def test_cells_without_mass_are_never_drawn() -> None:
    axes = (unmask.Support.of("ab"), unmask.Support.of("cd"))
    scores = torch.tensor([[0.0, -torch.inf], [-torch.inf, -torch.inf]])
    joint = unmask.Joint.from_scores(scores, axes)
    assert {fill.tokens for fill in joint.sample(200)} == {("a", "c")}
    assert joint.entropy() == 0.0
    assert joint.log_prob("b", "d") == -math.inf


@pytest.mark.parametrize("shape", SHAPES)
def test_entropy_mutual_information_and_pmi(shape: tuple[int, ...]) -> None:
    p, joint = given(shape)
    entropy = -(p * np.log(p)).sum()
    marginals = [
        p.sum(tuple(i for i in range(len(shape)) if i != axis)) for axis in range(len(shape))
    ]
    apart = sum(-(m * np.log(m)).sum() for m in marginals)
    cell = tuple(size - 1 for size in shape)
    pmi = math.log(p[cell]) - sum(math.log(m[i]) for m, i in zip(marginals, cell, strict=True))
    assert joint.entropy() == pytest.approx(entropy, abs=1e-12)
    assert joint.mutual_information() == pytest.approx(apart - entropy, abs=1e-12)
    assert joint.pmi(*cell) == pytest.approx(pmi, abs=1e-12)
    assert joint.entropy(base_two=True) == pytest.approx(entropy / math.log(2), abs=1e-12)
    assert joint.pmi(*cell, base_two=True) == pytest.approx(pmi / math.log(2), abs=1e-12)
    assert joint.mutual_information(base_two=True) == pytest.approx(
        (apart - entropy) / math.log(2), abs=1e-12
    )


def test_to_dict_is_json_and_to_pandas_has_a_row_a_fill() -> None:
    p, joint = given((4, 6))
    record = json.loads(json.dumps(joint.to_dict(n=3)))
    assert record["fills"][0]["probability"] == pytest.approx(p.max())
    assert record["shape"] == [4, 6]
    frame = joint.to_pandas(n=5)
    assert list(frame.columns) == ["token_0", "token_1", "id_0", "id_1", "probability", "log_prob"]
    assert frame["probability"].is_monotonic_decreasing
    assert len(frame) == 5


def test_a_fill_shows_its_tokens_escaped_and_its_probability() -> None:
    fill = unmask.Fill(tokens=("[unused1]", "a\n"), ids=(1, 2), log_prob=math.log(0.25))
    assert repr(fill) == "Fill('[unused1]' 'a\\n', probability=0.25)"


def test_repr_ranks_small_joints_and_spares_large_ones() -> None:
    _, joint = given((4, 6))
    assert "4 x 6 tokens" in repr(joint)
    assert joint.top(1)[0].tokens[0] in repr(joint)

    def never(_: slice) -> torch.Tensor:
        raise AssertionError("a repr must not run a pass over a large table")

    axis = unmask.Support.of(map(str, range(10_000)))
    assert "10,000 x 10,000" in repr(unmask.Joint(never, (axis, axis), method="ag"))


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda j: j.log_prob("x0"), "2 blanks need that many tokens, each an argument of its own"),
        (lambda j: j.log_prob("x0", "nope"), "'nope' is not one of the 6 tokens"),
        (lambda j: j.log_prob("x0", 99), "token id 99 is not among the 6"),
        (lambda j: j.marginal(2), "no blank 2; blanks count from 0 to 1"),
        (lambda j: j.conditional(0, given={0: "x1"}), "both requested and given"),
        (lambda j: j.conditional(0, given={}), "use marginal"),
        (lambda j: j.conditional(0, given={7: "x1"}), "no blank 7"),
        (lambda j: j.top(0), "from 1, not 0"),
        (lambda j: j.sample(-1), "from 0 to 10,000,000, not -1"),
    ],
)
def test_bad_questions_are_refused_in_one_sentence(ask: object, says: str) -> None:
    _, joint = given((4, 6))
    with pytest.raises(unmask.errors.SupportError, match=says) as refusal:
        ask(joint)  # type: ignore[operator]
    assert "\n" not in str(refusal.value)


def test_a_joint_without_mass_is_an_error_not_a_nan() -> None:
    axes = (unmask.Support.of("ab"),)
    joint = unmask.Joint.from_scores(torch.tensor([torch.nan, 0.0]), axes)
    with pytest.raises(unmask.errors.NumericsError, match="normaliser of nan"):
        joint.log_prob("a")


def test_a_table_must_fit_its_axes() -> None:
    with pytest.raises(unmask.errors.SupportError, match="does not fit axes of"):
        unmask.Joint.from_scores(torch.zeros(2, 3), (unmask.Support.of("ab"),) * 2)
