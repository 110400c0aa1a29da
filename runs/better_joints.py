"""Measure every construction on masked pairs of SNLI, a row of JSON an example.

    python runs/better_joints.py --model DIR --corpus FILE --mask contiguous --limit 100 \
        --output rows.jsonl [--strengths]

Rows hold example ids, never text. Started again on the same file, it does only what is missing.
With --strengths, the pseudo-counts of `ag` are compared instead of the constructions.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from snli_pairs import MASKS, MaskedPair, masked_pairs

import unmask

# name in the rows -> construction and options
METHODS: dict[str, tuple[str, dict[str, object]]] = {
    "mlm": ("mlm", {}),
    "mrf-logit": ("mrf-logit", {}),
    "mrf": ("mrf", {}),
    "hcb": ("hcb", {}),
    "ag-paper": ("ag-paper", {}),
    "ag, no pseudo-counts": ("ag", {"pseudo_counts": 0.0}),
    "ag, 0.003 uniform": ("ag", {"pseudo_counts": 0.003, "towards": "uniform"}),
    "ag, 0.01 uniform": ("ag", {"pseudo_counts": 0.01, "towards": "uniform"}),
    "ag, 0.03 uniform": ("ag", {"pseudo_counts": 0.03, "towards": "uniform"}),
    "ag, 0.01 masked": ("ag", {"pseudo_counts": 0.01, "towards": "masked"}),
    "weighted-ag": ("weighted-ag", {}),
    "pseudo-gibbs": ("pseudo-gibbs", {}),
    "log-pool": ("log-pool", {}),
    "orders": ("orders", {}),
    "orders, geometric": ("orders", {"mean": "geometric"}),
    "sweep": ("sweep", {}),
}
STRENGTHS = {
    "uniform": [0.001, 0.003, 0.01, 0.03, 0.1],
    "masked": [0.01, 0.1, 1.0],
}


def strengths() -> dict[str, tuple[str, dict[str, object]]]:
    """`ag` under every strength and direction of its pseudo-counts, and what it is held against."""
    regularised: dict[str, tuple[str, dict[str, object]]] = {
        f"ag, {strength:g} {towards}": ("ag", {"pseudo_counts": strength, "towards": towards})
        for towards, grid in STRENGTHS.items()
        for strength in grid
    }
    plain = {name: METHODS[name] for name in ("ag-paper", "ag, no pseudo-counts")}
    return {**plain, **regularised}


def measure(
    lm: unmask.LanguageModel, pair: MaskedPair, *, only_strengths: bool
) -> dict[str, object]:
    """All metrics of all constructions of one example."""
    assert pair.cloze.gold is not None
    gold = (pair.cloze.gold[0], pair.cloze.gold[1])
    tables = lm.tables(pair.cloze, settings=unmask.Settings(progress=False, announce=False))
    tables.both()
    chosen = strengths() if only_strengths else METHODS
    joints = {name: unmask.construct(m, tables, **o) for name, (m, o) in chosen.items()}
    solvers = {
        name: {key: joint.diagnostics[key] for key in ("passes", "converged")}
        for name, joint in joints.items()
        if "passes" in joint.diagnostics
    }
    row: dict[str, object] = {
        "id": pair.id,
        "mask": pair.mask,
        "positions": list(pair.cloze.positions),
        "length": len(pair.cloze),
        "solvers": solvers,
    }
    if only_strengths:
        nll = {name: -joint.log_prob(*gold) / 2 for name, joint in joints.items()}
        return {**row, "metrics": {name: {"pairwise_nll": value} for name, value in nll.items()}}
    found = unmask.pair_metrics(joints, tables, gold)
    return {
        **row,
        "incompatibility": unmask.incompatibility(tables),
        "mutual_information": joints["pseudo-gibbs"].mutual_information(base_two=True),
        "metrics": {name: metrics.to_dict() for name, metrics in found.items()},
    }


def rounded(value: object) -> object:
    """Numbers to six decimals: rows are published."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description="Every construction on masked pairs of SNLI.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--mask", choices=MASKS, required=True)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--strengths", action="store_true", help="compare the pseudo-counts of ag")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    lm = unmask.load(chosen.model)
    done = set()
    if chosen.output.exists():
        lines = chosen.output.read_text(encoding="utf-8").splitlines()
        done = {(row["id"], row["mask"]) for row in map(json.loads, lines)}
    for pair in masked_pairs(lm, chosen.corpus, chosen.mask, chosen.limit):
        if (pair.id, pair.mask) in done:
            continue
        began = time.perf_counter()
        row = measure(lm, pair, only_strengths=chosen.strengths)
        row["seconds"] = round(time.perf_counter() - began, 2)
        with chosen.output.open("a", encoding="utf-8") as out:
            out.write(json.dumps(rounded(row)) + "\n")


if __name__ == "__main__":
    main()
