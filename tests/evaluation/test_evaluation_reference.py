"""One example of a real model through the whole harness, against slow definitions."""

from pathlib import Path

import numpy as np
import pytest
import reference
import torch
from assets import real_model

from unmask.cli import main
from unmask.evaluation.masks import MaskedPair, examples
from unmask.evaluation.run import read_run
from unmask.records.corpora import CorpusSpec, read_corpus

# of all metrics of all constructions below, in nats
TOLERANCE = 3e-4
STEPS = 50


@torch.no_grad()
def looped_logits(
    lm, pair: MaskedPair, support: torch.Tensor
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Logits [a, b] of both blanks and of both masked, from plain calls of the model."""
    model, cloze = lm.model.model, pair.cloze
    at_a, at_b = cloze.positions

    def logits(position: int, other: int) -> np.ndarray:
        rows = []
        for tokens in support.split(256):
            ids = torch.tensor([cloze.ids]).repeat(len(tokens), 1)
            ids[:, other] = tokens
            rows.append(model(input_ids=ids).logits[:, position][:, support].double().numpy())
        return np.concatenate(rows)

    masked = model(input_ids=torch.tensor([cloze.ids])).logits[0][:, support].double().numpy()
    return logits(at_a, at_b).T, logits(at_b, at_a), masked[at_a], masked[at_b]


def defined_joints(logits_A, logits_B, masked_a, masked_b) -> dict[str, np.ndarray]:
    """The constructions that can be written down in a line each."""
    A, B = reference.conditionals(logits_A, logits_B)
    m_a, m_b = reference.softmax(masked_a, 0), reference.softmax(masked_b, 0)
    pivot = (int(m_a.argmax()), int(m_b.argmax()))
    return {
        "mlm": reference.mlm(m_a, m_b),
        "mrf": reference.mrf(A, B),
        "mrf-logit": reference.mrf_logit(logits_A, logits_B),
        "hcb": reference.hcb(A, B, pivot),
        "ag": reference.ag(A, B, STEPS),
        "orders": reference.orders(A, B, m_a, m_b, "arithmetic"),
    }


def short_text(folder: Path) -> Path:
    """A corpus of one short sentence: every candidate is read in it four times."""
    path = folder / "short.txt"
    path.write_text("A dog runs.\n", encoding="utf-8")
    return path


def candidates(lm, pair: MaskedPair) -> dict[int, str]:
    """Tokens that a list with commas can hold, by id: the gold ones, every fifth of the rest."""
    names = lm.tokenizer.convert_ids_to_tokens(list(range(lm.model.vocabulary_size)))
    plain = [at for at, name in enumerate(names) if name.isalpha()]
    return {at: names[at] for at in sorted({*plain[::5], *pair.cloze.gold})}


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
def test_a_row_of_the_harness_is_the_definition_on_looped_logits(
    tiny_english, tmp_path: Path
) -> None:
    corpus = short_text(tmp_path)
    sentences = read_corpus(CorpusSpec(str(corpus))).sentences
    (pair,) = examples(tiny_english, sentences, mask="contiguous", limit=1).pairs
    tokens = candidates(tiny_english, pair)
    # enough for the compiled passes
    assert len(tokens) > 1024
    where = ["--model", str(real_model("tiny-english")), "--output", str(tmp_path / "run")]
    few = ["--mask", "contiguous", "--examples", "1", "--quiet"]
    few += ["--support", ",".join(tokens.values())]
    assert main(["evaluate", str(corpus), *where, *few]) == 0
    rows = {row.construction: row for row in read_run(tmp_path / "run").rows}
    assert rows["mlm"].example_id == pair.id

    support = torch.tensor(list(tokens))
    logits = looped_logits(tiny_english, pair, support)
    gold = tuple(list(tokens).index(token) for token in pair.cloze.gold)
    A, B = reference.conditionals(*logits[:2])
    joints = defined_joints(*logits)
    for name, joint in joints.items():
        wanted = reference.metrics(joint, A, B, gold, own_unary=name == "mlm")
        for metric, value in wanted.items():
            assert rows[name].metric(metric) == pytest.approx(value, abs=TOLERANCE), (name, metric)
    assert len(rows) == 11
