"""Train tiny-english further with any share of its tokens masked: any-rate, and its figures.

    python runs/any_rate.py train --assets DIR --output OUT --passes 200000
    python runs/any_rate.py measure models/tiny-english models/any-rate --assets DIR \\
        --output OUT.jsonl

`train` learns from the corpora of tiny-english, without what is measured and without the sentences
that runs/train_small_mlm.py held out, and writes a Hugging Face folder with weights as float16.

`measure`: for every model, on the first sentences of SNLI dev and of what tiny-english held out of
WikiText-2, in hashed order. `masked`: the NLL in nats per masked token at four mask rates, at least
one token masked, the same for every model. `unmasking`, on SNLI dev: the log-probability of the
sentence per token by `unmask score --method unmasking`, in three orders. Means are over all tokens;
spreads are standard errors over sentences of that ratio (delta method), and of the difference to
the first model, sentence by sentence.
"""

import argparse
import itertools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import marked_page
import torch
from measure_mlm import first
from one_line import in_one_line
from rows import read
from small_mlm_data import (
    MASK,
    PAD,
    SPECIAL,
    MaskedBatch,
    batches,
    encode,
    generator,
    padded,
    split,
)
from torch import Tensor
from torch.nn.functional import cross_entropy
from train_small_mlm import export, new_optimizer, read_corpora, take_step
from transformers import AutoModelForMaskedLM, AutoTokenizer

import unmask
from unmask.printable import printable
from unmask.records.corpora import CorpusSpec, read_corpus

LEARNT = ("snli/train-sentences.txt", "english/tatoeba.txt", "english/wikitext2-sentences.txt")
MEASURED = ("snli/dev.tsv", "snli/test.jsonl", "xsum/test-1000.txt")
RATES = (0.15, 0.5, 0.9, 1.0)
ORDERS = ("left-to-right", "surest", "margin")
BATCH = 32
# of a batch that is learnt from, padding included
CELLS = 2048
WARM_UP = 0.06
# the corpus whose sentences are scored too
SCORED = "SNLI dev"


def corpora(assets: Path) -> tuple[list[str], list[list[str]]]:
    """Texts to learn from, and those held out of each corpus: none that is measured."""
    places = [str(assets / "data" / name) for name in LEARNT]
    corpora, _ = read_corpora(places, [str(assets / "data" / name) for name in MEASURED])
    parts = [split(sentences) for sentences in corpora]
    return [text for texts, _ in parts for text in texts], [held_out for _, held_out in parts]


def train(options: argparse.Namespace) -> None:
    texts, _ = corpora(options.assets)
    model = AutoModelForMaskedLM.from_pretrained(options.model, dtype=torch.float32).train()
    tokenizer: Any = AutoTokenizer.from_pretrained(options.model)
    ids = encode(tokenizer, texts, model.config.max_position_embeddings)
    losses = learn(model, ids, options.passes, options.rate, options.seed)
    say(f"{options.passes:,} forward passes; the last step's loss is {losses[-1]:.3f} nats")
    export(model, tokenizer, options.output)


def learn(
    model: Any, sentences: Sequence[Sequence[int]], passes: int, peak: float, seed: int
) -> list[float]:
    """Train on so many sentences, epoch after epoch; the loss of every step.

    The learning rate rises over the first 6% of the passes and falls to 0 over the rest.
    """
    optimizer, losses, done = new_optimizer(model), list[float](), 0
    for step, batch in enumerate(training_batches(sentences, seed)):
        ids = batch[: passes - done]
        done += len(ids)
        rate = peak * min(done / (WARM_UP * passes), (passes - done) / ((1 - WARM_UP) * passes))
        masked = mask_any_share(ids, generator(seed, "masks", step))
        losses.append(take_step(model, optimizer, masked, rate))
        if done == passes:
            break
    return losses


def training_batches(sentences: Sequence[Sequence[int]], seed: int) -> Iterator[Tensor]:
    for epoch in itertools.count():
        yield from batches(sentences, CELLS, generator(seed, "epoch", epoch))


def mask_any_share(ids: Tensor, draw: torch.Generator) -> MaskedBatch:
    """Mask l of the L tokens of a sentence, l from 1 to L as likely; each weighs L / l.

    The loss is then the mean, over all orders, of the negative log-probability of unmasking a
    sentence in that order, in nats per token. The plain mean would give 10 masked tokens ten times
    the weight of a single one, and so neglect the last steps of every order.
    """
    places = ids >= len(SPECIAL)
    counts = places.sum(1, keepdim=True)
    share = 1 - torch.rand((len(ids), 1), generator=draw, dtype=torch.float64)
    masked = (share * counts).ceil().long()
    scores = torch.rand(ids.shape, generator=draw).masked_fill(~places, 2.0)
    chosen = places & (scores.argsort(1).argsort(1) < masked)
    weights = (counts / masked).expand_as(chosen)[chosen]
    hidden = torch.where(chosen, MASK, ids)
    return MaskedBatch(hidden, (ids != PAD).long(), chosen, ids[chosen], weights)


