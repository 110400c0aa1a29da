"""Two CSV files of docs/results/numerics.md: what batch size and precision do to log-probabilities.

    python runs/numerics.py --assets DIR --models DIR [--output FILE]

For each model, log q(a | b) over the whole vocabulary under some 300 contexts b, spread evenly
over it. `--assets` and `--models` as in runs/first_joints.py.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import marked_page
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoTokenizer

import unmask

TEXTS = {
    "caption-bert": "A man is playing a [MASK] [MASK].",
    "albert-tiny-chinese": "法國的首都是[MASK][MASK]。",
    "antiberty": "E V Q L [MASK] E S G G [MASK] L",
}
CONTEXTS = 300
BATCH_SIZES = (1, 7, 64)

HEADER = """\
| model | what | largest | mean | largest, p > 1e-6 | mean, p > 1e-6 |
|---|---|---|---|---|---|"""


def log_table(lm: unmask.LanguageModel, text: str, batch_size: int) -> Tensor:
    size = lm.model.vocabulary_size
    contexts = list(range(0, size, max(1, size // CONTEXTS)))
    settings = unmask.Settings(batch_size=batch_size, progress=False)
    tables = lm.tables(text, support={1: contexts}, settings=settings)
    return tables.a_given_b.log_prob(slice(0, size))


def float64_table(folder: Path, text: str, contexts: int) -> Tensor:
    """The plain model in float64, no part of this package."""
    model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    first, second = torch.nonzero(ids[0] == tokenizer.mask_token_id)[:, 0].tolist()
    size = model.config.vocab_size
    columns = []
    for token in range(0, size, max(1, size // contexts)):
        ids[0, second] = token
        with torch.no_grad():
            columns.append(torch.log_softmax(model(input_ids=ids).logits[0, first], dim=-1))
    return torch.stack(columns, dim=1)


def row(name: str, what: str, one: Tensor, other: Tensor) -> str:
    difference = (one - other).abs()
    likely = difference[other > torch.tensor(1e-6).log()]
    cells = [difference.max(), difference.mean(), likely.max(), likely.mean()]
    return f"| {name} | {what} | " + " | ".join(f"{float(cell):.1e}" for cell in cells) + " |"


def rows(name: str, folder: Path) -> Iterator[str]:
    text = TEXTS[name]
    lm = unmask.load(folder)
    tables = {size: log_table(lm, text, size) for size in BATCH_SIZES}
    for size in BATCH_SIZES[1:]:
        yield row(name, f"batch size {size} against 1", tables[size], tables[1])
    exact = float64_table(folder, text, CONTEXTS)
    yield row(name, "float32 against float64", tables[64], exact)
    half = unmask.load(folder, dtype="bfloat16")
    yield row(name, "bfloat16 against float64", log_table(half, text, 64), exact)


# of Settings(half_tables=True): what it moves, pairs above a probability of 1e-6, and the metrics
HALF_HEADER = """\
| method | pairs | largest | mean | pairwise NLL | A-KL |
|---|---|---|---|---|---|"""
HALF_METHODS = ("mrf", "hcb", "ag", "log-pool")


def half_rows(folder: Path) -> Iterator[str]:
    lm, text = unmask.load(folder), TEXTS["caption-bert"]
    joints, metrics = [], []
    for half in (False, True):
        settings = unmask.Settings(progress=False, half_tables=half, announce=False)
        tables = lm.tables(text, settings=settings)
        joints.append({name: unmask.construct(name, tables) for name in HALF_METHODS})
        best = joints[0]["log-pool"].top(1)[0].ids
        metrics.append(unmask.pair_metrics(joints[-1], tables, (best[0], best[1])))
    everything = slice(0, lm.model.vocabulary_size)
    for name in HALF_METHODS:
        exact, rounded = (each[name].log_rows(everything) for each in joints)
        error = (rounded - exact).abs()[exact > torch.tensor(1e-6).log()]
        moved = [
            abs(getattr(metrics[1][name], key) - getattr(metrics[0][name], key))
            for key in ("pairwise_nll", "all_kl")
        ]
        numbers = [float(error.max()), float(error.mean()), *moved]
        cells = " | ".join(f"{number:.1e}" for number in numbers)
        yield f"| `{name}` | {error.numel():,} | {cells} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Noise of batch size and precision.")
    parser.add_argument("--assets", default=os.environ.get("UNMASK_TEST_ASSETS"))
    parser.add_argument("--models", default=os.environ.get("UNMASK_TEST_MODELS"))
    parser.add_argument("--output", type=Path, default=Path("docs/results/numerics.md"))
    chosen = parser.parse_args()
    if not chosen.assets or not chosen.models:
        parser.error("give --assets and --models, or set UNMASK_TEST_ASSETS and UNMASK_TEST_MODELS")
    torch.set_num_threads(1)
    lines = [HEADER]
    for name in TEXTS:
        inside = name == "caption-bert"
        folder = Path(chosen.assets) / "models" if inside else Path(chosen.models)
        lines.extend(rows(name, folder / name))
    half = [HALF_HEADER, *half_rows(Path(chosen.assets) / "models" / "caption-bert")]
    marked_page.write_blocks(chosen.output, {}, {"noise": lines, "half-tables": half})


if __name__ == "__main__":
    main()
