"""Fonts for tokens of any script: those installed that have the glyphs, else the codes.

A character without a glyph would be an empty box. Knows nothing of joints or axes.
"""

import functools
import re
import warnings
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from unmask.plots.saving import disable_math, library

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# comes with matplotlib, so a figure without rare scripts is the same file everywhere
BASE = "DejaVu Sans"
# have a box for every character, colours that matplotlib cannot draw, or formulas' own codes
_UNFIT = re.compile(r"last ?resort|blank|emoji|nonunicode|stixsize|^cm[a-z]+10$", re.IGNORECASE)
_MOST_CODES = 2


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

    def shown_label(self, label: str) -> str:
        """The same for a label, which codes would make too long: the first two, then dots."""
        missing = [place for place, ch in enumerate(label) if ch in self.missing]
        if len(missing) > _MOST_CODES:
            label = label[: missing[_MOST_CODES]] + "..."
        return self.shown(label)


def fonts_for(texts: Iterable[str]) -> Fonts:
    """The installed families that have the characters of these texts."""
    wanted = {ch for text in texts for ch in text if not ch.isspace()}
    families = []
    for family, codes in installed():
        # a family is needed only for what those before it lack
        if held := {ch for ch in wanted if ord(ch) in codes}:
            families.append(family)
            wanted -= held
        if not wanted:
            break
    return Fonts(tuple(families) or (BASE,), frozenset(wanted))


@contextmanager
def drawing(texts: Iterable[str]) -> Iterator[tuple["Figure", Fonts]]:
    """An empty figure that a notebook shows, in matplotlib's own style whatever the user's is.

    With fonts for these texts, and one warning at the end for characters without a glyph.
    """
    fonts = fonts_for(texts)
    style = ["default", {"font.family": list(fonts.families)}]
    with library("matplotlib.style").context(style):
        figure = library("unmask.plots.shown").ShownFigure(layout="constrained")
        yield figure, fonts
    disable_math(figure)
    if fonts.missing:
        warnings.warn(
            f"no installed font has {len(fonts.missing)} of the characters shown: they appear "
            f"as codes, as U+{ord(min(fonts.missing)):04X}; install a font that has them "
            "(Debian: fonts-noto-cjk for Chinese, Japanese and Korean, fonts-symbola for "
            "emoji, fonts-noto-core for others)",
            stacklevel=2,
        )


def installed() -> Iterator[tuple[str, Container[int]]]:
    """Families with the codes of their glyphs: the base font, then sans-serif ones first."""
    yield BASE, _codes(BASE)
    _add_new()
    entries = library("matplotlib.font_manager").fontManager.ttflist
    # of a family without such a face matplotlib would draw with another
    regular = [e for e in entries if e.style == "normal" and e.weight in (400, "normal", "regular")]
    names = {entry.name for entry in regular if not _UNFIT.search(entry.name)} - {BASE}
    for name in sorted(names, key=lambda name: ("Noto Sans" not in name, "Sans" not in name, name)):
        yield name, _codes(name)


@functools.cache
def _add_new() -> None:
    """Add fonts that were installed after matplotlib made its list of fonts."""
    manager = library("matplotlib.font_manager")
    paths = {str(entry.fname) for entry in manager.fontManager.ttflist}
    for path in sorted(set(manager.findSystemFonts()) - paths):
        with suppress(OSError, RuntimeError):  # not a font, whatever its name says
            manager.fontManager.addfont(path)


@functools.cache
def _codes(family: str) -> frozenset[int]:
    """The glyphs of the file that matplotlib will draw with, not always the family's first."""
    manager = library("matplotlib.font_manager")
    with suppress(OSError, RuntimeError, ValueError):
        path = manager.fontManager.findfont(
            manager.FontProperties(family=[family], style="normal", weight="normal"),
            fallback_to_default=False,
            rebuild_if_missing=False,
        )
        return frozenset(manager.get_font(path).get_charmap())
    return frozenset()
