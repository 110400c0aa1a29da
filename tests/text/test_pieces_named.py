"""A blanked word of several pieces is one blank; where it makes several, it is named."""

import json
import re
import warnings

import pytest
from tiny_tokenizers import tiny_bert, word_piece
from transformers import pipeline

import unmask
import unmask.pipelines
from unmask.cli import main

TEXT = "the unhappy cats sat."
SAID = "'unhappy' is 2 pieces of this tokenizer and makes 2 blanks"
ONE = (
    "'unhappy' is 2 pieces of this tokenizer, but one blank here, which holds a single token; "
    "rank words of"
)
QUIET = unmask.Settings(progress=False, announce=False)


def warned(ask) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ask()
    return [str(one.message) for one in caught if one.category.__name__ == "PiecesWarning"]


DOORS = {
    "joint": lambda lm, **how: lm.joint(TEXT, **how),
    "joints": lambda lm, **how: lm.joints(TEXT, **how),
    "tables": lambda lm, **how: lm.tables(TEXT, **how),
    "fill": lambda lm, **how: lm.fill(TEXT, top=1, **how),
    "cost": lambda lm, **how: lm.cost(TEXT, timed=False, **how),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("blank", ["unhappy", (4, 11)], ids=["word", "span"])
def test_every_door_names_the_word_and_the_way_out(lm, door, blank):
    blanks = ["the", blank] if door == "tables" else [blank]
    (said,) = warned(lambda: DOORS[door](lm, blanks=blanks))
    assert said.startswith(ONE)
    assert "lm.fill(..., targets=[...])" in said
    assert said.endswith("one blank per piece with lm.cloze(text, blanks=[...])")


def test_the_word_is_one_blank_as_if_it_were_masked(lm):
    masked = lm.joint("the [MASK] cats sat.", settings=QUIET)
    with pytest.warns(unmask.errors.PiecesWarning):
        named = lm.joint(TEXT, blanks=["unhappy"], settings=QUIET)
    assert named.shape == masked.shape == (lm.model.vocabulary_size,)
    assert named.top(3) == masked.top(3)
    assert named.diagnostics["pieces"] == [1]
    cloze = lm.cloze(TEXT, blanks=["the", "unhappy"])
    wide = lm.joint(cloze, support=["the", "cat", "un"], settings=QUIET)
    assert wide.diagnostics["pieces"] == [1, 2]
    with pytest.warns(unmask.errors.PiecesWarning):
        both = lm.fill(TEXT, blanks=["sat", "unhappy"], top=1, settings=QUIET)
    again = lm.fill("the [MASK] cats [MASK].", top=len(masked.supports[0]) ** 2, settings=QUIET)
    # axes follow the order that blanks are given in
    swapped = max(again, key=lambda fill: fill["score"])
    assert both[0]["token"] == swapped["token"][::-1]
    assert both[0]["score"] == pytest.approx(swapped["score"], rel=1e-4)


def test_whoever_means_it_is_not_warned(lm):
    def meant() -> None:
        lm.joint(lm.cloze(TEXT, blanks=["unhappy"]))
        lm.joint("the cat sat.", blanks=["cat", "sat"])
        lm.fill(TEXT, blanks=["unhappy"], targets=["cat", "unhappy"], piece_prior="uniform")

    assert warned(meant) == []


def test_the_pipeline_warns_too():
    fill = pipeline("joint-fill-mask", model=tiny_bert(), tokenizer=word_piece(), device="cpu")
    assert [ONE in said for said in warned(lambda: fill(TEXT, blanks=["unhappy"]))] == [True]
    assert warned(lambda: fill(TEXT, blanks=["unhappy"], targets=["cat", "dog"])) == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda lm, cloze: lm.tables(cloze),
        lambda lm, cloze: lm.joint(cloze, support={0: ["the"]}),
        lambda lm, cloze: lm.joint(
            cloze, method="ag", support="vocabulary", settings=unmask.Settings(memory_limit=10_000)
        ),
        lambda lm, cloze: lm.cost(
            cloze, methods=["ag"], support=9, settings=unmask.Settings(memory_limit=10_000)
        ),
    ],
    ids=["tables", "support by blank", "memory", "cost"],
)
def test_rejections_name_the_word_behind_the_blanks(lm, ask):
    with pytest.raises(unmask.UnmaskError, match=re.escape(SAID)):
        ask(lm, lm.cloze(TEXT, blanks=["the", "unhappy"]))


def test_too_many_blanks_for_tables_name_the_word(lm):
    cloze = lm.cloze("the unhappy unhappy cats sat.", blanks=["unhappy unhappy cats"])
    with pytest.raises(
        unmask.errors.MethodError, match=r"6 blanks \('unhappy unhappy cats' is 6 piec"
    ):
        lm.joint(cloze, method="log-pool")


def test_lines_have_the_pieces_of_every_blank(folder, capsys, tmp_path):
    lines = tmp_path / "texts.jsonl"
    lines.write_text(json.dumps({"text": TEXT, "blanks": ["unhappy"], "method": "orders"}))
    assert main(["fill", "-m", folder, str(lines), "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["diagnostics"]["pieces"] == [1]


# --- a word where a token should be ------------------------------------------------------------

NOT_A_TOKEN = (
    r"{}'unhappy' is not one of the \d+ tokens of this blank: it is 2 pieces of this tokenizer "
    r"\(un ##happy\); give such words as targets of fill"
)
PAIR = "the [MASK] [MASK]."
TOKENS = {
    "log_prob": ("blank 1: ", lambda lm: lm.joint(PAIR).log_prob("cat", "unhappy")),
    "pmi": ("blank 0: ", lambda lm: lm.joint(PAIR).pmi("unhappy", "sat")),
    "given": ("blank 1: ", lambda lm: lm.joint(PAIR).conditional(0, given={1: "unhappy"})),
    "log_odds": (
        "blank 0: ",
        lambda lm: lm.joint(PAIR).log_odds(["unhappy", "sat"], ["cat", "sat"]),
    ),
    "some candidates": (
        "blank 1: ",
        lambda lm: lm.joint(PAIR, support=["cat", "sat"]).log_prob("cat", "unhappy"),
    ),
    "proposed candidates": (
        "blank 1: ",
        lambda lm: lm.joint(PAIR, support=4).conditional(0, given={1: "unhappy"}),
    ),
    "support": ("", lambda lm: lm.joint(PAIR, support=["cat", "unhappy"])),
}


@pytest.mark.parametrize("door", TOKENS)
def test_a_word_that_is_no_token_is_told_its_pieces_and_the_way_out(lm, door):
    where, ask = TOKENS[door]
    with pytest.raises(unmask.errors.SupportError, match=NOT_A_TOKEN.format(where)):
        ask(lm)


def test_a_token_that_is_no_candidate_has_no_pieces_to_tell(lm):
    with pytest.raises(
        unmask.errors.SupportError, match="blank 0: 'dog' is not one of the 1 tokens"
    ) as e:
        lm.joint("the [MASK]", support=["cat"]).log_prob("dog")
    assert "pieces" not in str(e.value)
