"""Tables written out: aligned text, Markdown, LaTeX and CSV.

All but CSV are for readers: settings that all rows share stand in the title, and an estimate is one
cell. CSV is for programs: every column, full precision, four columns per estimate.
"""

import csv
import io
import math
from collections.abc import Callable
from itertools import chain

from unmask import markup
from unmask.evaluation.reports.tables import NAMES, Cell, ReportTable
from unmask.printable import columns as aligned
from unmask.printable import printable
from unmask.resampling import FEWEST, Estimate

# beyond this a fixed number of digits is no longer readable
_LARGE = 1e7
_ESTIMATES = frozenset(NAMES.values())
# of an estimate in CSV: what is added to the name of its column
_PARTS = {"value": "", "stderr": " stderr", "low": " low", "high": " high"}


def text(table: ReportTable) -> str:
    """The table in aligned columns; a star marks differences that exclude zero."""
    compact = table.compact()
    lines = aligned(_cells(compact, printable, "{} *"))
    return _document(compact, printable(compact.title), lines, printable)


def markdown(table: ReportTable) -> str:
    """The table in Markdown; differences that exclude zero are bold."""
    compact, escape = table.compact(), markup.markdown
    head, *body = _cells(compact, escape, "**{}**")
    rule = [":---" if left else "---:" for left in _left(compact)]
    lines = "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *body])
    return _document(compact, f"**{escape(compact.title)}**", lines, escape)


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
    heads = ([n + p for p in _PARTS.values()] if n in _ESTIMATES else [n] for n in table.columns)
    writer.writerow(chain(*heads))
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        writer.writerow(chain(*(_csv_cells(cell, name in _ESTIMATES) for name, cell in cells)))
    return written.getvalue()


def _document(table: ReportTable, title: str, lines: str, escape: Callable[[str], str]) -> str:
    """The title, the terms in one paragraph, the lines of the table and its notes."""
    terms = " ".join(map(escape, table.terms))
    paragraphs = [title, terms, lines, *map(escape, table.notes)]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


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
    """True for each column that holds names, aligned left; numbers are aligned right."""
    return [any(isinstance(row[at], str) for row in table.rows) for at in range(len(table.columns))]


def _csv_cells(cell: Cell, is_estimate: bool) -> list[str]:
    if isinstance(cell, str):
        return [markup.csv(cell)]
    numbers = [getattr(cell, part, None) for part in _PARTS] if is_estimate else [cell]
    return [
        "" if n is None or (isinstance(n, float) and math.isnan(n)) else repr(n) for n in numbers
    ]


FORMATS = {"text": text, "markdown": markdown, "latex": latex, "csv": comma_separated}
