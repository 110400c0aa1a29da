"""How fast the engine is, as ratios to what it cannot be faster than or must not be slower than.

    python benchmarks/run.py [--json] [--repeats 5] [--threads 2] [--only PART,...] [--short]
                             [--check] [--output FILE]

Parts: `elicitation` (against the bare trunk, and against a straightforward loop) and `examples`
(all constructions and metrics, against elicitation). Both sides of a ratio are run in turns in this
process. Real models are looked for where the tests look for them; what is not there is left out,
and said. --short takes the smaller sizes; --check exits with 1 when a floor of
benchmarks/engine_floors.py is broken.
"""

import argparse
import gc
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import engine_elicitation
import engine_examples
import torch
from engine_floors import FLOORS, broken, met, target
from engine_subjects import SUBJECTS, Subject
from interleaved import Comparison

PACKAGES = ("torch", "transformers", "numpy", "scipy")
FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


@dataclass(frozen=True)
class Plan:
    """Which sizes a run takes."""

    name: str
    repeats: int
    elicited: tuple[str, ...]
    in_bfloat16: tuple[str, ...]
    examples: tuple[str, ...]
    # an example is as long as all else together
    example_repeats: int = 5
    # of a subject's rows, one in so many is elicited
    one_row_in: int = 1


PLANS = {
    "full": Plan(
        "full", 5,
        elicited=("caption-bert", "albert-tiny-chinese", "bert-base-random"),
        in_bfloat16=("bert-base-random",),
        examples=("caption-bert",),
    ),
    "short": Plan(
        "short", 3,
        elicited=("caption-bert", "albert-tiny-chinese"),
        in_bfloat16=(),
        examples=("caption-bert",),
        example_repeats=1,
        one_row_in=2,
    ),
    "tiny": Plan(
        "tiny", 2,
        elicited=("tiny-random",),
        in_bfloat16=("tiny-random",),
        examples=("tiny-random",),
    ),
}  # fmt: skip


@dataclass
class Report:
    """What a run has found so far."""

    repeats: int
    comparisons: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, comparison: Comparison) -> None:
        found = comparison.to_dict()
        aim = target(comparison.kind, comparison.subject)
        self.comparisons.append({**found, "target": aim, "met": met(found)})
        ratio = found["ratio"]
        print(f"{comparison.name}: {ratio}", file=sys.stderr)

    def subjects(self, names: tuple[str, ...]) -> Iterator[Subject]:
        """The models of these names that are here, one at a time."""
        for name in names:
            gc.collect()
            subject = SUBJECTS[name]()
            if subject:
                yield subject
            elif name not in self.left_out:
                self.left_out.append(name)
                print(f"no folder of {name}: left out", file=sys.stderr)


def elicitation(plan: Plan, report: Report) -> None:
    for whole in report.subjects(plan.elicited):
        subject = replace(whole, rows=whole.rows // plan.one_row_in)
        rounded = subject.name in plan.in_bfloat16
        for one in engine_elicitation.compare(subject, report.repeats, bfloat16=rounded):
            report.add(one)


def examples(plan: Plan, report: Report) -> None:
    for subject in report.subjects(plan.examples):
        repeats = min(report.repeats, plan.example_repeats)
        report.add(engine_examples.compare(subject, repeats))


PARTS: dict[str, Callable[[Plan, Report], None]] = {
    "elicitation": elicitation,
    "examples": examples,
}


def machine() -> dict[str, object]:
    """The processor, as far as the system tells, and which of the fast instructions it has."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = said.get("flags", "").split()
    return {
        "cpu": said.get("model name", platform.processor()),
        "cores": os.cpu_count(),
        "flags": [flag for flag in FLAGS if flag in flags],
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def measure(chosen: argparse.Namespace, plan: Plan) -> dict[str, Any]:
    report = Report(chosen.repeats or plan.repeats)
    seconds = {}
    for name in chosen.only:
        began = time.perf_counter()
        PARTS[name](plan, report)
        seconds[name] = round(time.perf_counter() - began, 1)
        print(f"-- {name}: {seconds[name]} s", file=sys.stderr)
    return {
        "plan": plan.name,
        "threads": chosen.threads,
        "repeats": report.repeats,
        "machine": machine(),
        "versions": versions(),
        "comparisons": report.comparisons,
        "left_out": report.left_out,
        "part_seconds": seconds,
    }


def table(found: dict[str, Any]) -> Iterator[str]:
    """The ratios as lines of text."""
    for one in found["comparisons"]:
        ratio = "{median:8.3f}  ({min:.3f} to {max:.3f})".format(**one["ratio"])
        yield f"{one['name']:45} {ratio:28} {one['over']} / {one['under']}"
    yield f"seconds by part: {found['part_seconds']}"


def part_names(said: str) -> list[str]:
    names = said.split(",")
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no part {unknown[0]!r}; parts: {', '.join(PARTS)}")
    return names


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How fast the engine is, as ratios.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repeats", type=int, help="5 unless said otherwise, 3 with --short")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=part_names, default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--short", dest="plan", action="store_const", const="short", default="full")
    parser.add_argument("--tiny", dest="plan", action="store_const", const="tiny")
    parser.add_argument("--check", action="store_true", help="fail when a floor is broken")
    parser.add_argument("--output", type=Path, help="write JSON to a file as well")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    chosen = arguments(given)
    torch.set_num_threads(chosen.threads)
    found = measure(chosen, PLANS[chosen.plan])
    written = json.dumps(found, indent=2)
    if chosen.output:
        chosen.output.write_text(written + "\n", encoding="utf-8")
    print(written if chosen.json else "\n".join(table(found)))
    lines = broken(found["comparisons"], FLOORS) if chosen.check else []
    for line in lines:
        print(f"floor broken: {line}", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
