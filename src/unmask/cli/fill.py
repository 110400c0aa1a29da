"""`unmask fill`: the likeliest joint fills of a text, by one construction or several."""

import argparse
import sys
from typing import TYPE_CHECKING

from unmask.cli.show import as_json, as_table
from unmask.errors import ClozeError, MethodError, UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.cloze import Blank
    from unmask.elicit import Settings
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
    parser.add_argument(
        "-m", "--model", required=True, help="hub name or folder of a masked language model"
    )
    parser.add_argument(
        "--method",
        action="append",
        metavar="NAME",
        help="mlm, mrf, mrf-logit, hcb, ag-paper, ag, weighted-ag, pseudo-gibbs, log-pool, orders, "
        "sweep, or all; several with commas (default: log-pool)",
    )
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
    parser.add_argument(
        "--support",
        default="vocabulary",
        metavar="NAME|TOKENS",
        help="vocabulary, no-special, or tokens separated by commas, as man,woman; a single one "
        "ends with a comma (default: vocabulary)",
    )
    parser.add_argument("--pivot", help="hcb: the pivot token (default: the likeliest)")
    parser.add_argument(
        "--pivot-axis", type=int, choices=(0, 1), help="hcb: the blank it stands in"
    )
    parser.add_argument("--steps", type=int, help="ag-paper: steps from uniform (default: 50)")
    parser.add_argument(
        "--pseudo-counts", type=float, metavar="X", help="ag: contexts' worth of independence added"
    )
    parser.add_argument("--towards", help="ag: what the pseudo-counts pull to, masked or uniform")
    parser.add_argument("--mean", help="orders: arithmetic (default) or geometric")
    parser.add_argument(
        "--contexts", type=int, metavar="K", help="sweep: contexts a blank (default: 25)"
    )
    parser.add_argument(
        "--floor", type=float, metavar="X", help="sweep: part of the masked marginals"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16 or float16")
    parser.add_argument("--revision", help="branch, tag or commit of a hub model")
    parser.add_argument(
        "--batch-size", default="auto", metavar="N|auto", help="rows a forward pass (default: auto)"
    )
    parser.add_argument(
        "--memory-limit",
        default="4GB",
        metavar="SIZE",
        help="what V x V tables may take, as 500MB; larger ones are recomputed in tiles "
        "(default: 4GB)",
    )
    parser.add_argument(
        "--trust-remote-code", action="store_true", help="run code from the model's repository"
    )
    parser.add_argument(
        "--allow-pickle", action="store_true", help="accept weights that are not safetensors"
    )
    parser.add_argument("--quiet", action="store_true", help="no cost line and no progress bar")


def run(chosen: argparse.Namespace) -> int:
    """Load the model, build the joints, print them."""
    methods = _methods(chosen)
    options = _options(chosen, methods)
    blanks, settings = _blanks(chosen.blank), _settings(chosen)
    if chosen.top < 1:
        raise UnmaskError(f"--top takes a number of fills from 1, not {chosen.top}")
    text = _stdin() if chosen.text == "-" else chosen.text

    from unmask.loading import load

    lm = load(
        chosen.model,
        device=chosen.device,
        dtype=chosen.dtype,
        revision=chosen.revision,
        trust_remote_code=chosen.trust_remote_code,
        allow_pickle=chosen.allow_pickle,
    )
    cloze = lm.cloze(text, blanks=blanks)
    support = _support(chosen.support)
    if chosen.pivot is not None:
        # refuses an unknown pivot before the cost is said, and paid
        lm.support(support).index(chosen.pivot)
    if len(cloze.positions) > 1 and not chosen.quiet:
        cost = lm.cost(cloze, methods=methods, support=support, settings=settings, options=options)
        print(f"{', '.join(methods)}: {cost}", file=sys.stderr)
    joints = lm.joints(cloze, methods=methods, support=support, settings=settings, options=options)
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


def _methods(chosen: argparse.Namespace) -> list[str]:
    from unmask.constructions import CONSTRUCTIONS, DEFAULT_METHOD, method_name

    named = [name for given in chosen.method or [DEFAULT_METHOD] for name in given.split(",")]
    each = [
        list(CONSTRUCTIONS) if name.strip().lower() == "all" else [method_name(name)]
        for name in named
    ]
    return list(dict.fromkeys(name for names in each for name in names))


def _options(chosen: argparse.Namespace, methods: list[str]) -> dict[str, dict[str, object]]:
    from unmask.constructions import check_options

    every: dict[str, dict[str, object]] = {
        "hcb": {"pivot": chosen.pivot, "pivot_axis": chosen.pivot_axis},
        "ag-paper": {"steps": chosen.steps},
        "ag": {"pseudo_counts": chosen.pseudo_counts, "towards": chosen.towards},
        "orders": {"mean": chosen.mean},
        "sweep": {"contexts": chosen.contexts, "floor": chosen.floor},
    }
    given = {
        method: {name: value for name, value in options.items() if value is not None}
        for method, options in every.items()
    }
    if chosen.towards is not None and chosen.pseudo_counts is None:
        raise MethodError("--towards says what --pseudo-counts pull to; give both")
    for method, options in given.items():
        # an option that no method here takes is refused, not dropped in silence
        check_options(method if method in methods else methods[0], options)
    return given


def _stdin() -> str:
    if sys.stdin is None:
        raise ClozeError("there is no stdin to read the text from")
    try:
        return sys.stdin.read().rstrip("\n")
    except UnicodeDecodeError as error:
        raise ClozeError(
            f"the text on stdin is not {error.encoding}: byte {error.start} cannot be decoded"
        ) from None


def _support(text: str) -> str | list[str]:
    """A named support, or a list: one token alone is `token,`, for a bare word is a typo."""
    return [token for token in text.split(",") if token] if "," in text else text


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


def _settings(chosen: argparse.Namespace) -> "Settings":
    from unmask.elicit import Settings

    return Settings(
        batch_size=_rows(chosen.batch_size),
        memory_limit=_bytes(chosen.memory_limit),
        progress=False if chosen.quiet else None,
        announce=False,
    )


def _rows(text: str) -> int | None:
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise UnmaskError(
            f"--batch-size takes a number from 1 or auto, not {quoted(text)}"
        ) from None


def _bytes(text: str) -> int:
    units = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1}
    plain = text.strip().upper()
    unit = next((unit for unit in units if plain.endswith(unit)), "")
    try:
        count = float(plain.removesuffix(unit)) * units.get(unit, 1)
        return int(count)
    except (ValueError, OverflowError):
        raise UnmaskError(
            f"--memory-limit takes a size such as 500MB or 8GB, not {quoted(text)}"
        ) from None
