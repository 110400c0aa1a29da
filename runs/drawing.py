"""Colours of figures on pages: readable on white paper and on a dark screen, without a background.

Data are in colours of Paul Tol's, which colour-blind readers can tell from each other; letters
and axes are in a grey between black and white.
"""

from typing import Any

INK = "#7a7a7a"
COLOURS = ("#4477AA", "#CC6677", "#228833", "#AA3377", "#CCBB44", "#66CCEE")
STYLE: dict[str, Any] = {
    "savefig.transparent": True,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.labelcolor": INK,
    "legend.framealpha": 0,
}
