"""What `lm.pairs` costs beyond the forward passes that it cannot do without.

    python benchmarks/pairs.py --model models/tiny-english --corpus FILE [--items 500]
        [--method orders,log-pool] [--repeats 3]

Items are two adjacent words of the corpus's sentences, the first in hashed order. Prints JSON per
method: items, forward passes, passes per second of CPU time, also as a fraction of what the bare
trunk makes of the same ids in the same batches (timed in turns; median, least and most of the
repeats), and the peak of memory with a fifth of the items and with all of them, as Linux counts it.
"""

import argparse
import hashlib
import json
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import unmask
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.settings import Settings

QUIET = Settings(progress=False, announce=False)
Item = tuple[str, str, str]


def items(place: str, count: int) -> list[Item]:
    texts = [one.text for one in read_corpus(CorpusSpec(place)).sentences]
    found: list[Item] = []
    for text in sorted(texts, key=lambda one: hashlib.sha256(one.encode()).digest()):
        words = list(re.finditer(r"[A-Za-z]+", text))
        if len(words) > 5 and len(found) < count:
            place_of = int(hashlib.sha256(text.encode()).hexdigest(), 16) % (len(words) - 1)
            a, b = words[place_of : place_of + 2]
            masked = f"{text[: a.start()]}[MASK]{text[a.end() : b.start()]}[MASK]{text[b.end() :]}"
            found.append((masked, a[0], b[0]))
    return found


class Recorded:
    """A model that keeps the ids of every batch."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.batches: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def readouts(self, ids: Any, positions: Any) -> Any:
        self.batches.append(ids)
        return self.model.readouts(ids, positions)


def peak_of(work: Callable[[], object]) -> int:
    Path("/proc/self/clear_refs").write_text("5")
    work()
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) * 1024


def beside_the_trunk(lm: Any, work: Callable[[], Any], repeats: int) -> tuple[Any, dict[str, Any]]:
    """What some work returns, and its forward passes per second next to the bare trunk's."""
    plain = lm.model
    lm.model = recorded = Recorded(plain)
    found = work()
    lm.model = plain
    ratios, rates = [], []
    rows = sum(len(ids) for ids in recorded.batches)
    for _ in range(repeats):
        began = time.process_time()
        work()
        worked = time.process_time()
        with torch.inference_mode():
            for ids in recorded.batches:
                plain.model.base_model(input_ids=ids, attention_mask=torch.ones_like(ids))
        bare = time.process_time() - worked
        ratios.append(bare / (worked - began))
        rates.append(rows / (worked - began))
    return found, {
        "forward_passes": rows,
        "per_second": statistics.median(rates),
        "of_the_bare_trunk": [statistics.median(ratios), min(ratios), max(ratios)],
    }


def measured(lm: Any, some: Sequence[Item], method: str, repeats: int) -> dict[str, Any]:
    def score(chosen: Sequence[Item] = some) -> list[Any]:
        return list(lm.pairs(chosen, method=method, settings=QUIET))

    memory = [peak_of(lambda: score(some[: len(some) // 5])), peak_of(score)]
    scores, beside = beside_the_trunk(lm, score, repeats)
    return {
        "method": method,
        "items": len(scores),
        "scored": sum(one.reason is None for one in scores),
        **beside,
        "peak_bytes": memory,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Scores of pairs next to the bare trunk.")
    parser.add_argument("--model", default="models/tiny-english")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--method", default="orders,log-pool")
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    lm = unmask.load(chosen.model)
    some = items(chosen.corpus, chosen.items)
    for method in chosen.method.split(","):
        print(json.dumps(measured(lm, some, method, chosen.repeats)), flush=True)


if __name__ == "__main__":
    main()
