"""Write the pages of docs/results/ that show what the benchmarks printed.

    python benchmarks/pages.py

Reads docs/results/solver.json (what benchmarks/solver.py printed), scoring.json (a list of what
benchmarks/scoring.py printed), sentences.json (what benchmarks/sentences.py printed), engine.json
(what benchmarks/run.py printed), ray.json (what benchmarks/ray_overhead.py printed) and demo.json
(what benchmarks/demo_load.py printed) and writes the page beside each.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine_page import engine_page

RESULTS = Path(__file__).parent.parent / "docs" / "results"

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


def solver_page(found: dict[str, Any]) -> Iterator[str]:
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


def said(spread: dict[str, float]) -> str:
    return f"{spread['median']:.3g} ({spread['min']:.3g} to {spread['max']:.3g})"


def scoring_page(runs: list[dict[str, Any]]) -> Iterator[str]:
    first = runs[0]
    yield "# What scoring pairs costs beyond its forward passes\n"
    yield f"{first['model']} (V = {first['vocabulary']:,}), 8 to 24 random tokens a text, float32,"
    yield f"{first['threads']} threads of a CPU, torch {first['torch']}. Times are taken in turns"
    yield "with what they are held against: median (least to most) of the repeats. Produced by"
    yield "`benchmarks/scoring.py`; its output is [scoring.json](scoring.json).\n"
    heads = [
        "",
        "one text: time over that of its forward passes alone",
        "many texts: rows per second over the bare trunk's",
        "peak memory above that of the forward passes",
    ]
    yield "| " + " | ".join(heads) + " |"
    yield "|---|---|---|---|"
    for run in runs:
        for method, many in run["many_texts"].items():
            one = run["one_text"][method]
            above = max(item["above_forward_bytes"] for item in run["memory"][method]) / 1e6
            few, count = f"{one['rows']} rows", f"{many['texts']:,} texts, {many['rows']:,} rows"
            yield (
                f"| `{method}` | {said(one['ratio'])}; {few} "
                f"| {said(many['of_trunk'])}; {count} | {above:.0f} MB |"
            )


def sentences_page(runs: list[dict[str, Any]]) -> Iterator[str]:
    first = runs[0]
    yield "# What scoring whole texts costs beyond its forward passes\n"
    yield f"{first['model']} (V = {first['vocabulary']:,}) on {first['texts']:,} SNLI test"
    yield f"sentences, from texts to scores, float32, threads of a CPU: {first['threads']}, torch"
    yield f"{first['torch']}. The bare trunk is given the same rows, tokenised and masked"
    yield "beforehand, in the same batches, in turns: median (least to most) of the repeats."
    yield "Scoring can be the faster, head included, because the last layer computes only"
    yield "the position that a row is read at. For pairs, up to three words of each sentence were"
    yield "replaced. Produced by `benchmarks/sentences.py`; its output is"
    yield "[sentences.json](sentences.json).\n"
    yield "| | rows | rows per second | rows per second over the bare trunk's |"
    yield "|---|---|---|---|"
    for run in runs:
        rate, part = run["rows_per_second"], said(run["of_trunk"])
        seconds = f"{rate['median']:,.0f} ({rate['min']:,.0f} to {rate['max']:,.0f})"
        yield f"| `{run['method']}` | {run['rows']:,} | {seconds} | {part} |"


def ray_page(found: dict[str, Any]) -> Iterator[str]:
    workers, rows = found["workers"], found["rows_a_second"]
    yield "# What Ray costs\n"
    yield f"Rows a second of {workers} Ray workers on one machine over those of {workers} bare"
    yield "processes (`unmask evaluate --shard i/n`), one thread each, in turns, start-up left out:"
    yield "antiberty on short chains of residues, every construction,"
    yield f"{found['examples']} examples of about {found['seconds_an_example']:.2g} s,"
    yield f"{found['rounds']} rounds. Produced by `benchmarks/ray_overhead.py`; its output is"
    yield "[ray.json](ray.json)."
    yield "\n| | rows per second, by round |"
    yield "|---|---|"
    for side in ("ray", "bare"):
        yield f"| {side} | {', '.join(f'{rate:.1f}' for rate in rows[side])} |"
    ratio = said(found["ratio"])
    yield f"\nRay over bare: median {ratio}; at least {found['target']} is asked for."


def demo_page(found: dict[str, Any]) -> Iterator[str]:
    told = found["told"]
    full = told.get("busy", 0) + told.get("queue full", 0)
    yield "# Many visitors of the demo at once\n"
    yield f"{found['users']} visitors for {found['seconds']:.0f} s of `unmask demo` with"
    yield f"{found['model']}, one thread of a CPU, limits as they are by default. Each asks for two"
    yield "blanks by mlm and log-pool, thinks for 0.5 to 3 s and asks again; one in five leaves in"
    yield "the middle. One of the four texts is full of markup. Produced by"
    yield "`benchmarks/demo_load.py`; its output is"
    yield "[demo.json](demo.json)."
    yield "\n| | |\n|---|---|"
    yield f"| answers | {told.get('answered', 0):,} |"
    yield f"| seconds until one | {_waits(found['answer_seconds'])} |"
    yield f"| left in the middle | {told.get('left', 0):,} |"
    yield f"| asked to try again in a moment | {full:,} |"
    yield f"| errors | {found['error_count']:,} |"
    before, after = found["memory_second_quarter_mb"], found["memory_end_mb"]
    yield f"| memory, middle and end | {before:,.0f} and {after:,.0f} MB |"


def _waits(seconds: dict[str, float]) -> str:
    return f"median {seconds['median']:.1f}, 90% {seconds['90%']:.1f}, most {seconds['max']:.1f}"


PAGES: dict[str, Callable[[Any], Iterator[str]]] = {
    "solver": solver_page,
    "scoring": scoring_page,
    "sentences": sentences_page,
    "engine": engine_page,
    "ray": ray_page,
    "demo": demo_page,
}


def made(name: str) -> str:
    """The page of that name, from its JSON."""
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return "\n".join(PAGES[name](found)) + "\n"


def main() -> None:
    for name in PAGES:
        (RESULTS / f"{name}.md").write_text(made(name), encoding="utf-8")


if __name__ == "__main__":
    main()
