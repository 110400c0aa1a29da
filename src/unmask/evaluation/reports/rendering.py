"""Tables written out: aligned text, Markdown, LaTeX and CSV.

All but CSV are for readers: settings that all rows share stand in the title, and an estimate is one
cell. CSV is for programs: every column, full precision, four columns per estimate.
"""

import csv
import io
import math
from collections.abc import Callable

from unmask import markup
from unmask.evaluation.reports.tables import FEWEST, NAMES, Cell, ReportTable
from unmask.printable import columns as aligned
from unmask.printable import printable
from unmask.resampling import Estimate

# beyond this a fixed number of digits is no longer readable
_LARGE = 1e7
_ESTIMATES = frozenset(NAMES.values())


def text(table: ReportTable) -> str:
    """The table in aligned columns; a star marks differences that exclude zero."""
    compact = table.compact()
    lines = _cells(compact, printable, "{} *")
    parts = [*map(printable, _above(compact)), aligned(lines), *map(printable, compact.notes)]
    return "\n\n".join(parts) + "\n"


def markdown(table: ReportTable) -> str:
    """The table in Markdown; differences that exclude zero are bold."""
    compact = table.compact()
    head, *body = _cells(compact, markup.markdown, "**{}**")
    rule = [":---" if left else "---:" for left in _left(compact)]
    lines = "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *body])
    title, *terms = map(markup.markdown, _above(compact))
    return "\n\n".join([f"**{title}**", *terms, lines, *map(markup.markdown, compact.notes)]) + "\n"


def latex(table: ReportTable) -> str:
    """The table in LaTeX, for the package booktabs; differences that exclude zero are bold."""
    compact = table.compact()
    cells = _cells(compact, markup.latex, r"\textbf{{{}}}", minus="$-$")
    head, *body = (" & ".join(line) + r" \\" for line in cells)
    kinds = "".join("l" if left else "r" for left in _left(compact))
    caption = " ".join(map(markup.latex, [f"{compact.title}.", *compact.terms, *compact.notes]))
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
    parts = ("", " stderr", " low", " high")
    writer.writerow(
        name + part
        for name in table.columns
        for part in (parts if name in _ESTIMATES else parts[:1])
    )
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        writer.writerow(part for name, cell in cells for part in _csv_cells(name, cell))
    return written.getvalue()


def _above(table: ReportTable) -> list[str]:
    """The title, and what explains the names of the table as one paragraph."""
    return [table.title, *([" ".join(table.terms)] if table.terms else [])]


def _cells(
    table: ReportTable, escape: Callable[[str], str], mark: str, minus: str = "-"
) -> list[list[str]]:
    """The head and the rows, names escaped; `mark` is around differences that exclude zero."""
    lines = [[escape(name) for name in table.columns]]
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        examples = cells.get("examples")
        enough = table.signed and isinstance(examples, int) and examples >= FEWEST
        line = []
        for name, cell in cells.items():
            if isinstance(cell, str):
                line.append(escape(cell))
                continue
            number = _number(name, cell, "+" if table.signed else "").replace("-", minus)
            clear = isinstance(cell, Estimate) and cell.leaves_out_zero()
            line.append(mark.format(number) if clear and enough else number)
        lines.append(line)
    return lines


def _number(name: str, cell: int | float | Estimate | None, sign: str) -> str:
    if cell is None:
        return "–" if name in _ESTIMATES else ""
    # perplexities have as many digits as the paper's
    digits = 2 if "PPL" in name else 3

    def rounded(value: int | float) -> str:
        if isinstance(value, int):
            return str(value)
        kind = "f" if abs(value) < _LARGE or not math.isfinite(value) else "e"
        return f"{value:{sign}.{digits}{kind}}"

    if not isinstance(cell, Estimate):
        return rounded(cell)
    interval = "" if math.isnan(cell.low) else f" [{rounded(cell.low)}, {rounded(cell.high)}]"
    return rounded(cell.value) + interval


def _left(table: ReportTable) -> list[bool]:
    """Whether a column holds names, which are aligned left; numbers are aligned right."""
    return [
        any(isinstance(row[place], str) for row in table.rows)
        for place in range(len(table.columns))
    ]


def _csv_cells(name: str, cell: Cell) -> list[str]:
    if isinstance(cell, Estimate):
        return [_csv_number(part) for part in (cell.value, cell.stderr, cell.low, cell.high)]
    if name in _ESTIMATES:
        return [""] * 4
    return [markup.csv(cell) if isinstance(cell, str) else _csv_number(cell)]


def _csv_number(cell: int | float | None) -> str:
    missing = cell is None or (isinstance(cell, float) and math.isnan(cell))
    return "" if missing else repr(cell)
