"""Measure HCB under many pivots on masked pairs of SNLI, a row of JSON an example.

    python runs/pivots.py --model DIR --corpus FILE --limit 50 --output rows.jsonl

Both kinds of blanks, `--limit` examples each, in turn. Rows hold example ids, never text or tokens.
Started again on the same file, it does only what is missing. runs/pivots_report.py makes the page.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from one_line import in_one_line
from rows import hashed
from torch import Tensor

import unmask
from unmask.evaluation.masks import MASKS, MaskedPair, examples
from unmask.printable import quoted
from unmask.records.corpora import CorpusSpec, read_corpus

# in the order of the doubly masked distribution; the first of it is the paper's pivot
RANKS = (2, 10, 100, 1000)
RANDOM = 5
AXES = (0, 1)
QUIET = unmask.Settings(progress=False, announce=False)


def pivots(
    log_masked: Tensor, gold: int, ordinary: list[int], example: str, axis: int
) -> dict[str, int]:
    """Token ids to pivot on, by what they are; the support is the whole vocabulary."""
    # stable: which of two equal tokens is the likelier must not depend on the machine
    ranked = torch.argsort(log_masked, descending=True, stable=True)
    by_rank = {f"rank {k}": int(ranked[k - 1]) for k in RANKS if k <= len(ranked)}
    draws = [hashed(example, "pivot", axis, n) % len(ordinary) for n in range(RANDOM)]
    at_random = {f"random {n + 1}": ordinary[draw] for n, draw in enumerate(draws)}
    return {"likeliest": int(ranked[0]), "gold": gold, **by_rank, **at_random}


def measure(lm: unmask.LanguageModel, pair: MaskedPair) -> dict[str, Any]:
    """The four metrics of every pivot on both axes, from one elicitation."""
    assert pair.cloze.gold is not None
    gold = (pair.cloze.gold[0], pair.cloze.gold[1])
    tables = lm.tables(pair.cloze, settings=QUIET)
    tables.both()
    masked = (tables.masked.log_a, tables.masked.log_b)
    ordinary = [i for i in range(lm.model.vocabulary_size) if i not in lm.model.special_ids]
    chosen = {axis: pivots(masked[axis], gold[axis], ordinary, pair.id, axis) for axis in AXES}
    joints = {
        f"{axis}, {name}": unmask.construct("hcb", tables, pivot=token, pivot_axis=axis)
        for axis, named in chosen.items()
        for name, token in named.items()
    }
    found = unmask.pair_metrics(joints, tables, gold)
    return {
        "id": pair.id,
        "sentence": pair.sentence_id,
        "mask": pair.mask,
        "model": Path(lm.name).name,
        "length": len(pair.cloze),
        # how likely a pivot is where both blanks are masked; its name would give text away
        "log_pivot": {
            str(axis): {name: float(masked[axis][token]) for name, token in named.items()}
            for axis, named in chosen.items()
        },
        "metrics": {
            str(axis): {name: found[f"{axis}, {name}"].to_dict() for name in chosen[axis]}
            for axis in AXES
        },
    }


def rounded(value: Any) -> Any:
    """Numbers to six decimals: rows are published."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def pairs(lm: unmask.LanguageModel, corpus: Path, limit: int) -> Iterator[MaskedPair]:
    """Both kinds of blanks in turn, so that a run cut short has as many of each."""
    sentences = read_corpus(CorpusSpec(str(corpus))).sentences
    found = [examples(lm, sentences, mask=mask, limit=limit).pairs for mask in MASKS]
    for place in range(limit):
        yield from (kind[place] for kind in found if place < len(kind))


def done(path: Path, model: str) -> set[str]:
    """Ids that need no work; refuses rows of another model, drops a row that a crash tore."""
    if not path.exists():
        return set()
    whole = path.read_bytes()
    kept = whole[: whole.rfind(b"\n") + 1]
    if kept != whole:
        path.write_bytes(kept)
    rows = [json.loads(line) for line in kept.splitlines()]
    for other in {row["model"] for row in rows} - {model}:
        raise unmask.UnmaskError(
            f"{quoted(str(path))} holds rows of {quoted(other)}; give --output another file"
        )
    return {row["id"] for row in rows}


def run(chosen: argparse.Namespace) -> None:
    if chosen.limit < 1:
        raise unmask.UnmaskError(f"--limit takes a number from 1, not {chosen.limit}")
    torch.set_num_threads(chosen.threads)
    lm = unmask.load(chosen.model)
    known = done(chosen.output, Path(lm.name).name)
    for pair in pairs(lm, chosen.corpus, chosen.limit):
        if pair.id in known:
            continue
        began = time.perf_counter()
        row = measure(lm, pair)
        row["seconds"] = round(time.perf_counter() - began, 2)
        with chosen.output.open("a", encoding="utf-8") as out:
            out.write(json.dumps(rounded(row), allow_nan=False) + "\n")


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="HCB under many pivots on masked pairs of SNLI.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=50, help="examples a kind of blanks")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    run(parser.parse_args())


if __name__ == "__main__":
    raise SystemExit(main())
