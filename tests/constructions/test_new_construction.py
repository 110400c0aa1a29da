"""Constructions from outside: those of the how-to page as defined, and every refusal in a line."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import examples
import numpy as np
import pytest
import torch
from examples import log_table
from torch.overrides import TorchFunctionMode
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask.constructions.needs import Needs
from unmask.constructions.registered import REGISTERED
from unmask.joints.forms import Product, Sum
from unmask.language_model import LanguageModel

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "new-construction.md"
EXAMPLE = examples.heavy_tailed(23, 17, seed=5)
TEXT = "t3 [MASK] [MASK]"
SIZE = 6


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing that a test registers is there for the next."""
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


@pytest.fixture
def page() -> dict[str, Any]:
    """The page's functions, registered; what needs a model is left out."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for block in blocks:
        if "@unmask.register" in block:
            definitions = re.sub(
                r"^(print|predicted|paid|assert).*\n", "", block, flags=re.MULTILINE
            )
            exec(compile(definitions, PAGE.name, "exec"), names)
    return names


@pytest.fixture
def lm() -> LanguageModel:
    return LanguageModel(ToyMaskedLM(toy_joint(SIZE, 3), noise=0.5), ToyTokenizer(SIZE), name="toy")


def plain(tables: unmask.PairTables, *, power: float = 1.0) -> Product:
    return Product((power, power))


def normalised(weights: examples.Array) -> examples.Array:
    return np.log(weights / weights.sum())


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(unmask.UnmaskError) as caught:
        act()
    said = str(caught.value)
    assert "\n" not in said
    return said


def register(name: Any, function: Any, needs: Any = None) -> None:
    # unwrapped: the checks of annotations, which users do not have, would answer before
    inspect.unwrap(inspect.unwrap(unmask.register)(name, needs=needs))(function)


def with_a_number(tables: unmask.PairTables) -> Sum:
    form = Sum((tables.log_masked(1), tables.log_masked(0)))
    object.__setattr__(form, "log_times", (tables.log_masked(1), 0.5))
    return form


# --- as defined --------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 0.85, 1.0])
def test_tilted_orders_are_as_defined(page: dict[str, Any], weight: float) -> None:
    A, B, m_a, m_b = EXAMPLE.A, EXAMPLE.B, EXAMPLE.m_a, EXAMPLE.m_b
    right = normalised((A * m_b) ** weight * (B * m_a[:, None]) ** (1 - weight))
    joint = unmask.construct("tilted-orders", EXAMPLE.tables(), weight=weight)
    np.testing.assert_allclose(log_table(joint), right, rtol=0, atol=1e-5)
    assert joint.method == joint.diagnostics["method"] == "tilted-orders"
    assert joint.diagnostics["weight"] == weight


def test_one_context_each_is_as_defined(page: dict[str, Any]) -> None:
    A, B = EXAMPLE.A, EXAMPLE.B
    u_b, v_a = B[EXAMPLE.m_a.argmax()], A[:, EXAMPLE.m_b.argmax()]
    joint = unmask.construct("one-context-each", EXAMPLE.tables())
    right = normalised(A * u_b + B * v_a[:, None])
    np.testing.assert_allclose(log_table(joint), right, rtol=0, atol=1e-5)


def test_scores_by_rows_do(page: dict[str, Any]) -> None:
    @unmask.register("by-rows")
    def by_rows(tables: unmask.PairTables) -> unmask.Joint:
        def scores(rows: slice) -> torch.Tensor:
            return torch.maximum(*(tables.log_given_others(t, rows) for t in (0, 1)))

        return unmask.Joint(scores, tables.supports, method="mlm")

    tables = EXAMPLE.tables()
    joint = unmask.construct("by-rows", tables)
    right = normalised(np.maximum(EXAMPLE.A, EXAMPLE.B))
    np.testing.assert_allclose(log_table(joint), right, rtol=0, atol=1e-5)
    # under its own name: the metrics of `mlm` are not its own
    assert joint.method == "by-rows"
    found = unmask.pair_metrics({"mine": joint}, tables, EXAMPLE.gold)["mine"]
    a, b = EXAMPLE.gold
    p = np.exp(right)
    unary = -(np.log(p[a, b] / p[a].sum()) + np.log(p[a, b] / p[:, b].sum())) / 2
    assert found.unary_nll == pytest.approx(unary, abs=1e-5)
    assert found.pairwise_nll == pytest.approx(-right[a, b] / 2, abs=1e-5)


@pytest.mark.parametrize("name", ["tilted-orders", "one-context-each", "one-order"])
def test_no_construction_of_the_page_holds_a_whole_table(
    page: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, cells = 90, 1000
    generator = torch.Generator().manual_seed(1)
    factors = torch.randn(4, size, 3, generator=generator)
    log_m = torch.randn(2, size, generator=generator, dtype=torch.float64).log_softmax(1)
    tables = unmask.PairTables.from_logits(
        unmask.FactoredLogits(factors[0], factors[1]),
        unmask.FactoredLogits(factors[2], factors[3]),
        marginals=unmask.MaskedMarginals(log_m[0], log_m[1]),
        memory_limit=0,
    )
    monkeypatch.setattr("unmask.logspace.TILE_CELLS", cells)
    largest = 0

    class Watched(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            nonlocal largest
            made = function(*args, **(kwargs or {}))
            if isinstance(made, torch.Tensor):
                largest = max(largest, made.numel())
            return made

    with Watched():
        joint = unmask.construct(name, tables)
        joint.top(3)
        joint.entropy()
    assert size < largest <= cells < size**2


# --- through the model -------------------------------------------------------------------------


def test_what_is_told_is_what_is_paid(page: dict[str, Any]) -> None:
    for name, rows in (("tilted-orders", 2 * SIZE + 1), ("one-order", SIZE + 1)):
        toy = ToyMaskedLM(toy_joint(SIZE, 3), noise=0.5)
        lm = LanguageModel(toy, ToyTokenizer(SIZE), name="toy")
        told = lm.cost(TEXT, methods=[name]).forward_passes
        toy.rows_asked = 0
        joint = lm.joint(TEXT, method=name)
        joint.top(3)
        joint.entropy()
        assert told == toy.rows_asked == joint.diagnostics["forward_passes"] == rows


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"wight": 0.3}, {"weight": "much"}, {"weight": True}, {"weight": 2.0}]
)
def test_options_are_checked_before_anything_is_paid(
    page: dict[str, Any], options: dict[str, Any]
) -> None:
    toy = ToyMaskedLM(toy_joint(SIZE, 3))
    lm = LanguageModel(toy, ToyTokenizer(SIZE), name="toy")
    said = refusal(lambda: lm.joint(TEXT, method="tilted-orders", **options))
    assert "weight" in said
    assert toy.rows_asked == 0


@pytest.mark.parametrize("name", ["log-pool", "hcb", "all", "My Joint", "mine_too", "", 7])
def test_a_name_must_be_free_and_plain(name: Any) -> None:
    before = dict(REGISTERED)
    assert repr(name) in refusal(lambda: register(name, plain))
    assert before == REGISTERED


def test_a_function_takes_its_own_place_and_no_other() -> None:
    unmask.register("mine")(plain)
    unmask.register("mine")(plain)

    def other(tables: unmask.PairTables) -> Product:
        return plain(tables)

    assert "'mine' already" in refusal(lambda: unmask.register("mine")(other))


def no_tables() -> Product:
    raise AssertionError


def by_place(tables: unmask.PairTables, weight: float = 0.5) -> Product:
    raise AssertionError


def without_default(tables: unmask.PairTables, *, weight: float) -> Product:
    raise AssertionError


def anything(tables: unmask.PairTables, **options: float) -> Product:
    raise AssertionError


@pytest.mark.parametrize(
    "what", [None, "mrf", Product, no_tables, by_place, without_default, anything]
)
def test_a_construction_is_a_function_of_tables(what: Any) -> None:
    assert refusal(lambda: register("mine", what)).find("mine") >= 0


def test_needs_are_needs() -> None:
    assert "'both tables'" in refusal(lambda: register("mine", plain, needs="both tables"))


def test_an_unregistered_function_is_told_how() -> None:
    method: Any = plain
    with pytest.raises(unmask.errors.MethodError, match=r"unmask\.register"):
        unmask.construct(method, EXAMPLE.tables())


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda _: None, "not None"),
        (lambda t: t.masked.log_a, "a Product, a Sum or a Joint"),
        (lambda t: unmask.construct("mlm", t).marginal(0), "over other tokens"),
        (
            lambda t: Product((1, 1), (t.masked.log_a,)),
            r"log_factors of \(23,\) for axes of \(23, 17\)",
        ),
        (lambda t: Product((1, 1, 1)), "3 powers for 2 blanks"),
        (
            lambda t: Sum((t.log_masked(0), t.log_masked(1))),
            r"log_times of \(23, 1\).*of 1 and 17 or of 1",
        ),
        (lambda t: Sum((t.log_masked(1),)), "1 log_times for 2 blanks; give one per blank"),
        (with_a_number, "log_times of 0.5 for axes"),
    ],
)
def test_what_is_no_joint_of_the_tables_is_refused(returned: Any, said: str) -> None:
    @unmask.register("mine")
    def mine(tables: unmask.PairTables) -> Any:
        return returned(tables)

    assert re.search(said, refusal(lambda: unmask.construct("mine", EXAMPLE.tables())))


def test_a_form_keeps_to_its_needs() -> None:
    unmask.register("mine", needs=Needs(masked=True, whole=(0,)))(plain)
    said = refusal(lambda: unmask.construct("mine", EXAMPLE.tables()))
    assert "q(b | a)" in said
    assert "name blank 1 in whole=" in said


def test_tables_without_marginals_are_told(page: dict[str, Any]) -> None:
    given = EXAMPLE.tables()
    bare = unmask.PairTables.from_logits(given.a_given_b.logits, given.b_given_a.logits)
    assert "marginals=" in refusal(lambda: unmask.construct("tilted-orders", bare))
    # what does not ask for them is not held up
    unmask.register("mine")(plain)
    right = normalised(EXAMPLE.A * EXAMPLE.B)
    np.testing.assert_allclose(log_table(unmask.construct("mine", bare)), right, rtol=0, atol=1e-5)


def test_more_blanks_than_two_are_refused(page: dict[str, Any], lm: LanguageModel) -> None:
    text = "[MASK] [MASK] [MASK]"
    assert "takes two blanks" in refusal(lambda: lm.joint(text, method="tilted-orders", support=2))
