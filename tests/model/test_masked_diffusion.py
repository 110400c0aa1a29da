"""Models that are not BERT: code of their own, no mask token, shifted logits, padded outputs."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from assets import real_model
from remote_code import MASK, START, WORDS, plain_model, write_model, write_shifted_bert
from torch import Tensor

import unmask
from unmask.cli import main
from unmask.jobs.model_source import ModelSource, identify
from unmask.jobs.plan import model_changes

TOLERANCE = 1e-5
# after three special tokens
MASK_ID = 3 + len(WORDS)
SENTENCES = ["the cat sat on the mat", "a man was in the old house", "the dog ran"]


@pytest.fixture(autouse=True)
def own_modules(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where transformers copies the code of models to."""
    place = str(tmp_path_factory.mktemp("modules"))
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", place)


@pytest.fixture
def llada(tmp_path: Path) -> str:
    """Bidirectional, a mask id that nothing names, a tokenizer without a mask token."""
    return write_model(tmp_path / "llada-like")


@pytest.fixture
def dream(tmp_path: Path) -> str:
    """Token i is predicted at position i-1; the tokenizer has a mask token."""
    return write_model(tmp_path / "dream-like", named="<|mask|>", classes=("AutoModel",))


@pytest.fixture
def shifted(tmp_path: Path) -> str:
    """tiny-english, whose own code has its logits one position early."""
    return write_shifted_bert(tmp_path / "shifted", real_model("tiny-english"))


def load(folder: str, **options: Any) -> unmask.LanguageModel:
    return unmask.load(folder, trust_remote_code=True, **options)


class Naive:
    """The model one row at a time, in float64."""

    def __init__(self, folder: str, *, shift: bool, mask_id: int = MASK_ID) -> None:
        self.model = plain_model(folder).double()
        self.shift, self.mask_id = int(shift), mask_id

    @torch.no_grad()
    def log_probs(self, ids: list[int], at: int) -> Tensor:
        share = ids.count(self.mask_id) / len(ids)
        time = {"t": torch.tensor([share])} if self.model.config.timed else {}
        logits = self.model(input_ids=torch.tensor([ids]), **time).logits
        return logits[0, at - self.shift].log_softmax(-1)

    def tables(self, ids: list[int]) -> tuple[Tensor, Tensor]:
        """Log p(a | b) and log p(b | a), [a, b]."""
        a, b = (place for place, token in enumerate(ids) if token == self.mask_id)
        every = range(self.model.config.outputs)

        def given(place: int, token: int, at: int) -> Tensor:
            row = list(ids)
            row[place] = token
            return self.log_probs(row, at)

        columns, rows = [given(b, t, a) for t in every], [given(a, t, b) for t in every]
        return torch.stack(columns, dim=1), torch.stack(rows)

    def pll(self, ids: list[int], places: list[int]) -> float:
        total = 0.0
        for place in places:
            row = list(ids)
            row[place] = self.mask_id
            total += float(self.log_probs(row, place)[ids[place]])
        return total

    def unmasking(self, ids: list[int], places: list[int]) -> float:
        row, total = list(ids), 0.0
        for place in places:
            row[place] = self.mask_id
        for place in places:
            total += float(self.log_probs(row, place)[ids[place]])
            row[place] = ids[place]
        return total


def check_numbers(lm: unmask.LanguageModel, naive: Naive, start: str = "") -> None:
    """Tables, a joint, and scores in two ways."""
    mask, every = lm.tokenizer.mask_token, slice(None)
    text = f"{start}the {mask} sat on {mask} mat"
    cloze = lm.cloze(text)
    tables = lm.tables(text, support="vocabulary")
    a_given_b, b_given_a = naive.tables(list(cloze.ids))
    for own, expected in ((tables.a_given_b, a_given_b), (tables.b_given_a, b_given_a)):
        torch.testing.assert_close(own.log_prob(every), expected, atol=TOLERANCE, rtol=0)
    words = ["cat", "dog", "the", "a"]
    places = torch.tensor([lm.tokenizer.convert_tokens_to_ids(word) for word in words])
    part = (a_given_b[places][:, places], b_given_a[places][:, places])
    own = lm.tables(text, support=words)
    for side, axis, expected in ((own.a_given_b, 0, part[0]), (own.b_given_a, 1, part[1])):
        torch.testing.assert_close(
            side.log_prob(every), expected.log_softmax(axis), atol=TOLERANCE, rtol=0
        )
    for sentence in SENTENCES:
        ids = lm.tokenizer(start + sentence)["input_ids"]
        read = list(range(len(start.split()), len(ids)))
        score = lm.score(start + sentence)
        assert score.tokens == len(read)
        assert score.per_token == pytest.approx(naive.pll(ids, read) / len(read), abs=TOLERANCE)
        unmasked = lm.score(start + sentence, method="unmasking").per_token
        expected = naive.unmasking(ids, read) / len(read)
        assert unmasked == pytest.approx(expected, abs=TOLERANCE)


