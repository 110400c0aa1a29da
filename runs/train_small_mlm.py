"""Train a small English masked LM on a CPU, into a Hugging Face folder: tiny-english's recipe.

    python runs/train_small_mlm.py --corpus snli --without snli --output DIR   # from the hub
    python runs/train_small_mlm.py --corpus snli.txt --corpus tatoeba.txt --output DIR --steps 9000

BERT with 4 layers of 256, 128 positions, and a cased WordPiece vocabulary of 8,192 that is trained
first. `--corpus snli` is the training split; `--without` leaves out the sentences of other corpora
(of `snli` the test split), compared without case and punctuation. Of each corpus up to 1,000
sentences are held out.

Blanks are what the model is for: at first BERT's 15% of the tokens are hidden, and in a growing
share of the sentences, two thirds at the end, one token or two adjacent ones.

The learning rate follows a number of steps, never the clock: the same corpus, seed and `--steps`
give the same weights on the same kind of machine with as many threads (elsewhere, up to rounding).
"""

import argparse
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from one_line import in_one_line
from small_mlm_data import MaskedBatch, batches, encode, generator, hide, split, train_tokenizer
from torch import Tensor
from torch.optim import AdamW
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

import unmask
from unmask.printable import printable
from unmask.records.corpora import KNOWN, CorpusSpec, Sentence, read_corpus

REPORTS = 20


@dataclass(frozen=True)
class Shape:
    """tiny-english's, unless a test wants less."""

    vocabulary: int = 8192
    layers: int = 4
    hidden: int = 256
    heads: int = 4
    positions: int = 128


@dataclass(frozen=True)
class Plan:
    """All that the weights depend on, except the machine."""

    steps: int
    seed: int = 0
    corpus: str = ""
    cells: int = 2048
    peak: float = 1.5e-3
    warm_up: float = 0.05
    few: float = 2 / 3
    shape: Shape = Shape()

    def learning_rate(self, step: int) -> float:
        """Linear up over the first part of the steps, linear down to 0 over the rest."""
        rising = max(1, round(self.warm_up * self.steps))
        falling = max(1, self.steps - rising)
        return self.peak * min((step + 1) / rising, (self.steps - step) / falling)

    def share_of_few(self, step: int) -> float:
        """Of the sentences, those with one blank or two: from none to `few`."""
        return self.few * step / self.steps


@dataclass(frozen=True)
class Data:
    """Encoded sentences, those to learn from and those held out, and their tokenizer."""

    tokenizer: PreTrainedTokenizerFast
    training: list[list[int]]
    held_out: list[list[int]]


def prepare(corpora: Sequence[Sequence[Sentence]], shape: Shape) -> Data:
    texts: list[str] = []
    rest: list[str] = []
    for sentences in corpora:
        kept, held_out = split(sentences)
        texts += kept
        rest += held_out
    tokenizer = train_tokenizer(texts, shape.vocabulary, shape.positions)
    training = encode(tokenizer, texts, shape.positions)
    say(f"{len(training):,} sentences to learn from, {len(texts) - len(training)} too long")
    return Data(tokenizer, training, encode(tokenizer, rest, shape.positions))


