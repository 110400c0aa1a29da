"""`unmask fill --figure FILE`: the joint of one text as a heat map, several side by side."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.cli import options
from unmask.errors import UnmaskError
from unmask.plots.saving import check_ending, library, save_figure
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.joints.joint import Joint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The option itself."""
    parser.add_argument(
        "--figure",
        metavar="FILE",
        help="also draw the fills into a .svg, .png or .pdf file: a heat map of two blanks, with "
        "several methods side by side, or bars of one blank; needs the extra plots",
    )


def check(chosen: argparse.Namespace) -> None:
    """Reject a figure that cannot be drawn or written, before a model is loaded."""
    if chosen.figure is None:
        return
    check_ending(chosen.figure)
    for name in ("input", "targets"):
        if getattr(chosen, name) is not None:
            raise UnmaskError(f"--figure is of the tokens of one TEXT; leave out --{name}")
    options.check_output("--figure", chosen.figure)
    folder = Path(chosen.figure).resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK) or Path(chosen.figure).is_dir():
        raise UnmaskError(
            f"cannot write {quoted(chosen.figure, limit=150)}: choose a file in a folder that "
            "exists and can be written to"
        )
    library("matplotlib.figure")


def check_blanks(chosen: argparse.Namespace, count: int) -> None:
    """Reject more blanks than a picture has sides, before their joint is computed."""
    if chosen.figure is not None and count > 2:
        raise UnmaskError(
            f"--figure shows one or two blanks, and this text has {count}: in Python take "
            "joint.marginal(a, b).plot(), or leave out --figure"
        )


def draw(chosen: argparse.Namespace, joints: "dict[str, Joint]") -> None:
    """Draw the joints and write the file."""
    if chosen.figure is None:
        return
    from unmask.plots.comparison import compare
    from unmask.plots.heat_map import plot

    figure = compare(joints) if len(joints) > 1 else plot(next(iter(joints.values())))
    save_figure(figure, chosen.figure)
    if not chosen.quiet:
        print(f"wrote {quoted(chosen.figure, limit=150)}", file=sys.stderr)
