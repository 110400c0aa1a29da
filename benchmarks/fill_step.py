"""What the dependence head adds to a forward pass that fills blanks.

    python benchmarks/fill_step.py NAME=MODEL,HEAD [NAME=MODEL,HEAD ...] > FILE

All blanks of the same rows are filled in one step, by the rule `all-at-once`, which reads
predictions alone, and by `head` with a bound that nothing exceeds, which reads attention and hidden
states and predicts the mutual information of every two blanks. In turns; the ratio of each turn is
of processor time, on one thread, since a shared machine interrupts. `unfused` is `all-at-once` with
the attention that shows its weights: what is lost without the head already. A line of JSON per
size, with quartiles; `runs/parallel.py costs` takes them.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from interleaved import in_turns, ratios

import unmask
from unmask.model.row_reader import RowReader
from unmask.queries.decode.decoding import Decoding, fill_blanked
from unmask.queries.decode.head import DependenceHead
from unmask.text.cloze import Cloze

SIZES = ((1, 24, 8), (16, 24, 4), (16, 24, 12), (16, 96, 12))


def texts(lm: unmask.LanguageModel, rows: int, length: int, blanks: int) -> list[Cloze]:
    """Random tokens with random blanks."""
    axis, rng = lm.support("tokens"), np.random.default_rng(0)
    made = []
    for _ in range(rows):
        ids = rng.choice(axis.ids.numpy(), length)
        places = sorted(rng.choice(length, blanks, replace=False).tolist())
        ids[places] = lm.tokenizer.mask_token_id
        made.append(Cloze("", tuple(ids.tolist()), tuple(places)))
    return made


def runs_of(
    lm: unmask.LanguageModel, head: DependenceHead, some: list[Cloze]
) -> dict[str, Callable[[], None]]:
    """One step in three ways."""
    axis = lm.support("tokens")
    bare, by_head = Decoding("all-at-once", 0.0, axis), Decoding("head", math.inf, axis, head=head)
    settings = unmask.Settings(progress=False, announce=False, batch_size=len(some))
    config = getattr(lm.model, "model").config  # noqa: B009

    def fill(how: Decoding) -> None:
        fill_blanked(RowReader(lm.model, settings), some, [how] * len(some))

    def fill_unfused() -> None:
        fused, config._attn_implementation = config._attn_implementation, "eager"
        try:
            fill(bare)
        finally:
            config._attn_implementation = fused

    return {"bare": lambda: fill(bare), "unfused": fill_unfused, "head": lambda: fill(by_head)}


def measured(name: str, model: str, head: str, repeats: int) -> Iterator[dict[str, Any]]:
    """A row per size: the median ratio of each way to a bare step, and its quartiles."""
    lm, trained = unmask.load(model), DependenceHead.load(head)
    trained.check(lm.model, name)
    for rows, length, blanks in SIZES:
        runs = runs_of(lm, trained, texts(lm, rows, length, blanks))
        in_turns(runs, 1)
        seconds = in_turns(runs, repeats, time.process_time)
        quartiles = {
            way: np.quantile(ratios(seconds[way], seconds["bare"]), [0.25, 0.5, 0.75]).round(3)
            for way in ("unfused", "head")
        }
        size = {"name": name, "rows": rows, "length": length, "blanks": blanks}
        yield {**size, **{way: three.tolist() for way, three in quartiles.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("heads", nargs="+", help="NAME=MODEL,HEAD")
    parser.add_argument("--repeats", type=int, default=15)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for given in chosen.heads:
        name, places = given.split("=", 1)
        model, head = places.split(",", 1)
        for row in measured(name, model, head, chosen.repeats):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
