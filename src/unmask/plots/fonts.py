"""Fonts for tokens of any script: those installed that have the glyphs, else the codes.

A character without a glyph would be an empty box. Knows nothing of joints or axes.
"""

import functools
import re
import warnings
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from unmask.plots.saving import library, new_figure, own_settings, plain_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# comes with matplotlib, so a figure without rare scripts is the same file everywhere
BASE = "DejaVu Sans"
# have a box for every character, colours that matplotlib cannot draw, or formulas' own codes
_UNFIT = re.compile(r"last ?resort|blank|emoji|nonunicode|stixsize|^cm[a-z]+10$", re.IGNORECASE)
_MOST_CODES = 2


class Face(NamedTuple):
    """A font family, and the codes of the characters that it can draw."""

    family: str
    codes: Container[int]


class Fonts(NamedTuple):
    """Families to draw with, in order, and the characters that none of them has."""

    families: tuple[str, ...]
    missing: frozenset[str] = frozenset()

    def shown(self, text: str) -> str:
        """The text with a code as U+53F0 in place of each character that has no glyph."""
        if not self.missing & set(text):
            return text
        parts = [f" U+{ord(ch):04X} " if ch in self.missing else ch for ch in text]
        return " ".join("".join(parts).split())

    def shown_labels(self, labels: Iterable[str]) -> list[str]:
        """The same for labels, which codes would make too long: the first two, then dots."""
        return [self.shown(self._cut(label)) for label in labels]

    def _cut(self, label: str) -> str:
        missing = [place for place, ch in enumerate(label) if ch in self.missing]
        return label[: missing[_MOST_CODES]] + "..." if len(missing) > _MOST_CODES else label

    def warn(self) -> None:
        """Say once what is missing and what to install."""
        if self.missing:
            warnings.warn(
                f"no installed font has {len(self.missing)} of the characters shown: they appear "
                f"as codes, as U+{ord(min(self.missing)):04X}; install a font that has them "
                "(Debian: fonts-noto-cjk for Chinese, Japanese and Korean, fonts-symbola for "
                "emoji, fonts-noto-core for others)",
                stacklevel=2,
            )


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


@contextmanager
def drawing(texts: Iterable[str]) -> Iterator[tuple["Figure", Fonts]]:
    """An empty figure and fonts for these texts; at the end, one warning on what has no glyph."""
    fonts = fonts_for(texts)
    with own_settings(fonts.families):
        figure = new_figure()
        yield figure, fonts
    plain_text(figure)
    fonts.warn()


def installed() -> Iterator[Face]:
    """The base font, then one face per family, upright and regular, sans-serif ones first."""
    yield Face(BASE, _codes(BASE))
    known = _families()
    yield from (Face(name, _codes(name)) for name in known)
    _add_new()
    yield from (Face(name, _codes(name)) for name in _families() if name not in known)


def _families() -> list[str]:
    entries = library("matplotlib.font_manager").fontManager.ttflist
    # of a family without such a face matplotlib would draw with another
    regular = [e for e in entries if e.style == "normal" and e.weight in (400, "normal", "regular")]
    names = {entry.name for entry in regular if not _UNFIT.search(entry.name)} - {BASE}
    return sorted(names, key=lambda name: ("Noto Sans" not in name, "Sans" not in name, name))


@functools.cache
def _add_new() -> None:
    """Matplotlib keeps a list of fonts, which does not know those installed after it was made."""
    manager = library("matplotlib.font_manager")
    known = {str(entry.fname) for entry in manager.fontManager.ttflist}
    for path in sorted(set(manager.findSystemFonts()) - known):
        with suppress(OSError, RuntimeError):  # not a font, whatever its name says
            manager.fontManager.addfont(path)


@functools.cache
def _codes(family: str) -> frozenset[int]:
    """Of the file that matplotlib will draw with, which need not be the family's first."""
    manager = library("matplotlib.font_manager")
    with suppress(OSError, RuntimeError, ValueError):
        path = manager.fontManager.findfont(
            manager.FontProperties(family=[family], style="normal", weight="normal"),
            fallback_to_default=False,
            rebuild_if_missing=False,
        )
        return frozenset(manager.get_font(path).get_charmap())
    return frozenset()
