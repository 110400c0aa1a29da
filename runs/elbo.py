"""BLiMP's verdicts by `elbo`, with seeds and numbers of draws, beside those by `unmasking`.

    python runs/elbo.py --blimp FOLDER --model models/tiny-english --pieces PIECES
    python runs/elbo.py --collect PIECES [PIECES ...] --output docs/results/elbo.json
    python runs/elbo.py --rows docs/results/elbo.json    # the tables of docs/results/texts.md

The first measures, a piece per paradigm, and leaves out pieces that are there. Masks that several
draws of a text share run once, so its time is not that of `unmask score`; a few texts of each piece
are scored by the library as well, and must have the same numbers. Rows have no text. Models that
the output has already stay there.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import marked_page
import numpy as np
import torch
from numpy.typing import NDArray
from one_line import in_one_line

import unmask
from unmask.markup import markdown
from unmask.model.row_reader import RowReader
from unmask.names import model_name
from unmask.records.places import write_whole
from unmask.sequences import elbo
from unmask.sequences.blimp import PAIR, read_blimp
from unmask.sequences.texts import TokenisedText, tokenised
from unmask.sequences.unmasking import DEFAULT_ORDER
from unmask.settings import Settings

Record = dict[str, Any]
Numbers = NDArray[np.float64]

SEEDS = range(5)
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
SHOWN = (8, 32, 128)
# as many draws as the text has tokens: the forward passes of `unmasking`
EQUAL = "tokens"
RESAMPLES = 10_000
EQUAL_NAME = "as many as tokens"
ROOT = Path(__file__).parent.parent
PAGE, PREFIX = ROOT / "docs" / "results" / "texts.md", "elbo"
# of each piece, texts that the library scores too; a difference of their scores that is rounding
CHECKED, SAME = 2, 1e-4


# --- measuring ---------------------------------------------------------------------------------


def estimates(reader: RowReader, text: TokenisedText, most: int) -> dict[str, list[float]]:
    """The estimate by every number of draws up to the most, of every seed.

    A text with more tokens has as many draws as tokens, the first of which are the same.
    """
    draws = max(most, len(text.places))
    drawn = torch.stack([elbo.drawn_masks(text, draws, seed)[0] for seed in SEEDS])
    masks, where = drawn.flatten(0, 1).unique(dim=0, return_inverse=True)
    by_mask = elbo.mask_values(reader, [text], masks[None])[0].sum(dim=1)
    values = by_mask[where].view(len(SEEDS), draws)
    counts = {EQUAL: len(text.places), **{str(n): n for n in COUNTS if n <= most}}
    return {name: values[:, :count].mean(dim=1).tolist() for name, count in counts.items()}


def piece(lm: unmask.LanguageModel, pairs: Sequence[Record], long: int) -> list[Record]:
    """The log-ratios of the pairs of a paradigm; the first few with more draws than the others."""
    settings = Settings(batch_size=64, progress=False)
    reader = RowReader(lm.model, settings)
    (texts,) = tokenised(lm, [pair[side] for pair in pairs for side in PAIR])
    with reader.counted("elbo"):
        found = [
            estimates(reader, text, SHOWN[-1] if place < 2 * long else SHOWN[-2])
            for place, text in enumerate(texts)
        ]
    check(lm, texts[:CHECKED], found)
    both = [(str(pair[PAIR[0]]), str(pair[PAIR[1]])) for pair in pairs]
    exact = lm.log_ratios(both, method="unmasking", order=DEFAULT_ORDER, settings=settings)
    return [
        {
            "id": pair["id"],
            "tokens": [len(text.places) for text in texts[2 * place : 2 * place + 2]],
            "unmasking": round(float(exact[place].log_ratio or 0.0), 5),
            "elbo": {
                name: [round(a - b, 5) for a, b in zip(good, bad, strict=True)]
                for name, good in found[2 * place].items()
                for bad in [found[2 * place + 1][name]]
            },
        }
        for place, pair in enumerate(pairs)
    ]


def check(
    lm: unmask.LanguageModel,
    texts: Sequence[TokenisedText],
    found: Sequence[dict[str, list[float]]],
) -> None:
    """The library's own scores are those that were measured here."""
    quiet = Settings(progress=False)
    for text, own in zip(texts, found, strict=False):
        score = lm.score(text.text, method="elbo", draws=SHOWN[0], settings=quiet).score
        if abs(score - own[str(SHOWN[0])][0]) > SAME:
            raise unmask.UnmaskError(
                f"a text has {own[str(SHOWN[0])][0]} here and {score} by the library"
            )


