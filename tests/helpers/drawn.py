"""Figures as they are drawn: the note below, and texts that cannot be read."""

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text


def notes(figure: Figure) -> str:
    return " ".join(figure._supxlabel.get_text().split())


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts that cover each other, and texts that leave the page."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    # ticks of a colour bar beyond its ends exist, but are not drawn
    bar = figure.axes[-1]
    unseen = set(bar.get_yticklabels()) if bar.get_label() == "<colorbar>" else set()
    texts = [one for one in set(figure.findobj(Text)) - unseen if one.get_visible()]
    texts = [one for one in texts if one.get_text().strip()]
    # turned labels have boxes that overlap where they do not
    texts = [one for one in texts if one.get_rotation() in (0, 90)]
    boxes = [(one.get_text(), one.get_window_extent(renderer)) for one in texts]
    page = figure.bbox
    found = [
        (text, "the page")
        for text, box in boxes
        if box.x0 < -1 or box.y0 < -1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1
    ]
    for place, (text, box) in enumerate(boxes):
        found += [(text, other) for other, its in boxes[:place] if box.overlaps(its)]
    return found
