"""What `lm.joint` calls before the model first runs: few functions, and no check twice."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import pytest
from tiny_tokenizers import tiny_bert, word_piece

import unmask
from unmask import LanguageModel, load

ROOT = str(Path(unmask.__file__).parent)
# the layers that a request passes on its way to the model's own reader
LAYERS = ("language_model.py", "queries", "constructions", "tables")
CASES = {"exact": {"support": ["the", "man", "cat", "dog"]}, "sketch": {"support": unmask.Sketch()}}


class Traced:
    """The functions of the package that a call runs before its first forward pass."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.stack: list[str] = []
        sys.setprofile(self._note)
        try:
            call()
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if self.stack or event != "call" or not code.co_filename.startswith(ROOT):
            return
        if code.co_qualname == "HuggingFaceMaskedLM.readouts":
            self.stack = list(_names_up_from(frame))
        else:
            self.calls[code] += 1

    def named(self) -> set[str]:
        """Functions with a name of their own in the layers between the call and the model."""
        return {
            f"{code.co_filename.removeprefix(ROOT)}:{code.co_qualname}"
            for code in self.calls
            if code.co_filename.removeprefix(ROOT + "/").startswith(LAYERS)
            and "<" not in code.co_qualname
            and not code.co_name.startswith("__")
        }

    def times(self, *names: str) -> dict[str, int]:
        """How often functions of these names were called."""
        calls = self.calls.items()
        return {name: sum(n for code, n in calls if code.co_name == name) for name in names}


def _names_up_from(frame: FrameType | None) -> list[str]:
    names = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(ROOT):
            names.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return names


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load((tiny_bert(), word_piece()))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_few_functions_stand_between_the_call_and_the_model(lm, case) -> None:
    lm.joint("a [MASK] [MASK] .", **CASES[case])  # what is computed once per model is there
    traced = Traced(lambda: lm.joint("the [MASK] [MASK] .", **CASES[case]))
    assert len(traced.stack) <= 17, traced.stack
    assert len(traced.named()) <= 20, sorted(traced.named())


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_checked_twice(lm, case) -> None:
    traced = Traced(lambda: lm.joint("the [MASK] [MASK] .", method="log-pool", **CASES[case]))
    once = ("_as_cloze", "read_cloze", "parse_cloze", "method_name", "check_options")
    assert traced.times(*once) == dict.fromkeys(once, 1)


@pytest.mark.slow
def test_replicates_of_a_sketch_check_no_options(lm) -> None:
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            calls[frame.f_code.co_name] += 1

    sys.setprofile(note)
    try:
        lm.joint("the [MASK] [MASK] .", support=unmask.Sketch()).top(2)
    finally:
        sys.setprofile(None)
    assert calls["check_options"] == calls["parse_cloze"] == 1