def measure(chosen: argparse.Namespace) -> None:
    lm = unmask.load(chosen.model)
    chosen.pieces.mkdir(parents=True, exist_ok=True)
    by_paradigm: dict[str, list[Record]] = {}
    for pair in read_blimp(chosen.blimp, limit=chosen.pairs):
        by_paradigm.setdefault(str(pair["id"]).partition("/")[0], []).append(dict(pair))
    first, step = map(int, chosen.shard.split("/"))
    for paradigm, pairs in list(by_paradigm.items())[first::step]:
        path = chosen.pieces / f"{paradigm}.json"
        if path.exists():
            continue
        began = time.process_time()
        rows = piece(lm, pairs, chosen.long)
        about = {
            "model": model_name(chosen.model),
            "seconds": round(time.process_time() - began, 1),
        }
        write_whole(str(path), json.dumps({**about, "rows": rows}).encode())
        print(paradigm, about["seconds"], file=sys.stderr, flush=True)


def collected(folders: Sequence[Path], output: Path) -> Record:
    """All pieces of all models, beside the models that were collected before."""
    before = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    paths = sorted(path for folder in folders for path in folder.glob("*.json"))
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    new = {part["model"] for part in parts}
    models, seconds = (
        {name: one for name, one in before.get(key, {}).items() if name not in new}
        for key in ("models", "seconds")
    )
    for part in parts:
        models.setdefault(part["model"], []).extend(part["rows"])
        seconds[part["model"]] = round(seconds.get(part["model"], 0.0) + part["seconds"], 1)
    named = {name: version(name) for name in ("torch", "transformers")}
    return {
        "versions": {"unmask": unmask.__version__, **named},
        "seeds": len(SEEDS),
        "seconds": seconds,
        "models": models,
    }


# --- the page ----------------------------------------------------------------------------------


def right(ratios: Sequence[float] | Numbers) -> Numbers:
    """1 where the first text of a pair wins, 0 where the other does, a half of ties."""
    values = np.asarray(ratios, dtype=np.float64)
    return np.asarray(np.where(values > 0, 1.0, np.where(values < 0, 0.0, 0.5)))


def verdicts(rows: Sequence[Record], draws: str) -> tuple[Numbers, Numbers]:
    """Of pairs with so many draws: by `elbo`, one column per seed, and by `unmasking`."""
    some = [row for row in rows if draws in row["elbo"]]
    return right([row["elbo"][draws] for row in some]), right([row["unmasking"] for row in some])


def is_measured(rows: Sequence[Record], draws: int) -> bool:
    return any(str(draws) in row["elbo"] for row in rows)


@cache
def resamples(count: int) -> Numbers:
    """How often every one of so many pairs is in each resample."""
    generator = np.random.default_rng(0)
    draws = (generator.integers(0, count, count) for _ in range(RESAMPLES))
    return np.array([np.bincount(draw, minlength=count) for draw in draws], dtype=np.float64)


def interval(values: Numbers, form: str) -> str:
    """A mean over pairs, with percentiles over resamples of the pairs."""
    low, high = np.percentile(resamples(len(values)) @ values / len(values), [2.5, 97.5])
    return f"{values.mean():{form}} [{low:{form}}, {high:{form}}]"


def flips(own: Numbers) -> tuple[Numbers, Numbers]:
    """Of every pair, whether any two seeds disagree, and how many of all two seeds do."""
    seeds = own.shape[1]
    apart = own[:, :, None] != own[:, None, :]
    return apart.any(axis=(1, 2)).astype(float), apart.sum(axis=(1, 2)) / (seeds * (seeds - 1))


