"""How constructions look, the same in every figure, and the sizes of text."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from unmask.printable import quoted

SMALL, NORMAL, LARGE = 7, 8, 9.5


@dataclass(frozen=True)
class Style:
    """How a construction is drawn; marker and dashes distinguish what colour alone may not."""

    colour: str
    marker: str
    dashes: str = "solid"

    @property
    def marker_size(self) -> float:
        """A star of the size of other markers looks smaller."""
        return 7 if self.marker == "*" else 4.5


_DASHES = ("dashed", "dotted", "dashdot")
# after Paul Tol's "muted" scheme for the colour-blind, the palest darkened, with black and grey
STYLES = {
    "mlm": Style("#000000", "o"),
    "mrf-logit": Style("#888888", "s"),
    "mrf": Style("#CC6677", "D"),
    "hcb": Style("#DDAA33", "^"),
    "ag-paper": Style("#117733", "v"),
    "ag": Style("#44AA99", "<"),
    "weighted-ag": Style("#999933", ">"),
    "pseudo-gibbs": Style("#6699CC", "P"),
    "log-pool": Style("#332288", "*"),
    "orders": Style("#882255", "X"),
    "sweep": Style("#AA4499", "p"),
}


def style_of(name: str) -> Style:
    """The style of one construction."""
    return construction_styles([name])[name]


def construction_styles(names: Iterable[str]) -> dict[str, Style]:
    """One style per construction: always the same for those of the library.

    Others, for example with options, get dashes and a style derived from the name, so it is the
    same in every figure too, unless two constructions of one figure would share it.
    """
    names = list(names)
    styles = {name: STYLES[name] for name in names if name in STYLES}
    looks = [(one.colour, other.marker) for one in STYLES.values() for other in STYLES.values()]
    every = [Style(*look, dashes) for look in looks for dashes in _DASHES]
    for name in sorted(set(names) - STYLES.keys()):
        first = int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest())
        order = (every[(first + step) % len(every)] for step in range(len(every)))
        taken = set(styles.values())
        styles[name] = next((s for s in order if s not in taken), every[first % len(every)])
    return {name: styles[name] for name in names}


def legend_name(name: str) -> str:
    """A name as a legend shows it: escaped, shortened."""
    # a leading underscore would hide it from the legend
    return quoted(name)[1:-1] if not name.startswith("_") else quoted(name)
