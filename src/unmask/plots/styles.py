"""The looks of constructions, the same in every figure, and the sizes of text."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from unmask.names import METHODS
from unmask.printable import quoted

SMALL, NORMAL, LARGE = 7, 8, 9.5


@dataclass(frozen=True)
class Style:
    """The look of a construction; marker and dashes distinguish what colour alone may not."""

    colour: str
    marker: str
    dashes: str = "solid"

    @property
    def marker_size(self) -> float:
        """The size of the marker; larger for a star, which would look smaller than the others."""
        return 7 if self.marker == "*" else 4.5


_DASHES = ("dashed", "dotted", "dashdot")


def _library_styles() -> dict[str, Style]:
    # the order decides how other names look, in figures that are published too
    every = ("mlm", "mrf-logit", *METHODS)
    return {name: Style(METHODS[name].colour, METHODS[name].marker) for name in every}


STYLES = _library_styles()


def style_of(name: str) -> Style:
    """The style of one construction."""
    return construction_styles([name])[name]


def construction_styles(names: Iterable[str]) -> dict[str, Style]:
    """One style per construction: always the same for those of the library.

    Others, for example with options, get dashes and a style derived from the name, so it is the
    same in every figure too, unless two constructions of one figure would share it.

    Args:
        names: Names of constructions.
    Returns:
        Colour, line and marker by name.
    Examples:
        >>> list(unmask.plots.construction_styles(["log-pool", "mine"]))
        ['log-pool', 'mine']
    """
    names, library = list(names), _library_styles()
    styles = {name: library[name] for name in names if name in library}
    every = list(library.values())
    looks = [(first.colour, second.marker) for first in every for second in every]
    others = [Style(*look, dashes) for look in looks for dashes in _DASHES]
    for name in sorted(set(names) - library.keys()):
        first = int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest())
        order = (others[(first + step) % len(others)] for step in range(len(others)))
        taken = set(styles.values())
        styles[name] = next((s for s in order if s not in taken), others[first % len(others)])
    return {name: styles[name] for name in names}


def legend_name(name: str) -> str:
    """A name as a legend shows it: escaped, shortened."""
    # a leading underscore would hide it from the legend
    return quoted(name)[1:-1] if not name.startswith("_") else quoted(name)
