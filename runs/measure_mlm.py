"""How well masked LMs guess one hidden token: perplexities on corpora, several models alike.

    python runs/measure_mlm.py --model models/tiny-english --model FOLDER \\
        --corpus "SNLI dev=snli-dev.tsv" --corpus "XSum test=xsum.txt" --examples 1000

Two figures per model and corpus. `token`: of each sentence one token of the model's own, all as
likely. Tokens differ between vocabularies, so these compare only with themselves. `word`: of each
sentence one word that is a single token of every model named, the same for all of them: these
compare. Spreads are standard errors over sentences.

`--held-out CORPUS`: of this corpus only the sentences that runs/train_small_mlm.py held out, given
the corpora that were left out of it (`--without`).
"""

import argparse
import hashlib
import json
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from one_line import in_one_line
from small_mlm_data import split
from train_small_mlm import read_corpora
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from unmask.printable import printable
from unmask.records.corpora import CorpusSpec, read_corpus

BATCH = 32
WORD = re.compile(r"[A-Za-z]+")
Span = tuple[int, int]


class Model:
    """A masked LM and its tokenizer, in float32."""

    def __init__(self, place: str) -> None:
        self.name = Path(place).name
        self.tokenizer: Any = AutoTokenizer.from_pretrained(place)
        self.model: Any = AutoModelForMaskedLM.from_pretrained(place, dtype=torch.float32).eval()
        self.longest = int(self.model.config.max_position_embeddings)

    def encode(self, text: str) -> tuple[list[int], list[Span]]:
        """Token ids and where they stand; special tokens stand nowhere."""
        made = self.tokenizer(text, return_offsets_mapping=True, verbose=False)
        return made["input_ids"], [(int(a), int(b)) for a, b in made["offset_mapping"]]

    @torch.no_grad()
    def losses(self, blanks: Sequence[tuple[list[int], int]]) -> list[tuple[float, bool]]:
        """Of each token at its place: -log p given the rest, and whether it is the likeliest."""
        order = sorted(range(len(blanks)), key=lambda number: len(blanks[number][0]))
        found: list[tuple[float, bool]] = [(math.nan, False)] * len(blanks)
        for start in range(0, len(order), BATCH):
            numbers = order[start : start + BATCH]
            rows = [list(blanks[number][0]) for number in numbers]
            places = [blanks[number][1] for number in numbers]
            gold = torch.tensor([row[place] for row, place in zip(rows, places, strict=True)])
            for row, place in zip(rows, places, strict=True):
                row[place] = self.tokenizer.mask_token_id
            batch = self.tokenizer.pad({"input_ids": rows}, return_tensors="pt")
            logits = self.model(**batch).logits[torch.arange(len(rows)), places]
            log_p = logits.double().log_softmax(-1)
            loss = -log_p[torch.arange(len(rows)), gold]
            right = log_p.argmax(-1) == gold
            for number, one, hit in zip(numbers, loss.tolist(), right.tolist(), strict=True):
                found[number] = (one, hit)
        return found


def chosen(text: str, count: int, purpose: str) -> int:
    """One of `count`, by a hash: the same on every machine."""
    digest = hashlib.sha256(f"{purpose}\x00{text}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % count


def token_blank(model: Model, text: str) -> tuple[list[int], int] | None:
    ids, spans = model.encode(text)
    unknown = model.tokenizer.unk_token_id
    places = [n for n, (a, b) in enumerate(spans) if b > a and ids[n] != unknown]
    if len(ids) > model.longest or not places:
        return None
    return ids, places[chosen(text, len(places), "token")]


def word_blanks(models: Sequence[Model], text: str) -> list[tuple[list[int], int]] | None:
    """The same word for every model, a single token for each; None where there is none."""
    encoded = [model.encode(text) for model in models]
    if any(len(ids) > model.longest for model, (ids, _) in zip(models, encoded, strict=True)):
        return None
    words = [
        match.span()
        for match in WORD.finditer(text)
        if all(match.span() in spans for _, spans in encoded)
    ]
    if not words:
        return None
    span = words[chosen(text, len(words), "word")]
    return [(ids, spans.index(span)) for ids, spans in encoded]


def summary(results: Sequence[tuple[float, bool]]) -> dict[str, float]:
    losses = torch.tensor([loss for loss, _ in results], dtype=torch.float64)
    mean, error = float(losses.mean()), float(losses.std() / math.sqrt(len(losses)))
    return {
        "examples": len(results),
        "nll": mean,
        "nll_error": error,
        "perplexity": math.exp(mean),
        "top1": sum(hit for _, hit in results) / len(results),
    }


def measured(models: Sequence[Model], texts: Sequence[str], corpus: str) -> list[dict[str, Any]]:
    rows = []
    same = [words for text in texts if (words := word_blanks(models, text)) is not None]
    for number, model in enumerate(models):
        own = [found for text in texts if (found := token_blank(model, text)) is not None]
        for kind, blanks in (("token", own), ("word", [one[number] for one in same])):
            about = {"model": model.name, "corpus": corpus, "blank": kind}
            rows.append({**about, **summary(model.losses(blanks))})
            say(json.dumps(rows[-1]))
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = ["| corpus | blank | model | sentences | NLL | perplexity | top 1 |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda row: (row["corpus"], row["blank"])):
        lines.append(
            f"| {row['corpus']} | {row['blank']} | {row['model']} | {row['examples']:,}"
            f" | {row['nll']:.3f} +- {row['nll_error']:.3f} | {row['perplexity']:.1f}"
            f" | {row['top1']:.3f} |"
        )
    return "\n".join(lines)


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    disable_progress_bar()
    models = [Model(place) for place in options.model]
    rows = []
    for name, place in (one.split("=", 1) for one in options.corpus):
        texts = [one.text for one in read_corpus(CorpusSpec(place)).sentences]
        rows += measured(models, first(texts, options.examples), name)
    for name, place in (one.split("=", 1) for one in options.held_out):
        # a corpus is held out of as it was learnt from: after those before it, without the others
        (*_, kept), _ = read_corpora([*options.after, place], options.without)
        rows += measured(models, first(split(kept)[1], options.examples), name)
    if options.output:
        options.output.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    print(table(rows))


def first(texts: Sequence[str], count: int) -> list[str]:
    return sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())[:count]


def say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


@in_one_line
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Perplexities of masked LMs on corpora.")
    add: Any = parser.add_argument
    add("--model", action="append", required=True, metavar="FOLDER")
    add("--corpus", action="append", default=[], metavar="NAME=CORPUS")
    add("--held-out", action="append", default=[], metavar="NAME=CORPUS")
    add("--after", action="append", default=[], metavar="CORPUS", help="corpora learnt before it")
    add("--without", action="append", default=[], metavar="CORPUS", help="as in training")
    add("--examples", type=int, default=1000)
    add("--output", type=Path, metavar="FILE.jsonl")
    add("--threads", type=int, default=1)
    run(parser.parse_args(arguments))


if __name__ == "__main__":
    raise SystemExit(main())
