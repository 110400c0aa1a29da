"""Tables written out: aligned text, Markdown, LaTeX and CSV.

All but CSV are for readers: settings that all rows share stand in the title, and an estimate is one
cell. CSV is for programs: every column, full precision, four columns per estimate.
"""

import csv
import io
import math
from collections.abc import Callable

from unmask import markup
from unmask.evaluation.reports.tables import FEWEST, Cell, Column, ReportTable
from unmask.printable import columns as aligned
from unmask.printable import printable
from unmask.resampling import Estimate

# beyond this a fixed number of digits is no longer readable
_LARGE = 1e7


def text(table: ReportTable) -> str:
    """The table in aligned columns; a star marks differences that exclude zero."""
    shown = table.compact()
    lines = _cells(shown, printable, "{} *")
    parts = [*map(printable, _above(shown)), aligned(lines), *map(printable, shown.notes)]
    return "\n\n".join(parts) + "\n"


def markdown(table: ReportTable) -> str:
    """The table in Markdown; differences that exclude zero are bold."""
    shown = table.compact()
    head, *body = _cells(shown, markup.markdown, "**{}**")
    rule = [":---" if left else "---:" for left in _left(shown)]
    lines = "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *body])
    title, *terms = map(markup.markdown, _above(shown))
    return "\n\n".join([f"**{title}**", *terms, lines, *map(markup.markdown, shown.notes)]) + "\n"


def latex(table: ReportTable) -> str:
    """The table in LaTeX, for the package booktabs; differences that exclude zero are bold."""
    shown = table.compact()
    cells = _cells(shown, markup.latex, r"\textbf{{{}}}", minus="$-$")
    head, *body = (" & ".join(line) + r" \\" for line in cells)
    kinds = "".join("l" if left else "r" for left in _left(shown))
    caption = " ".join(map(markup.latex, [f"{shown.title}.", *shown.terms, *shown.notes]))
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{caption}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def comma_separated(table: ReportTable) -> str:
    """The table in CSV: an estimate as value, standard error and the ends of its interval."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([markup.csv(name) for column in table.columns for name in _csv_names(column)])
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        writer.writerow([part for column, cell in cells for part in _csv_cells(column, cell)])
    return written.getvalue()


def _above(table: ReportTable) -> list[str]:
    """The title, and what explains the names of the table as one paragraph."""
    return [table.title, *([" ".join(table.terms)] if table.terms else [])]


def _cells(
    table: ReportTable, escape: Callable[[str], str], mark: str, minus: str = "-"
) -> list[list[str]]:
    """The head and the rows, names escaped; `mark` is around differences that exclude zero."""
    lines = [[escape(column.name) for column in table.columns]]
    for row in table.rows:
        cells = list(zip(table.columns, row, strict=True))
        few = any(isinstance(n, int) and n < FEWEST for column, n in cells if column.counts)
        line = []
        for column, cell in cells:
            if isinstance(cell, str):
                line.append(escape(cell))
                continue
            number = _number(column, cell).replace("-", minus)
            clear = isinstance(cell, Estimate) and cell.leaves_out_zero()
            line.append(mark.format(number) if column.signed and clear and not few else number)
        lines.append(line)
    return lines


def _number(column: Column, cell: int | float | Estimate | None) -> str:
    if cell is None:
        return "–" if column.estimate else ""
    if not isinstance(cell, Estimate):
        return _rounded(cell, column)
    value, low, high = (_rounded(part, column) for part in (cell.value, cell.low, cell.high))
    return value if math.isnan(cell.low) else f"{value} [{low}, {high}]"


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
