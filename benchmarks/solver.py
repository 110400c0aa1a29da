"""How many passes over real tables each solver needs to the same accuracy.

    python benchmarks/solver.py --model DIR --corpus FILE --mask contiguous --limit 50

For every masked pair, marginals are first found to far more than the accuracy asked for; a solver
has arrived when no log marginal of a token with probability above 1e-12 is further than --accuracy
from them, after which it must stay. All start at the doubly masked marginals but the paper's AG,
which starts uniform, and are stopped after --most passes. Prints JSON: a solver's passes by
example, their median and largest, and how many never arrived; for our own also what they took
until they themselves said that they had converged.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import unmask
from unmask.constructions.paper_steps import step
from unmask.constructions.solvers import fits, pair_graph
from unmask.constructions.solvers.descent import Pass
from unmask.tables.probabilities import Probabilities, probabilities

sys.path.insert(0, str(Path(__file__).parent.parent / "runs"))
from snli_pairs import MASKS, masked_pairs

Vector = NDArray[np.float64]
# points of a solver, with the passes that each took
Track = Iterator[tuple[Vector, int]]

# what the answers that solvers are held against are solved to
_REFERENCE = 1e-9
_NEGLIGIBLE = np.log(1e-12)


def aligned(point: Vector, size_a: int) -> Vector:
    """Log marginals, free of the constant that the fit leaves open."""
    free: Vector = point - np.logaddexp.reduce(point[:size_a])
    return free


def passes_to(track: Track, answer: Vector, size_a: int, accuracy: float, most: int) -> int | None:
    """The passes after which every further point is accurate; None if that never happens."""
    arrived = None
    matters = aligned(answer, size_a) > _NEGLIGIBLE
    for point, passes in track:
        gap = np.abs(aligned(point, size_a) - aligned(answer, size_a))[matters].max()
        if gap >= accuracy:
            arrived = None
        elif arrived is None:
            arrived = passes
        # a plain iteration that has stayed accurate for a while will not leave again
        if passes >= most or (arrived is not None and passes > 1.5 * arrived + 10):
            break
    return arrived if arrived is not None and arrived <= most else None


def ag_steps(source: Probabilities, start: Vector | None) -> Track:
    size_a, size_b = source.tables.shape
    if start is None:
        start = np.concatenate([np.full(n, -np.log(n)) for n in (size_a, size_b)])
    point = start
    for passes in count(1):
        point = ag_map(source, point)
        yield point, passes


def ag_map(source: Probabilities, point: Vector) -> Vector:
    """One Arnold-Gokhale step on stacked log marginals."""
    size_a = source.tables.shape[0]
    a, b = step(source, torch.from_numpy(point[:size_a]), torch.from_numpy(point[size_a:]))
    return torch.cat([a, b]).numpy()


def squarem(source: Probabilities, start: Vector) -> Track:
    """Squared extrapolation of AG's steps (Varadhan & Roland 2008, S3), in log marginals."""
    point = start
    for cycle in count(1):
        once = ag_map(source, point)
        twice = ag_map(source, once)
        first = once - point
        second = twice - once - first
        curve = max(float(np.linalg.norm(second)), 1e-300)
        length = -max(1.0, float(np.linalg.norm(first)) / curve)
        point = ag_map(source, point - 2 * length * first + length**2 * second)
        yield point, 3 * cycle


def watched(run: Callable[[Callable[[Vector, int], None]], object]) -> Track:
    """The points that one of our solvers shows."""
    points: list[tuple[Vector, int]] = []
    run(lambda point, passes: points.append((point, passes)))
    return iter(points)


def scaled_identity() -> Callable[[Pass], Callable[[Vector], Vector]]:
    """No preconditioner but the usual scale of L-BFGS: the inverse of the mean curvature."""

    def precondition(here: Pass) -> Callable[[Vector], Vector]:
        return lambda vector: vector / here.degree.mean()

    return precondition


def diagonal(here: Pass) -> Callable[[Vector], Vector]:
    return lambda vector: vector / here.degree


