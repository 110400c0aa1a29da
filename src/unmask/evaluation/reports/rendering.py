"""Tables written out: aligned text, Markdown, LaTeX and CSV.

All but CSV are for readers: settings that all rows share stand in the title, and an estimate is one
cell. CSV is for programs: every column, full precision, four columns per estimate.
"""

import csv
import io
import math
from collections.abc import Callable
from dataclasses import dataclass

from unmask import markup
from unmask.evaluation.reports.tables import FEWEST, Cell, Column, ReportTable
from unmask.printable import columns as aligned
from unmask.printable import printable
from unmask.resampling import Estimate

# beyond this a fixed number of digits is no longer readable
_LARGE = 1e7


@dataclass(frozen=True)
class RenderedCell:
    """A cell as readers see it, before any escaping: a name, or a number and its interval.

    `marked` is a difference of enough examples whose interval excludes zero.
    """

    text: str
    interval: str = ""
    is_name: bool = False
    marked: bool = False


def _shown_rows(table: ReportTable) -> list[list[RenderedCell]]:
    """The cells of a table as readers see them, in every format but CSV."""
    shown = []
    for row in table.rows:
        cells = list(zip(table.columns, row, strict=True))
        counts = [cell for column, cell in cells if column.counts]
        few = any(isinstance(count, int) and count < FEWEST for count in counts)
        shown.append([_shown(column, cell, few=few) for column, cell in cells])
    return shown


def text(table: ReportTable) -> str:
    """The table in aligned columns; a star marks differences that exclude zero."""
    shown = table.compact()
    head = [printable(column.name) for column in shown.columns]
    body = _written(shown, printable, lambda number: f"{number} *")
    before, after = [shown.title, *_terms(shown)], shown.notes
    parts = [*map(printable, before), aligned([head, *body]), *map(printable, after)]
    return "\n\n".join(parts) + "\n"


def markdown(table: ReportTable) -> str:
    """The table in Markdown; differences that exclude zero are bold."""
    shown = table.compact()
    head = [markup.markdown(column.name) for column in shown.columns]
    rule = [":---" if left else "---:" for left in _left(shown)]
    body = _written(shown, markup.markdown, lambda number: f"**{number}**")
    lines = "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *body])
    title = f"**{markup.markdown(shown.title)}**"
    terms, notes = (map(markup.markdown, texts) for texts in (_terms(shown), shown.notes))
    return "\n\n".join([title, *terms, lines, *notes]) + "\n"


def latex(table: ReportTable) -> str:
    """The table in LaTeX, for the package booktabs; differences that exclude zero are bold."""
    shown = table.compact()
    head = [markup.latex(column.name) for column in shown.columns]
    body = _written(shown, markup.latex, lambda number: f"\\textbf{{{number}}}", minus="$-$")
    kinds = "".join("l" if left else "r" for left in _left(shown))
    lines = [" & ".join(cells) + r" \\" for cells in [head, *body]]
    caption = " ".join(map(markup.latex, [f"{shown.title}.", *shown.terms, *shown.notes]))
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{{kinds}}}",
            r"\toprule",
            *lines[:1],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{caption}}}",
            r"\end{table}",
            "",
        ]
    )


def comma_separated(table: ReportTable) -> str:
    """The table in CSV: an estimate as value, standard error and the ends of its interval."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([markup.csv(name) for c in table.columns for name in _csv_names(c)])
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        writer.writerow([part for column, cell in cells for part in _csv_cells(column, cell)])
    return written.getvalue()


def _terms(table: ReportTable) -> list[str]:
    """What explains the names of a table as one paragraph, if there is anything to explain."""
    return [" ".join(table.terms)] if table.terms else []


def _written(
    table: ReportTable, escape: Callable[[str], str], mark: Callable[[str], str], minus: str = "-"
) -> list[list[str]]:
    def one(cell: RenderedCell) -> str:
        if cell.is_name:
            return escape(cell.text)
        number = f"{cell.text} {cell.interval}".rstrip().replace("-", minus)
        return mark(number) if cell.marked else number

    return [[one(cell) for cell in row] for row in _shown_rows(table)]


def _shown(column: Column, cell: Cell, *, few: bool) -> RenderedCell:
    if isinstance(cell, str):
        return RenderedCell(cell, is_name=True)
    if isinstance(cell, Estimate):
        value, low, high = (_rounded(one, column) for one in (cell.value, cell.low, cell.high))
        interval = "" if math.isnan(cell.low) else f"[{low}, {high}]"
        marked = column.signed and not few and cell.leaves_out_zero()
        return RenderedCell(value, interval, marked=marked)
    if cell is None:
        return RenderedCell("–" if column.estimate else "")
    return RenderedCell(_rounded(cell, column))


def _rounded(value: int | float, column: Column) -> str:
    if isinstance(value, int):
        return str(value)
    sign = "+" if column.signed else ""
    kind = "f" if abs(value) < _LARGE or not math.isfinite(value) else "e"
    return f"{value:{sign}.{column.digits}{kind}}"


def _left(table: ReportTable) -> list[bool]:
    """Whether a column holds names, which are aligned left; numbers are aligned right."""
    return [
        any(isinstance(row[place], str) for row in table.rows)
        for place in range(len(table.columns))
    ]


def _csv_names(column: Column) -> list[str]:
    parts = ["", " stderr", " low", " high"] if column.estimate else [""]
    return [column.name + part for part in parts]


def _csv_cells(column: Column, cell: Cell) -> list[str]:
    if not column.estimate:
        return [markup.csv(cell) if isinstance(cell, str) else _csv_number(cell)]
    if not isinstance(cell, Estimate):
        return [""] * 4
    return [_csv_number(part) for part in (cell.value, cell.stderr, cell.low, cell.high)]


def _csv_number(cell: int | float | Estimate | None) -> str:
    missing = cell is None or (isinstance(cell, float) and math.isnan(cell))
    return "" if missing else repr(cell)
