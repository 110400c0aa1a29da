"""Hold sketches of the vocabulary against exact joints: a row of JSON per pair of blanks and seed.

    python runs/sketch.py exact --model DIR --corpus FILE --mask contiguous --skip 5 --limit 50 \
        --output exact.jsonl
    python runs/sketch.py default --model DIR --corpus FILE --mask contiguous --skip 5 --limit 50 \
        --exact exact.jsonl --seeds 3 --source "tiny-english, SNLI dev, contiguous" \
        --output docs/results/sketch.jsonl
    python runs/sketch.py passes ... --estimator "both tables" --output docs/results/sketch.jsonl

`default` runs sketches of the default precision, `listed` the same for texts whose exact tops are
listed in a file, `passes` those of fixed numbers of passes, which
another version of the package can run as well. Without exact rows `default` says only how many
passes it took.

Rows hold example ids, never text. Started again on the same file, it does only what is missing.
"""

import argparse
import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import unmask
from unmask.constructions import construct
from unmask.evaluation.masks import MASKS, examples
from unmask.joints.sketched import Estimated, spread
from unmask.queries.sketched import precise_joints
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.settings import Sketch
from unmask.tables.pair_tables import PairTables
from unmask.tables.sketch import SketchedPair

PASSES = (121, 201, 321, 513)
LISTED, LISTED_TOKENS, LISTED_GIVEN = 10, 5, 3
# an exact fill of this probability is missing if it is not among so many of the sketch
LIKELY, RANKED = 0.01, 30
# dense tables of a vocabulary of 21,000 tokens fit
QUIET = unmask.Settings(progress=False, announce=False, memory_limit=5 * 2**30)

Row = dict[str, Any]


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
    conditionals = [
        [blank, *given.ids, *fill.ids, fill.log_prob]
        for blank in (0, 1)
        for given in marginals[1 - blank].top(LISTED_GIVEN)
        for fill in joint.conditional(blank, given={1 - blank: given.ids[0]}).top(LISTED_GIVEN)
    ]
    return {
        "id": pair.id,
        "entropy": joint.entropy(),
        "mutual_information": joint.mutual_information(),
        "incompatibility": joint.incompatibility(),
        "fills": [[*fill.ids, fill.log_prob] for fill in joint.top(2 * RANKED)],
        "conditionals": conditionals,
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
    if truth is None:
        return {**row, "numbers": {}}
    ranked = {fill.ids for fill in joint.top(RANKED)}
    likely = [fill for fill in truth.get("fills", ()) if fill[2] >= math.log(LIKELY)]
    missing = [_short(log_p) for *ids, log_p in likely if tuple(ids) not in ranked]
    return {**row, "likely": len(likely), "missing": missing, "numbers": compared(joint, truth)}


def by_passes(tables: PairTables, truth: Row, seed: int, passes: int) -> Row:
    """The ten likeliest fills from so many passes."""
    pair = SketchedPair(tables, seed=seed)
    sketch = Sketch(precision=None, max_passes=passes, seed=seed)
    joint = precise_joints({"log-pool": {}}, pair, sketch)["log-pool"]
    off = [joint.log_prob(a, b) - log_p for a, b, log_p in truth["fills"][:LISTED]]
    return {
        "seed": seed,
        "kind": f"{passes} passes",
        "numbers": {"ten": [[_short(x)] for x in off]},
    }


def compared(joint: unmask.Joint, truth: Row) -> dict[str, list[list[float]]]:
    """By quantity: how far each number is from the exact one, and its stated error."""
    summary: dict[str, Any] = joint.to_dict(n=1)
    numbers: dict[str, list[list[float]]] = {
        name: [[_short(summary[name] - truth[name]), _short(summary["standard_errors"][name])]]
        for name in ("entropy", "mutual_information", "incompatibility")
        if name in truth
    }
    numbers["ten"] = errors_of(joint, truth.get("fills", ())[:LISTED])
    each = [joint.marginal(blank) for blank in (0, 1)]
    numbers["marginals"] = [
        error
        for marginal, tokens in zip(each, truth.get("marginals", ()), strict=False)
        for error in errors_of(marginal, tokens[:LISTED_TOKENS])
    ]
    numbers["conditionals"] = [
        error
        for blank, given, token, log_p in truth.get("conditionals", ())
        for error in errors_of(joint.conditional(blank, given={1 - blank: given}), [[token, log_p]])
    ]
    if "gold" in truth:
        numbers["gold"] = errors_of(joint, [[*truth["gold"], truth["gold_log_prob"]]])
    return {name: values for name, values in numbers.items() if values}


def errors_of(joint: unmask.Joint, exact: list[list[float]]) -> list[list[float]]:
    """Of fills and their exact log-probabilities: the error, and the stated one."""
    errors = []
    assert isinstance(joint.engine, Estimated)
    for *numbers, log_p in exact:
        tokens = dict(enumerate(map(int, numbers)))
        # what standard_error computes replicate by replicate, for all of them at once
        at = {blank: axis.index(tokens[blank]) for blank, axis in enumerate(joint.engine.whole)}
        engine, places = joint.engine.at(at)
        log_probs = engine.log_probs(torch.tensor([list(places.values())]))[:, 0]
        errors.append([_short(float(log_probs[0]) - log_p), _short(float(spread(log_probs)))])
    return errors


def listed(lm: unmask.LanguageModel, chosen: argparse.Namespace) -> Iterator[Row]:
    """Rows for exact tops that name their texts: fills of at least LIKELY, mutual information."""
    done = {(row["id"], row.get("seed")) for row in written(chosen.output)}
    label = {"source": chosen.source, "estimator": chosen.estimator}
    tokenizer: Any = lm.tokenizer
    for seed in range(chosen.seeds):
        for given in written(chosen.exact)[chosen.skip : chosen.skip + chosen.limit]:
            name = hashlib.sha256(given["text"].encode()).hexdigest()[:12]
            if (name, seed) in done:
                continue
            cloze = lm.cloze(given["text"])
            place = {token: tokenizer.convert_tokens_to_ids(token) for token in _tokens(given)}
            fills = [[*(place[token] for token in fill), p] for fill, p in given["tops"]]
            truth = {"fills": fills}
            if "mi" in given:
                truth["mutual_information"] = given["mi"]
            tables = lm.tables(cloze, support="vocabulary", settings=QUIET)
            row = by_default(tables, truth, seed)
            yield {"id": name, **label, "vocabulary": lm.model.vocabulary_size, **row}


def _tokens(given: Row) -> set[str]:
    return {token for fill, _ in given["tops"] for token in fill}


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
    parser.add_argument("what", choices=("exact", "default", "passes", "listed"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus")
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
        for row in (listed if chosen.what == "listed" else rows_of)(lm, chosen):
            output.write(json.dumps(row) + "\n")
            output.flush()


if __name__ == "__main__":
    main()
