"""Pictures of joints: heat maps, and constructions side by side.

What a program needs is here by name, imported when first used; matplotlib only when something is
drawn, and never its pyplot: nothing needs a screen, and no figure stays open.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

if TYPE_CHECKING:
    from unmask.plots.comparison import compare as compare
    from unmask.plots.heat_map import plot as plot
    from unmask.plots.saving import save_figure as save_figure
    from unmask.plots.styles import STYLES as STYLES
    from unmask.plots.styles import Style as Style
    from unmask.plots.styles import construction_styles as construction_styles

_HOMES = {
    "unmask.plots.comparison": ("compare",),
    "unmask.plots.heat_map": ("plot",),
    "unmask.plots.saving": ("save_figure",),
    "unmask.plots.styles": ("STYLES", "Style", "construction_styles"),
}
__all__, __getattr__ = lazy_names(__name__, _HOMES)
