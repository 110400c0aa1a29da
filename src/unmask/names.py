"""Names that users choose: constructions with their options, supports, measures.

It imports no torch, so that help, figures and pages know them at once. A construction is its file
in `constructions/` and its entry in `METHODS` here: options, looks and words come from the entry.
"""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from unmask.arguments import real_number, whole_number
from unmask.errors import MethodError
from unmask.printable import quoted

# letters in upper case; a vocabulary may have them in lower case, or behind a space marker
ALPHABETS = {
    "amino-acids": "ACDEFGHIKLMNPQRSTVWY",
    "nucleotides": "ACGT",
    "rna": "ACGU",
    "digits": "0123456789",
}
SUPPORTS = ("vocabulary", "tokens", "no-special", *ALPHABETS)

# formats of rows that are written
OUTPUT_FORMATS = ("csv", "jsonl", "parquet", "tsv")


# of a pair of blanks whose model is only asked how far it contradicts itself: the errors of an
# estimate are smaller than the spread over a hundred pairs
CONSISTENCY_PASSES = 401
# random orders of unmasking, where their spread is measured
ORDERS_DRAWN = 8


@dataclass(frozen=True)
class Measure:
    """A measure of dependence: its unit, its name in a sentence, and its meaning for two places."""

    unit: str
    words: str
    meaning: str


MEASURES = {
    "mutual-information": Measure(
        "bits",
        "mutual information",
        "how far filling one place moves the model's distribution of the other, with both masked",
    ),
    "pmi": Measure(
        "nats",
        "PMI",
        "how much likelier each of the two words is in the model when the other is known",
    ),
    "jacobian": Measure(
        "nats",
        "Jacobian",
        "how far writing other tokens at one place moves the model's log-probabilities at the "
        "other",
    ),
    "head": Measure(
        "bits",
        "predicted mutual information",
        "how much filling one place would move the model's distribution of the other, as its "
        "dependence head predicts",
    ),
}


class FillRule(NamedTuple):
    """A rule of parallel decoding: its threshold's unit, if it has one, default and upper bound."""

    threshold: str | None = None
    default: float | None = None
    most: float = math.inf


RULES = {
    **dict.fromkeys(("surest", "left-to-right", "margin", "all-at-once"), FillRule()),
    "confidence": FillRule("probability of the likeliest token", most=1.0),
    # chosen on dev sentences of three models: docs/results/parallel-filling.md
    "entropy-bound": FillRule("nats", default=1.0),
    "mutual-information": FillRule("bits"),
    "head": FillRule("bits"),
}
DEFAULT_RULE = "entropy-bound"


# scores of whole texts, and of pairs of them
TEXT_METHODS = ("pll", "pll-word-l2r", "unmasking", "elbo")
PAIR_METHODS = (*TEXT_METHODS, "hcb-path")
# random masks that `elbo` averages over, as many as in LLaDA's own evaluation
DRAWS = 128
# random orders that `hcb-path` averages over
ORDERS_OF_PATHS = 8

# options of constructions: what they may be, and what they are unless given
STEPS = 50
MEANS = ("arithmetic", "geometric")


def model_name(place: str) -> str:
    """The name of a model in results: a hub name as it is, or the last part of a folder, which is
    the same on every machine.
    """
    folder = os.path.expanduser(place)
    return Path(folder).resolve().name if os.path.isdir(folder) else place


def _check_steps(value: object) -> None:
    if (whole_number(value) or 0) < 1:
        raise MethodError(f"ag takes a number of steps from 1, not {quoted(value)}")


def _check_mean(value: object) -> None:
    if value not in MEANS:
        raise MethodError(f"mean is {' or '.join(MEANS)}, not {quoted(value)}")


def _check_tolerance(value: object) -> None:
    number = None if value is None else real_number(value)
    if value is not None and not (number is not None and 0 < number < math.inf):
        raise MethodError(f"tolerance is a number above 0, not {quoted(value)}")


def _any(_: object) -> None:
    """Accept any value: only the tables can check it."""


@dataclass(frozen=True)
class MethodOption:
    """An option of a construction: its type on the command line, its help, and what it may be.

    `check` raises for a value that no table could take. Those `in_fill` are options of `unmask
    fill` alone; the others of every command that takes constructions.
    """

    type: type
    help: str
    check: Callable[[object], None] = _any
    metavar: str | None = None
    choices: tuple[object, ...] | None = None
    in_fill: bool = False


@dataclass(frozen=True)
class Method:
    """A construction by name: where it is, a few words for a page, its looks and its options.

    `home` is where its `Construction` is, a module (of `unmask.constructions`) and a name.
    """

    home: str
    words: str
    colour: str
    marker: str
    options: Mapping[str, MethodOption]


# colours after Paul Tol's "muted" scheme for the colour-blind, the palest darkened
METHODS: dict[str, Method] = {
    "mlm": Method(".mlm.MLM", "independent guesses", "#000000", "o", {}),
    "mrf": Method(".mrf.MRF", "conditionals multiplied", "#CC6677", "D", {}),
    "mrf-logit": Method(".mrf.MRF_LOGIT", "raw logits added", "#888888", "s", {}),
    "hcb": Method(
        ".hcb.HCB",
        "a walk from one fill to all",
        "#DDAA33",
        "^",
        {
            "pivot": MethodOption(
                str, "the pivot token (default: the likeliest)", metavar="TOKEN", in_fill=True
            ),
            "pivot_axis": MethodOption(
                int, "blank of the pivot token (default: 0)", choices=(0, 1), in_fill=True
            ),
        },
    ),
    "ag": Method(
        ".ag.AG",
        "nearest conditionals, in 50 steps",
        "#117733",
        "v",
        {
            "steps": MethodOption(int, f"number of steps (default: {STEPS})", _check_steps, "N"),
            "tolerance": MethodOption(
                float,
                "steps go on until no log marginal changes by more (instead of steps)",
                _check_tolerance,
                "X",
            ),
        },
    ),
    "log-pool": Method(
        ".log_pool.LOG_POOL", "likely whichever blank comes last", "#332288", "*", {}
    ),
    "orders": Method(
        ".orders.ORDERS",
        "one blank after the other",
        "#882255",
        "X",
        {
            "mean": MethodOption(
                str,
                f"{' or '.join(MEANS)} (default: {MEANS[0]})",
                _check_mean,
                "NAME",
            )
        },
    ),
}

DEFAULT_METHOD = "log-pool"
# where there are so many blanks that the default has no table, and for words of several pieces
METHOD_WITHOUT_TABLES = "orders"
