"""The pipeline `joint-fill-mask`: fill-mask with one blank, our joints with several."""

import pytest
from tiny_models import build
from tiny_tokenizers import save_bert, tiny_bert, word_piece
from transformers import Pipeline, pipeline
from transformers.pipelines.pt_utils import KeyDataset

import unmask
import unmask.pipelines

KEYS = ("score", "token", "token_str", "sequence")
# an architecture, a text with one blank, and names of its vocabulary
DROP_INS = [
    ("bert", "the {} sat on the mat.", ["cat", "dog", "##s"]),
    ("roberta", "the{} sat on the mat.", ["Ġcat", "the", "mat"]),
    ("albert", "the {} sat on the mat.", ["▁cat", "▁dog", "▁house"]),
    ("modernbert", "the cat{} on the mat.", ["Ġsat", "Ġthe", "s"]),
    ("esm", "M K {} L A", ["L", "A", "-"]),
]


def both(model, tokenizer) -> tuple[Pipeline, Pipeline]:
    return (
        pipeline("fill-mask", model=model, tokenizer=tokenizer, device="cpu"),
        pipeline("joint-fill-mask", model=model, tokenizer=tokenizer, device="cpu"),
    )


def check_same(ours: list[dict], theirs: list[dict]) -> None:
    assert [[fill[key] for key in KEYS[1:]] for fill in ours] == [
        [fill[key] for key in KEYS[1:]] for fill in theirs
    ]
    assert [f["score"] for f in ours] == pytest.approx([f["score"] for f in theirs], abs=1e-6)


@pytest.fixture(scope="module")
def tiny():
    return pipeline("joint-fill-mask", model=tiny_bert(), tokenizer=word_piece(), device="cpu")


@pytest.mark.parametrize(("name", "text", "targets"), DROP_INS, ids=lambda v: v[:9])
def test_one_blank_is_fill_mask(name, text, targets):
    model, tokenizer = build(name)
    theirs, ours = both(model, tokenizer)
    asked = text.format(tokenizer.mask_token)
    check_same(ours(asked), theirs(asked))
    assert [tuple(fill) for fill in ours(asked)] == [(*KEYS, "log_prob", "method")] * 5
    check_same(ours(asked, top_k=17), theirs(asked, top_k=17))
    check_same(ours(asked, targets=targets), theirs(asked, targets=targets))
    check_same(ours(asked, targets=targets, top_k=2), theirs(asked, targets=targets, top_k=2))
    check_same(ours(asked, targets=targets[0]), theirs(asked, targets=targets[0]))


@pytest.mark.parametrize("method", ["mlm", "orders", "log-pool", "hcb"])
def test_two_blanks_are_the_joint_over_the_whole_vocabulary(method):
    model, tokenizer = build("bert")
    text = "the [MASK] sat on the [MASK]."
    fills = both(model, tokenizer)[1](text, method=method, top_k=9)
    lm = unmask.load((model, tokenizer))
    expected = lm.joint(text, method=method, support="vocabulary").top(9)
    assert [fill["token"] for fill in fills] == [list(fill.ids) for fill in expected]
    probabilities = [fill.probability for fill in expected]
    assert [fill["score"] for fill in fills] == pytest.approx(probabilities, abs=1e-6)
    assert all(len(fill["token_str"]) == 2 for fill in fills)


def test_lists_of_texts_are_answered_as_fill_mask_does():
    theirs, ours = both(*build("bert"))
    texts = ["the [MASK] sat.", "a [MASK] ran to the house."]
    for mine, other in zip(ours(texts), theirs(texts), strict=True):
        check_same(mine, other)
    # fill-mask unwraps a list of one text
    check_same(ours(texts[:1]), theirs(texts[:1]))
    assert ours(texts[:1]) == ours(texts[0])
    assert ours([]) == []


def test_generators_and_datasets_stream(tiny):
    texts = ["the [MASK] sat.", "the [MASK] [MASK]."]
    expected = [tiny(text) for text in texts]
    asked = []

    def stream():
        for text in texts:
            asked.append(text)
            yield text

    found = tiny(stream())
    assert next(iter(found)) == expected[0]
    # the second text is not read before its answer is asked for
    assert asked == texts[:1]
    rows = KeyDataset([{"text": text} for text in texts], "text")
    assert list(tiny(rows)) == expected


def test_the_batch_size_is_rows_a_forward_pass(tiny, monkeypatch):
    sizes = []
    forward = tiny.model.bert.forward

    def counted(input_ids, **options):
        sizes.append(len(input_ids))
        return forward(input_ids, **options)

    texts = ["the [MASK] sat on the [MASK].", "[MASK] [MASK] ran."]
    expected = tiny(texts, method="log-pool")
    monkeypatch.setattr(tiny.model.bert, "forward", counted)
    found = tiny(texts, method="log-pool", batch_size=7)
    assert max(sizes) == 7
    for one, other in zip(found, expected, strict=True):
        check_same(one, other)


def test_a_folder_is_enough_and_saving_writes_no_code(tmp_path, tiny):
    folder = save_bert(tmp_path / "bert")
    made = pipeline("joint-fill-mask", model=str(folder), device="cpu")
    check_same(made("the [MASK] sat."), tiny("the [MASK] sat."))
    made.save_pretrained(tmp_path / "saved")
    assert not list((tmp_path / "saved").glob("*.py"))
    again = pipeline("joint-fill-mask", model=str(tmp_path / "saved"), device="cpu")
    assert again("the [MASK] sat.") == made("the [MASK] sat.")
