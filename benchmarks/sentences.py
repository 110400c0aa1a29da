"""What scoring whole texts costs beyond the forward passes that it cannot do without.

    python benchmarks/sentences.py --model DIR --corpus FILE [--texts 1000] [--method pll]

Prints a JSON list, one entry per method. `of_trunk` is the forward passes per second of scoring,
from texts to scores, as a fraction of what the bare trunk makes of the same inputs, tokenised and
masked beforehand, in the same batches and without an attention mask. Both are timed in turns, in
an order that is turned round, and come as median, minimum and maximum over the repeats. `hcb-path`
is timed on a text against itself with three words changed.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from interleaved import in_turns, ratios, spread
from scoring import Batch, Recorded

import unmask
from unmask.model.hugging_face import HuggingFaceMaskedLM
from unmask.names import PAIR_METHODS, TEXT_METHODS
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.settings import Settings

Scored = Callable[[unmask.LanguageModel], object]

QUIET = Settings(progress=False)
# places of a pair that differ
CHANGED = 3


def pairs_of(texts: list[str]) -> list[tuple[str, str]]:
    """Every text, and the same with some of its words replaced by those of other texts."""
    rng = random.Random(0)
    words = sorted({word for text in texts for word in text.split()})
    pairs = []
    for text in texts:
        changed = text.split()
        for place in rng.sample(range(len(changed)), min(CHANGED, len(changed))):
            changed[place] = rng.choice(words)
        pairs.append((text, " ".join(changed)))
    return pairs


def what_is_timed(method: str, texts: list[str]) -> Scored:
    if method in TEXT_METHODS:
        return lambda lm: lm.score(texts, method=method, settings=QUIET)
    pairs = pairs_of(texts)
    return lambda lm: lm.log_ratios(pairs, method=method, settings=QUIET)


def measured(lm: unmask.LanguageModel, method: str, texts: list[str], repeats: int) -> Any:
    model, run = lm.model, what_is_timed(method, texts)
    assert isinstance(model, HuggingFaceMaskedLM)
    batches = recorded_batches(lm, run)
    rows = sum(len(ids) for ids, _ in batches)

    @torch.inference_mode()
    def trunk() -> None:
        for ids, _ in batches:
            model.model.base_model(input_ids=ids)

    seconds = in_turns({"scored": lambda: run(lm), "trunk": trunk}, repeats)
    return {
        "method": method,
        "texts": len(texts),
        "rows": rows,
        "batches": len(batches),
        "rows_per_second": spread([rows / s for s in seconds["scored"]]),
        "trunk_rows_per_second": spread([rows / s for s in seconds["trunk"]]),
        "of_trunk": spread(ratios(seconds["trunk"], seconds["scored"])),
    }


def recorded_batches(lm: unmask.LanguageModel, run: Scored) -> list[Batch]:
    """What scoring asks the model for; also the warm-up of what is timed."""
    assert isinstance(lm.model, HuggingFaceMaskedLM)
    recorded = Recorded(lm.model)
    run(unmask.LanguageModel(recorded, lm.tokenizer))
    return recorded.batches


def main() -> int:
    parser = argparse.ArgumentParser(description="What scoring costs beyond the forward passes.")
    parser.add_argument("--model", required=True, help="folder of a masked language model")
    parser.add_argument("--corpus", required=True, help="a file of sentences, as evaluate takes")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument(
        "--method", default="pll,pll-word-l2r", help=f"of {', '.join(PAIR_METHODS)}"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    lm = unmask.load(chosen.model)
    corpus = read_corpus(CorpusSpec(chosen.corpus))
    texts = [sentence.text for sentence in corpus.sentences[: chosen.texts]]
    about = {
        "model": Path(chosen.model).name,
        "vocabulary": lm.model.vocabulary_size,
        "corpus": Path(chosen.corpus).name,
        "threads": chosen.threads,
        "torch": torch.__version__,
        "repeats": chosen.repeats,
    }
    methods = chosen.method.split(",")
    found = [about | measured(lm, method, texts, chosen.repeats) for method in methods]
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
