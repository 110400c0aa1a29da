"""What users choose by name: constructions with their options, supports, measures.

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
    """A rule of which blanks are filled in the same step: its threshold, if any, and words."""

    threshold: str | None
    words: str


RULES = {
    "surest": FillRule(None, "one at a time, the surest first"),
    "left-to-right": FillRule(None, "one at a time, in their order"),
    "margin": FillRule(None, "one at a time, first the one furthest ahead of its second choice"),
    "all-at-once": FillRule(None, "all in one step"),
    "confidence": FillRule("probability of the likeliest token", "all that are so sure"),
    "entropy-bound": FillRule("nats", "entropies without the largest, EB-Sampler"),
    "mutual-information": FillRule("bits", "measured anew before every step, which takes passes"),
    "head": FillRule("bits", "mutual information as the dependence head predicts it"),
}


class OutputColumn(NamedTuple):
    """A column that commands write: its unit or type, what it holds, and the commands."""

    unit: str
    meaning: str
    commands: tuple[str, ...]


def _columns() -> dict[str, OutputColumn]:
    """Every column, by its name: METRIC stands for the names of metrics."""
    rows = ("fill", "pairs", "score", "dependence", "consistency", "evaluate")
    by_commands: dict[tuple[str, ...], dict[str, tuple[str, str]]] = {
        rows: {"reason": ("text", "why the row has no numbers; empty if it has")},
        ("pairs", "score", "dependence", "consistency", "evaluate", "report"): {
            "model": ("text", "name of the model"),
        },
        ("fill", "pairs", "score"): {
            "method": ("text", "method or construction that the numbers are by"),
        },
        ("fill", "pairs", "consistency", "evaluate"): {
            "incompatibility": ("bits", "J: how far the two conditionals contradict each other"),
        },
        ("pairs", "score", "consistency", "evaluate"): {
            "forward_passes": ("count", "forward passes of the model for the row"),
        },
        ("pairs", "score"): {
            "unknown_tokens": ("count", "parts that the vocabulary has no token for"),
        },
        ("score", "dependence"): {
            "unit": ("text", "nats or bits, of the numbers of the row"),
            "standard_error": ("as its number", "standard error of the number, if it is estimated"),
        },
        ("pairs", "dependence"): {
            "pmi": ("nats", "pointwise mutual information of the two words"),
        },
        ("evaluate", "report"): {
            "corpus": ("text", "name of the corpus"),
            "mask": ("text", "contiguous or random: how the two blanks were chosen"),
            "support": ("text", "tokens that blanks range over; vocabulary (sketch): estimated"),
            "construction": ("text", "the construction, with its options"),
        },
        ("fill",): {
            "fills": ("JSON", "the likeliest fills, with fill-mask's keys"),
            "diagnostics": ("JSON", "how the answer was computed, and what it left out"),
        },
        ("pairs",): {
            "log_p": ("nats", "log p(w1, w2)"),
            "log_p_1_given_2": ("nats", "log p(w1 | w2)"),
            "log_p_2_given_1": ("nats", "log p(w2 | w1)"),
            "association": ("nats", "log p(w1, w2) minus each word's while the other is masked"),
            **{
                f"{name}_error": ("as its number", f"standard error of {name}")
                for name in ("log_p", "log_p_1_given_2", "log_p_2_given_1", "pmi")
            },
            "incompatibility_error": ("bits", "standard error of incompatibility"),
            "pieces_1": ("count", "tokens of the first word"),
            "pieces_2": ("count", "tokens of the second word"),
        },
        ("score",): {
            "score": ("unit", "score of the text: the sum over its tokens"),
            "word_number": ("index", "number of the word, from 1"),
            "word": ("text", "the word"),
            "start": ("characters", "where the word begins in the text"),
            "end": ("characters", "where the word ends"),
            "pieces": ("count", "tokens of the word"),
            "surprisal": ("unit", "minus the score of the word"),
            "log_ratio": ("unit", "score of the first text minus that of the second"),
            "correct": ("0, 0.5 or 1", "whether the first text of a pair wins; 0.5 is a tie"),
            "orders": ("count", "orders that hcb-path averages"),
            "places": ("count", "tokens in which the two texts of a pair differ"),
        },
        ("dependence",): {
            "first_name": ("text", "word, residue or blank at the first place"),
            "second_name": ("text", "the same at the second place"),
            "jacobian": ("nats", "how far writing other tokens at one place moves the other"),
            "head": ("bits", "mutual information of the two, as the dependence head predicts it"),
            "tree": ("true or false", "whether the pair is an edge of the strongest tree"),
        },
        ("score", "consistency"): {
            "order": ("text", "order of unmasking"),
            "tokens": ("count", "tokens that are scored"),
        },
        ("dependence", "consistency"): {
            "first": ("index", "number of the first place, from 0"),
            "second": ("index", "number of the second place"),
            "distance": ("places", "how far apart the two are: 1 if they are neighbours"),
            "mutual_information": ("bits", "how much the two places tell about each other"),
        },
        ("consistency",): {
            "text_id": ("text", "digest of the text: the same with every model"),
            "part": ("text", "adjacent or random: a pair of blanks; order: the whole text"),
            "first_token": ("text", "true token of the first blank"),
            "second_token": ("text", "true token of the second blank"),
            "marginal_divergence": (
                "bits",
                "between a blank's distribution and the mean of its conditionals, of both blanks",
            ),
            "first_then_second": ("nats", "log p(a) + log p(b | a) of the true tokens"),
            "second_then_first": ("nats", "log p(b) + log p(a | b)"),
            "independent": ("nats", "log p(a) + log p(b)"),
            "pseudo_gibbs": ("nats", "log p(a, b) where pseudo-Gibbs sampling settles"),
            "log_pool": ("nats", "log p(a, b) by log-pool"),
            "ensemble": ("nats", "log p(a, b) by the mean of all conditionals"),
            "text_log_p": ("nats", "log-probability of the text in this order"),
            "contrast_log_p": ("nats", "that of the other text of its minimal pair"),
        },
        ("evaluate",): {
            "example_id": ("text", "sentence and mask"),
            "sentence_id": ("text", "file and number of the sentence"),
            "pairwise_nll": ("nats per token", "P-NLL: of both true tokens together"),
            "unary_nll": ("nats per token", "U-NLL: of each true token given the other"),
            "all_kl": (
                "nats per token",
                "A-KL: to the model's conditionals, mean over all contexts",
            ),
            "gold_kl": ("nats per token", "G-KL: the same at the true tokens"),
            "pairwise_error": ("nats per token", "standard error of pairwise_nll"),
            "unary_error": ("nats per token", "standard error of unary_nll"),
            "gold_bytes": ("bytes", "UTF-8 bytes of the two true tokens"),
            "length": ("count", "tokens of the text"),
            "positions": ("index", "where the two blanks are, in tokens"),
            "spans": ("characters", "where they are in the sentence"),
            "token_distance": ("count", "tokens between the two blanks"),
            "passes": ("count", "sweeps over the tables"),
            "converged": ("true or false", "whether the construction converged"),
            "software": ("text", "versions that computed the row"),
            "device": ("text", "device that computed the row"),
        },
        ("report",): {
            "examples": ("count", "examples that were measured"),
            "failed": ("count", "examples that failed"),
            "minus": ("text", "construction that is subtracted, in a table of differences"),
            "distance from": ("count", "smallest token distance of the row"),
            "to": ("count", "largest token distance of the row"),
            "METRIC": ("as its name", "U-PPL, P-PPL, U-NLL, P-NLL, A-KL, G-KL or nats/byte"),
            "METRIC stderr": ("as its metric", "standard error by the bootstrap"),
            "METRIC low": ("as its metric", "lower end of the 95% interval"),
            "METRIC high": ("as its metric", "upper end of the 95% interval"),
        },
    }
    return {
        name: OutputColumn(unit, meaning, commands)
        for commands, some in by_commands.items()
        for name, (unit, meaning) in some.items()
    }


COLUMNS = _columns()

# scores of whole texts, and of pairs of them
TEXT_METHODS = ("pll", "pll-word-l2r", "unmasking", "elbo")
PAIR_METHODS = (*TEXT_METHODS, "hcb-path")
# random masks that `elbo` averages over, as many as in LLaDA's own evaluation
DRAWS = 128

# options of constructions: what they may be, and what they are unless given
STEPS = 50
MEANS = ("arithmetic", "geometric")


def model_name(place: str) -> str:
    """What a model is called: a hub name as it is, of a folder the last part, which is the same
    on every machine.
    """
    folder = os.path.expanduser(place)
    return Path(folder).resolve().name if os.path.isdir(folder) else place


def _whole(name: str) -> Callable[[object], None]:
    def check(value: object) -> None:
        if (whole_number(value) or 0) < 1:
            raise MethodError(f"{name} from 1, not {quoted(value)}")

    return check


def _one_of(name: str, allowed: tuple[str, ...]) -> Callable[[object], None]:
    def check(value: object) -> None:
        if value not in allowed:
            raise MethodError(f"{name} is {' or '.join(allowed)}, not {quoted(value)}")

    return check


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
            "steps": MethodOption(
                int,
                f"number of steps (default: {STEPS})",
                _whole("ag takes a number of steps"),
                "N",
            ),
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
                _one_of("mean", MEANS),
                "NAME",
            )
        },
    ),
}

DEFAULT_METHOD = "log-pool"
# where there are so many blanks that the default has no table, and for words of several pieces
METHOD_WITHOUT_TABLES = "orders"
