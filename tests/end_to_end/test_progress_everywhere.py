"""Progress and cancelling reach every public path; a cancelled model answers as before."""

from collections.abc import Callable

import pytest
from tiny_models import build, hooks

import unmask
from unmask import LanguageModel, Settings
from unmask.progress import Progress

TWO = "the cat [MASK] on the [MASK]"
THREE = "[MASK] cat [MASK] on [MASK] mat"
NINE = " ".join(["[MASK]"] * 9)

Ask = Callable[[LanguageModel, Settings], object]

PATHS: dict[str, Ask] = {
    "joint of one blank": lambda lm, how: lm.joint("the [MASK]", settings=how),
    "joint": lambda lm, how: lm.joint(TWO, settings=how),
    "joint over proposed candidates": lambda lm, how: lm.joint(TWO, support=4, settings=how),
    "joints": lambda lm, how: lm.joints(TWO, methods=["mlm", "hcb"], settings=how),
    "a pair of orders": lambda lm, how: lm.joint(TWO, method="orders", settings=how).top(2),
    "tables": lambda lm, how: lm.tables(TWO, settings=how).both(),
    "fill": lambda lm, how: lm.fill(TWO, settings=how),
    "fill with targets": lambda lm, how: lm.fill(TWO, targets=[["sat", "mat"]] * 2, settings=how),
    "dependence": lambda lm, how: lm.dependence("the cat sat", samples=4, settings=how),
    "dependence by pmi": lambda lm, how: lm.dependence("the cat sat", measure="pmi", settings=how),
    "decode": lambda lm, how: lm.decode(THREE, settings=how),
    "decode by measuring": lambda lm, how: lm.decode(
        THREE, rule="mutual-information", threshold=0.1, settings=how
    ),
    "score": lambda lm, how: lm.score(["the cat sat"], settings=how),
    "unmasking": lambda lm, how: lm.score(
        ["the cat sat"], method="unmasking", order="margin", settings=how
    ),
    "log_ratios": lambda lm, how: lm.log_ratios([("the cat", "a cat")], settings=how),
    "three blanks": lambda lm, how: lm.joint(THREE, support=3, settings=how),
    "three blanks, proposed": lambda lm, how: lm.joint(THREE, settings=how),
    "beams": lambda lm, how: lm.joint(NINE, method="orders", settings=how).top(2),
    "one fill of many blanks": lambda lm, how: lm.joint(NINE, settings=how).log_prob(*["cat"] * 9),
}


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return unmask.load(build("bert"))


class CancelledError(Exception):
    """Raised by a progress function."""


@pytest.mark.parametrize("path", PATHS)
def test_progress_and_cancelling_reach(path: str, lm: LanguageModel) -> None:
    seen: list[Progress] = []
    PATHS[path](lm, Settings(progress=seen.append))
    assert seen
    assert all(one.done > 0 and one.what for one in seen)

    before = lm.joint(TWO, method="mlm").log_prob("sat", "mat")
    for stop_at in sorted({0, len(seen) // 2, len(seen) - 1}):
        told: list[Progress] = []

        def cancel(progress: Progress, told: list[Progress] = told, at: int = stop_at) -> None:
            told.append(progress)
            if len(told) > at:
                raise CancelledError

        with pytest.raises(CancelledError):
            PATHS[path](lm, Settings(progress=cancel))
        assert hooks(lm.model.model) == 0
    assert lm.joint(TWO, method="mlm").log_prob("sat", "mat") == before


def test_every_batch_and_every_pass_is_told(lm: LanguageModel) -> None:
    heard: list[Progress] = []
    half = lm.model.vocabulary_size // 2
    lm.joint(TWO, method="ag", settings=Settings(batch_size=half, progress=heard.append))
    for blank in (0, 1):
        rows = [one for one in heard if one.what == f"blank {blank} given blank {1 - blank}"]
        assert [(one.done, one.total, one.unit) for one in rows] == [
            (done, 2 * half, "row") for done in (half, 2 * half)
        ]
        assert [one.fraction for one in rows] == [0.5, 1]
    passes = [one for one in heard if one.unit == "pass"]
    assert {(one.what, one.total) for one in passes} == {("ag", 49)}
    assert [one.done for one in passes] == sorted(one.done for one in passes)
    assert passes[-1].fraction == 1
