"""Many blanks in few passes: what every rule of parallel decoding loses, at how many passes.

    python runs/parallel_fills.py --model DIR --head FILE --corpus FILE --rows ROWS --limit 300

It masks 4 to 12 tokens of every sentence, by a hash of its id, scattered or in a run, and fills
them by every rule and threshold, each blank with its likeliest token. A fill is scored by the
model's own chain rule: the mean of its log-probability along `ORDERS` random orders, the same for
all fills of a sentence. All ways of a chunk of sentences advance in the same batches. Rows hold
ids, never text; started again on the same file, it does what is missing. `--part` takes a part of
a corpus, by the same hash, for where it has no dev file.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import unmask
from unmask.model.row_reader import RowReader
from unmask.queries.parallel.decoding import BlankedText, Decoding, fill_blanked
from unmask.queries.parallel.head import DependenceHead
from unmask.records.corpora import CorpusSpec, read_corpus

QUIET = unmask.Settings(progress=False, announce=False)
FEWEST, MOST, ORDERS, CHUNK = 4, 12, 8, 25
ONE_BY_ONE = ("surest", "left-to-right", "margin")
WAYS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys((*ONE_BY_ONE, "all-at-once"), (0,)),
    "top-k": (2, 3, 4),
    "confidence": (0.05, 0.1, 0.15, 0.3, 0.5),
    "factor": (1, 1.5, 2.5, 3.5, 5),
    "entropy-bound": (1, 2, 4, 8, 16),
    "stability": (0.05, 0.1, 0.3),
    "attention": (0.015, 0.03, 0.06, 0.12),
    "random-sizes": (0.25, 0.35, 0.5),
    "head": (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6),
    "mutual-information": (0.1, 0.4),
}
Row = dict[str, Any]


def hashed(*parts: object) -> int:
    key = "\x00".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big")


def named(rule: str, threshold: float) -> str:
    return rule if len(WAYS[rule]) == 1 else f"{rule} {threshold:g}"


# --- fills -------------------------------------------------------------------------------------


def blanked(lm: unmask.LanguageModel, sentence: Any) -> BlankedText | None:
    """None if it is too short."""
    ids = lm.tokenizer(sentence.text, verbose=False)["input_ids"]
    special = set(lm.tokenizer.all_special_ids)
    places = [place for place, token in enumerate(ids) if token not in special]
    count = FEWEST + hashed(sentence.id, "count") % (MOST - FEWEST + 1)
    if len(places) < count + 2 or len(ids) > (lm.max_length or len(ids)):
        return None
    if hashed(sentence.id, "lie") % 3 == 0:
        start = hashed(sentence.id, "start") % (len(places) - count + 1)
        chosen = places[start : start + count]
    else:
        chosen = sorted(sorted(places, key=lambda p: hashed(sentence.id, "place", p))[:count])
    masked = tuple(lm.tokenizer.mask_token_id if p in chosen else t for p, t in enumerate(ids))
    return BlankedText(masked, tuple(chosen))


Context = tuple[tuple[int, ...], int]


def scores(
    lm: unmask.LanguageModel, texts: Mapping[str, BlankedText], fills: Mapping[str, set[Any]]
) -> dict[tuple[str, tuple[int, ...]], float]:
    """The mean log-probability along random orders; equal contexts are read once."""
    asked: dict[int, dict[Context, list[int]]] = {}
    terms: list[tuple[tuple[str, tuple[int, ...]], Context, int]] = []
    for name, text in texts.items():
        rng, blanks = np.random.default_rng(hashed(name, "orders")), len(text.positions)
        orders = [rng.permutation(blanks).tolist() for _ in range(ORDERS)]
        contexts = asked.setdefault(len(text.ids), {})
        for fill in sorted(fills[name]):
            for order in orders:
                row = list(text.ids)
                for blank in order:
                    context = tuple(row), text.positions[blank]
                    tokens = contexts.setdefault(context, [])
                    if fill[blank] not in tokens:
                        tokens.append(fill[blank])
                    terms.append(((name, fill), context, tokens.index(fill[blank])))
                    row[text.positions[blank]] = fill[blank]
    log_probs: dict[Context, list[float]] = {}
    for contexts in asked.values():
        most = max(map(len, contexts.values()))
        given = [tokens + tokens[:1] * (most - len(tokens)) for tokens in contexts.values()]
        read = RowReader(lm.model, QUIET).log_probs(
            torch.tensor([row for row, _ in contexts]),
            torch.tensor([[position] for _, position in contexts]),
            torch.tensor(given)[:, None],
        )
        log_probs |= zip(contexts, read[:, 0].tolist(), strict=True)
    totals = dict.fromkeys((key for key, _, _ in terms), 0.0)
    for key, context, column in terms:
        totals[key] += log_probs[context][column] / ORDERS
    return totals


def filled(
    lm: unmask.LanguageModel, head: DependenceHead, some: Mapping[str, BlankedText]
) -> Iterator[Row]:
    axis = lm.support("tokens")
    ids = axis.ids.tolist()
    ways = {
        named(rule, threshold): Decoding(
            rule, threshold, axis, head=head if rule == "head" else None
        )
        for rule, thresholds in WAYS.items()
        for threshold in thresholds
    }
    pairs = [(name, way) for name in some for way in ways]
    results = fill_blanked(
        RowReader(lm.model, QUIET), [some[name] for name, _ in pairs], [ways[w] for _, w in pairs]
    )
    by_name: dict[str, dict[str, Any]] = {name: {} for name in some}
    for (name, way), one in zip(pairs, results, strict=True):
        by_name[name][way] = tuple(ids[place] for place in one.tokens), one
    fills = {name: {tokens for tokens, _ in mine.values()} for name, mine in by_name.items()}
    totals = scores(lm, some, fills)
    for name, mine in by_name.items():
        row = {
            way: [round(totals[name, tokens], 5), len(one.steps), one.forward_passes]
            for way, (tokens, one) in mine.items()
        }
        yield {"id": name, "blanks": len(some[name].positions), "ways": row}


def fill(lm: unmask.LanguageModel, head: DependenceHead, chosen: argparse.Namespace) -> None:
    path = Path(chosen.rows)
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    done = {json.loads(line)["id"] for line in lines}
    number, of = map(int, chosen.part.split("/"))
    corpus = read_corpus(CorpusSpec(chosen.corpus)).sentences
    texts: dict[str, BlankedText] = {}
    for sentence in sorted(corpus, key=lambda one: hashed(one.id)):
        if len(texts) == chosen.limit:
            break
        text = blanked(lm, sentence)
        if text is not None and hashed(sentence.id, "part") % of == number:
            texts[sentence.id] = text
    left = [name for name in texts if name not in done]
    with path.open("a", encoding="utf-8") as file:
        for start in range(0, len(left), CHUNK):
            some = {name: texts[name] for name in left[start : start + CHUNK]}
            file.writelines(json.dumps(row) + "\n" for row in filled(lm, head, some))
            file.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--head", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--part", default="0/1", help="the n-th of so many parts of the corpus")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--rows", required=True)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    lm, head = unmask.load(chosen.model), DependenceHead.load(chosen.head)
    head.check(lm.model, lm.name)
    fill(lm, head, chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
