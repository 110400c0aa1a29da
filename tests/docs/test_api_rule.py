"""The API's rule: models are asked by methods, results are public values with `to_dict`."""

import copy
import inspect
import pickle
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tiny_models import build

import unmask

CLASSES = (unmask.LanguageModel, unmask.Joint)
# answers that are asked further questions: their own methods are what they are for
ANSWERS = ("Cloze", "PairTables", "Support")
# constructors of values, and jobs
TAKE_A_MODEL = {"LanguageModel"}


def public_methods(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in inspect.getmembers(owner, inspect.isfunction):
        if not name.startswith("_"):
            yield f"{owner.__name__}.{name}", value


def types_in(annotation: object) -> Iterator[type]:
    arguments = typing.get_args(annotation)
    if isinstance(annotation, type) and not arguments:
        yield annotation
    for one in arguments:
        yield from types_in(one)


def returned(function: Callable[..., Any]) -> set[type]:
    scope = {**vars(typing), **{name: getattr(unmask, name) for name in unmask.__all__}}
    pandas = pytest.importorskip("pandas")
    figure = pytest.importorskip("matplotlib.figure")
    scope |= {"pd": pandas, "Figure": figure.Figure}
    hints = typing.get_type_hints(function, localns=scope)
    return set(types_in(hints["return"]))


RESULTS = sorted(
    {
        one.__name__
        for _, method in public_methods(unmask.LanguageModel)
        for one in returned(method)
        if one.__module__.startswith("unmask.")
    }
)


@pytest.mark.parametrize(
    ("name", "method"), [pair for owner in CLASSES for pair in public_methods(owner)]
)
def test_methods_return_public_types(name: str, method: Callable[..., Any]) -> None:
    for one in returned(method):
        if one.__module__.startswith("unmask."):
            assert one.__name__ in unmask.__all__, f"{name} returns {one.__name__}"


def test_public_names_are_few_and_errors_have_a_module() -> None:
    assert len(unmask.__all__) <= 34
    assert unmask.errors.ClozeError.__mro__[1] is unmask.UnmaskError
    assert {"errors", "harness", "pipelines", "plots"} <= set(dir(unmask))


def test_no_public_function_asks_a_model_in_place_of_a_method() -> None:
    for name in set(unmask.__all__) - TAKE_A_MODEL:
        value = getattr(unmask, name)
        if not isinstance(value, types.FunctionType):
            continue
        first = next(iter(inspect.signature(value).parameters.values()), None)
        assert first is None or "LanguageModel" not in str(first.annotation), name
        assert first is None or first.name != "lm", name


def test_results_have_a_dictionary() -> None:
    assert {"TextScore", "Joint", "DependenceMap", "Cost"} <= set(RESULTS)
    parts = ["Agreement", "Dependence", "Fill", "PairMetrics", "Place", "WordScore"]
    for name in {*RESULTS, *parts} - {*ANSWERS}:
        assert callable(getattr(getattr(unmask, name), "to_dict", None)), name
    for name in set(RESULTS) - {*ANSWERS}:
        assert callable(getattr(getattr(unmask, name), "to_pandas", None)), name


@pytest.mark.slow
def test_a_data_frame_has_the_columns_of_the_dictionaries(monkeypatch) -> None:
    pd = pytest.importorskip("pandas")
    lm = unmask.load(build("bert"))
    quiet = unmask.Settings(progress=False)
    scores = lm.score(["the cat sat", "the dog ran"], settings=quiet)
    items = [("the [MASK] sat on the [MASK]", "cat", "mat")]
    for results in (scores, scores[0].words, lm.pairs(items, settings=quiet)):
        frame = unmask.to_pandas(results)
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == list(results[0].to_dict())
        assert len(frame) == len(results)
    assert list(unmask.to_pandas(lm.fill(items[0][0], top=3, settings=quiet))["score"])
    fill = lm.decode(items[0][0], settings=quiet)
    for one in (scores[0], lm.cost(items[0][0], timed=False), fill):
        assert unmask.to_pandas(one).equals(unmask.to_pandas([one]))
    assert scores[0].to_pandas().equals(unmask.to_pandas(scores[0]))
    joint = lm.joint(items[0][0], support=5, settings=quiet)
    assert unmask.to_pandas(joint).equals(joint.to_pandas())
    for wrong in ("scores", ["scores"], 5):
        with pytest.raises(unmask.UnmaskError, match="to_pandas takes results, such as those of"):
            unmask.to_pandas(wrong)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'unmask\[pandas\]', or use to_dict"):
        unmask.to_pandas(scores)


@pytest.mark.slow
def test_one_text_gives_one_result_and_a_list_a_list() -> None:
    lm, quiet = unmask.load(build("bert")), unmask.Settings(progress=False)
    one = lm.score("the cat sat", settings=quiet)
    assert [one] == lm.score(["the cat sat"], settings=quiet)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ask", "advice"),
    [
        (lambda lm: lm.surprisal, r"has no attribute 'surprisal'; use score\(text\).words"),
        (lambda lm: lm.joint("the [MASK] [MASK]", support=5).prob, r"use log_prob\(...\)"),
        (lambda lm: lm.score("the cat").to_dataframe, "use to_pandas"),
        (lambda lm: unmask.score_texts, "use score"),
        (lambda lm: unmask.fill, r"use lm = unmask.load\(model\), then lm.fill"),
        (lambda lm: lm.joint("the [MASK] [MASK]", exact=True), "give support='vocabulary'"),
        (lambda lm: lm.joint("the [MASK] [MASK]", seed=1), r"support=unmask.Sketch\(seed=...\)"),
    ],
)
def test_a_guess_is_answered_with_the_right_name(
    ask: Callable[[unmask.LanguageModel], object],
    advice: str,
    tiny_english: unmask.LanguageModel,
) -> None:
    with pytest.raises((AttributeError, unmask.errors.MethodError), match=advice):
        ask(tiny_english)


@pytest.mark.slow
def test_other_names_are_missing_as_everywhere(tiny_english: unmask.LanguageModel) -> None:
    assert not hasattr(tiny_english, "nothing")
    score = tiny_english.score("A man is here.")
    assert pickle.loads(pickle.dumps(score)) == score == copy.deepcopy(score)
