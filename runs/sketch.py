"""Hold sketches of the vocabulary against exact joints: a row of JSON per pair of blanks and seed.

    python runs/sketch.py exact --model DIR --corpus FILE --mask contiguous --skip 5 --limit 50 \
        --output exact.jsonl
    python runs/sketch.py default --model DIR --corpus FILE --mask contiguous --skip 5 --limit 50 \
        --exact exact.jsonl --seeds 3 --source "tiny-english, SNLI dev, contiguous" \
        --output docs/results/sketch.jsonl
    python runs/sketch.py passes ... --estimator "both tables" --output docs/results/sketch.jsonl

`default` runs sketches of the default precision, `passes` those of fixed numbers of passes, which
another version of the package can run as well. Without exact rows `default` says only how many
passes it took.

Rows hold example ids, never text. Started again on the same file, it does only what is missing.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import unmask
from unmask.constructions import construct
from unmask.evaluation.masks import MASKS, examples
from unmask.queries.sketched import precise_joints
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.settings import Sketch
from unmask.tables.pair_tables import PairTables
from unmask.tables.sketch import SketchedPair

PASSES = (121, 201, 321, 513)
LISTED, LISTED_TOKENS = 10, 5
# dense tables of a vocabulary of 21,000 tokens fit
QUIET = unmask.Settings(progress=False, announce=False, memory_limit=5 * 2**30)

Row = dict[str, Any]
Statistic = Callable[[unmask.Joint], float]


@dataclass(frozen=True)
class Pair:
    """A text with two blanks."""

    id: str
    cloze: unmask.Cloze


def pairs_of(lm: unmask.LanguageModel, chosen: argparse.Namespace) -> Iterator[Pair]:
    """The pairs that a command names."""
    sentences = read_corpus(CorpusSpec(chosen.corpus)).sentences
    drawn = examples(lm, sentences, mask=chosen.mask, limit=chosen.skip + chosen.limit)
    yield from (Pair(one.id, one.cloze) for one in drawn.pairs[chosen.skip :])


def tables_of(lm: unmask.LanguageModel, pair: Pair) -> PairTables:
    """The tables of the whole vocabulary, not yet elicited."""
    return lm.tables(pair.cloze, support="vocabulary", settings=QUIET)


def exact(lm: unmask.LanguageModel, pair: Pair) -> Row:
    """What the whole tables say."""
    joint = construct("log-pool", tables_of(lm, pair))
    marginals = [joint.marginal(blank) for blank in (0, 1)]
    return {
        "id": pair.id,
        "entropy": joint.entropy(),
        "mutual_information": joint.mutual_information(),
        "incompatibility": joint.incompatibility(),
        "fills": [[*fill.ids, fill.log_prob] for fill in joint.top(LISTED)],
        "marginals": [
            [[*fill.ids, fill.log_prob] for fill in one.top(LISTED_TOKENS)] for one in marginals
        ],
        "converged": joint.diagnostics.get("converged"),
    }


def by_default(tables: PairTables, truth: Row | None, seed: int) -> Row:
    """A sketch of the default precision, and how far it is from the exact numbers."""
    pair = SketchedPair(tables, seed=seed)
    joint = precise_joints({"log-pool": {}}, pair, Sketch(seed=seed))["log-pool"]
    row: Row = {
        "seed": seed,
        "kind": "default",
        "forward_passes": pair.forward_passes,
        "precision_reached": joint.diagnostics["precision_reached"],
        "exact_entropy": joint.entropy() if truth is None else truth.get("entropy"),
    }
    return {**row, "numbers": {} if truth is None else compared(joint, truth)}


def by_passes(tables: PairTables, truth: Row, seed: int, passes: int) -> Row:
    """The ten likeliest fills from so many passes."""
    pair = SketchedPair(tables, seed=seed)
    sketch = Sketch(precision=None, max_passes=passes, seed=seed)
    joint = precise_joints({"log-pool": {}}, pair, sketch)["log-pool"]
    off = [joint.log_prob(a, b) - log_p for a, b, log_p in truth["fills"]]
    return {
        "seed": seed,
        "kind": f"{passes} passes",
        "numbers": {"ten": [[_short(x)] for x in off]},
    }


def incompatibility(joint: unmask.Joint) -> float:
    """J, which every joint of a model has."""
    value = joint.incompatibility()
    assert value is not None
    return value


def log_prob_of(*ids: int) -> Statistic:
    """The statistic of a fill."""
    return lambda joint: joint.log_prob(*ids)


def compared(joint: unmask.Joint, truth: Row) -> dict[str, list[list[float]]]:
    """By quantity: how far each number is from the exact one, and its stated error."""
    numbers: dict[str, list[list[float]]] = {}

    def add(name: str, one: unmask.Joint, statistic: Statistic, value: float) -> None:
        difference, error = statistic(one) - value, one.standard_error(statistic)
        numbers.setdefault(name, []).append([_short(difference), _short(error)])

    single: dict[str, Statistic] = {
        "entropy": unmask.Joint.entropy,
        "mutual_information": unmask.Joint.mutual_information,
        "incompatibility": incompatibility,
    }
    for name, statistic in single.items():
        if name in truth:
            add(name, joint, statistic, truth[name])
    for a, b, log_p in truth.get("fills", ()):
        add("ten", joint, log_prob_of(a, b), log_p)
    for blank, tokens in enumerate(truth.get("marginals", ())):
        for token, log_p in tokens:
            marginal = joint.marginal(blank)
            add("marginals", marginal, log_prob_of(token), log_p)
    if "gold" in truth:
        a, b = truth["gold"]
        add("gold", joint, log_prob_of(a, b), truth["gold_log_prob"])
    return numbers


def published(lm: unmask.LanguageModel, pairs: list[Pair], folder: Path) -> dict[str, Row]:
    """What the rows of an exact evaluation say of the same pairs: the true fill, and J."""
    import pyarrow.dataset

    rows = pyarrow.dataset.dataset(sorted(map(str, folder.rglob("part-*.parquet")))).to_table()
    by_id = {r["example_id"]: r for r in rows.to_pylist() if r["construction"] == "log-pool"}
    return {
        pair.id: {
            "gold": list(pair.cloze.gold or ()),
            "gold_log_prob": -2 * by_id[pair.id]["pairwise_nll"],
            "incompatibility": by_id[pair.id]["incompatibility"],
        }
        for pair in pairs
        if pair.id in by_id
    }


def _short(value: float) -> float:
    """Four digits: rows are many."""
    return float(f"{value:.4g}")


def written(output: Path) -> list[Row]:
    """The rows that are there already."""
    return [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []


def rows_of(lm: unmask.LanguageModel, chosen: argparse.Namespace) -> Iterator[Row]:
    """The rows that the output lacks."""
    done = {
        (r["id"], r.get("source"), r.get("estimator"), r.get("seed"), r.get("kind"))
        for r in written(chosen.output)
    }
    pairs = list(pairs_of(lm, chosen))
    if chosen.exact is None:
        truths: dict[str, Row] = {}
    elif chosen.exact.is_dir():
        truths = published(lm, pairs, chosen.exact)
    else:
        truths = {row["id"]: row for row in written(chosen.exact)}
    label = {"source": chosen.source, "estimator": chosen.estimator}
    for pair in pairs:
        if chosen.what == "exact":
            if (pair.id, None, None, None, None) not in done:
                yield exact(lm, pair)
            continue
        if chosen.exact is not None and pair.id not in truths:
            continue
        tables = tables_of(lm, pair)
        for seed in range(chosen.seeds):
            kinds = ["default"] if chosen.what == "default" else [f"{n} passes" for n in PASSES]
            for kind in kinds:
                if (pair.id, chosen.source, chosen.estimator, seed, kind) in done:
                    continue
                row = (
                    by_default(tables, truths.get(pair.id), seed)
                    if kind == "default"
                    else by_passes(tables, truths[pair.id], seed, int(kind.split()[0]))
                )
                yield {"id": pair.id, **label, "vocabulary": lm.model.vocabulary_size, **row}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("exact", "default", "passes"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--mask", choices=MASKS, default="contiguous")
    parser.add_argument("--skip", type=int, default=0, help="pairs that choices were made on")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--exact", type=Path, help="exact rows, or the folder of an evaluation")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--source", help="what the pairs are called in the report")
    parser.add_argument("--estimator", default="both tables")
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    lm = unmask.load(chosen.model)
    with chosen.output.open("a") as output:
        for row in rows_of(lm, chosen):
            output.write(json.dumps(row) + "\n")
            output.flush()


if __name__ == "__main__":
    main()
