"""Texts scored in the context of what stands before and after them."""

import itertools
import math
from pathlib import Path

import pytest
from assets import real_model
from test_unmasking import QUIET, Logits, loop, own_logits
from tiny_models import build
from tiny_tokenizers import save_bert
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask import LanguageModel, cli
from unmask.sequences.scoring import score_texts
from unmask.sequences.texts import TokenisedText
from unmask.sequences.unmasking import ORDERS
from unmask.text.words import Word

# before, text, after
ITEMS = [
    ("the", " cats sat", " on mats."),
    ("the cats", " was", ""),
    ("", "old mats", " sat on the cats."),
    ("the cats sat on", " old mats.", ""),
]


@pytest.fixture(
    scope="module",
    params=[
        "bert",
        "roberta",
        pytest.param("tiny-english", marks=pytest.mark.real),
        pytest.param(
            "caption-bert", marks=[pytest.mark.real, pytest.mark.assets("a larger model")]
        ),
    ],
)
def lm(request: pytest.FixtureRequest) -> LanguageModel:
    if request.param == "tiny-english":
        return request.getfixturevalue("tiny_english")
    is_real = request.param == "caption-bert"
    return unmask.load(real_model(request.param) if is_real else build(request.param))


@pytest.fixture(scope="module")
def logits(lm: LanguageModel) -> Logits:
    return own_logits(lm)


def whole_ids(lm: LanguageModel, item: tuple[str, str, str]) -> tuple[list[int], list[int]]:
    """The ids of the whole text, and the positions of the continuation: what tokens before add."""
    before, text, after = item
    sizes = [
        len(lm.tokenizer(part)["input_ids"]) if part else 2 for part in (before, before + text)
    ]
    return lm.tokenizer(before + text + after)["input_ids"], [*range(sizes[0] - 1, sizes[1] - 1)]


@pytest.mark.parametrize("order", ORDERS)
def test_unmasking_is_a_loop_over_the_continuation(
    lm: LanguageModel, logits: Logits, order: str
) -> None:
    texts, given = [text for _, text, _ in ITEMS], [(one[0], one[2]) for one in ITEMS]
    scores = lm.score(texts, given=given, method="unmasking", order=order, settings=QUIET)
    for item, score in zip(ITEMS, scores, strict=True):
        ids, places = whole_ids(lm, item)
        expected = loop(logits, ids, places, lm.model.mask_id, order)
        assert score.score == pytest.approx(math.fsum(expected), abs=1e-5)
        assert (score.text, score.tokens, score.forward_passes) == (item[1], *[len(places)] * 2)


@pytest.mark.parametrize("method", ["pll", "pll-word-l2r"])
def test_pll_masks_one_token_of_the_continuation_at_a_time(
    lm: LanguageModel, logits: Logits, method: str
) -> None:
    """And by `pll-word-l2r` the later pieces of its word, but none of the context."""
    for item in ITEMS:
        ids, places = whole_ids(lm, item)
        score = lm.score(item[1], given=(item[0], item[2]), method=method, settings=QUIET)
        words = lm.tokenizer("".join(item)).word_ids()
        one_by_one = [
            # only the first of a loop is scored with all of them masked
            loop(logits, ids, hidden, lm.model.mask_id, ORDERS[0])[0]
            for place in places
            for later in [[p for p in places if p > place and words[p] == words[place]]]
            for hidden in [[place, *(later if method == "pll-word-l2r" else ())]]
        ]
        assert score.score == pytest.approx(math.fsum(one_by_one), abs=1e-5)


