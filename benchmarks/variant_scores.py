"""What `lm.variants` costs beyond the forward passes that it cannot do without.

    python benchmarks/variant_scores.py --model FOLDER [--sequence LETTERS] [--doubles 200]
        [--positions 6] [--method log-pool,single-mask-marginals] [--repeats 3]

Variants are random double mutants, and a landscape: all combinations of mutations at some
positions. Prints JSON per method and kind of variants: variants, forward passes, passes per second
of CPU time, also as a fraction of what the bare trunk makes of the same ids in the same batches
(timed in turns; median, least and most of the repeats), and the peak of memory with a fifth of the
variants and with all of them, as Linux counts it.
"""

import argparse
import itertools
import json
import random
from collections.abc import Sequence
from typing import Any

import torch
from pairs import QUIET, beside_the_trunk, peak_of

import unmask

LETTERS = "ACDEFGHIKLMNPQRSTVWY"


def another(residue: str, generator: random.Random) -> str:
    return generator.choice([letter for letter in LETTERS if letter != residue])


def doubles(sequence: str, count: int, generator: random.Random) -> list[str]:
    found = []
    for _ in range(count):
        places = sorted(generator.sample(range(len(sequence)), 2))
        found.append(
            ":".join(f"{sequence[p]}{p + 1}{another(sequence[p], generator)}" for p in places)
        )
    return found


def landscape(sequence: str, positions: int, generator: random.Random) -> list[str]:
    places = sorted(generator.sample(range(len(sequence)), positions))
    single = [f"{sequence[p]}{p + 1}{another(sequence[p], generator)}" for p in places]
    sets = (itertools.combinations(single, size) for size in range(1, positions + 1))
    return [":".join(one) for one in itertools.chain.from_iterable(sets)]


def measured(
    lm: Any, sequence: str, some: Sequence[str], method: str, repeats: int
) -> dict[str, Any]:
    def score(chosen: Sequence[str] = some) -> list[Any]:
        return list(lm.variants(sequence, chosen, method=method, settings=QUIET))

    memory = [peak_of(lambda: score(some[: len(some) // 5])), peak_of(score)]
    scores, beside = beside_the_trunk(lm, score, repeats)
    return {
        "method": method,
        "variants": len(scores),
        "scored": sum(one.reason is None for one in scores),
        **beside,
        "peak_bytes": memory,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Scores of variants next to the bare trunk.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--sequence", help="letters (default: 120 random ones)")
    parser.add_argument("--doubles", type=int, default=200)
    parser.add_argument("--positions", type=int, default=6)
    parser.add_argument("--method", default="log-pool,single-mask-marginals")
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    generator = random.Random(0)
    sequence = chosen.sequence or "".join(generator.choices(LETTERS, k=120))
    lm = unmask.load(chosen.model)
    kinds = {
        "doubles": doubles(sequence, chosen.doubles, generator),
        "landscape": landscape(sequence, chosen.positions, generator),
    }
    for method, (kind, some) in itertools.product(chosen.method.split(","), kinds.items()):
        found = measured(lm, sequence, some, method, chosen.repeats)
        print(json.dumps({"kind": kind, **found}), flush=True)


if __name__ == "__main__":
    main()