def tables(record: Record) -> dict[str, list[str]]:
    """The lines of each CSV file."""
    models = record["models"]
    seconds = [f"{record['seconds'][name] / 60:.0f}" for name in models]
    about = [
        f"| {markdown(name)} | {spread(rows)} | {passes(rows):.1f} | {minutes} |"
        for (name, rows), minutes in zip(models.items(), seconds, strict=True)
    ]
    shares = [line for name, rows in models.items() for line in seeds_apart(name, rows)]
    every = [line for name, rows in models.items() for line in accuracies(name, rows)]
    head = [
        "| model | draws per text | pairs | passes | `elbo` | `unmasking` | difference |",
        "|---|---|---|---|---|---|---|",
    ]
    whole = {
        "measured": [
            "| model | pairs | passes per verdict by `unmasking` | minutes of a core |",
            "|---|---|---|---|",
            *about,
        ],
        "seeds": [
            "| model | draws per text | pairs | not all seeds agree | two seeds disagree |",
            "|---|---|---|---|---|",
            *shares,
        ],
        "equal-accuracy": [
            "| model | draws of `elbo` | passes per verdict | as many as `unmasking` takes |",
            "|---|---|---|---|",
            *(f"| {markdown(name)} | {equal(rows)} |" for name, rows in models.items()),
        ],
    }
    return {**whole, "accuracy": [*head, *every]}


def seeds_apart(name: str, rows: Sequence[Record]) -> Iterator[str]:
    """How often verdicts of seeds differ, by the number of draws."""
    for draws in (str(n) for n in SHOWN if is_measured(rows, n)):
        own, exact = verdicts(rows, draws)
        among, between = (interval(shares, ".3f") for shares in flips(own))
        yield f"| {markdown(name)} | {draws} | {len(exact):,} | {among} | {between} |"


def accuracies(name: str, rows: Sequence[Record]) -> Iterator[str]:
    """Both accuracies and their difference, by the number of draws."""
    for draws in (EQUAL, *(str(n) for n in COUNTS if is_measured(rows, n))):
        own, exact = verdicts(rows, draws)
        count = f"{passes(rows):.1f}" if draws == EQUAL else str(2 * int(draws))
        title = EQUAL_NAME if draws == EQUAL else draws
        yield (
            f"| {markdown(name)} | {title} | {len(own):,} | {count} | {own.mean():.3f} | "
            f"{exact.mean():.3f} | {interval(own.mean(axis=1) - exact, '+.3f')} |"
        )


def passes(rows: Sequence[Record]) -> float:
    """Forward passes of a verdict by `unmasking`: the tokens of both texts."""
    return float(np.mean([sum(row["tokens"]) for row in rows]))


def spread(rows: Sequence[Record]) -> str:
    """How many pairs there are of how many paradigms."""
    by_paradigm = Counter(str(row["id"]).partition("/")[0] for row in rows)
    counts = sorted(Counter(by_paradigm.values()).items(), reverse=True)
    return ", ".join(f"{pairs} of each of {paradigms} paradigms" for pairs, paradigms in counts)


def equal(rows: Sequence[Record]) -> str:
    """The fewest draws by which `elbo` is as accurate on the same pairs, and their passes."""
    counts = [n for n in COUNTS if is_measured(rows, n)]
    for count in counts:
        own, exact = verdicts(rows, str(count))
        if own.mean() >= exact.mean():
            return f"{count} | {2 * count} | {2 * count / passes(rows):.1f} times"
    most = 2 * counts[-1]
    return f"more than {counts[-1]} | more than {most} | more than {most / passes(rows):.1f} times"


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="BLiMP's verdicts by elbo and unmasking.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--blimp", help="measure: folder of BLiMP's .jsonl files")
    source.add_argument("--collect", type=Path, nargs="+", help="pieces, one folder per model")
    source.add_argument("--rows", type=Path, help="write the page of what was collected")
    parser.add_argument("--model", help="the model that is measured")
    parser.add_argument("--pairs", type=int, default=15, help="pairs per paradigm")
    parser.add_argument(
        "--long", type=int, default=2, help=f"how many of them with {SHOWN[-1]} draws"
    )
    parser.add_argument("--shard", default="0/1", help="every n-th paradigm, as 0/2 and 1/2")
    parser.add_argument("--pieces", type=Path, help="folder for the pieces")
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.blimp is not None:
        measure(chosen)
        return
    if chosen.collect is not None:
        text = json.dumps(collected(chosen.collect, chosen.output))
        chosen.output.write_text(text + "\n", encoding="utf-8")
    else:
        record = json.loads(chosen.rows.read_text(encoding="utf-8"))
        marked_page.write_blocks(PAGE, {}, tables(record), PREFIX)


if __name__ == "__main__":
    raise SystemExit(main())
