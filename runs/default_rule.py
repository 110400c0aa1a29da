"""The default rule of `lm.decode`: a choice on dev sentences of three models, and its judgement.

    python runs/default_rule.py fill --model DIR --corpus FILE --name snli-dev --rows ROWS
    python runs/default_rule.py page

The criterion, fixed before a row was measured: of every rule and threshold in `WAYS` the one that
fills the most blanks per forward pass, as the mean over the models, and loses at most
`parallel_fills.ALLOWED` nats per blank against one at a time with each of the models. If none loses
so little, the default is `surest`.

`fill` masks, fills and scores sentences as runs/parallel_fills.py does, along `ORDERS` orders. Rows
hold ids, never text; started again on the same file, it does what is missing. `page` chooses on the
rows of snli-dev, judges on those of snli, the test sentences, and on those of XSum that
runs/parallel_fills.py measured, and renews the tables of docs/results/parallel-filling.md.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import parallel_fills as fills
import torch
from marked_page import write_blocks
from numpy.typing import NDArray
from rows import Row, extend, in_hashed_order, read

import unmask

ROWS = fills.PAGE.with_name("parallel-filling-default.jsonl")
MODELS = ("tiny-english", "caption-bert", "english-distil")
ORDERS, CHUNK = 4, 20
WAYS: dict[str, tuple[float, ...]] = {
    "surest": (0,),
    "confidence": (0.3, 0.5, 0.7, 0.9),
    "entropy-bound": (0.5, 1, 2, 4),
}


def fill(model: str, corpus: str, name: str, limit: int, path: Path) -> None:
    """Rows of one model and corpus, appended to a file."""
    lm = unmask.load(model)
    about = {"run": Path(model).name, "corpus": name}
    done = {row["id"] for row in read(path) if about.items() <= row.items()}
    blanked = ((one.id, fills.blanked(lm, one)) for one in in_hashed_order(corpus))
    every = [(key, text) for key, text in blanked if text is not None][:limit]
    texts = {key: text for key, text in every if key not in done}
    keys = list(texts)
    for start in range(0, len(keys), CHUNK):
        chunk = {key: texts[key] for key in keys[start : start + CHUNK]}
        rows = fills.filled(lm, None, chunk, WAYS, ORDERS, 0)
        extend(path, ({**about, **as_published(row)} for row in rows))


def as_published(row: Row) -> Row:
    """The ways of a sentence in the order of `WAYS`."""
    log_probs, steps, _ = zip(*(row["ways"][way] for way in fills.names_of(WAYS)), strict=True)
    return {
        "id": row["id"],
        "blanks": row["blanks"],
        "log_probs": [round(log_prob, 3) for log_prob in log_probs],
        "steps": [int(step) for step in steps],
    }


# --- the choice --------------------------------------------------------------------------------


def by_model(rows: Sequence[Row], corpus: str) -> dict[str, fills.Fills]:
    """The fills of each model that was measured on a corpus."""
    every = [row for row in rows if row["corpus"] == corpus]
    models = [model for model in MODELS if any(row["run"] == model for row in every)]
    return {
        model: fills.Fills([row for row in every if row["run"] == model], WAYS) for model in models
    }


def blanks_per_pass(measured: fills.Fills) -> NDArray[np.float64]:
    """Of every way, all blanks over all passes."""
    per_pass: NDArray[np.float64] = measured.blanks.sum() / measured.steps.sum(axis=0)
    return per_pass


def chosen(dev: Mapping[str, fills.Fills]) -> str:
    """The way that the criterion chooses; `surest` if no other loses so little."""
    ways = fills.names_of(WAYS)
    losses = np.array([measured.mean()[1] for measured in dev.values()])
    speed = np.mean([blanks_per_pass(measured) for measured in dev.values()], axis=0)
    allowed = (losses <= fills.ALLOWED).all(axis=0)
    return ways[int(np.where(allowed, speed, 0.0).argmax())]


def dev_table(dev: Mapping[str, fills.Fills]) -> Iterator[str]:
    """Blanks per pass and loss of every way on dev sentences; the chosen one in bold."""
    choice = chosen(dev)
    yield "| rule |" + "".join(f" {m}: blanks per pass | {m}: loss |" for m in dev)
    yield "|---|" + "---|---|" * len(dev)
    for place, way in enumerate(fills.names_of(WAYS)):
        cells = ""
        for measured in dev.values():
            loss = "" if way == "surest" else fills.loss(measured, way)
            cells += f" {blanks_per_pass(measured)[place]:.2f} | {loss} |"
        yield f"| {f'**{way}**' if way == choice else way} |" + cells


def test_table(choice: str, test: Mapping[tuple[str, str], fills.Fills]) -> Iterator[str]:
    """The chosen way on sentences that the choice never saw."""
    yield "| model | corpus | n | passes, one at a time | passes | blanks per pass | loss |"
    yield "|---|---|---|---|---|---|---|"
    for (model, corpus), measured in test.items():
        place = measured.ways.index(choice)
        passes, speed = measured.mean()[0], blanks_per_pass(measured)[place]
        yield (
            f"| {model} | {corpus} | {measured.count} | {passes[0]:.2f} | {passes[place]:.2f} |"
            f" {speed:.2f} | {fills.loss(measured, choice)} |"
        )


def tables(rows: Sequence[Row], xsum: fills.Fills) -> dict[str, list[str]]:
    """The CSV files beside the page; XSum was measured by runs/parallel_fills.py."""
    dev = by_model(rows, "snli-dev")
    test = {(model, "SNLI"): measured for model, measured in by_model(rows, "snli").items()}
    test["tiny-english", "XSum"] = xsum
    judged = list(test_table(chosen(dev), test))
    return {"default": list(dev_table(dev)), "default-judged": judged}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["fill", "page"])
    parser.add_argument("--model")
    parser.add_argument("--corpus")
    parser.add_argument("--name", choices=["snli-dev", "snli"])
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--rows", type=Path, default=ROWS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.what == "fill":
        fill(asked.model, asked.corpus, asked.name, asked.limit, asked.rows)
    else:
        _, published = fills.read(fills.PAGE.with_suffix(".jsonl"))
        rows = read(asked.rows)
        write_blocks(fills.PAGE, {}, tables(rows, published["xsum"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
