"""The published joints come out again, exact over the whole vocabularies of real models."""

import csv
import math
from pathlib import Path

import pytest
from assets import real_model

import unmask

ROWS = Path(__file__).parents[2] / "docs" / "results" / "tables" / "first-joints.csv"

pytestmark = [pytest.mark.real, pytest.mark.slow]


def published(text: str) -> dict[str, list[dict[str, str]]]:
    """The ranked rows of a text by construction."""
    found: dict[str, list[dict[str, str]]] = {}
    with ROWS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["text"] == text:
                found.setdefault(row["construction"], []).append(row)
    return found


def columns(text: str) -> list[str]:
    """The constructions of a text."""
    return list(published(text))


def check(joints: dict[str, unmask.Joint], text: str, *, error: float = 1e-3) -> None:
    rows = published(text)
    for name, joint in joints.items():
        assert len(rows[name]) == 6
        for rank, row in enumerate(rows[name]):
            tokens = tuple(row["pair"].split())
            # not the ranks: the sixth decimal of a near tie may differ from machine to machine
            published_probability = float(row["probability"])
            assert math.exp(joint.log_prob(*tokens)) == pytest.approx(
                published_probability, abs=error
            )
            assert rank > 0 or joint.top(1)[0].tokens == tokens


ENGLISH = "Two [MASK] are playing [MASK] on the beach."


def test_english(tiny_english: unmask.LanguageModel) -> None:
    """One that takes a forward pass, and one that is sketched."""
    exact = tiny_english.joint(ENGLISH, method="mlm", support="vocabulary")
    assert exact.shape == (8192, 8192)
    check({"mlm": exact}, ENGLISH)
    sketched = tiny_english.joint(ENGLISH, method="log-pool")
    assert sketched.is_sketched()
    check({"log-pool": sketched}, ENGLISH, error=2e-3)


@pytest.mark.long
def test_english_by_every_construction(tiny_english: unmask.LanguageModel) -> None:
    joints = tiny_english.joints(ENGLISH, methods=columns(ENGLISH), support="vocabulary")
    assert all(joint.shape == (8192, 8192) for joint in joints.values())
    check(joints, ENGLISH)


@pytest.mark.long
@pytest.mark.assets("the Chinese model")
def test_chinese() -> None:
    text = "法國的首都是[MASK][MASK]。"
    lm = unmask.load(real_model("albert-tiny-chinese"))
    # not all of them: each further table is 21,128 rows, and every solver's pass 446 million cells
    joints = lm.joints(text, methods=["mlm", "hcb"], support="vocabulary")
    assert all(joint.shape == (21_128, 21_128) for joint in joints.values())
    paid = max(int(str(joint.diagnostics["forward_passes"])) for joint in joints.values())
    assert paid == 21_128 + 2
    check(joints, text)
