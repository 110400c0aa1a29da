"""What the dependence head adds to a forward pass that fills blanks.

    python benchmarks/fill_step.py --model DIR --head FILE

All blanks of the same rows are filled in one step, by the rule `all-at-once`, which reads
predictions alone, and by `head` with a bound that nothing exceeds, which reads attention and hidden
states and predicts the mutual information of every two blanks. In turns; the ratio is of each turn.
`unfused` is `all-at-once` with the attention that shows its weights: what is lost without the head
already.
"""

import argparse
import json
import math

import numpy as np
import torch
from interleaved import in_turns, ratios, spread

import unmask
from unmask.model.row_reader import RowReader
from unmask.queries.parallel.decoding import BlankedText, Decoding, fill_blanked
from unmask.queries.parallel.head import DependenceHead

SIZES = ((1, 24, 8), (16, 24, 4), (16, 24, 8), (16, 24, 12), (64, 24, 8), (16, 96, 12))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--head", required=True)
    parser.add_argument("--repeats", type=int, default=15)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    lm, head = unmask.load(chosen.model), DependenceHead.load(chosen.head)
    head.check(lm.model, lm.name)
    axis, rng = lm.support("tokens"), np.random.default_rng(0)
    bare = Decoding("all-at-once", 0.0, axis)
    config = getattr(lm.model, "model").config  # noqa: B009
    for rows, length, blanks in SIZES:
        texts = []
        for _ in range(rows):
            ids = rng.choice(axis.ids.numpy(), length)
            places = sorted(rng.choice(length, blanks, replace=False).tolist())
            ids[places] = lm.tokenizer.mask_token_id
            texts.append(BlankedText(tuple(ids.tolist()), tuple(places)))

        def fill(how: Decoding, texts: list[BlankedText] = texts, rows: int = rows) -> None:
            settings = unmask.Settings(progress=False, announce=False, batch_size=rows)
            fill_blanked(RowReader(lm.model, settings), texts, [how] * len(texts))

        def fill_unfused(how: Decoding) -> None:
            fused, config._attn_implementation = config._attn_implementation, "eager"
            try:
                fill(how)
            finally:
                config._attn_implementation = fused

        runs = {
            "bare": lambda: fill(bare),
            "unfused": lambda: fill_unfused(bare),
            "head": lambda: fill(Decoding("head", math.inf, axis, head=head)),
        }
        in_turns(runs, 2)
        seconds = in_turns(runs, chosen.repeats)
        found = {name: spread(ratios(seconds[name], seconds["bare"])) for name in runs}
        size = {"rows": rows, "length": length, "blanks": blanks}
        print(json.dumps({**size, **{name: found[name] for name in ("unfused", "head")}}))


if __name__ == "__main__":
    main()
