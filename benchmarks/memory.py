"""Peak memory of constructions, the law and metrics on random tables of a model's size.

    python benchmarks/memory.py --vocab 28996 --hidden 768 [--check]

Each mode runs in a process of its own, both at once: `dense` keeps both tables in memory,
`streamed` allows nothing of size V x V. Prints JSON; with --check, exits with 1 when a peak is
above its ceiling. Peaks are read as Linux counts them.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

MODES = ("dense", "streamed")
# what does not iterate, and steps enough to see an iteration
METHODS: dict[str, dict[str, object]] = {
    "mlm": {},
    "mrf": {},
    "mrf-logit": {},
    "hcb": {},
    "ag": {"steps": 3},
    "log-pool": {},
    "orders": {},
}

# tokens of a first run: libraries that are loaded when first used take memory of their own
WARM_UP = 1100
# Ceilings in bytes, above what torch and a small run take, which differs between
# builds: a fixed part, one that grows with V, and, where dense tables are allowed, the two tables.
# At 6,144 either mode takes 70 to 110 MB besides, and a single further table of V x V breaks it.
FIXED = 0.1e9
PER_TOKEN = 0.45e9 / 28_996


def ceiling(mode: str, vocab: int) -> float:
    tables = 8.0 * vocab**2 if mode == "dense" else 0.0
    return FIXED + PER_TOKEN * vocab + tables


def peak() -> int:
    """The largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def work(mode: str, vocab: int, hidden: int) -> tuple[str, dict[str, object]]:
    """All constructions and metrics on random tables: how they were kept, and metrics."""
    import torch

    import unmask

    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    embedding, bias = normal(vocab, hidden) / hidden**0.5, 2 * normal(vocab)
    masked = [torch.log_softmax(3 * normal(vocab).double(), dim=0) for _ in range(2)]
    logits = [
        unmask.FactoredLogits(embedding, 3 * normal(vocab, hidden), bias_a=bias),
        unmask.FactoredLogits(3 * normal(vocab, hidden), embedding, bias_b=bias),
    ]
    tables = unmask.PairTables.from_logits(
        *([one.dense() for one in logits] if mode == "dense" else logits),
        marginals=unmask.MaskedMarginals(masked[0], masked[1]),
        memory_limit=8 * vocab**2 if mode == "dense" else 0,
    )
    joints = {name: unmask.construct(name, tables, **o) for name, o in METHODS.items()}
    metrics = unmask.pair_metrics(joints, tables, (1, 2))
    kept = str(tables.diagnostics()["tables"])
    return kept, {name: found.to_dict() for name, found in metrics.items()}


def measure(mode: str, vocab: int, hidden: int) -> dict[str, object]:
    """Run everything once in this process, after a small run."""
    work(mode, WARM_UP, hidden)
    before = peak()
    began = time.perf_counter()
    kept, metrics = work(mode, vocab, hidden)
    return {
        "peak_bytes": peak(),
        "before_bytes": before,
        "seconds": round(time.perf_counter() - began, 1),
        "tables": kept,
        "metrics": metrics,
    }


def in_fresh_process(mode: str, vocab: int, hidden: int) -> dict[str, object]:
    sizes = ["--vocab", str(vocab), "--hidden", str(hidden)]
    child = subprocess.run(
        [sys.executable, __file__, "--mode", mode, *sizes], check=True, stdout=subprocess.PIPE
    )
    found: dict[str, object] = json.loads(child.stdout)
    limit = int(str(found["before_bytes"])) + int(ceiling(mode, vocab))
    return {**found, "ceiling_bytes": limit}


def main() -> int:
    parser = argparse.ArgumentParser(description="Peak memory of all constructions and metrics.")
    parser.add_argument("--vocab", type=int, default=6144)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--check", action="store_true", help="fail when a ceiling is broken")
    parser.add_argument("--mode", choices=MODES, help="measure one mode in this process")
    chosen = parser.parse_args()
    if chosen.mode:
        print(json.dumps(measure(chosen.mode, chosen.vocab, chosen.hidden)))
        return 0
    with ThreadPoolExecutor() as both:
        measured = both.map(lambda mode: in_fresh_process(mode, chosen.vocab, chosen.hidden), MODES)
        found = dict(zip(MODES, measured, strict=True))
    print(json.dumps({"vocab": chosen.vocab, "hidden": chosen.hidden, **found}, indent=2))
    broken = [
        mode
        for mode, one in found.items()
        if int(str(one["peak_bytes"])) > int(str(one["ceiling_bytes"]))
    ]
    if chosen.check and broken:
        print(f"above the ceiling: {', '.join(broken)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
