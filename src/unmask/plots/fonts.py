"""Fonts for tokens of any script: those installed that have the glyphs, else the codes.

A character without a glyph would be an empty box. Knows nothing of joints or axes.
"""

import functools
import re
import unicodedata
import warnings
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from unmask.plots.saving import library

# comes with matplotlib, so a figure without rare scripts is the same file everywhere
BASE = "DejaVu Sans"
# have a box for every character, colours that matplotlib cannot draw, or formulas' own codes
_UNFIT = re.compile(r"last ?resort|blank|emoji|nonunicode|stixsize|^cm[a-z]+10$", re.IGNORECASE)
_MOST_CODES = 2
# of Debian; others are in fonts-noto-core
_PACKAGES = dict.fromkeys(("CJK", "Hangul", "Hiragana", "Katakana", "Bopomofo"), "fonts-noto-cjk")
_PACKAGES["Emoji"] = "fonts-symbola"
# punctuation, and full-width forms
_CJK_SIGNS = (range(0x3000, 0x3100), range(0xFF00, 0xFFF0))
_EMOJI = range(0x1F000, 0x20000)


@dataclass(frozen=True)
class Face:
    """A font family, and the codes of the characters that it can draw."""

    family: str
    codes: Container[int]


@dataclass(frozen=True)
class Fonts:
    """Families to draw with, in order, and the characters that none of them has."""

    families: tuple[str, ...]
    missing: frozenset[str] = frozenset()

    def shown(self, text: str) -> str:
        """The text with a code as U+53F0 in place of each character that has no glyph."""
        if not self.missing & set(text):
            return text
        parts = [f" U+{ord(ch):04X} " if ch in self.missing else ch for ch in text]
        return " ".join("".join(parts).split())

    def shown_shortly(self, label: str) -> str:
        """The same for a label, which codes would make too long: the first two, then dots."""
        missing = [place for place, ch in enumerate(label) if ch in self.missing]
        cut = label[: missing[_MOST_CODES]] + "..." if len(missing) > _MOST_CODES else label
        return self.shown(cut)

    def warn(self) -> None:
        """Say once what is missing and what to install."""
        if self.missing:
            warnings.warn(_advice(self.missing), stacklevel=2)


def fonts_for(texts: Iterable[str], faces: Iterable[Face] | None = None) -> Fonts:
    """The families that have the characters of these texts, of those installed."""
    wanted = {ch for text in texts for ch in text if not ch.isspace()}
    families = []
    for face in installed() if faces is None else faces:
        # a family is needed only for what those before it lack
        if held := {ch for ch in wanted if ord(ch) in face.codes}:
            families.append(face.family)
            wanted -= held
        if not wanted:
            break
    return Fonts(tuple(families) or (BASE,), frozenset(wanted))


def installed() -> Iterator[Face]:
    """The base font, then one face a family, upright and regular sans-serif ones first."""
    yield Face(BASE, _codes(_file(BASE)))
    names = _regular(_manager().ttflist) - {BASE}
    yield from _faces(names)
    # matplotlib keeps a list of fonts, which does not know those installed after it was made
    yield from _faces(_newly_installed() - names)


def _faces(names: Iterable[str]) -> Iterator[Face]:
    for name in sorted(names, key=lambda name: ("Noto Sans" not in name, "Sans" not in name, name)):
        if not _UNFIT.search(name):
            # the file that matplotlib will draw with, which need not be the family's first
            yield Face(name, _codes(_file(name)))


@functools.cache
def _newly_installed() -> frozenset[str]:
    manager = _manager()
    known = {str(entry.fname) for entry in manager.ttflist}
    count = len(manager.ttflist)
    for path in sorted(set(library("matplotlib.font_manager").findSystemFonts()) - known):
        try:
            manager.addfont(path)
        except (OSError, RuntimeError):  # no font, whatever its name says
            continue
    return _regular(manager.ttflist[count:])


def _regular(entries: Iterable[Any]) -> frozenset[str]:
    """Families with an upright face of normal weight: of others matplotlib would take the next."""
    return frozenset(
        entry.name
        for entry in entries
        if entry.style == "normal" and entry.weight in (400, "normal", "regular")
    )


@functools.cache
def _codes(path: Any) -> frozenset[int]:
    try:
        return frozenset(library("matplotlib.font_manager").get_font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


@functools.cache
def _file(family: str) -> Any:
    """The file, as matplotlib names it: of a collection that is more than a path."""
    manager = library("matplotlib.font_manager")
    found = manager.FontProperties(family=[family], style="normal", weight="normal")
    try:
        return _manager().findfont(found, fallback_to_default=False, rebuild_if_missing=False)
    except ValueError:
        return ""


def _manager() -> Any:
    return library("matplotlib.font_manager").fontManager


def _advice(missing: Iterable[str]) -> str:
    characters = sorted(missing)
    scripts = sorted({_script(ch) for ch in characters})
    packages = sorted({_PACKAGES.get(one, "fonts-noto-core") for one in scripts})
    return (
        f"no installed font has {len(characters)} of the characters shown ({', '.join(scripts)}): "
        f"they appear as codes, as U+{ord(characters[0]):04X}; install a font that has them "
        f"(Debian: apt install {' '.join(packages)})"
    )


def _script(ch: str) -> str:
    """The script of a character, by the first word of its name where its block does not say."""
    first = unicodedata.name(ch, "other").split()[0].capitalize()
    if first in _PACKAGES:
        return first
    if any(ord(ch) in block for block in _CJK_SIGNS) or first == "Cjk":
        return "CJK"
    return "Emoji" if ord(ch) in _EMOJI else first
