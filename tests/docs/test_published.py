"""The published joints come out again, exact over the whole vocabularies of real models."""

import math
import re
from pathlib import Path

import pytest
from assets import real_model

import unmask

PAGE = Path(__file__).parents[2] / "docs" / "results" / "first-joints.md"

pytestmark = [pytest.mark.real, pytest.mark.slow]


def published(text: str) -> list[list[str]]:
    """The ranked cells of a text's section, a list a rank."""
    heading = "## " + re.sub(r"([\[\]])", r"\\\1", text)
    section = PAGE.read_text(encoding="utf-8").split(heading)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if re.match(r"\| \d \|", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in lines]


def columns(text: str) -> list[str]:
    """The constructions that a text's section shows."""
    heading = "## " + re.sub(r"([\[\]])", r"\\\1", text)
    section = PAGE.read_text(encoding="utf-8").split(heading)[1]
    (header,) = re.findall(r"^\| \| (.*) \|$", section.split("\n## ")[0], flags=re.MULTILINE)
    return [name.strip() for name in header.split("|")]


def check(joints: dict[str, unmask.Joint], text: str, *, error: float = 1e-3) -> None:
    rows, names = published(text), columns(text)
    assert len(rows) == 6
    for name, joint in joints.items():
        column = names.index(name)
        for rank, row in enumerate(rows):
            found = re.fullmatch(r"(.*) \((.*)\)", row[column])
            assert found is not None
            tokens = tuple(found[1].replace("\\", "").split())
            # not the ranks: the sixth decimal of a near tie may differ from machine to machine
            assert math.exp(joint.log_prob(*tokens)) == pytest.approx(float(found[2]), abs=error)
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