def contests(tables: unmask.PairTables, accuracy: float, most: int) -> dict[str, int | None]:
    """Passes of every solver for Arnold & Gokhale's minimum."""
    start = fits.starting_point(tables)
    stacked = torch.cat([tables.masked.log_a, tables.masked.log_b]).numpy()
    size_a = tables.shape[0]
    best = fits.solve_contest(tables, start, tolerance=_REFERENCE)
    answer = torch.cat([best.log_a, best.log_b]).numpy()
    own = fits.solve_contest(tables, start)
    source = probabilities(tables)

    def lbfgs(kind: Callable[[Pass], Callable[[Vector], Vector]]) -> Track:
        return watched(
            lambda watch: fits.solve_contest(
                tables, start, max_passes=most, preconditioner=kind, watch=watch,
                tolerance=1e-8 if kind is Pass.forest else 1e-6,
            )
        )  # fmt: skip

    tracks = {
        "forest": lbfgs(Pass.forest),
        "lbfgs_diagonal": lbfgs(diagonal),
        "lbfgs_unpreconditioned": lbfgs(scaled_identity()),
        "squarem": squarem(source, stacked),
        "ag_from_uniform": ag_steps(source, None),
    }
    found = {
        name: passes_to(track, answer, size_a, accuracy, most) for name, track in tracks.items()
    }
    return {**found, "forest_until_converged": own.solution.passes if own.converged else None}


def settles(tables: unmask.PairTables, accuracy: float, most: int) -> dict[str, int | None]:
    """Passes of GMRES and of power iteration for the stationary marginals."""
    size_a = tables.shape[0]
    best = fits.solve_stationary(tables, tolerance=_REFERENCE)
    answer = torch.cat([best.log_a, best.log_b]).numpy()
    own = fits.solve_stationary(tables)
    flows = pair_graph.PairFlows(tables)

    def power() -> Track:
        mass = torch.cat([tables.masked.log_a, tables.masked.log_b]).exp().numpy()
        for passes in count(1):
            mass = flows.pushed(mass)
            yield np.log(mass), passes

    # it shows its points between runs of GMRES only: asked for less, it stops sooner
    gmres = watched(
        lambda watch: fits.solve_stationary(tables, tolerance=accuracy / 10, watch=watch)
    )
    return {
        "gmres_forest": passes_to(gmres, answer, size_a, accuracy, most),
        "power_iteration": passes_to(islice(power(), most), answer, size_a, accuracy, most),
        "gmres_forest_until_converged": own.solution.passes if own.converged else None,
    }


def summary(rows: list[dict[str, int | None]], most: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in rows[0]:
        passes = [row[name] for row in rows]
        ranked = sorted(most + 1 if p is None else p for p in passes)
        median = statistics.median(ranked)
        found[name] = {
            "median": median if median <= most else f"> {most}",
            "largest": ranked[-1] if ranked[-1] <= most else f"> {most}",
            "never_arrived": sum(p is None for p in passes),
            "passes": [f"> {most}" if p is None else p for p in passes],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Passes that each solver needs on real tables.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--mask", choices=MASKS, default="contiguous")
    parser.add_argument("--limit", type=int, default=50)
    parser.add_argument("--accuracy", type=float, default=1e-3)
    parser.add_argument("--most", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    lm = unmask.load(chosen.model)
    quiet = unmask.Settings(progress=False, announce=False)
    minima, laws, ids = [], [], []
    for pair in masked_pairs(lm, chosen.corpus, chosen.mask, chosen.limit):
        tables = lm.tables(pair.cloze, settings=quiet)
        minima.append(contests(tables, chosen.accuracy, chosen.most))
        laws.append(settles(tables, chosen.accuracy, chosen.most))
        ids.append(pair.id)
        print(f"{len(ids)}: {minima[-1]} {laws[-1]}", file=sys.stderr)
    print(
        json.dumps(
            {
                "model": Path(chosen.model).name,
                "corpus": chosen.corpus.name,
                "mask": chosen.mask,
                "accuracy": chosen.accuracy,
                "most": chosen.most,
                "arnold_gokhale": summary(minima, chosen.most),
                "pseudo_gibbs": summary(laws, chosen.most),
                "ids": ids,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