# --- as LLaDA: an id for the mask, and no token --------------------------------------------------


def test_a_mask_id_makes_a_model_of_a_tokenizer_without_a_mask_token(llada: str) -> None:
    lm = load(llada, mask_id=MASK_ID)
    assert lm.tokenizer.mask_token == MASK
    assert lm.tokenizer.mask_token_id == lm.model.mask_id == MASK_ID
    # outputs that the tokenizer does not name are no tokens
    assert lm.model.vocabulary_size == len(lm.tokenizer) + 6
    assert len(lm.support("tokens")) == len(lm.tokenizer)
    assert MASK_ID not in lm.support("no-special").ids.tolist()
    check_numbers(lm, Naive(llada, shift=False))
    text = f"the {MASK} sat on {MASK} mat"
    assert lm.joint(lm.cloze("the cat sat on a mat", blanks=["cat", "a"])).top(1) == lm.joint(
        text
    ).top(1)


def test_without_a_mask_id_the_message_says_what_is_missing(llada: str) -> None:
    with pytest.raises(unmask.errors.ModelError, match=r"no mask token; .* give mask_id="):
        load(llada)
    with pytest.raises(
        unmask.errors.ModelError, match=r"no token of id 35, .* it knows ids 0 to 29"
    ):
        load(llada, mask_id=35)
    for wrong in (-1, True, "12", 1.5):
        with pytest.raises(Exception, match=r"mask_id|int"):
            load(llada, mask_id=wrong)


def test_an_id_after_the_last_token_is_written_as_mask(llada: str) -> None:
    lm = load(llada, mask_id=MASK_ID + 1)
    assert lm.cloze("the [MASK] sat").ids[1] == MASK_ID + 1
    check_numbers(lm, Naive(llada, shift=False, mask_id=MASK_ID + 1))


def test_the_callers_tokenizer_is_not_changed(llada: str) -> None:
    model = plain_model(llada)
    tokenizer = transformers.AutoTokenizer.from_pretrained(llada)
    lm = unmask.load((model, tokenizer), mask_id=MASK_ID)
    assert lm.cloze(f"the {MASK} sat").positions == (1,)
    assert tokenizer.mask_token is None
    assert len(tokenizer) == MASK_ID + 1
    # what is given wins over a mask token of the tokenizer
    other = unmask.load((model, lm.tokenizer), mask_id=lm.tokenizer.eos_token_id)
    assert other.cloze("the <|end|> sat").positions == (1,)
    assert lm.tokenizer.mask_token == MASK


def test_a_causal_model_is_refused_with_a_shift_too(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "causal", causal=True)
    for shift in (False, True):
        with pytest.raises(
            unmask.errors.ModelError, match="causal language model: it does not see"
        ):
            load(folder, mask_id=MASK_ID, shift=shift)


# --- as Dream: a shift ---------------------------------------------------------------------------


def test_a_shifted_model_is_read_one_position_early(dream: str) -> None:
    lm = load(dream, shift=True)
    check_numbers(lm, Naive(dream, shift=True), start=f"{START} ")


def test_the_first_token_of_a_shifted_model_is_no_blank(dream: str) -> None:
    lm = load(dream, shift=True)
    for ask in (lm.cloze, lm.joint, lm.fill):
        with pytest.raises(
            unmask.errors.ClozeError, match="first token of a text cannot be a blank"
        ):
            ask("<|mask|> cat sat on <|mask|> mat")
    with pytest.raises(unmask.errors.ClozeError, match="such as the tokenizer's bos_token"):
        lm.score("the cat sat")
    with pytest.raises(unmask.errors.ClozeError, match="first token"):
        lm.model.readouts(torch.tensor([[3, 4, 5]]), [0, 1])
    assert lm.score(" the cat sat", given=START).tokens == 3


