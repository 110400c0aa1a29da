"""Write tables into pages between two marks, and whole tables into CSV files beside the pages.

A block begins with `<!-- NAME: made by runs/SCRIPT -->` and ends with `<!-- end of NAME -->`.
People write the sentences around it. A page shows the few numbers that its sentences need; every
table in full is in `tables/PAGE-SECTION.csv`, with a number per cell.
"""

import csv
import html
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from unmask.errors import UnmaskError

# a line of a table: values by column and part
Row = dict[tuple[str, str], str]
NUMBER = r"([+-]?[\d.,]+(?:e[+-]?\d+)?%?)"
# a cell of an estimate: a verdict, its value, an interval or a standard error, a note
INTERVAL = re.compile(rf"(?:([a-z ]+) )?{NUMBER} [\[(]{NUMBER}(?:,| to) {NUMBER}[\])](?: (\w+))?")
ERROR = re.compile(rf"{NUMBER} (?:\+-|±) {NUMBER}")
PARTS = ("verdict", "", "low", "high", "note", "stderr")


def with_blocks(page: str, blocks: Mapping[str, Iterable[str]]) -> str:
    """The page with the lines of every block between its marks; each block has one place."""
    for name, lines in blocks.items():
        first, last = rf"<!-- {re.escape(name)}: made by [\w/.]+ -->\n", f"<!-- end of {name} -->"
        parts = re.split(rf"(?<=\n)({first})(?:.*?\n)??({re.escape(last)})", page, flags=re.DOTALL)
        count = len(parts) // 3
        if count != 1:
            raise UnmaskError(f"the page has {count} places for the block {name!r}, not one")
        before, opening, closing, after = parts
        page = "".join([before, opening, *(f"{line}\n" for line in lines), closing, after])
    return page


def made(
    path: Path,
    blocks: Mapping[str, Iterable[str]],
    tables: Mapping[str, Iterable[str]] = {},
    prefix: str = "",
) -> dict[Path, str]:
    """The page with its blocks, and the CSV files beside it, by their paths.

    Names of files begin with the name of the page, or with another prefix.
    """
    files = {path: with_blocks(path.read_text("utf-8"), blocks)}
    for name, lines in tables.items():
        files[path.parent / "tables" / f"{prefix or path.stem}-{name}.csv"] = as_csv(lines)
    return files


def stale(files: Mapping[Path, str]) -> list[str]:
    """The names of the files whose text is another one, or that are not there."""
    return [
        path.name
        for path, text in files.items()
        if not path.exists() or path.read_text("utf-8") != text
    ]


def write_blocks(
    path: Path,
    blocks: Mapping[str, Iterable[str]],
    tables: Mapping[str, Iterable[str]] = {},
    prefix: str = "",
) -> None:
    """Renew the blocks of a page that people write, and the CSV files of whole tables."""
    for file, text in made(path, blocks, tables, prefix).items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")


def as_csv(lines: Iterable[str]) -> str:
    """Tables in Markdown as one of CSV: what precedes a table names its rows in `section`.

    Tables may have different columns; a row is empty where it has none. An estimate with an
    interval or a standard error takes a column per number.
    """
    rows = [row for section, table in _tables(lines) for row in _rows(section, table)]
    heads = dict.fromkeys(head for row in rows for head, _ in row)
    used = {key for row in rows for key, value in row.items() if value}
    columns = [(head, part) for head in heads for part in PARTS if (head, part) in used]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([f"{head} {part}".strip() for head, part in columns])
    writer.writerows([row.get(column, "") for column in columns] for row in rows)
    return file.getvalue()


def _tables(lines: Iterable[str]) -> Iterator[tuple[str, list[list[str]]]]:
    """Every table as its cells, with the last line of text before it."""
    section: list[str] = []
    table: list[list[str]] = []
    for line in (part for one in [*lines, ""] for part in one.split("\n")):
        if line.startswith("|"):
            table.append([_plain(cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
            continue
        if table:
            yield ", ".join(section), table
            table = []
        if heading := re.match(r"(#+) (.*)", line):
            section = [*section[: max(0, len(heading[1]) - 2)], _plain(heading[2])]


def _rows(section: str, table: Sequence[Sequence[str]]) -> Iterator[Row]:
    first, _, *lines = table
    heads = [head or f"column {place}" for place, head in enumerate(first, start=1)]
    # a later column would overwrite an earlier one of the same name
    if repeated := sorted({head for head in heads if heads.count(head) > 1}):
        raise UnmaskError(f"a table has two columns named {', '.join(repeated)}: name them apart")
    for cells in lines:
        row = {("section", ""): section}
        for head, cell in zip(heads, cells, strict=True):
            for part, value in _numbers(cell).items():
                row[head, part] = value
        yield row


def _numbers(cell: str) -> dict[str, str]:
    """The parts of an estimate, or all of another cell."""
    if match := INTERVAL.fullmatch(cell):
        return dict(zip(PARTS[:5], (part or "" for part in match.groups()), strict=True))
    if match := ERROR.fullmatch(cell):
        return {"": match[1], "stderr": match[2]}
    # a count
    return {"": cell.replace(",", "") if re.fullmatch(r"[\d,]+", cell) else cell}


def _plain(cell: str) -> str:
    """Without the marks of Markdown."""
    text = re.sub(r"\*\*|`", "", cell.strip())
    return html.unescape(re.sub(r"\\([\\`*_\[\]#|<>~-])", r"\1", text))