@pytest.mark.parametrize("suffix", [(), (2,)], ids=["without suffix", "with suffix"])
@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("order", ORDERS)
def test_all_continuations_of_a_length_sum_to_one(
    order: str, tokens: int, suffix: tuple[int, ...]
) -> None:
    model = ToyMaskedLM(toy_joint(4, tokens + 1 + len(suffix), seed=1), noise=0.7)
    lm = LanguageModel(model, ToyTokenizer(4))
    assert mass_of_all(lm, (3,), suffix, tokens, order) == pytest.approx(1.0, abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_all_continuations_of_a_transformer_sum_to_one(order: str) -> None:
    """Over its whole vocabulary, special tokens too."""
    lm = unmask.load(build("bert"))
    first, *inner, last = lm.tokenizer("the cats on mats.")["input_ids"]
    mass = mass_of_all(lm, (first, *inner[:2]), (*inner[2:], last), 2, order)
    assert mass == pytest.approx(1.0, abs=1e-6)


def mass_of_all(
    lm: LanguageModel, before: tuple[int, ...], after: tuple[int, ...], tokens: int, order: str
) -> float:
    """The probability of all continuations with so many tokens."""
    places = tuple(range(len(before), len(before) + tokens))
    words = tuple(Word(n, n + 1, -1, -1, "") for n in range(tokens))
    texts = [
        TokenisedText("", (*before, *one, *after), places, words)
        for one in itertools.product(range(lm.model.vocabulary_size), repeat=tokens)
    ]
    scores = score_texts(lm, texts, method="unmasking", order=order, settings=QUIET)
    return math.fsum(math.exp(one.score) for one in scores)


def test_a_continuation_and_its_prefix_are_the_whole_text_from_left_to_right(
    tiny_english: LanguageModel,
) -> None:
    """Given a suffix too, the continuation is likelier where the suffix asks for it."""
    prefix, text = "Two dogs are", " running"
    last = tiny_english.score(text, given=prefix, method="unmasking")
    whole = tiny_english.score(prefix + text, method="pll")
    assert last.score == pytest.approx(whole.words[-1].log_prob, abs=1e-5)
    far = tiny_english.score(text, given=(prefix, " in the water."), method="unmasking")
    assert far.score != pytest.approx(last.score, abs=1e-2)


def test_words_are_those_of_the_continuation(tiny_english: LanguageModel) -> None:
    score = tiny_english.score("are running", given=("Two dogs", "fast."), separator=" ")
    assert [(w.text, w.start, w.end) for w in score.words] == [("are", 0, 3), ("running", 4, 11)]
    assert math.fsum(word.log_prob for word in score.words) == pytest.approx(score.score)


def test_one_context_serves_all_texts(tiny_english: LanguageModel) -> None:
    texts = [" running.", " sleeping."]
    together = tiny_english.score(texts, given="Two dogs are")
    assert together == tiny_english.score(texts, given=["Two dogs are"] * 2)


@pytest.mark.parametrize(
    ("texts", "given", "message"),
    [
        (["a", "b"], ["c"], "given has 1 contexts for 2 texts"),
        ("a", 3, "given is the text before, or a tuple of those before and after, not 3"),
        ("a", ("b", "c", "d"), "given is the text before"),
        ("", "a", "the text is empty"),
        (["a", " "], "b ", "text 1: the text is empty"),
        (["a", 3], "b ", "text 1: a text is a string, not int"),
        ("a [MASK]", "the ", "a whole text has no blanks"),
    ],
)
def test_what_cannot_be_scored_is_one_line(
    texts: object, given: object, message: str, tiny_english: LanguageModel
) -> None:
    with pytest.raises(unmask.errors.ClozeError, match=message):
        tiny_english.score(texts, given=given)  # type: ignore[call-overload]


def test_words_that_run_together_are_noticed(tiny_english: LanguageModel) -> None:
    for given in ("Two dogs are", ("Two dogs are ", "too")):
        with pytest.warns(unmask.errors.UnmaskWarning, match="without a space"):
            tiny_english.score("running", given=given)


def test_a_table_says_once_that_words_run_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("text,before\ncat sat.,the\nsat.,the cat\n")
    model = str(save_bert(tmp_path / "bert"))
    command = ["score", str(tmp_path / "in.csv"), "--given", "before", "-m", model]
    assert cli.main(command) == 0
    assert capsys.readouterr().err.count("without a space") == 1


def test_a_separator_joins_something(tiny_english: LanguageModel) -> None:
    with pytest.raises(unmask.errors.ClozeError, match="separator joins a text to what is given"):
        tiny_english.score("running", separator=" ")
    with pytest.raises(unmask.errors.ClozeError, match="joins a text to what is given, not 3"):
        tiny_english.score("running", given="Two", separator=3)  # type: ignore[call-overload]


def test_unknown_words_of_the_context_are_not_counted_as_those_of_the_text() -> None:
    lm = unmask.load(build("bert"))
    with pytest.warns(unmask.errors.UnknownTokenWarning, match="'zebra'"):
        score = lm.score("cats sat", given="the zebra", separator=" ")
    assert (score.unknown_tokens, [word.is_unknown for word in score.words]) == (0, [False] * 2)
    with pytest.warns(unmask.errors.UnknownTokenWarning):
        score = lm.score("zebra sat", given=("the zebra", "zebra"), separator=" ")
    assert (score.unknown_tokens, [word.is_unknown for word in score.words]) == (1, [True, False])


def test_a_word_that_begins_in_the_prefix_is_scored_whole(tiny_english: LanguageModel) -> None:
    with pytest.warns(unmask.errors.UnmaskWarning):
        score = tiny_english.score("ning fast.", given="Two dogs are run")
    assert (score.words[0].text, score.words[0].start, score.tokens) == ("running", -3, 3)


def test_without_offsets_a_continuation_is_refused() -> None:
    lm = LanguageModel(ToyMaskedLM(toy_joint(4, 3, seed=1)), ToyTokenizer(4))
    with pytest.raises(unmask.errors.ClozeError, match="keeps no character offsets"):
        lm.score("t1", given="t0 ")


ROWS = "before,text,bad,after\nthe,cats,mats,sat on mats.\nthe old,mats,cats,sat.\nthe,,cats,sat.\n"


@pytest.mark.parametrize("output", ["scores.csv", "scores/"])
def test_columns_hold_what_texts_are_given(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = save_bert(tmp_path / "bert")
    (tmp_path / "rows.csv").write_text(ROWS, encoding="utf-8")
    given = ["--given", "before,after", "--separator", " ", "--method", "unmasking", "--quiet"]
    assert cli.main(["score", "rows.csv", "-m", str(folder), *given, "-o", output]) == 0
    if output.endswith("/"):
        assert cli.main(["merge", output, "scores.csv", "--quiet"]) == 0
    lm = unmask.load(folder)
    rows = (tmp_path / "scores.csv").read_text(encoding="utf-8").splitlines()
    names = rows[0].split(",")
    texts, contexts = ["cats", "mats"], [("the", "sat on mats."), ("the old", "sat.")]
    expected = lm.score(texts, given=contexts, separator=" ", method="unmasking", settings=QUIET)
    for row, score in zip(rows[1:], expected, strict=False):
        assert float(row.split(",")[names.index("score")]) == pytest.approx(score.score, abs=1e-6)
    assert rows[3].endswith("the text is empty")
