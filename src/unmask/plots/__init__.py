"""Pictures of joints: heat maps, constructions side by side, what accuracy costs.

What a program needs is here by name, imported when first used; matplotlib only when something is
drawn, and never its pyplot: nothing needs a screen, and no figure stays open.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

if TYPE_CHECKING:
    from unmask.plots.comparison import compare
    from unmask.plots.heat_map import plot
    from unmask.plots.saving import save_figure
    from unmask.plots.styles import STYLES, Style, construction_styles
    from unmask.plots.trade_off import Point, frontier

_HOME = {
    "STYLES": "styles",
    "Point": "trade_off",
    "Style": "styles",
    "compare": "comparison",
    "construction_styles": "styles",
    "frontier": "trade_off",
    "plot": "heat_map",
    "save_figure": "saving",
}

__all__ = [
    "STYLES",
    "Point",
    "Style",
    "compare",
    "construction_styles",
    "frontier",
    "plot",
    "save_figure",
]


__getattr__ = lazy_names(__name__, _HOME)