def measure(options: argparse.Namespace) -> None:
    _, held_out = corpora(options.assets)
    dev = read_corpus(CorpusSpec(str(options.assets / "data" / MEASURED[0])))
    sources = {
        SCORED: [one.text for one in dev.sentences],
        "WikiText-2, held out": held_out[2],
    }
    rows: list[dict[str, Any]] = []
    for corpus, texts in sources.items():
        some = first(list(dict.fromkeys(texts)), options.examples)
        sums: dict[str, list[Sequence[tuple[float, int]]]] = {}
        for place in options.model:
            lm = unmask.load(place)
            scored = unmasked(lm, some[: options.scored]) if corpus == SCORED else {}
            for what, values in {**masked(lm, some), **scored}.items():
                sums.setdefault(what, []).append(values)
                about = {"model": Path(place).name, "corpus": corpus, "figure": what}
                rows.append({**about, **ratio(values), **difference(sums[what][0], values)})
                say(json.dumps(rows[-1]))
    options.output.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    print("\n".join(table(rows)))


@torch.no_grad()
def masked(lm: Any, texts: Sequence[str]) -> dict[str, list[tuple[float, int]]]:
    """At every rate, of each sentence the sum of the losses and how many tokens are masked."""
    ids = [lm.tokenizer(text)["input_ids"] for text in texts]
    order = sorted(range(len(texts)), key=lambda number: len(ids[number]))
    sums: dict[str, list[tuple[float, int]]] = {}
    for rate in RATES:
        values = sums[f"masked {rate:.2f}"] = [(math.nan, 0)] * len(texts)
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            batch = padded([ids[number] for number in some])
            places = batch >= len(SPECIAL)
            # by sentence, so that the same tokens are masked for every model and batch
            scores = torch.full(places.shape, 2.0)
            for row, number in enumerate(some):
                draw = generator("rate", rate, texts[number])
                scores[row, : len(ids[number])] = torch.rand(len(ids[number]), generator=draw)
            scores = scores.masked_fill(~places, 2.0)
            # the one with the lowest score at least
            lowest = scores == scores.amin(dim=1, keepdim=True)
            chosen = places & ((scores < rate) | lowest)
            hidden = torch.where(chosen, MASK, batch)
            attention = (batch != PAD).long()
            logits = lm.model.model(input_ids=hidden, attention_mask=attention).logits[chosen]
            losses = cross_entropy(logits.double(), batch[chosen], reduction="none")
            counts = chosen.sum(1).tolist()
            for number, part in zip(some, losses.split(counts), strict=True):
                values[number] = (float(part.sum()), len(part))
    return sums


def unmasked(lm: Any, texts: Sequence[str]) -> dict[str, list[tuple[float, int]]]:
    """In every order, of each sentence its log-probability and how many tokens it has."""
    sums: dict[str, list[tuple[float, int]]] = {}
    for order in ORDERS:
        scores = lm.score(texts, method="unmasking", order=order)
        sums[f"unmasking {order}"] = [(one.score, one.tokens) for one in scores]
    return sums


def ratio(values: Sequence[tuple[float, int]]) -> dict[str, float]:
    total = torch.tensor(values, dtype=torch.float64)
    mean = total[:, 0].sum() / total[:, 1].sum()
    left = (total[:, 0] - mean * total[:, 1]) / total[:, 1].mean()
    error = left.std() / math.sqrt(len(values))
    return {"sentences": len(values), "mean": float(mean), "error": float(error)}


def difference(
    base: Sequence[tuple[float, int]], values: Sequence[tuple[float, int]]
) -> dict[str, float]:
    assert [count for _, count in base] == [count for _, count in values]
    paired = [(b - a, count) for (a, count), (b, _) in zip(base, values, strict=True)]
    made = ratio(paired)
    return {"difference": made["mean"], "difference_error": made["error"]}


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each figure: the first model, the second, and their difference."""
    names = list(dict.fromkeys(row["model"] for row in rows))
    lines = [f"| corpus | figure | sentences | {' | '.join(names)} | difference |"]
    lines.append("|---|---|---|" + "---|" * (len(names) + 1))
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["corpus"], row["figure"]), []).append(row)
    for (corpus, figure), each in cells.items():
        values = [f"{one['mean']:.3f} +- {one['error']:.3f}" for one in each]
        last = f"{each[-1]['difference']:+.3f} +- {each[-1]['difference_error']:.3f}"
        shown = " | ".join([corpus, figure, f"{each[0]['sentences']:,}", *values, last])
        lines.append(f"| {shown} |")
    return lines


def page(options: argparse.Namespace) -> None:
    marked_page.write_blocks(options.output, {}, {"any-rate": table(read(options.rows))})


def say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


@in_one_line
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A model for any share of masked tokens.")
    ways: Any = parser.add_subparsers(required=True)
    trained = ways.add_parser("train")
    trained.add_argument("--model", default="models/tiny-english")
    trained.add_argument("--passes", type=int, required=True)
    trained.add_argument("--rate", type=float, default=5e-4, help="highest learning rate")
    trained.add_argument("--seed", type=int, default=0)
    trained.set_defaults(run=train)
    compared = ways.add_parser("measure")
    compared.add_argument("model", nargs="+")
    compared.add_argument("--examples", type=int, default=1000, help="sentences of each corpus")
    compared.add_argument("--scored", type=int, default=300, help="of them, how many are scored")
    compared.set_defaults(run=measure)
    written = ways.add_parser("page")
    written.add_argument("rows", type=Path)
    written.set_defaults(run=page)
    for one in (trained, compared, written):
        one.add_argument("--output", type=Path, required=True)
        one.add_argument("--threads", type=int, default=1)
    for one in (trained, compared):
        one.add_argument("--assets", type=Path, required=True, metavar="DIR", help="has data/")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    options.run(options)


if __name__ == "__main__":
    raise SystemExit(main())
