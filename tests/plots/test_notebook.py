"""The HTML of values in a notebook: escaped whatever the tokens are, with J, errors and passes."""

import re

import torch
from cells import Cells

import unmask
from unmask.markup import html_table

QUIET = unmask.Settings(progress=False)
# pieces of the tiny vocabulary, put in its place by name
HOSTILE = "<script>alert('x')</script>"


def pages(lm: unmask.LanguageModel) -> dict[str, str]:
    text = "the [MASK] sat on the [MASK]."
    sketch = unmask.Sketch(precision=None, max_passes=101)
    return {
        "joint": lm.joint(text, support=8, settings=QUIET)._repr_html_(),
        "sketch": lm.joint(text, support=sketch, settings=QUIET)._repr_html_(),
        "map": lm.dependence("the cats sat", samples=4, settings=QUIET)._repr_html_(),
        "consistency": lm.consistency(["the cat sat"], orders=2, settings=QUIET)._repr_html_(),
    }


def test_values_show_their_numbers_their_passes_and_how_far_to_trust_them(
    lm: unmask.LanguageModel,
) -> None:
    for name, page in pages(lm).items():
        cells = Cells(page)
        assert cells.tags <= {"div", "b", "table", "tr", "th", "td", "span"}
        assert re.search(r"Forward passes: [1-9]", page), name
        # readable in the dark: no colour but that of the text
        assert set(re.findall(r"(?:color|background)[^;]*", page)) <= {"background:currentColor"}
        assert ("J = " in page or "J," in page) == (name != "map")
        assert (" +- " in page) == (name in ("sketch", "map"))
    joint = lm.joint("the [MASK] sat on the [MASK].", support=8, settings=QUIET)
    texts = Cells(joint._repr_html_()).texts
    best = joint.top(1)[0]
    assert texts[:5] == [
        "the [MASK] sat on the [MASK].",
        "blank 0",
        "blank 1",
        "probability",
        best.tokens[0],
    ]
    assert f"{joint.agreement()}." in texts


def test_no_text_is_markup(lm: unmask.LanguageModel) -> None:
    axis = unmask.Support(lm.support(["cat", "mat"]).ids, (HOSTILE, "\u202e&\x1b[1m"))

    joint = unmask.Joint.from_scores(
        torch.zeros(2, 2), (axis, axis), method="<b>", diagnostics={"text": f"{HOSTILE} [MASK]"}
    )
    cells = Cells(joint._repr_html_())
    assert "script" not in cells.tags
    assert any("alert(" in text for text in cells.texts)
    assert not {"\u202e", "\x1b"} & set(joint._repr_html_())
    page = html_table(HOSTILE, [HOSTILE], [[HOSTILE]], [HOSTILE], [1.0])
    assert "script" not in Cells(page).tags
    assert page.count("&lt;script&gt;") == 4


def test_bars_have_the_lengths_of_their_numbers() -> None:
    page = html_table("", ["x"], [["a"], ["b"], ["c"]], [], [2.0, 1.0, -1.0])
    assert re.findall(r"width:([0-9.]+)em", page) == ["8.00", "4.00", "0.00"]
    assert "<table" not in html_table("", ["x"], [], ["nothing is ranked"])
