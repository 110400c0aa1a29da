"""Measure some examples of a published run again, and compare every number with its result rows.

python runs/recompute.py docs/results/table1-caption-bert/snli CORPUS MODEL --examples 2
"""

import argparse
import sys
from itertools import chain

import unmask
from unmask.evaluation import read_run
from unmask.evaluation.kind import measure
from unmask.evaluation.request import draw_examples
from unmask.records.corpora import CorpusSpec, read_corpus

METRICS = ("pairwise_nll", "unary_nll", "all_kl", "gold_kl")


def largest_difference(run: str, corpus: str, model: str, examples: int) -> tuple[int, float]:
    """How many result rows were compared, and the largest difference of any of their metrics."""
    published = read_run(run)
    plan, lm = published.plan, unmask.load(model)
    turns, draw = draw_examples(
        lm,
        read_corpus(CorpusSpec(corpus)),
        masks=plan.draw.masks,
        limit=plan.draw.limit,
        seed=plan.draw.seed,
        support=plan.support,
    )
    if draw.digest != plan.draw.digest:
        raise SystemExit("these are not the examples of the run: another corpus, model or version")
    known = {(row.example_id, row.mask, row.construction): row for row in published.rows}
    compared, worst = 0, 0.0
    for pair in list(chain(*turns))[:examples]:
        for row in measure(lm, plan, pair):
            before = known.get((row.example_id, row.mask, row.construction))
            if before is None or before.failed:
                continue
            compared += 1
            # a sketch has no A-KL
            known_of = [name for name in METRICS if getattr(before, name) is not None]
            gaps = [abs(row.metric(name) - before.metric(name)) for name in known_of]
            worst = max([worst, *gaps])
    return compared, worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("corpus")
    parser.add_argument("model")
    parser.add_argument("--examples", type=int, default=2)
    parser.add_argument("--within", type=float, default=1e-6)
    chosen = parser.parse_args()
    compared, worst = largest_difference(chosen.run, chosen.corpus, chosen.model, chosen.examples)
    print(f"{compared} result rows, largest difference {worst:.2g}")
    return 0 if compared and worst <= chosen.within else 1


if __name__ == "__main__":
    sys.exit(main())
