"""What `unmask variants --score-column` prints: how scores agree with a measurement."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unmask.cli import options
from unmask.errors import UnmaskError
from unmask.printable import columns, printable, quoted

if TYPE_CHECKING:
    from unmask.jobs.kinds.variants import VariantsKind
    from unmask.sequences.variant_metrics import MetricRow


@dataclass
class _Assay:
    """What an output holds of one assay."""

    mutants: list[str] = field(default_factory=list)
    measured: list[float | None] = field(default_factory=list)
    scores: dict[str, list[float | None]] = field(default_factory=dict)
    windows: list[str | None] = field(default_factory=list)


def check_output(column: str | None, output: str | None) -> None:
    """Reject what could not be printed, before anything is read."""
    if column is not None and output in (None, "-"):
        raise UnmaskError("--score-column compares the rows of an output; give --output too")


def check_column(column: str | None, names: Sequence[str]) -> None:
    """Reject a column that the input does not have, before the model runs."""
    if column is not None and column not in names:
        raise UnmaskError(
            f"--score-column {quoted(column)}: the input has no such column; it has "
            f"{', '.join(map(quoted, names))}"
        )


def print_agreement(
    kind: "VariantsKind", column: str, output: str, format: str | None, *, is_folder: bool
) -> None:
    """Print the table of an output; of a folder when all units are done, also by other shards."""
    places, missing = _finished(output) if is_folder else ([output], 0)
    if missing:
        options.say(
            f"{missing:,} units are missing; how scores agree with {quoted(column)} "
            "is printed when all are there"
        )
        return
    print(_agreement(kind, column, places, None if is_folder else format))


def _finished(folder: str) -> tuple[list[str], int]:
    from unmask.jobs.merging import finished_parts
    from unmask.records.places import is_url

    return finished_parts(folder if is_url(folder) else os.path.expanduser(folder))


def _agreement(kind: "VariantsKind", column: str, places: Sequence[str], format: str | None) -> str:
    """Of one assay all metrics, of several the ranks of each."""
    from unmask.sequences.variant_metrics import evaluate_variants, evaluation_table

    numbers = _read(kind, column, places, format)
    rows: dict[str, list[MetricRow] | str] = {}
    for name, one in numbers.items():
        try:
            rows[name] = evaluate_variants(
                one.mutants, one.measured, one.scores, windows=one.windows
            )
        except UnmaskError as error:
            rows[name] = str(error)
    if len(rows) == 1:
        (only,) = rows.values()
        return only if isinstance(only, str) else evaluation_table(only)
    return _by_assay(rows, kind.methods)


def _read(
    kind: "VariantsKind", column: str, places: Sequence[str], format: str | None
) -> dict[str, _Assay]:
    from unmask.records.files import open_input, read_unit
    from unmask.sequences.variants import MUTANT

    scores = {method: kind.prefix + method for method in kind.methods}
    assays: dict[str, _Assay] = {}
    window = f"{kind.prefix}window"
    wanted = [MUTANT, column, window, *scores.values()]
    source = open_input(places, format=format, texts_per_unit=4096, columns=wanted)
    for unit in source.units():
        for row in read_unit(unit, wanted, [kind.file_column] if kind.file_column else []).rows:
            name = str(row.get(kind.file_column, "")) if kind.file_column else ""
            one = assays.setdefault(name, _Assay())
            mutant = str(row.get(MUTANT) or "").strip()
            if not mutant:
                continue
            one.mutants.append(mutant)
            one.windows.append(row.get(window) or None)
            one.measured.append(_number(row.get(column)))
            for method, scored in scores.items():
                one.scores.setdefault(method, []).append(_number(row.get(scored)))
    return assays


def _number(cell: Any) -> float | None:
    try:
        return None if cell is None or cell == "" else float(cell)
    except (TypeError, ValueError):
        return None


def _by_assay(rows: "dict[str, list[MetricRow] | str]", methods: Sequence[str]) -> str:
    """Spearman's correlation of every assay and method, and the mean over assays."""
    from unmask.sequences.variant_metrics import EVERY, SPEARMAN

    table = [["assay", "variants", *methods]]
    values: dict[str, list[float]] = {method: [] for method in methods}
    for name, some in sorted(rows.items()):
        if isinstance(some, str):
            table.append([printable(name), printable(some), *[""] * len(methods)])
            continue
        mine = {row.method: row for row in some if (row.metric, row.mutations) == (SPEARMAN, EVERY)}
        cells = []
        for method in methods:
            row = mine.get(method)
            if row is None or row.value is None:
                cells.append("-")
                continue
            values[method].append(row.value)
            ends = "" if row.low is None else f" [{row.low:+.3f}, {row.high:+.3f}]"
            cells.append(f"{row.value:+.3f}{ends}")
        table.append([printable(name), f"{next(iter(mine.values())).n:,}", *cells])
    means = [f"{sum(v) / len(v):+.3f} ({len(v)} assays)" if v else "-" for v in values.values()]
    table.append(["mean", "", *means])
    return "Spearman's correlation with 95% intervals\n" + columns(table)
