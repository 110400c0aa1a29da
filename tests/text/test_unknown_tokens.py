"""What the vocabulary has no token for is named, wherever a text can be given."""

import csv
import json
import warnings

import pytest
from assets import real_model
from tiny_tokenizers import byte_level, tiny_bert, without_offsets, word_piece
from transformers import EsmConfig, EsmForMaskedLM, pipeline

import unmask
import unmask.pipelines
from unmask import UnmaskError
from unmask.cli import main
from unmask.demo import answer
from unmask.errors import SpecialTokenWarning, UnknownTokenWarning
from unmask.text.cloze import parse_cloze

HALF, WHOLE = "the cat saw zebra and [MASK].", "the cat saw the [MASK]."
QUIET = unmask.Settings(progress=False, announce=False)


def warned(ask) -> list[str]:
    """The warnings of unknown tokens, every one of them, whatever was shown before."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ask()
    return [str(one.message) for one in caught if one.category is UnknownTokenWarning]


DOORS = {
    "cloze": lambda lm, text: lm.cloze(text),
    "joint": lambda lm, text: lm.joint(text),
    "joints": lambda lm, text: lm.joints(text),
    "fill": lambda lm, text: lm.fill(text),
    "fill targets": lambda lm, text: lm.fill(text, targets=["cat", "dog"]),
    "cost": lambda lm, text: lm.cost(text, timed=False),
    "a cloze, read once": lambda lm, text: lm.joint(lm.cloze(text)),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_warns_once_and_names_the_parts(lm, door):
    (said,) = warned(lambda: DOORS[door](lm, HALF))
    assert said == ("the vocabulary has no token for 'zebra', 'and': the model reads [UNK] there")
    assert warned(lambda: DOORS[door](lm, WHOLE)) == []


def test_the_warning_points_at_the_callers_line(lm):
    with pytest.warns(UnknownTokenWarning) as caught:
        lm.fill(HALF, top=1)
    # wrappers that check shapes stand between in tests
    assert "unmask" not in caught[0].filename.rsplit("/", 1)[1]


def test_answers_carry_them_too(lm):
    with pytest.warns(UnknownTokenWarning):
        joint = lm.joint(HALF)
    assert joint.diagnostics["unknown_tokens"] == ["zebra", "and"]
    assert lm.joint(WHOLE).diagnostics["unknown_tokens"] == []


def test_many_texts_are_one_warning(lm):
    texts = ["the [MASK] [MASK] zebra.", "the [MASK] [MASK].", "a kudu [MASK] [MASK]."]
    items = [(text, "cat", "sat") for text in texts]
    (said,) = warned(lambda: lm.pairs(items, method="mlm"))
    assert said.startswith("2 of 3 texts: the vocabulary has no token for 'zebra', 'kudu'")
    assert warned(lambda: lm.pairs(items[1:2], method="mlm")) == []
    many = [f"the z{'x' * n} sat" for n in range(9)]
    (said,) = warned(lambda: lm.score(many, settings=QUIET))
    assert said.startswith("9 of 9 texts")
    assert "and 5 more: the model" in said


@pytest.mark.parametrize("method", ["pll", "pll-word-l2r", "unmasking"])
def test_scores_count_unknown_tokens(lm, method):
    texts = ["the cat sat", "the zebra sat"]
    found: list = []
    (said,) = warned(lambda: found.extend(lm.score(texts, method=method, settings=QUIET)))
    assert said.startswith("1 of 2 texts: the vocabulary has no token for 'zebra'")
    assert [score.to_dict()["unknown_tokens"] for score in found] == [0, 1]
    (said,) = warned(lambda: lm.log_ratios([("the cat sat", "the zebra sat")], settings=QUIET))
    assert "'zebra'" in said


def test_special_tokens_written_in_a_text_are_counted_and_named(lm, folder, tmp_path, capsys):
    texts = ["the [PAD] cat sat [SEP]", "the cat sat", "the [UNK] sat", "a [SEP] [SEP] cat"]
    with pytest.warns(SpecialTokenWarning) as caught:
        scores = lm.score(texts, settings=QUIET)
    assert [score.special_tokens for score in scores] == [2, 0, 1, 2]
    (said,) = {str(warning.message) for warning in caught}
    assert said.startswith("3 of 4 texts: ")
    assert said.endswith(" in a text is read as a special token")
    for name in ("'[PAD]'", "'[SEP]'", "'[UNK]'"):
        assert name in said
    # those of a context are its own
    with pytest.warns(SpecialTokenWarning):
        assert lm.score(" [SEP] cat", given="the [PAD]", settings=QUIET).special_tokens == 1
    (tmp_path / "in.txt").write_text("\n".join(texts))
    assert main(["score", str(tmp_path / "in.txt"), "-m", folder, "-o", f"{tmp_path}/o.csv"]) == 0
    assert "3 of 4 texts have special tokens" in capsys.readouterr().err
    with open(tmp_path / "o.csv", encoding="utf-8") as file:
        assert [row["special_tokens"] for row in csv.DictReader(file)] == ["2", "0", "1", "2"]


def test_the_unknown_token_written_on_purpose_is_what_was_asked(lm):
    assert warned(lambda: lm.fill("the [UNK] saw [MASK].")) == []
    assert warned(lambda: lm.fill("[UNK] [MASK]")) == []
    assert lm.joint("the [UNK] [MASK]").diagnostics["unknown_tokens"] == []


def test_an_unknown_word_that_is_the_blank_is_not_read_by_the_model(lm):
    assert warned(lambda: lm.joint("the zebra sat.", blanks=["zebra"])) == []
    (said,) = warned(lambda: lm.joint("the zebra saw kudu.", blanks=["zebra"]))
    assert "'kudu'" in said
    assert "zebra" not in said


def test_a_text_of_which_nothing_is_known_is_rejected(lm):
    said = "has no token that this model knows: the vocabulary has no token for 'zebra', 'kudu'"
    with pytest.raises(unmask.errors.ClozeError, match=f"the text {said}"):
        lm.joint("zebra [MASK] kudu")
    (pair,) = lm.pairs([("zebra [MASK] kudu [MASK]", "cat", "sat")])
    assert pair.reason.startswith(f"the text {said}")
    with pytest.raises(unmask.errors.ClozeError, match=f"text 1: the text {said}"):
        lm.score(["the cat", "zebra kudu"])
    # with nothing around it a blank has nothing unknown either
    assert warned(lambda: lm.joint("[MASK]")) == []


def test_byte_level_tokenizers_have_no_unknown_tokens():
    assert parse_cloze("日本 😀 <mask> zebra", byte_level()).unknown == ()


def test_without_offsets_whole_words_are_named(tmp_path):
    tokenizer = without_offsets(tmp_path)
    config = EsmConfig(
        vocab_size=9,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=20,
        mask_token_id=8,
        pad_token_id=1,
    )
    lm = unmask.load((EsmForMaskedLM(config).eval(), tokenizer))
    assert not tokenizer.is_fast
    (said,) = warned(lambda: lm.fill("A C <mask> J*"))
    assert "no token for 'J*': the model reads <unk>" in said
    assert warned(lambda: lm.fill("A C <mask> <unk>")) == []


# --- the other doors ---------------------------------------------------------------------------


def test_the_pipeline_warns_per_text():
    fill = pipeline("joint-fill-mask", model=tiny_bert(), tokenizer=word_piece(), device="cpu")
    assert ["'zebra'" in said for said in warned(lambda: fill([HALF, WHOLE]))] == [True]


def test_fill_of_many_lines_says_it_in_each(folder, capsys, tmp_path):
    lines = tmp_path / "texts.jsonl"
    asked = [{"text": HALF}, {"text": WHOLE}, {"text": HALF, "targets": ["cat", "dog"]}]
    lines.write_text("\n".join(map(json.dumps, asked)))
    assert main(["fill", "-m", folder, str(lines), "--quiet"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [row["diagnostics"]["unknown_tokens"] for row in rows]
    assert found == [["zebra", "and"], [], ["zebra", "and"]]


def test_evaluate_counts_examples_with_unknown_tokens(folder, capsys, tmp_path):
    corpus = tmp_path / "lines.txt"
    corpus.write_text("the cat sat on the zebra\nthe dog ran on the mat\n")
    request = ["evaluate", str(corpus), "-m", folder, "-o", str(tmp_path / "run"), "--dry-run"]
    assert main([*request, "--method", "mlm", "--mask", "random"]) == 0
    said = capsys.readouterr().err
    assert "; 1 of them hold words that the vocabulary has no token for ([UNK])" in said
    assert "unmask: " not in said  # one count for a corpus, no warning per sentence


@pytest.mark.slow
def test_the_demo_says_it_on_the_page_and_keeps_texts_out_of_the_log(lm):
    answers = []
    assert warned(lambda: answers.append(answer(lm, "the cat saw zebra [MASK] [MASK]."))) == []
    assert "The vocabulary has no token for" in answers[0]
    assert "zebra" in answers[0]


# --- proteins ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def antibodies() -> unmask.LanguageModel:
    return unmask.load(real_model("antiberty"))


@pytest.mark.real
@pytest.mark.assets("the antibody model")
def test_residues_without_spaces_are_rejected_with_the_fix(antibodies):
    with pytest.raises(UnmaskError) as caught:
        antibodies.joint("EVQL[MASK]ESGG[MASK]LVQPGG")
    assert str(caught.value) == (
        "the text has no token that this model knows: the vocabulary has no token for 'EVQL', "
        "'ESGG', 'LVQPGG': the model reads [UNK] there; write residues with spaces between them: "
        "E V Q L"
    )


@pytest.mark.real
@pytest.mark.assets("the antibody model")
@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("E V QL [MASK] E", "write residues with spaces between them: Q L"),
        ("E V evql [MASK] E", "write residues with spaces between them: E V Q L"),
        ("E V EVQLVESGGGLV [MASK] E", "with spaces between them: E V Q L V E S G ..."),
        ("E V 日 [MASK] E", None),
        ("E [MASK] [MASK] L V E S G G", None),
    ],
)
def test_what_the_fix_is(antibodies, text, fix):
    messages = warned(lambda: antibodies.fill(text, top=1, support="amino-acids"))
    assert len(messages) == (" L V " not in text)
    assert all(said.endswith(fix) if fix else "residues" not in said for said in messages)
