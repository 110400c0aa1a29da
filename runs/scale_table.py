"""Write the table of docs/concepts/scale.md: a billion sentences, from measured rates.

    python runs/scale_table.py                       the table, of the rates measured before
    python runs/scale_table.py --measure "SNLI test=FILE"   measure rates of one CPU thread first

Rates are texts per second of `score` and `pairs` on sentences of the corpus, with tiny-english and
with a model of BERT-base's size with random weights; they go to docs/results/scale.json.
"""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

import unmask
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.settings import Settings

ROOT = Path(__file__).parent.parent
RATES = ROOT / "docs" / "results" / "scale.json"
PAGE = ROOT / "docs" / "concepts" / "scale.md"
MARKS = ("<!-- table: runs/scale_table.py -->", "<!-- end of table -->")
QUIET = Settings(progress=False)
TEXTS = 10**9
TEXTS_PER_UNIT = 4096
CORES = 1000
# of bert-base-cased
VOCABULARY = 28_996
# sentences that are timed, by model: some seconds each
TIMED = {"tiny-english": 200, "BERT-base size": 60}
METHODS = ("pll", "unmasking", "orders")


def base_sized() -> unmask.LanguageModel:
    """As large as bert-base-cased, with the tokenizer of tiny-english, which only costs less."""
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(vocab_size=VOCABULARY)).eval()
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "models" / "tiny-english")
    return unmask.load((model, tokenizer))


def measured(named: str) -> dict[str, Any]:
    """Texts per second of every method and model, and how many tokens the texts have."""
    torch.set_num_threads(1)
    corpus, _, place = named.partition("=")
    texts = [one.text for one in read_corpus(CorpusSpec(place)).sentences]
    texts.sort(key=lambda one: hashlib.sha256(one.encode()).digest())
    models = {
        "tiny-english": lambda: unmask.load(ROOT / "models" / "tiny-english"),
        "BERT-base size": base_sized,
    }
    found: dict[str, Any] = {"corpus": corpus, "rates": {}}
    for name, load in models.items():
        lm, some = load(), texts[: TIMED[name]]
        ids = [lm.tokenizer(one, add_special_tokens=False)["input_ids"] for one in some]
        found.setdefault("tokens_per_text", sum(map(len, ids)) / len(ids))
        found["rates"][name] = {method: rate(lm, some, method) for method in METHODS}
        print(name, found["rates"][name], flush=True)
    return found


def rate(lm: unmask.LanguageModel, texts: Sequence[str], method: str) -> float:
    """Texts per second of CPU time, after a few that warm up."""
    work: Callable[[Sequence[str]], Any]
    if method == "orders":

        def work(some: Sequence[str]) -> Any:
            items = [(f"{text} [MASK] [MASK]", "man", "is") for text in some]
            return lm.pairs(items, settings=QUIET)
    else:

        def work(some: Sequence[str]) -> Any:
            return lm.score(some, method=method, settings=QUIET)

    work(texts[:2])
    began = time.process_time()
    work(texts)
    return len(texts) / (time.process_time() - began)


def hours(rate_of_all: float) -> str:
    took = TEXTS / rate_of_all / 3600
    return f"{took:,.1f} h" if took < 48 else f"{took / 24:,.0f} days"


def lines(found: dict[str, Any]) -> Iterator[str]:
    tokens = found["tokens_per_text"]
    passes = {"pll": tokens, "unmasking": tokens, "orders": 3.0}
    yield (
        f"| | forward passes per text | {CORES:,} cores, tiny-english | {CORES:,} cores, BERT-base "
        "size |"
    )
    yield "|---|---|---|---|"
    for method in METHODS:
        cells = [
            f"{hours(CORES * found['rates'][name][method])} "
            f"({found['rates'][name][method]:,.3g} per second and core)"
            for name in TIMED
        ]
        yield f"| `{method}` | {passes[method]:.1f} | {' | '.join(cells)} |"
    yield ""
    yield (
        f"Rates of one CPU thread on sentences of {found['corpus']} with {tokens:.1f} tokens on "
        f"average, measured by `runs/scale_table.py`. {-(-TEXTS // TEXTS_PER_UNIT):,} units of "
        f"{TEXTS_PER_UNIT:,} texts."
    )


def with_table(page: str, found: dict[str, Any]) -> str:
    """The page with the table between its two marks made anew."""
    before, rest = page.split(MARKS[0])
    return before + "\n".join([MARKS[0], *lines(found), MARKS[1]]) + rest.split(MARKS[1])[1]


def main() -> int:
    parser = argparse.ArgumentParser(description="What a billion sentences take.")
    parser.add_argument("--measure", metavar="NAME=FILE")
    chosen = parser.parse_args()
    if chosen.measure:
        RATES.write_text(json.dumps(measured(chosen.measure), indent=1) + "\n", "utf-8")
    page = with_table(PAGE.read_text("utf-8"), json.loads(RATES.read_text("utf-8")))
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
