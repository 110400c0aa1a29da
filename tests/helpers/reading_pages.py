"""Pages of the documentation as text: a notebook is Markdown with its code fenced."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


def pages() -> list[Path]:
    """Every page, in whichever form."""
    return sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")])


def text_of(page: Path) -> str:
    """What an author wrote, without outputs."""
    if page.suffix != ".ipynb":
        return page.read_text(encoding="utf-8")
    return "\n\n".join(
        cell.source if cell.cell_type == "markdown" else f"```{{code-cell}}\n{cell.source}\n```"
        for cell in notebook(page).cells
    )


def notebook(page: Path) -> Any:
    """A notebook as nbformat reads it."""
    nbformat = pytest.importorskip("nbformat")
    return nbformat.read(page, as_version=4)


def columns() -> dict[str, list[str]]:
    """The columns that commands write, as the reference lists them: the commands of each."""
    every: dict[str, list[str]] = {}
    row = re.compile(r"^\| (`.+?`) \| .+? \|(?: ([^|`]+) \|)?$", re.MULTILINE)
    for section in text_of(DOCS / "reference" / "columns.md").split("\n## ")[1:]:
        command = section.partition("\n")[0]
        for cell, commands in row.findall(section):
            for name in re.findall("`(.+?)`", cell):
                assert name not in every
                every[name] = commands.split(", ") if commands else [command]
    assert len(every) > 80
    return every


def columns_of(command: str) -> set[str]:
    """The columns of one command."""
    return {name for name, commands in columns().items() if command in commands}


def alike(printed: str, shown: str) -> None:
    """Words and their order; numbers to a twentieth, for an estimate draws from the model."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
    for one, other in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        a, b = (float(text.replace(",", "")) for text in (one, other))
        assert a == pytest.approx(b, rel=0.05, abs=0.002), (one, other)


def check_sentences(files: dict[Path, str], stated: Collection[str] = ()) -> None:
    """Every decimal number in the sentences of a page is in its tables or its CSV files.

    Except those that are stated, such as aims.
    """
    page, *tables = files.values()
    page = re.sub(r"\]\([^)]*\)", "]", page)
    blocks = re.findall("(?ms)^<!-- [^\\n]*: made by .*?^<!-- end of ", page)
    # versions have more than one point
    sentences, number = page, r"(?<![\d.])\d+\.\d+(?!\.?\d)"
    for block in blocks:
        sentences = sentences.replace(block, "")
    numbers = set(re.findall(number, "".join([*blocks, *tables])))
    assert set(re.findall(number, sentences)) - numbers - {*stated} == set()
