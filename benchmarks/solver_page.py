"""Write docs/results/solver.md from what benchmarks/solver.py printed.

python benchmarks/solver_page.py docs/results/solver.json --output docs/results/solver.md
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = {
    "forest": "L-BFGS, strongest-edge forest (`ag`)",
    "lbfgs_diagonal": "L-BFGS, diagonal preconditioner",
    "lbfgs_unpreconditioned": "L-BFGS, no preconditioner",
    "squarem": "SQUAREM on Arnold–Gokhale's steps",
    "ag_from_uniform": "Arnold–Gokhale's steps from uniform",
    "forest_until_converged": "`ag` until it says `converged`",
    "gmres_forest": "GMRES, strongest-edge forest",
    "power_iteration": "power iteration",
    "gmres_forest_until_converged": "`pseudo-gibbs`, `log-pool` until they say `converged`",
}


def page(found: dict[str, Any]) -> Iterator[str]:
    count = len(found["ids"])
    yield "# Passes that solvers need\n"
    corpus = Path(found["corpus"]).stem
    yield f"On the tables of {count} {found['mask']} pairs of SNLI {corpus} sentences with"
    yield f"{found['model']} (4,096 x 4,096): the passes over both tables until every log marginal"
    yield f"of a token with probability above 1e-12 is within {found['accuracy']:g} of the answer,"
    yield "and stays there. Each solver starts at the doubly masked marginals, but the paper's"
    yield f"steps at uniform ones, and is stopped after {found['most']} passes. Rows that end in"
    yield "`converged` are what a user pays: our solvers go on to a residual of 1e-10. Produced by"
    yield "`benchmarks/solver.py`; its output is [solver.json](solver.json)."
    for title, group in (
        ("Arnold and Gokhale's minimum", "arnold_gokhale"),
        ("Stationary marginals of pseudo-Gibbs", "pseudo_gibbs"),
    ):
        yield f"\n## {title}\n"
        yield "| solver | median passes | most | never arrived |"
        yield "|---|---|---|---|"
        for name, said in found[group].items():
            most, never = said["largest"], said["never_arrived"]
            yield f"| {NAMES[name]} | {said['median']} | {most} | {never} of {count} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="The page of solver results.")
    parser.add_argument("found", type=Path)
    parser.add_argument("--output", type=Path, default=Path("docs/results/solver.md"))
    chosen = parser.parse_args()
    found = json.loads(chosen.found.read_text(encoding="utf-8"))
    chosen.output.write_text("\n".join(page(found)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