@pytest.mark.slow
def test_both_kinds_on_the_command_line(llada: str, dream: str, capsys) -> None:
    for folder, start, options in (
        (llada, "", {"mask_id": MASK_ID}),
        (dream, f"{START} ", {"shift": True}),
    ):
        lm = load(folder, **options)
        flags = ["-m", folder, "--trust-remote-code", "--quiet", "--json"]
        flags += ["--shift"] if "shift" in options else ["--mask-id", str(MASK_ID)]
        mask = lm.tokenizer.mask_token
        text = f"{start}the {mask} sat on {mask} mat"

        assert main(["fill", text, "--support", "cat,dog,man,the,a", *flags]) == 0
        fill = json.loads(capsys.readouterr().out)
        best = lm.joint(text, support=["cat", "dog", "man", "the", "a"]).top(1)[0]
        first = fill["results"]["log-pool"]["fills"][0]
        assert first["token_str"] == list(best.tokens)
        assert first["score"] == pytest.approx(best.probability, abs=TOLERANCE)
    # what is not given has a reason that names the option
    assert main(["fill", "x", "-m", llada, "--trust-remote-code"]) == 2
    assert "give mask_id=" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*not a linear function")
def test_with_a_shift_it_has_the_numbers_of_the_model_in_place(
    tiny_english: Any, shifted: str
) -> None:
    lm, other = tiny_english, load(shifted, shift=True)
    text, words = "The [MASK] [MASK] on the mat.", ["cat", "dog", "man", "sits", "is"]
    ours, theirs = (one.joint(text, support=words).top(25) for one in (other, lm))
    assert [one.tokens for one in ours] == [one.tokens for one in theirs]
    assert [one.log_prob for one in ours] == pytest.approx(
        [one.log_prob for one in theirs], abs=TOLERANCE
    )
    for method in ("pll", "pll-word-l2r", "unmasking"):
        texts = ["Two dogs are running.", "A man is playing."]
        for ours, theirs in zip(
            other.score(texts, method=method), lm.score(texts, method=method), strict=True
        ):
            assert ours.score == pytest.approx(theirs.score, abs=TOLERANCE)


# --- presets, a time, jobs -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mask_id", "named"),
    [("LLaDAModelLM", 126336, None), ("DreamModel", 151666, "<|mask|>")],
)
def test_presets_need_no_options(
    name: str, mask_id: int, named: str | None, tmp_path: Path
) -> None:
    folder = write_model(tmp_path / name, name=name, mask_id=mask_id, named=named)
    lm = load(folder)
    shift = name == "DreamModel"
    assert (lm.model.mask_id, lm.model.shift) == (mask_id, shift)
    naive = Naive(folder, shift=shift, mask_id=mask_id)
    ids = [*lm.tokenizer(f"{START} the cat sat")["input_ids"]]
    expected = naive.unmasking(ids, [1, 2, 3])
    score = lm.score(f"{START} the cat sat", method="unmasking").score
    assert score == pytest.approx(expected, abs=TOLERANCE)
    # what is given wins
    other = load(folder, mask_id=4, shift=not shift)
    assert (other.model.mask_id, other.model.shift) == (4, not shift)


def test_a_time_is_the_share_of_masks(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "timed", timed=True)
    with pytest.raises(unmask.errors.ModelError, match="'t'"):
        load(folder, mask_id=MASK_ID)
    with pytest.raises(unmask.errors.ModelError, match="no argument 'nosuch'"):
        load(folder, mask_id=MASK_ID, time="nosuch")
    lm = load(folder, mask_id=MASK_ID, time="t")
    check_numbers(lm, Naive(folder, shift=False))


def test_a_job_is_not_continued_with_another_mask_or_shift(
    dream: str, tmp_path: Path, capsys
) -> None:
    assert ModelSource(place=dream, trust_remote_code=True, shift=True).load().model.shift
    one, other = load(dream), load(dream, shift=True)
    masked = load(dream, mask_id=4)
    here = [identify(lm, name="x", dtype="float32") for lm in (one, other, masked)]
    (change,) = model_changes(here[0], here[1])
    assert change.startswith("model.tokenizer.shift is")
    assert any("model.tokenizer.mask_id" in one for one in model_changes(here[0], here[2]))
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"{START} {sentence}\n" for sentence in SENTENCES))
    command = ["score", str(texts), "-m", dream, "--trust-remote-code", "-o", f"{tmp_path}/job/"]
    assert main([*command, "--shift"]) == 0
    capsys.readouterr()
    assert main(command) == 2
    assert "shift" in capsys.readouterr().err


def test_the_examples_of_an_evaluation_leave_the_first_token_out(dream: str) -> None:
    from unmask.evaluation.masks import examples
    from unmask.records.corpora import Sentence

    lm = load(dream, shift=True)
    sentences = [Sentence(str(n), text) for n, text in enumerate(SENTENCES * 10)]
    places = {
        place
        for mask in ("contiguous", "random")
        for pair in examples(lm, sentences, mask=mask, limit=30).pairs
        for place in pair.cloze.positions
    }
    assert min(places) == 1
