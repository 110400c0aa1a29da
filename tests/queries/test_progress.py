"""A function may be told how far the work is, and may end it."""

import numpy as np
import pytest
from toy_lm import ToyMaskedLM, ToyTokenizer

import unmask

V = 6


def toy(blanks: int = 3) -> unmask.LanguageModel:
    joint = np.random.default_rng(3).dirichlet(np.ones(V**blanks)).reshape((V,) * blanks)
    return unmask.LanguageModel(ToyMaskedLM(joint, noise=0.3), ToyTokenizer(V))  # type: ignore[arg-type]


def told(
    text: str, *, lm: unmask.LanguageModel | None = None, **how: object
) -> list[unmask.Progress]:
    heard: list[unmask.Progress] = []
    settings = unmask.Settings(batch_size=2, progress=heard.append)
    (lm or toy()).joint(text, settings=settings, **how)  # type: ignore[arg-type]
    return heard


def test_every_batch_and_every_pass_is_told() -> None:
    heard = told("t1 [MASK] [MASK]", method="ag")
    for blank in (0, 1):
        rows = [one for one in heard if one.what == f"blank {blank} given blank {1 - blank}"]
        assert [one.done for one in rows] == [2, 4, 6]
        assert {(one.total, one.unit) for one in rows} == {(V, "row")}
        assert [one.fraction for one in rows] == pytest.approx([1 / 3, 2 / 3, 1])
    passes = [one for one in heard if one.unit == "pass"]
    assert {(one.what, one.total) for one in passes} == {("ag", 49)}
    assert [one.done for one in passes] == sorted(one.done for one in passes)
    assert passes[-1].fraction == 1
