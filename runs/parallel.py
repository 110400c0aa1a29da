"""A dependence head: labels, training, and how well it ranks pairs that it never saw.

    python runs/parallel.py labels --model DIR --corpus TRAIN --limit 300 --output OUT
    python runs/parallel.py labels --model DIR --corpus TEST --limit 100 --held-out --output OUT
    python runs/parallel.py head --model DIR --output OUT
    python runs/parallel.py maps --model DIR --corpus TEST --limit 25 --output OUT
    python runs/parallel.py costs --output OUT --steps FILE --heads NAME=HEAD,LOG ...
    python runs/parallel.py page --output OUT

`labels` masks 2 to 9 tokens of sentences and measures the mutual information of every two; pieces
that are there are not measured again. `head` trains the dependence head on the first, and heads on
some of its features; it judges all of them on the second. `maps` compares maps of whole sentences
by the head with measured ones. `costs` takes what benchmarks/fill_step.py printed, and heads that
`/usr/bin/time -v unmask head` trained, with what it printed. `page` renews
docs/results/parallel-filling.md.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from marked_page import write_blocks
from numpy.typing import NDArray
from rows import in_hashed_order, read
from safetensors.torch import load_file, save_file
from scipy.stats import spearmanr

import unmask
from unmask.queries.decode.head import DependenceHead
from unmask.queries.decode.training import (
    LabelledPairs,
    fit,
    held_out_pairs,
    labelled_pairs,
    masked_texts,
)

QUIET = unmask.Settings(progress=False, announce=False)
PIECE, SAMPLES = 25, 12
PAGE, RESULT = Path("docs/results/parallel-filling.md"), "dependence-head.json"
TABLES = "dependence-head"
# features of the heads that the whole one is compared with
PARTS = {
    "attention": ("attention",),
    "entropy and confidence": ("certainty",),
    "distance": ("distance",),
    "hidden states": ("states",),
    "without attention": ("certainty", "distance", "states", "overlap"),
}


# --- labels and heads --------------------------------------------------------------------------


def labels(
    lm: unmask.LanguageModel, corpus: str, limit: int, stem: str, output: Path, shard: str
) -> None:
    texts = [one.text for one in in_hashed_order(corpus)[: 3 * limit]]
    masked = masked_texts(lm, texts, counts=range(2, 10), seed=0, limit=limit)
    axis = lm.support("tokens")
    number, of = map(int, shard.split("/"))
    for start in range(0, len(masked), PIECE):
        path = output / f"{stem}-{start}.safetensors"
        if path.exists() or start // PIECE % of != number:
            continue
        began = time.process_time()
        some = masked[start : start + PIECE]
        pairs = labelled_pairs(lm, some, axis, QUIET, samples=SAMPLES)
        near = [
            other - one
            for text in some
            for number, one in enumerate(text.positions)
            for other in text.positions[number + 1 :]
        ]
        tensors = {
            "features": pairs.features,
            "bits": pairs.bits,
            "errors": pairs.errors,
            "texts": pairs.texts + start,
            "distance": torch.tensor(near),
        }
        seconds = time.process_time() - began
        about = {"groups": json.dumps(pairs.groups), "seconds": str(seconds)}
        save_file({n: t.contiguous() for n, t in tensors.items()}, path, metadata=about)
        print(stem, start, round(seconds, 1), flush=True)


def collected(output: Path, stem: str) -> tuple[LabelledPairs, torch.Tensor]:
    """The pieces that there are, as one, and the distance of every pair."""
    paths = sorted(output.glob(f"{stem}-*.safetensors"), key=lambda p: int(p.stem.split("-")[-1]))
    pieces = [load_file(path) for path in paths]
    whole = {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}
    counts = {"attention": 0, "certainty": 4, "distance": 3, "states": 2, "overlap": 1}
    counts["attention"] = whole["features"].shape[1] - sum(counts.values())
    pairs = LabelledPairs(whole["features"], whole["bits"], whole["errors"], whole["texts"], counts)
    return pairs, whole["distance"]


def only(pairs: LabelledPairs, kinds: Sequence[str]) -> LabelledPairs:
    kept = np.repeat([kind in kinds for kind in pairs.groups], list(pairs.groups.values()))
    features = pairs.features[:, torch.from_numpy(kept)]
    return LabelledPairs(features, pairs.bits, pairs.errors, pairs.texts, pairs.groups)


def ranked(
    predicted: NDArray[np.float64], bits: NDArray[np.float64], texts: NDArray[np.int64]
) -> dict[str, Any]:
    """The rank correlation, with its interval over texts."""
    members = [np.flatnonzero(texts == text) for text in np.unique(texts)]
    rng, draws = np.random.default_rng(0), []
    for _ in range(200):
        some = np.concatenate([members[n] for n in rng.integers(len(members), size=len(members))])
        draws.append(spearmanr(predicted[some], bits[some]).statistic)
    return {
        "rank": float(spearmanr(predicted, bits).statistic),
        "interval": np.quantile(draws, [0.025, 0.975]).tolist(),
        "pairs": len(bits),
        "texts": len(members),
    }


def judged(head: DependenceHead, pairs: LabelledPairs, distance: torch.Tensor) -> dict[str, Any]:
    """Rank correlation, calibration by bins of what is predicted, and by distance."""
    predicted, bits = head.bits(pairs.features).numpy(), pairs.bits.numpy()
    row: dict[str, Any] = ranked(predicted, bits, pairs.texts.numpy())
    row |= {"calibration": [], "by_distance": []}
    for low, high in ((0, 0.01), (0.01, 0.03), (0.03, 0.1), (0.1, 0.3), (0.3, 1), (1, 99)):
        some = (predicted >= low) & (predicted < high)
        if some.any():
            values = [float(predicted[some].mean()), float(bits[some].mean()), int(some.sum())]
            row["calibration"].append([low, high, *values])
    apart = distance.numpy()
    for low, high in ((1, 1), (2, 2), (3, 4), (5, 8), (9, 99)):
        some = (apart >= low) & (apart <= high)
        if some.sum() > 10:
            rank = float(spearmanr(predicted[some], bits[some]).statistic)
            row["by_distance"].append([low, high, rank, float(bits[some].mean()), int(some.sum())])
    return row


def heads(lm: unmask.LanguageModel, corpus: str, output: Path) -> None:
    pairs, _ = collected(output, "train")
    test, distance = collected(output, "held-out")
    began = time.process_time()
    texts = [one.text for one in in_hashed_order(corpus)[:2000]]
    axis = lm.support("tokens")
    head = DependenceHead.of_pairs(lm, pairs, texts[::-1], axis, QUIET, seed=0, samples=SAMPLES)
    head.save(output / "head.safetensors")
    result: dict[str, Any] = {"facts": dict(head.facts), "seconds": time.process_time() - began}
    result["all features"] = judged(head, test, distance)
    count, held_out = int(pairs.texts.max()) + 1, held_out_pairs(pairs)
    for name, kinds in PARTS.items():
        part = DependenceHead(fit(only(pairs, kinds), held_out))
        result[name] = judged(part, only(test, kinds), distance)
    for few in (25, 50, 100, 200, 400, 800):
        some = pairs.texts < few
        if few < count:
            fewer = LabelledPairs(
                pairs.features[some],
                pairs.bits[some],
                pairs.errors[some],
                pairs.texts[some],
                pairs.groups,
            )
            tensors = fit(fewer, held_out_pairs(fewer))
            result[f"{few} texts"] = judged(DependenceHead(tensors), test, distance)
    (output / RESULT).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def maps(lm: unmask.LanguageModel, corpus: str, limit: int) -> dict[str, Any]:
    """Whole sentences: every two words by the head, and measured."""
    predicted, bits, numbers = list[float](), list[float](), list[int]()
    passes = {"head": 0, "mutual-information": 0}
    texts = [one.text for one in in_hashed_order(corpus)[:limit]]
    for number, text in enumerate(texts):
        by_head = lm.dependence(text, measure="head", settings=QUIET)
        measured = lm.dependence(text, samples=SAMPLES, settings=QUIET)
        first, second = torch.triu_indices(len(by_head.places), len(by_head.places), offset=1)
        predicted += by_head.values[first, second].tolist()
        bits += measured.values[first, second].tolist()
        numbers += [number] * len(first)
        passes["head"] += by_head.forward_passes
        passes["mutual-information"] += measured.forward_passes
    row = ranked(np.array(predicted), np.array(bits), np.array(numbers))
    return {**row, "passes": {name: total / len(texts) for name, total in passes.items()}}


def costs(heads: Sequence[str], steps: Path) -> dict[str, Any]:
    """What heads cost: to train them, by their facts and the processor time, and in a step."""
    trained = []
    for given in heads:
        name, places = given.split("=", 1)
        head, log = map(Path, places.split(","))
        times = re.findall(r"(?:User|System) time \(seconds\): ([\d.]+)", log.read_text("utf-8"))
        facts = DependenceHead.load(head).to_dict()
        kept = {k: facts[k] for k in ("texts", "pairs", "rank_correlation", "held_out_pairs")}
        trained.append({"name": name, "seconds": sum(map(float, times)), **kept})
    return {"trained": trained, "steps": read(steps)}


def cost_tables(result: dict[str, Any]) -> dict[str, list[str]]:
    """Heads down; and sizes of a step down, heads across, with quartiles."""
    trained = [
        "| model | sentences | pairs | seconds of a core | rank correlation | held-out pairs |"
    ]
    trained.append("|---|---|---|---|---|---|")
    for row in result["trained"]:
        cells = [row["name"], row["texts"], row["pairs"], f"{row['seconds']:.0f}"]
        cells += [f"{row['rank_correlation']:.2f}", row["held_out_pairs"]]
        trained.append(f"| {' | '.join(map(str, cells))} |")
    rows = result["steps"]
    names = list(dict.fromkeys(row["name"] for row in rows))
    steps = ["| texts, tokens, blanks |" + "".join(f" {name} |" for name in names)]
    steps.append("|---|" + "---|" * len(names))
    by_size: dict[str, dict[str, str]] = {}
    for row in rows:
        low, middle, high = row["head"]
        size = f"{row['rows']}, {row['length']}, {row['blanks']}"
        by_size.setdefault(size, {})[row["name"]] = f"{middle:.2f} [{low:.2f}, {high:.2f}]"
    for size, ratios in by_size.items():
        steps.append(f"| {size} | {' | '.join(ratios.get(name, '') for name in names)} |")
    return {"trained": trained, "steps": steps}


def ranking(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return f"{row['rank']:.3f} [{low:.3f}, {high:.3f}]"


def blocks(result: dict[str, Any]) -> dict[str, list[str]]:
    """The table of the page."""
    features = ["| features of the head | rank correlation |", "|---|---|"]
    features += [f"| {name} | {ranking(result[name])} |" for name in ("all features", *PARTS)]
    return {"features": features}


def tables(result: dict[str, Any]) -> dict[str, list[str]]:
    """Whole tables, for the CSV files."""
    whole, passes = result["all features"], result["facts"]["passes"]
    others = ("facts", "seconds", "maps", "trained", "steps")
    kinds = [name for name in result if name not in others]
    features = ["| features, or fewer sentences | rank correlation |", "|---|---|"]
    features += [f"| {name} | {ranking(result[name])} |" for name in kinds]
    calibration = [
        "| predicted, bits | mean predicted | mean measured | pairs |",
        "|---|---|---|---|",
    ]
    for low, high, predicted, measured, count in whole["calibration"]:
        ends = f"from {low:g}" if high == 99 else f"{low:g} to {high:g}"
        calibration.append(f"| {ends} | {predicted:.3f} | {measured:.3f} | {count} |")
    distance = [
        "| tokens apart | rank correlation | mean measured, bits | pairs |",
        "|---|---|---|---|",
    ]
    for low, high, rank, mean, count in whole["by_distance"]:
        ends = f"from {low}" if high == 99 else str(low) if low == high else f"{low} to {high}"
        distance.append(f"| {ends} | {rank:.3f} | {mean:.3f} | {count} |")
    bounds = ["| blanks | " + " | ".join(f"{bound:g}" for bound in passes["bounds"]) + " |"]
    bounds.append("|---|" + "---|" * len(passes["bounds"]))
    for count, taken in zip(passes["blanks"], passes["passes"], strict=True):
        bounds.append(f"| {count} | " + " | ".join(f"{one:.2f}" for one in taken) + " |")
    mapped = ["| sentences | pairs of words | rank correlation | passes | passes, measured |"]
    if "maps" in result:
        row = result["maps"]
        mean = [f"{row['passes'][name]:.0f}" for name in ("head", "mutual-information")]
        cells = [str(row["texts"]), f"{row['pairs']:,}", ranking(row), *mean]
        mapped += ["|---|---|---|---|---|", f"| {' | '.join(cells)} |"]
    return {
        "features": features,
        "calibration": calibration,
        "distance": distance,
        "passes": bounds,
        "maps": mapped,
        **cost_tables(result),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["labels", "head", "maps", "costs", "page"])
    parser.add_argument("--model")
    parser.add_argument("--corpus")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--shard", default="0/1", help="pieces of labels that this process takes")
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=Path)
    parser.add_argument("--heads", nargs="+")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.what in ("costs", "page"):
        path = Path(chosen.output, RESULT)
        result = json.loads(path.read_text("utf-8"))
        if chosen.what == "costs":
            result |= costs(chosen.heads, chosen.steps)
            path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        else:
            write_blocks(PAGE, blocks(result), tables(result), TABLES)
        return 0
    output, lm = Path(chosen.output), unmask.load(chosen.model)
    output.mkdir(parents=True, exist_ok=True)
    if chosen.what == "labels":
        stem = "held-out" if chosen.held_out else "train"
        labels(lm, chosen.corpus, chosen.limit, stem, output, chosen.shard)
    elif chosen.what == "maps":
        path = output / RESULT
        result = json.loads(path.read_text("utf-8")) if path.exists() else {}
        lm.head = DependenceHead.load(output / "head.safetensors")
        result["maps"] = maps(lm, chosen.corpus, chosen.limit)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    else:
        heads(lm, chosen.corpus, output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
