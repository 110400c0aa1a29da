"""What dependence maps cost beyond the forward passes that they cannot do without.

    python benchmarks/dependence_maps.py --model models/tiny-english --corpus FILE [--sentences 100]
        [--measure pmi,jacobian,mutual-information] [--repeats 3]

Sentences of the corpus in hashed order. Prints JSON per measure: forward passes per second of CPU
time, also as a fraction of what the bare trunk makes of the same ids in the same batches (timed in
turns; median, least and most of the repeats), and the peak of memory with the sentences and with
five times as many, as Linux counts it.
"""

import argparse
import hashlib
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from pairs import QUIET, beside_the_trunk, peak_of

import unmask
from unmask.records.corpora import CorpusSpec, read_corpus


def maps(lm: Any, texts: Sequence[str], measure: str, samples: int) -> int:
    """Make all maps, keeping none; returns their number."""
    found = lm.dependence_maps(texts, measure=measure, samples=samples, settings=QUIET)
    return sum(1 for _ in found)


def measured(
    lm: Any, texts: Sequence[str], count: int, measure: str, samples: int, repeats: int
) -> dict[str, Any]:
    some = texts[:count]
    maps(lm, some[:2], measure, samples)
    memory = [peak_of(partial(maps, lm, t, measure, samples)) for t in (some, texts)]
    _, beside = beside_the_trunk(lm, partial(maps, lm, some, measure, samples), repeats)
    return {
        "measure": measure,
        "sentences": len(some),
        **beside,
        "peak_bytes": memory,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Dependence maps next to the bare trunk.")
    parser.add_argument("--model", default="models/tiny-english")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--measure", default="pmi,jacobian,mutual-information")
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    lm = unmask.load(chosen.model)
    texts = [one.text for one in read_corpus(CorpusSpec(chosen.corpus)).sentences]
    texts.sort(key=lambda one: hashlib.sha256(one.encode()).digest())
    texts = [text for text in texts if len(text.split()) > 1][: 5 * chosen.sentences]
    for measure in chosen.measure.split(","):
        found = measured(lm, texts, chosen.sentences, measure, chosen.samples, chosen.repeats)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
