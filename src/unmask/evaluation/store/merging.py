"""Many small parts as one: which parts a merged one stands for, so that no result row counts twice.

A part is named by the saves that it holds: `part-000007` the seventh, `part-000001-000100` the
first hundred. A merged part is there whole before those that it stands for are removed. Where a
crash leaves both, the merged one counts, and the next process of the shard removes the others.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

SUFFIX = ".parquet"
# so a day of saves every ten seconds is less than two hundred files, and a damaged one costs
# some twenty minutes
MERGED = 100
_NAME = re.compile(rf"part-(\d+)(?:-(\d+))?{re.escape(SUFFIX)}")


def saves(name: str) -> tuple[int, int]:
    """The first and the last save that a part holds; zeros for a file that has another name."""
    found = _NAME.fullmatch(name)
    if found is None:
        return 0, 0
    return int(found[1]), int(found[2] or found[1])


def part_name(first: int, last: int | None = None) -> str:
    """The name of a part of one save, or of several."""
    return f"part-{first:06d}{'' if last is None else f'-{last:06d}'}{SUFFIX}"


def replaced(paths: Iterable[Path]) -> set[Path]:
    """The parts that a merged part among them stands for."""
    spans = {path: saves(path.name) for path in paths}
    merged: dict[Path, list[tuple[int, int]]] = {}
    for path, (first, last) in spans.items():
        if first < last:
            merged.setdefault(path.parent, []).append((first, last))
    return {
        path
        for path, (first, last) in spans.items()
        for a, b in merged.get(path.parent, ())
        if a <= first and last <= b and (a, b) != (first, last)
    }


def due(names: Iterable[str]) -> Sequence[str]:
    """The next parts to be merged: as many of one save as make a merged part, or none."""
    single = sorted(name for name in names if saves(name)[0] == saves(name)[1] != 0)
    return single[:MERGED] if len(single) >= MERGED else ()


def merged_name(names: Sequence[str]) -> str:
    """The name of the part that stands for these."""
    return part_name(saves(names[0])[0], saves(names[-1])[1])
