"""The distance figures of a report, and their numbers, as files."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from unmask.durable import make_folder, write_file
from unmask.evaluation.reports.distance import LEAST_COUNT, DistanceBin, by_setting
from unmask.evaluation.reports.figures import distance_figure, save_figure
from unmask.evaluation.reports.rendering import comma_separated
from unmask.evaluation.reports.reporting import Report, table
from unmask.evaluation.reports.supports import shown_setting
from unmask.evaluation.rows import Group

_LONGEST_NAME = 100
AXES = {
    "distance": "tokens between the blanks",
    "syntax": "edges between the blanks' words in the dependency tree",
}


def draw(
    it: Report, folder: Path, format: str = "svg", *, say: Callable[[str], object] = lambda _: None
) -> Iterator[Path]:
    """One figure per setting and kind of distance, one CSV per kind; yields what was written.

    `say` gets a line for every figure that is not drawn.
    """
    make_folder(folder)
    kinds: Mapping[str, Sequence[DistanceBin]] = {
        "distance": it.token_bins(),
        **({"syntax": it.syntactic_bins()} if it.syntactic else {}),
    }
    for kind, bins in kinds.items():
        path = folder / f"{kind}.csv"
        write_file(path, _writing(comma_separated(table(it, kind))))
        yield path
        if not bins:
            say(f"no figure of {AXES[kind]}: no example has a distance and metrics")
        for group, found in by_setting(bins).items():
            ends = sorted({(one.first, one.last) for one in found})
            # one bin is a point, of which the table says everything
            if len(ends) > 1:
                yield _figure(folder / f"{kind}-{_file_name(group)}.{format}", kind, group, found)
            else:
                say(f"no figure of {shown_setting(group)}: {_one_bin(kind, *ends[0])}")


def _writing(text: str) -> Callable[[BinaryIO], object]:
    return lambda file: file.write(text.encode())


def _one_bin(kind: str, first: int, last: int) -> str:
    if first == last:
        return f"all examples have {first} {AXES[kind]}"
    return (
        f"its {first} to {last} {AXES[kind]} are one bin, since each takes {LEAST_COUNT} examples "
        "or more; evaluate more examples"
    )


def _figure(path: Path, kind: str, group: Group, bins: Sequence[DistanceBin]) -> Path:
    figure = distance_figure(bins, title=shown_setting(group), axis_label=AXES[kind])
    save_figure(figure, path)
    return path


def _file_name(group: Group) -> str:
    """Letters and digits only: names come from anywhere, and may hold slashes.

    What that leaves out goes into a hash.
    """
    said = "-".join([group.model, group.corpus, group.mask, group.support])
    plain = re.sub(r"[^a-z0-9]+", "-", said.lower()).strip("-")
    if len(plain) <= _LONGEST_NAME and said.isascii():
        return plain
    return f"{plain[:_LONGEST_NAME]}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"
