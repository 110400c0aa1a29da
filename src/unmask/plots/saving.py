"""Matplotlib as figures here need it: imported late, with its own settings, into whole files."""

from collections.abc import Mapping
from copy import deepcopy
from importlib import import_module
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from unmask.durable import replacing
from unmask.errors import UnmaskError
from unmask.printable import printable, quoted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# without the date: the same figure is the same file
FORMATS: Mapping[str, Mapping[str, None]] = {
    ".svg": {"Date": None},
    ".png": {},
    ".pdf": {"CreationDate": None},
}
_INSTALL = "pip install 'unmask[plots]'"


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure as .svg, .png or .pdf; the file appears whole or not at all.

    Args:
        figure: A figure of matplotlib.
        path: The file; its ending is the format.
    Raises:
        UnmaskError: The ending is another one.
    Examples:
        >>> unmask.plots.save_figure(joint.plot(6), "joint.svg")
    """
    suffix = check_ending(path)
    try:
        with replacing(Path(path)) as unfinished:
            write_figure(figure, unfinished, suffix)
    except OSError as error:
        raise UnmaskError(
            f"cannot write {_shown(path)}: {error.strerror}; choose another place"
        ) from None


def write_figure(figure: "Figure", file: Path | BytesIO, suffix: str) -> None:
    """Write a figure in one of the formats, without a date or random ids."""
    # without a salt the ids in an SVG are drawn at random; numbers at axes are not formulas
    settings = {"svg.hashsalt": "unmask", "text.usetex": False, "text.parse_math": False}
    with library("matplotlib").rc_context(settings):
        # a copy: drawing moves the axes a little every time, so that the next file would differ
        drawn = deepcopy(figure) if figure.canvas.manager is None else figure
        drawn.savefig(file, format=suffix[1:], dpi=200, metadata=dict(FORMATS[suffix]))


def check_ending(path: str | Path) -> str:
    """The ending of a figure's file in lower case; rejected if it is not one of FORMATS."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise UnmaskError(
            f"a figure is a file in {', '.join(FORMATS)}, not {_shown(path)}: rename it"
        )
    return suffix


def library(name: str, *, install: str = _INSTALL) -> Any:
    """A module of matplotlib, or an error of one line that explains how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise UnmaskError(f"figures need matplotlib: {install}") from None


def disable_math(figure: Any) -> None:
    """Draw dollar signs and backslashes in names as they are, whatever the user's settings."""
    for text in figure.findobj(library("matplotlib.text").Text):
        text.set_parse_math(False)
        text.set_usetex(False)


def wrapped(text: str, width: int = 100) -> str:
    """A text made safe, in lines."""
    return "\n".join(wrap(printable(text), width))


def _shown(path: str | Path) -> str:
    return quoted(str(path), limit=150)
