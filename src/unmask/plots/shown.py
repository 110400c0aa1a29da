"""A figure that a notebook shows by itself; needs matplotlib, so it is imported late."""

from io import BytesIO

from matplotlib.figure import Figure

from unmask.plots.saving import write_figure

# of CSS: letters are as large as those of a page in the same points
_PIXELS_PER_INCH = 96


class ShownFigure(Figure):
    """Matplotlib's figure as a picture in notebooks, which without pyplot show only its name."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture, and how wide it is: the height follows where a page is narrower."""
        picture = BytesIO()
        write_figure(self, picture, ".png")
        return picture.getvalue(), {"width": round(_PIXELS_PER_INCH * self.get_figwidth())}
