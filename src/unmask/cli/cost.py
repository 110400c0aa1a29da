"""`unmask cost`: what joints would cost, before they are computed."""

import argparse
import json
from typing import TYPE_CHECKING

from unmask.cli import options
from unmask.cli.bill import Bill, as_text
from unmask.errors import UnmaskError

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.text.cloze import Cloze

SUMMARY = "estimate what joints cost: forward passes, FLOP, memory and time"
DESCRIPTION = (
    "Estimate what joints over two blanks cost with a model, before any is computed: forward "
    "passes, FLOP, memory, and time on this machine, measured for about a second; with "
    "--accelerator, time on an accelerator that this machine does not have."
)
EXAMPLE = "unmask cost -m bert-base-cased --length 20 --examples 1000 --accelerator A100"

# tokens of a text when the caller names none, and of one for a model that knows no limit
_LENGTH, _LONGEST = 32, 2**16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    options.add_model(parser)
    parser.add_argument(
        "--length",
        type=int,
        metavar="T",
        help="tokens per text, special ones included (default: 32, or as many as the model takes)",
    )
    parser.add_argument(
        "--examples", type=int, default=1, metavar="N", help="number of texts (default: 1)"
    )
    parser.add_argument(
        "--accelerator", metavar="NAME", help="estimate also for A100, H100, L4, T4, V100, RTX4090"
    )
    parser.add_argument(
        "--utilisation",
        type=float,
        metavar="X",
        help="part of the accelerator's peak that is reached (default: 0.4)",
    )
    parser.add_argument(
        "--machines",
        type=int,
        default=1,
        metavar="N",
        help="number of machines or accelerators that share the texts (default: 1)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options.add_joints(parser)
    options.add_running(parser)


def run(chosen: argparse.Namespace) -> int:
    """Load the model, time it, print the cost."""
    _check(chosen)
    methods = options.methods(chosen)
    how = options.checked_options(options.shared_options(chosen), methods)
    settings = options.settings(chosen)

    from unmask.queries.costs.accelerators import UTILISATION, accelerator

    where = None if chosen.accelerator is None else accelerator(chosen.accelerator)
    if where is not None:
        # raises on a dtype that it does not have, before a model is loaded
        where.peak(chosen.dtype)
    lm = options.load_model(chosen)
    cost = lm.cost(
        _cloze(lm, chosen.length),
        methods=methods,
        support=options.support(chosen.support),
        settings=settings,
        options=how,
        examples=chosen.examples,
    )
    bill = Bill(
        lm.name,
        methods,
        cost,
        examples=chosen.examples,
        machines=chosen.machines,
        memory_limit=settings.memory_limit,
        accelerator=where,
        dtype=chosen.dtype,
        utilisation=UTILISATION if chosen.utilisation is None else chosen.utilisation,
    )
    print(json.dumps(bill.to_dict(), indent=2, allow_nan=False) if chosen.json else as_text(bill))
    return 0


def _check(chosen: argparse.Namespace) -> None:
    """Reject numbers that mean nothing before a model is loaded."""
    for name in ("examples", "machines"):
        if not 1 <= getattr(chosen, name) <= 10**15:
            raise UnmaskError(f"--{name} takes a number from 1, not {getattr(chosen, name)}")
    if chosen.utilisation is not None and chosen.accelerator is None:
        raise UnmaskError("--utilisation is that of an accelerator; give --accelerator too")


def _cloze(lm: "LanguageModel", length: int | None) -> "Cloze":
    """A text of so many tokens with two blanks; which tokens does not matter to the cost."""
    from unmask.text.cloze import Cloze

    most = lm.model.max_length or _LONGEST
    size = min(_LENGTH, most) if length is None else length
    if not 2 <= size <= most:
        raise UnmaskError(
            f"--length takes a number of tokens from 2 to {most} with this model, not {size}"
        )
    ordinary = next(i for i in range(lm.model.vocabulary_size) if i not in lm.model.special_ids)
    ids = [ordinary] * size
    positions = (size // 3, 2 * size // 3)
    for position in positions:
        ids[position] = lm.model.mask_id
    return Cloze("", tuple(ids), positions)
