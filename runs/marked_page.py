"""Write tables into pages between two marks, and leave the sentences around them to people.

A block begins with `<!-- NAME: made by runs/SCRIPT -->` and ends with `<!-- end of NAME -->`.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from unmask.errors import UnmaskError


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


def write_blocks(path: Path, blocks: Mapping[str, Iterable[str]]) -> None:
    """Renew the blocks of a page that people write."""
    path.write_text(with_blocks(path.read_text("utf-8"), blocks), "utf-8")