def new_model(data: Data, plan: Plan) -> BertForMaskedLM:
    config = BertConfig(
        vocab_size=len(data.tokenizer),
        hidden_size=plan.shape.hidden,
        num_hidden_layers=plan.shape.layers,
        num_attention_heads=plan.shape.heads,
        intermediate_size=4 * plan.shape.hidden,
        max_position_embeddings=plan.shape.positions,
        # no dropout: a model this small does not overfit in an hour
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with torch.random.fork_rng(devices=[]):
        # transformers draws weights from the one global generator
        torch.manual_seed(plan.seed)
        return BertForMaskedLM(config)


def new_optimizer(model: BertForMaskedLM) -> AdamW:
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    return AdamW(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-6)


def loss_sum(model: BertForMaskedLM, batch: MaskedBatch) -> Tensor:
    """Of all chosen tokens, each times its weight; logits are computed for those alone."""
    states = model.bert(input_ids=batch.ids, attention_mask=batch.attention).last_hidden_state
    logits = model.cls(states[batch.chosen])
    if batch.weights is None:
        return torch.nn.functional.cross_entropy(logits, batch.targets, reduction="sum")
    losses = torch.nn.functional.cross_entropy(logits, batch.targets, reduction="none")
    return (batch.weights * losses).sum()


def training_batches(data: Data, plan: Plan) -> Iterator[MaskedBatch]:
    """The batch of every step, epoch after epoch."""
    epochs = (
        batches(data.training, plan.cells, generator(plan.seed, "epoch", epoch))
        for epoch in itertools.count()
    )
    every = itertools.islice(itertools.chain.from_iterable(epochs), plan.steps)
    for step, ids in enumerate(every):
        draw = generator(plan.seed, "step", step)
        yield hide(ids, len(data.tokenizer), draw, plan.share_of_few(step))


def take_step(model: BertForMaskedLM, optimizer: AdamW, batch: MaskedBatch, rate: float) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate
    heavy = len(batch.targets) if batch.weights is None else batch.weights.sum()
    loss = loss_sum(model, batch) / heavy
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def held_out_loss(model: BertForMaskedLM, data: Data, plan: Plan) -> float:
    """Nats per masked token, on the same masks every time."""
    total, count = 0.0, 0
    for number, ids in enumerate(batches(data.held_out, plan.cells, generator("held out"))):
        batch = hide(ids, len(data.tokenizer), generator("held out", number), plan.few)
        total += float(loss_sum(model, batch))
        count += len(batch.targets)
    return total / count


def train(data: Data, plan: Plan, folder: Path) -> list[float]:
    """Train, save the model in the folder, and return held-out losses on the way."""
    model = new_model(data, plan).train()
    optimizer = new_optimizer(model)
    losses, recent, began = [], [], time.monotonic()
    for done, batch in enumerate(training_batches(data, plan), start=1):
        recent.append(take_step(model, optimizer, batch, plan.learning_rate(done - 1)))
        if done == plan.steps or done % max(1, plan.steps // REPORTS) == 0:
            losses.append(held_out_loss(model, data, plan))
            report(done, plan.steps, time.monotonic() - began, losses[-1], recent)
            recent.clear()
    export(model, data.tokenizer, folder)
    return losses


def report(step: int, steps: int, seconds: float, held_out: float, recent: list[float]) -> None:
    mean = math.fsum(recent) / len(recent)
    say(
        f"step {step:,} of {steps:,}, {seconds / 60:.1f} min: held-out loss {held_out:.3f} nats per"
        f" masked token, training {mean:.3f}"
    )


def export(model: BertForMaskedLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save an ordinary Hugging Face folder.

    Weights take half the room as float16; the configuration asks for float32, so that whoever
    loads them computes in that.
    """
    disable_progress_bar()
    model.eval().half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    config = folder / "config.json"
    content = json.loads(config.read_text("utf-8"))
    config.write_text(json.dumps(content | {"dtype": "float32"}, indent=2) + "\n", "utf-8")


def plain(text: str) -> str:
    return "".join(ch for ch in text.casefold() if ch.isalnum())


def read_corpora(
    places: Sequence[str], without: Sequence[str], split_name: str | None = None
) -> tuple[list[list[Sentence]], str]:
    """The sentences to learn from, corpus by corpus, none twice, and a digest of the whole."""
    found = [
        read_corpus(CorpusSpec(place, split=split_name or ("train" if place in KNOWN else None)))
        for place in places
    ]
    others = [read_corpus(CorpusSpec(place)) for place in without]
    seen = {plain(one.text) for other in others for one in other.sentences}
    kept: list[list[Sentence]] = []
    for one in found:
        kept.append([])
        for sentence in one.sentences:
            key = plain(sentence.text)
            if key not in seen:
                seen.add(key)
                kept[-1].append(sentence)
    learnt = " and ".join(one.digest for one in found)
    return kept, " less ".join([learnt, *(one.digest for one in others)])


def run(options: argparse.Namespace) -> None:
    for name in ("steps", "threads"):
        if getattr(options, name) <= 0:
            raise unmask.UnmaskError(f"--{name} takes a number above 0")
    torch.set_num_threads(options.threads)
    corpora, digest = read_corpora(options.corpus or ["snli"], options.without, options.split)
    plan = Plan(options.steps, options.seed, digest)
    train(prepare(corpora, plan.shape), plan, options.output)


def say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


@in_one_line
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train a small masked LM on a CPU.")
    add: Any = parser.add_argument
    add(
        "--corpus",
        action="append",
        metavar="CORPUS",
        help="snli, a dataset, or a file of sentences; may be repeated (default: snli)",
    )
    add("--split", help="of the datasets (default: train)")
    add("--without", action="append", default=[], metavar="CORPUS", help="leave out its sentences")
    add("--output", type=Path, required=True, metavar="DIR")
    add("--steps", type=int, default=9600, help="(default: 9600, an hour or so)")
    add("--seed", type=int, default=0)
    add("--threads", type=int, default=os.cpu_count() or 1)
    run(parser.parse_args(arguments))


if __name__ == "__main__":
    raise SystemExit(main())
