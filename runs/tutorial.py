"""Run the Python of a tutorial page, and write what it prints under each block.

    python runs/tutorial.py docs/tutorials/several-blanks.md \
        --model bert-base-cased=FOLDER --model antiberty=FOLDER ...

Blocks share one namespace, as in a notebook. `--model NAME=FOLDER` says which model stands for a
name that the page loads; the page says so too.
"""

import argparse
import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<said>.*?)```\n)?", re.DOTALL)


def executed(page: str, models: Mapping[str, str]) -> str:
    """The page with every block's own output below it."""
    names: dict[str, object] = {}

    def run(block: re.Match[str]) -> str:
        said = _run(block["code"], models, names)
        shown = f"\n```text\n{said}```\n" if said else ""
        return f"```python\n{block['code']}```\n{shown}"

    return _BLOCK.sub(run, page)


def blocks(page: str) -> list[tuple[str, str]]:
    """The code of every block, and what the page says that it prints."""
    return [(found["code"], found["said"] or "") for found in _BLOCK.finditer(page)]


def _run(code: str, models: Mapping[str, str], names: dict[str, object]) -> str:
    for name, folder in models.items():
        code = code.replace(f'"{name}"', repr(folder))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "tutorial", "exec"), names)
    return printed.getvalue()


def main(arguments: Sequence[str] | None = None) -> None:
    """Bring a page up to date."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER")
    chosen = parser.parse_args(arguments)
    models = dict(one.split("=", 1) for one in chosen.model)
    page = chosen.page.read_text(encoding="utf-8")
    chosen.page.write_text(executed(page, models), encoding="utf-8")


if __name__ == "__main__":
    main()
