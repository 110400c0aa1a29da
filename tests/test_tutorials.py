"""Tutorials run as they stand, and print what they say that they print."""

import re
import sys
from pathlib import Path

import pytest

from assets import real_model

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
STAND_INS = {
    "bert-base-cased": "caption-bert",
    "ckiplab/albert-tiny-chinese": "albert-tiny-chinese",
    "antiberty": "antiberty",
}
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")


def words_and_numbers(text: str) -> tuple[list[str], list[float]]:
    return NUMBER.sub("#", text).split(), [float(number) for number in NUMBER.findall(text)]


@pytest.mark.real
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_shows(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "runs"))
    import tutorial

    models = {name: str(real_model(folder)) for name, folder in STAND_INS.items()}
    written = page.read_text(encoding="utf-8")
    again = tutorial.executed(written, models)
    shown, found = tutorial.blocks(written), tutorial.blocks(again)
    assert len(shown) == len(found)
    assert any(said for _, said in shown)
    for (code, said), (_, says) in zip(shown, found, strict=True):
        words, numbers = words_and_numbers(said)
        words_now, numbers_now = words_and_numbers(says)
        assert words_now == words, code
        # the last digit shown may differ on another processor
        assert numbers_now == pytest.approx(numbers, rel=0.06, abs=0.006), code
    sys.modules.pop("tutorial", None)


def test_there_are_tutorials() -> None:
    assert PAGES
