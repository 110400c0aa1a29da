"""Log-probabilities of SNLI dev sentences by unmasking in three orders, next to `pll`.

    python runs/unmasking.py --assets DIR --output docs/results/unmasking.json
    python runs/unmasking.py --rows docs/results/unmasking.json --output docs/results/texts.md

The first measures, the second writes CSV files beside the page. Also measured: whether batches of
other sizes, which round differently, lead to other orders, and thus to other scores. Rows have no
text.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import marked_page
import numpy as np
import torch
from numpy.typing import NDArray
from one_line import in_one_line

import unmask
from unmask.model.row_reader import RowReader
from unmask.sequences import unmasking
from unmask.sequences.texts import tokenised
from unmask.settings import Settings

Record = dict[str, Any]
Numbers = NDArray[np.float64]

MODEL = Path(__file__).parents[1] / "models" / "tiny-english"
RESAMPLES = 10_000
# of the names of its CSV files
PREFIX = "blimp"
BATCH_SIZES = (1, 7, 64)
# a score that differs by more was reached in another order
SAME = 1e-4
# what is tied, and what rounding may turn, in each of the rules that are compared
RULES = {
    "the largest": (0.0, 0.0),
    "the first of those tied": (unmasking.TIED, 0.0),
    "and a second look": (unmasking.TIED, unmasking.ROUNDING),
}


# --- measuring ---------------------------------------------------------------------------------


def sentences(path: Path, count: int) -> dict[str, str]:
    """Distinct sentences by their ids, the first in the order of these, which are hashes."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        for text in line.split("\t")[1:]:
            found[hashlib.sha256(text.strip().encode()).hexdigest()[:12]] = text.strip()
    return dict(sorted(found.items())[:count])


def scored(lm: unmask.LanguageModel, texts: Sequence[str], order: str, batch: int) -> Numbers:
    how = Settings(batch_size=batch, progress=False)
    found = lm.score(texts, method="unmasking", order=order, settings=how)
    return np.array([one.score for one in found])


def batches(lm: unmask.LanguageModel, texts: Sequence[str]) -> Iterator[Record]:
    """How far scores of one text are apart over batch sizes, by each rule for ties."""
    for order in ("surest", "margin"):
        for name, (tied, rounding) in RULES.items():
            unmasking.TIED, unmasking.ROUNDING = tied, rounding
            by_size = np.stack([scored(lm, texts, order, size) for size in BATCH_SIZES])
            apart = np.ptp(by_size, axis=0)
            yield {
                "order": order,
                "rule": name,
                "reordered": int((apart > SAME).sum()),
                "largest": float(apart.max()),
                "largest_in_one_order": float(apart[apart <= SAME].max()),
            }


def rounding(lm: unmask.LanguageModel, texts: Sequence[str]) -> float:
    """How far a certainty is apart at most over batch sizes, every other token masked."""
    (window,) = tokenised(lm, texts)
    apart = 0.0
    for length in sorted({len(text.ids) for text in window}):
        some = [text for text in window if len(text.ids) == length]
        ids = torch.tensor([text.ids for text in some])
        at = torch.tensor([text.places[::2] for text in some])
        masked = ids.scatter(1, at, lm.model.mask_id)
        by_size = []
        for size in BATCH_SIZES:
            reader = RowReader(lm.model, Settings(batch_size=size, progress=False))
            by_size.append(unmasking._read(reader, masked, at, ids.gather(1, at)).largest)
        certainties = torch.stack(by_size)
        apart = max(apart, float((certainties.amax(dim=0) - certainties.amin(dim=0)).max()))
    return apart


def measured(assets: Path, count: int) -> Record:
    lm = unmask.load(MODEL)
    chosen = sentences(assets / "data" / "snli" / "dev.tsv", count)
    texts, quiet = list(chosen.values()), Settings(progress=False)
    by_method = {
        "pll": lm.score(texts, settings=quiet),
        **{
            order: lm.score(texts, method="unmasking", order=order, settings=quiet)
            for order in unmasking.ORDERS
        },
    }
    rows = [
        {
            "id": name,
            "tokens": by_method["pll"][place].tokens,
            "unknown_tokens": by_method["pll"][place].unknown_tokens,
            "scores": {method: found[place].score for method, found in by_method.items()},
        }
        for place, name in enumerate(chosen)
    ]
    versions = {name: version(name) for name in ("torch", "transformers")}
    return {
        "model": MODEL.name,
        "versions": {"unmask": unmask.__version__, **versions},
        "sentences": rows,
        "batch_sizes": BATCH_SIZES,
        "rounding": rounding(lm, texts),
        "batches": list(batches(lm, texts)),
    }


# --- the page ----------------------------------------------------------------------------------


def tables(record: Record) -> dict[str, list[str]]:
    """Whole tables, for the CSV files: nats per token, and what the size of a batch changes."""
    return {"unmasking": list(_nats(record)), "unmasking-batches": list(_batches(record))}


def _nats(record: Record) -> Iterator[str]:
    rows = record["sentences"]
    tokens = np.array([row["tokens"] for row in rows], dtype=np.float64)
    yield "| method | order | nats per token | minus left to right |"
    yield "|---|---|---|---|"
    first = scores(rows, unmasking.LEFT_TO_RIGHT)
    for method in rows[0]["scores"]:
        own = scores(rows, method)
        named = "`pll` | " if method == "pll" else f"`unmasking` | `{method}`"
        gap = "" if method == unmasking.LEFT_TO_RIGHT else interval(first - own, tokens, "+.3f")
        yield f"| {named} | {interval(-own, tokens, '.3f')} | {gap} |"


def _batches(record: Record) -> Iterator[str]:
    yield (
        "| order | next is | sentences in more than one order | largest difference of a score | "
        "of those in one order |"
    )
    yield "|---|---|---|---|---|"
    for one in record["batches"]:
        yield (
            f"| `{one['order']}` | {one['rule']} | "
            f"{one['reordered']} of {len(record['sentences'])} | "
            f"{one['largest']:.2g} | {one['largest_in_one_order']:.2g} |"
        )


def scores(rows: Sequence[Record], method: str) -> Numbers:
    return np.array([row["scores"][method] for row in rows])


def interval(values: Numbers, tokens: Numbers, form: str) -> str:
    """The sum of the values per token, with percentiles over resamples of the sentences."""
    picks = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.percentile(values[picks].sum(axis=1) / tokens[picks].sum(axis=1), [2.5, 97.5])
    return f"{values.sum() / tokens.sum():{form}} [{low:{form}}, {high:{form}}]"


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="Log-probabilities of whole texts.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--assets", type=Path, help="measure: folder with data/snli/dev.tsv")
    source.add_argument("--rows", type=Path, help="write the page of what was measured")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    if chosen.assets is not None:
        said = json.dumps(measured(chosen.assets, chosen.sentences), indent=1)
        chosen.output.write_text(said + "\n", encoding="utf-8")
    else:
        record = json.loads(chosen.rows.read_text(encoding="utf-8"))
        marked_page.write_blocks(chosen.output, {}, tables(record), PREFIX)


if __name__ == "__main__":
    raise SystemExit(main())
