"""Measure some examples of a published run again, and compare every number with its result rows.

python runs/recompute.py docs/results/table1-caption-bert/snli CORPUS MODEL --examples 2
"""

import argparse
import sys

import unmask
from unmask.evaluation.kind import Evaluate
from unmask.evaluation.request import draw_examples
from unmask.evaluation.rows import METRICS, LabelledMethod
from unmask.evaluation.run import EvaluationRun, read_run
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.settings import Sketch


def kind_of(run: EvaluationRun) -> Evaluate:
    """The kind of job that a run was made by."""
    options = dict(run.job.options)
    sketch, support = options.pop("sketch"), options.pop("support")
    methods = (LabelledMethod(**one) for one in options.pop("constructions"))
    return Evaluate(
        corpus=run.corpus.name,
        model_name=run.job.model.name,
        constructions=tuple(methods),
        sketch=None if sketch is None else Sketch(**sketch),
        support=support if isinstance(support, str) else tuple(support),
        **options,
    )


def largest_difference(run: str, corpus: str, model: str, examples: int) -> tuple[int, float]:
    """How many result rows were compared, and the largest difference of any of their metrics."""
    published = read_run(run)
    kind, lm = kind_of(published), unmask.load(model)
    pairs, draw = draw_examples(
        lm,
        read_corpus(CorpusSpec(corpus)),
        masks=kind.draw["masks"],
        limit=kind.draw["limit"],
        seed=kind.draw["seed"],
        support=kind.support,
    )
    if draw["digest"] != kind.draw["digest"]:
        raise SystemExit("these are not the examples of the run: another corpus, model or version")
    known = {(row.example_id, row.mask, row.construction): row for row in published.rows}
    compared, worst = 0, 0.0
    for pair in pairs[:examples]:
        for row in kind.measure(lm, pair):
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
