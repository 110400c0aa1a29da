"""Docstrings are the API reference: every argument is described, and every example runs."""

import doctest
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from reading_pages import ROOT

import unmask
from unmask.constructions.registered import REGISTERED
from unmask.evaluation.request import EvaluationRequest
from unmask.jobs.model_source import ModelSource
from unmask.records.corpora import CorpusSpec

PACKAGES = ("unmask", "unmask.plots")
ASKED = ("LanguageModel", "Joint")
SECTION = re.compile(r"^(Args|Returns|Raises|Examples):$", re.MULTILINE)


def public() -> Iterator[tuple[str, Any]]:
    """Classes and functions of `__all__`, and what classes define without an underscore."""
    seen = set()
    for package in PACKAGES:
        for name in import_module(package).__all__:
            value = getattr(import_module(package), name)
            if (not inspect.isclass(value) and not inspect.isfunction(value)) or value in seen:
                continue
            seen.add(value)
            yield f"{package}.{name}", value
            if inspect.isclass(value):
                for member in sorted(set(dir(value))):
                    part = inspect.getattr_static(value, member)
                    own = (getattr(part, "__module__", None) or package).startswith("unmask")
                    if own and not member.startswith("_"):
                        yield f"{package}.{name}.{member}", part


def documented(value: Any) -> str:
    return inspect.getdoc(getattr(value, "__func__", value)) or ""


def sections(text: str) -> dict[str, str]:
    head, *parts = SECTION.split(text)
    return {"": head, **dict(zip(parts[::2], parts[1::2], strict=True))}


def arguments(text: str) -> dict[str, str]:
    entries = re.split(r"^    (?=\*{0,2}\w+: )", sections(text).get("Args", ""), flags=re.MULTILINE)
    pairs = [entry.partition(": ") for entry in entries[1:]]
    return {name.strip("*"): " ".join(words.split()) for name, _, words in pairs}


OBJECTS = dict(public())
CALLED = {
    name: getattr(value, "__func__", value)
    for name, value in OBJECTS.items()
    if inspect.isfunction(value)
    and value.__module__.startswith("unmask.")
    and (value.__qualname__ == value.__name__ or name.split(".")[1] in ASKED)
}


@pytest.mark.parametrize("name", CALLED)
def test_arguments_results_and_an_example_are_described(name: str) -> None:
    signature, text = inspect.signature(CALLED[name]), documented(CALLED[name])
    names = [one for one in signature.parameters if one != "self"]
    assert list(arguments(text)) == names
    assert signature.return_annotation in (None, "None") or "Returns" in sections(text)
    assert ">>> " in sections(text)["Examples"]
    assert text.splitlines()[0].endswith(".")


@pytest.mark.parametrize(
    "name", [name for name in OBJECTS if "Args" in sections(documented(OBJECTS[name]))]
)
def test_described_arguments_are_those_of_the_signature(name: str) -> None:
    value = OBJECTS[name]
    names = inspect.signature(getattr(value, "__func__", value)).parameters
    assert list(arguments(documented(value))) == [n for n in names if n not in ("self", "cls")]


def test_what_a_model_returns_has_an_example() -> None:
    returned = {
        name
        for value in vars(unmask.LanguageModel).values()
        if inspect.isfunction(value)
        for name in re.findall(r"\b[A-Z]\w+", str(inspect.signature(value).return_annotation))
    }
    classes = [name for name in sorted(returned & set(unmask.__all__)) if name != "Any"]
    assert len(classes) >= 6
    missing = [name for name in classes if ">>> " not in documented(getattr(unmask, name))]
    assert missing == []


@pytest.mark.real
@pytest.mark.slow
def test_every_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").symlink_to(ROOT / "models", target_is_directory=True)
    lm = unmask.load("models/tiny-english")
    (tmp_path / "corpus.txt").write_text("Two dogs are running.")
    request = EvaluationRequest(
        corpus=CorpusSpec("corpus.txt"),
        model=ModelSource(place="models/tiny-english"),
        masks=["random"],
        examples=1,
        methods=["log-pool"],
    )
    joint = lm.joint("Two [MASK] are [MASK].", support=20)
    shared = {"unmask": unmask, "lm": lm, "joint": joint, "request": request}
    before, wrong = dict(REGISTERED), []
    runner = doctest.DocTestRunner()
    for name, value in OBJECTS.items():
        if ">>> " in (text := documented(value)):
            test = doctest.DocTestParser().get_doctest(text, shared, name, None, 0)
            runner.run(test, out=wrong.append)
    for name in REGISTERED.keys() - before.keys():
        del REGISTERED[name]
    assert runner.tries > 50
    assert not wrong, "".join(wrong)
