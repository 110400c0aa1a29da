"""`unmask fill`: the likeliest joint fills of a text, by one construction or several."""

import argparse
import sys
from typing import TYPE_CHECKING

from unmask.cli import options
from unmask.cli.show import as_json, as_table
from unmask.errors import ClozeError, MethodError, UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.cloze import Blank
    from unmask.joint import Joint

SUMMARY = "rank what fills one or two blanks together"
DESCRIPTION = (
    "Rank what fills the blanks of TEXT together. Write the model's mask token where a token is "
    "missing ([MASK] for BERT, <mask> for RoBERTa), or give --blank for an ordinary text. "
    "Several methods stand side by side, from one elicitation."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("text", metavar="TEXT", help="a text with one or two blanks; - reads stdin")
    options.add_model(parser)
    options.add_joints(parser)
    parser.add_argument(
        "--top", type=int, default=10, metavar="N", help="fills to show (default: 10)"
    )
    parser.add_argument(
        "--blank",
        action="append",
        metavar="START:END|INDEX",
        help="a blank in an ordinary text: a character span, or the index of a token; "
        "give it twice for two blanks",
    )
    parser.add_argument("--pivot", help="hcb: the pivot token (default: the likeliest)")
    parser.add_argument(
        "--pivot-axis", type=int, choices=(0, 1), help="hcb: the blank it stands in"
    )
    parser.add_argument(
        "--pseudo-counts", type=float, metavar="X", help="ag: contexts' worth of independence added"
    )
    parser.add_argument("--towards", help="ag: what the pseudo-counts pull to, masked or uniform")
    parser.add_argument(
        "--floor", type=float, metavar="X", help="sweep: part of the masked marginals"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options.add_running(parser)
    parser.add_argument("--quiet", action="store_true", help="no cost line and no progress bar")


def run(chosen: argparse.Namespace) -> int:
    """Load the model, build the joints, print them."""
    methods = options.methods(chosen)
    how = _options(chosen, methods)
    blanks = _blanks(chosen.blank)
    settings = options.settings(chosen, progress=False if chosen.quiet else None)
    if chosen.top < 1:
        raise UnmaskError(f"--top takes a number of fills from 1, not {chosen.top}")
    text = _stdin() if chosen.text == "-" else chosen.text

    lm = options.load_model(chosen)
    cloze = lm.cloze(text, blanks=blanks)
    support = options.support(chosen.support)
    if chosen.pivot is not None:
        # refuses an unknown pivot before the cost is said, and paid
        lm.support(support).index(chosen.pivot)
    if len(cloze.positions) > 1 and not chosen.quiet:
        cost = lm.cost(cloze, methods=methods, support=support, settings=settings, options=how)
        print(f"{', '.join(methods)}: {cost}", file=sys.stderr)
    if chosen.dtype != "float32" and not chosen.quiet:
        print(f"{chosen.dtype}: {lm.rounding_error(cloze)}", file=sys.stderr)
    joints = lm.joints(cloze, methods=methods, support=support, settings=settings, options=how)
    if len(cloze.positions) == 1:
        # every construction of one blank is the model's own distribution
        joints = {"mlm": next(iter(joints.values()))}
    print(as_json(lm, cloze, joints, chosen.top) if chosen.json else as_table(joints, chosen.top))
    for name, joint in joints.items():
        if joint.diagnostics.get("converged") is False:
            print(_not_converged(name, joint), file=sys.stderr)
    agreement = next(iter(joints.values())).agreement()
    if agreement is not None and not agreement.converged:
        print("unmask: the solver behind J has not converged: take J as rough", file=sys.stderr)
    return 0


def _not_converged(name: str, joint: "Joint") -> str:
    did = joint.diagnostics
    return (
        f"unmask: {name} has not converged (residual {did['residual']:.1g} after {did['passes']} "
        "passes): treat its probabilities as approximate"
    )


def _options(chosen: argparse.Namespace, methods: list[str]) -> dict[str, dict[str, object]]:
    every: dict[str, dict[str, object]] = {
        "hcb": {"pivot": chosen.pivot, "pivot_axis": chosen.pivot_axis},
        "ag-paper": {"steps": chosen.steps},
        "ag": {"pseudo_counts": chosen.pseudo_counts, "towards": chosen.towards},
        "orders": {"mean": chosen.mean},
        "sweep": {"contexts": chosen.contexts, "floor": chosen.floor},
    }
    if chosen.towards is not None and chosen.pseudo_counts is None:
        raise MethodError("--towards says what --pseudo-counts pull to; give both")
    return options.checked_options(every, methods)


def _stdin() -> str:
    if sys.stdin is None:
        raise ClozeError("there is no stdin to read the text from")
    try:
        return sys.stdin.read().rstrip("\n")
    except UnicodeDecodeError as error:
        raise ClozeError(
            f"the text on stdin is not {error.encoding}: byte {error.start} cannot be decoded"
        ) from None


def _blanks(given: list[str] | None) -> "list[Blank] | None":
    return None if given is None else [_blank(one) for one in given]


def _blank(text: str) -> "Blank":
    try:
        ends = [int(part) for part in text.split(":")]
    except ValueError:
        ends = []
    if len(ends) == 1:
        return ends[0]
    if len(ends) == 2:
        return (ends[0], ends[1])
    raise UnmaskError(f"--blank takes START:END or a token index, not {quoted(text)}")
