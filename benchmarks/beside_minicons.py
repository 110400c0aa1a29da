"""Sentences per second by `lm.score` and by minicons, and how far their numbers are apart.

    python benchmarks/beside_minicons.py --model DIR --blimp DIR [--texts 200] [--output FILE]

Both score the same sentences by the same two methods, in one process and on one thread, with the
same network in memory. Each is first tried with several batch sizes, on a quarter of them, and then
timed with its best: three times in turns, in an order that is turned round. Times are those of the
process, not of the clock, so that others on the machine do not count. Prints JSON.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import torch
from interleaved import ratios, spread
from minicons.scorer import MaskedLMScorer

import unmask
from unmask.sequences.blimp import read_blimp

METRICS = {"pll": "original", "pll-word-l2r": "within_word_l2r"}
# rows of ours, sentences of minicons, which runs all rows of its sentences at once
OUR_SIZES: tuple[int | None, ...] = (None, 64, 256)
THEIR_SIZES = (1, 4, 16, 64)
REPEATS = 3

Scores = Callable[[], list[float]]


def seconds_of_cpu(run: Scores) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def ours(
    lm: unmask.LanguageModel, texts: Sequence[str], method: str, batch_size: int | None
) -> Scores:
    settings = unmask.Settings(batch_size=batch_size, progress=False)
    return lambda: [one.score for one in lm.score(texts, method=method, settings=settings)]


def theirs(scorer: Any, texts: Sequence[str], method: str, sentences: int) -> Scores:
    def run() -> list[float]:
        sums: list[float] = []
        for start in range(0, len(texts), sentences):
            some = list(texts[start : start + sentences])
            sums += scorer.sequence_score(
                some, reduction=lambda x: x.sum(0).item(), PLL_metric=METRICS[method]
            )
        return sums

    return run


def best(runs: dict[Any, Scores]) -> Any:
    """The size of the quickest run, after one that warms up."""
    next(iter(runs.values()))()
    return min(runs, key=lambda size: seconds_of_cpu(runs[size]))


def measured(lm: unmask.LanguageModel, texts: Sequence[str], method: str) -> dict[str, Any]:
    tokenizer: Any = lm.tokenizer
    # which transformers 5 has no more, and minicons 0.3.39 calls
    tokenizer.batch_encode_plus = tokenizer.__call__
    scorer = MaskedLMScorer(cast(Any, lm.model).model, "cpu", tokenizer=tokenizer)
    # batch sizes are tried with a quarter of the texts
    few = texts[::4]
    our_size = best({size: ours(lm, few, method, size) for size in OUR_SIZES})
    their_size = best({size: theirs(scorer, few, method, size) for size in THEIR_SIZES})
    runs = {
        "unmask": ours(lm, texts, method, our_size),
        "minicons": theirs(scorer, texts, method, their_size),
    }
    differences = [abs(a - b) for a, b in zip(runs["unmask"](), runs["minicons"](), strict=True)]
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(REPEATS):
        for name in list(runs) if repeat % 2 == 0 else list(runs)[::-1]:
            seconds[name].append(seconds_of_cpu(runs[name]))
    per_second = {name: [len(texts) / s for s in times] for name, times in seconds.items()}
    return {
        "method": method,
        "texts": len(texts),
        "batch_size": {"unmask": our_size or "auto", "minicons": their_size},
        "sentences_per_second": {name: spread(values) for name, values in per_second.items()},
        "times_as_fast": spread(ratios(seconds["minicons"], seconds["unmask"])),
        "largest_difference": max(differences),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--blimp", required=True)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    lm = unmask.load(chosen.model)
    pairs = read_blimp(chosen.blimp, limit=-(-chosen.texts // 134))
    sides = ("sentence_good", "sentence_bad")
    texts = [str(pair[side]) for pair in pairs for side in sides][: chosen.texts]
    results: dict[str, Any] = {
        "model": Path(chosen.model).name,
        "versions": {name: version(name) for name in ("minicons", "torch", "transformers")},
        "measured": [],
    }
    for method in METRICS:
        results["measured"].append(measured(lm, texts, method))
        print(f"{method}: done", file=sys.stderr, flush=True)
    text = json.dumps(results, indent=2) + "\n"
    print(text, end="")
    if chosen.output is not None:
        chosen.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
