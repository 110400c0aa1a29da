"""Check the built documentation: complete in itself, no link broken, tutorials with their outputs.

    python -m sphinx -W --keep-going -b html docs build/docs
    python runs/check_site.py build/docs

A reader's browser must ask no other host for anything that a page needs: links may lead away, but
scripts, styles, fonts and pictures are in the folder. A page that has cells has outputs.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# what a browser fetches by itself, by element and attribute; `a` it does not
_FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("img", "srcset"),
    ("source", "src"),
    ("source", "srcset"),
    ("iframe", "src"),
    ("embed", "src"),
    ("object", "data"),
    ("video", "src"),
    ("audio", "src"),
    ("image", "href"),
    ("use", "href"),
}
# links that are fetched; others (next, search, canonical) are for readers
_FETCHED_RELATIONS = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect"}
_IN_STYLES = re.compile(r"""url\(\s*['"]?([^'")\s]+)|@import\s+['"]([^'"]+)""")


@dataclass
class Page(HTMLParser):
    """What of a page is checked."""

    fetched: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    in_style: bool = False

    def __post_init__(self) -> None:
        """Begin parsing."""
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what an element refers to and can be referred to by."""
        given = {name.removeprefix("xlink:"): value or "" for name, value in attrs}
        self.in_style = tag == "style"
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.classes |= set(given.get("class", "").split())
        self.fetched += [given[name] for name in given if (tag, name) in _FETCHED]
        self.fetched += in_styles(given.get("style", ""))
        if tag == "link" and _FETCHED_RELATIONS & set(given.get("rel", "").split()):
            self.fetched.append(given.get("href", ""))
        if tag in ("a", "link") and "href" in given:
            self.links.append(given["href"])

    def handle_data(self, data: str) -> None:
        """Styles written into a page may fetch too."""
        if self.in_style:
            self.fetched += in_styles(data)

    def handle_endtag(self, tag: str) -> None:
        """Text after styles is text."""
        self.in_style = False


def in_styles(text: str) -> list[str]:
    """What a style sheet fetches."""
    return [first or second for first, second in _IN_STYLES.findall(text)]


def read(file: Path) -> Page:
    """A page, parsed."""
    page = Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def faults(site: Path) -> list[str]:
    """All that is wrong with a site, a line each."""
    pages = {file.resolve(): read(file) for file in sorted(site.rglob("*.html"))}
    if not pages:
        return [f"{site} has no pages"]
    found = list(_of_style_sheets(site))
    for file, page in pages.items():
        found += [f"{_shown(file, site)}: {fault}" for fault in _of_page(file, page, pages)]
    for file, page in pages.items():
        if "cell_input" in page.classes and "cell_output" not in page.classes:
            found.append(f"{_shown(file, site)}: has cells, and none has an output")
    return found


def _shown(file: Path, site: Path) -> str:
    return file.relative_to(site.resolve()).as_posix()


def _of_style_sheets(site: Path) -> Iterator[str]:
    for file in sorted(site.rglob("*.css")):
        for target in in_styles(file.read_text(encoding="utf-8")):
            if _is_outside(target):
                yield f"{file.relative_to(site).as_posix()} fetches {target}"


def _of_page(file: Path, page: Page, pages: Mapping[Path, Page]) -> Iterator[str]:
    yield from (f"fetches {target}" for target in page.fetched if _is_outside(target))
    for target in dict.fromkeys(page.links + page.fetched):
        if not urlsplit(target).scheme and not _is_outside(target):
            yield from _of_link(target, file, page, pages)


def _of_link(target: str, file: Path, page: Page, pages: Mapping[Path, Page]) -> Iterator[str]:
    parts = urlsplit(target)
    place = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not place.is_file():
        yield f"links to {target}, which is not there"
    elif parts.fragment and place in pages:
        anchors = page.anchors if place == file else pages[place].anchors
        if unquote(parts.fragment) not in anchors:
            yield f"links to {target}, where there is no such anchor"


def _is_outside(target: str) -> bool:
    """Whether it is on another host; `//host/` takes the scheme of the page."""
    return urlsplit(target).scheme in ("http", "https", "ws", "wss") or target.startswith("//")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print all faults; exit code 1 where there are some."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("site", type=Path, help="folder that Sphinx wrote")
    found = faults(parser.parse_args(arguments).site)
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
