"""The options of `unmask score`, which of them do not go together, and what they come to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask.cli import inputs, many, options
from unmask.cli.command import group, option
from unmask.errors import MethodError, UnmaskError
from unmask.names import DRAWS, PAIR_METHODS, TEXT_METHODS
from unmask.printable import quoted
from unmask.records.rows import TEXT_COLUMN

if TYPE_CHECKING:
    from unmask.jobs.kinds.score import ScoreKind

_HCB_PATH = "hcb-path"


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(many.RowsCommand):
    """What may be given."""

    input: tuple[str, ...] = inputs.INPUT()
    text: tuple[str, ...] = inputs.TEXT()
    column: str | None = option("column that holds the texts (default: text)", "NAME")
    pairs: str | None = option("the two columns that hold minimal pairs", "GOOD,BAD")
    given: str | None = option(
        "the column that holds what stands before each text, and optionally one that holds what "
        "stands after it: only the text's own tokens are scored",
        "BEFORE[,AFTER]",
    )
    separator: str = option("what joins them to the text (default: nothing)", "TEXT", default="")
    blimp: str | None = option(
        "BLiMP: a folder of .jsonl files, or its name on the Hub, nyu-mll/blimp; --limit is then "
        "the number of pairs per paradigm, in hashed order",
        "FOLDER|NAME",
    )
    paradigm: tuple[str, ...] = option(
        "read only this paradigm of BLiMP; repeat the option for several", "NAME", default=()
    )
    by: tuple[str, ...] = option(
        "also report the accuracy of pairs by the values of this column; repeat the option for "
        "several columns. The overall accuracy is then the mean over the values of the first "
        "(BLiMP is always reported by UID, linguistics_term and field)",
        "NAME",
        default=(),
    )
    model: str = options.MODEL()
    method: tuple[str, ...] = option(
        "pll, pll-word-l2r, unmasking, elbo, and for pairs hcb-path; separate several with commas "
        "(default: {default})",
        "NAME",
        default=("pll",),
    )
    order: str | None = option(
        "unmasking: which token is revealed next: left-to-right, surest (the place where the "
        "likeliest token is most probable) or margin (where it is furthest ahead of the second) "
        "(default: left-to-right)",
        "NAME",
    )
    orders: int | None = option("hcb-path: number of orders averaged (default: 8)", "R")
    draws: int | None = options.DRAWS()
    seed: int = options.SEED()
    words: bool = option("write one row per word: surprisal, start, end, pieces", default=False)
    base_two: bool = option("use bits instead of nats", default=False)
    prefix: str = many.PREFIX()
    no_text: bool = option("leave out the texts, so the rows can be published", default=False)
    model_name: str | None = options.MODEL_NAME()
    running: options.Running = group(options.Running(), without=options.TABLES)


def checked(chosen: ScoreOptions) -> "ScoreKind":
    """The job that the options ask for; what does not go together is rejected, nothing is read."""
    from unmask.jobs.kinds.score import ScoreKind
    from unmask.sequences import blimp
    from unmask.sequences.paths import check_drawing
    from unmask.sequences.scoring import checked_order

    is_blimp = chosen.blimp is not None
    is_pairs = is_blimp or chosen.pairs is not None
    _check_rows(chosen, is_pairs)
    methods = _methods(chosen, is_pairs)
    orders = 8 if chosen.orders is None else chosen.orders
    draws = DRAWS if chosen.draws is None else chosen.draws
    check_drawing(orders=orders, draws=draws, seed=chosen.seed)
    order = checked_order(_order_name(chosen.order), methods)
    columns = named_columns(chosen)
    return ScoreKind(
        columns=blimp.PAIR if is_blimp else tuple(columns),
        given=_context_columns(chosen.given),
        separator=chosen.separator,
        methods=tuple(methods),
        model_name=chosen.model_name or options.model_name(chosen.model),
        order=order,
        orders=orders,
        draws=draws,
        seed=chosen.seed,
        words=chosen.words,
        base_two=chosen.base_two,
        without_text=chosen.no_text,
        prefix=chosen.prefix,
        groups=(blimp.PARADIGM, *blimp.GROUPS) if is_blimp else chosen.by,
        settings=chosen.running.settings(progress=False if chosen.quiet else None),
    )


def source_of(chosen: ScoreOptions) -> inputs.Input:
    """The files or texts that are scored; none of BLiMP."""
    of_files = ("input_format", "column", "pairs", "given", "by")
    if chosen.blimp is not None:
        _reject(chosen, ("input", "text", *of_files), "with --blimp")
        return inputs.Input((), ())
    _reject(chosen, ("paradigm",), "without --blimp")
    given = inputs.read_input(chosen.input, chosen.text)
    if given.texts:
        if chosen.given is not None:
            raise UnmaskError(
                "--given names columns of a table; for one text, pipe a row: echo "
                """'{"text": "sat.", "before": "the cat "}' | """
                "unmask score - --input-format jsonl --given before"
            )
        _reject(chosen, of_files, "with a text")
    return given


def _check_rows(chosen: ScoreOptions, is_pairs: bool) -> None:
    if chosen.pairs is not None:
        _reject(chosen, ("column",), "with --pairs, which names the columns")
    if chosen.given is None:
        _reject(chosen, ("separator",), "without --given")
    for name in set(_context_columns(chosen.given)) & set(named_columns(chosen)):
        raise UnmaskError(
            f"--given names {quoted(name)}, which holds the texts themselves; name the columns of "
            "what stands before and after them"
        )
    if is_pairs:
        _reject(chosen, ("words",), "with pairs, which are compared as whole texts")
    else:
        _reject(chosen, ("by",), "without pairs, since only pairs have an accuracy")
    if chosen.no_text and chosen.words:
        raise UnmaskError("--words writes words and --no-text leaves texts out; give one of them")


def _methods(chosen: ScoreOptions, is_pairs: bool) -> list[str]:
    given = options.listed(chosen.method)
    named = list(dict.fromkeys(name.lower().replace("_", "-") for name in given))
    if _HCB_PATH in named and not is_pairs:
        raise MethodError("hcb-path compares two texts; give --pairs GOOD,BAD or --blimp")
    for name in named:
        options.check_choice("--method", name, PAIR_METHODS if is_pairs else TEXT_METHODS)
    for option_name, method in (("orders", _HCB_PATH), ("draws", "elbo")):
        if getattr(chosen, option_name) is not None and method not in named:
            raise MethodError(
                f"--{option_name} is for {method}, but --method is {', '.join(named)}; leave it "
                f"out, or name {method}"
            )
    return named


def _order_name(given: str | None) -> str | None:
    """An order as its name is written; a number was meant for the other option."""
    if given is not None and given.strip().isdecimal():
        raise MethodError(
            f"--order takes the name of an order, not {quoted(given)}; the number of orders of "
            f"{_HCB_PATH} is --orders"
        )
    return None if given is None else given.strip().lower().replace("_", "-")


def named_columns(chosen: ScoreOptions) -> list[str]:
    """The columns of the texts, by option or by default."""
    return _pair_columns(chosen.pairs) if chosen.pairs else [chosen.column or TEXT_COLUMN]


def _pair_columns(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise UnmaskError(f"--pairs takes two columns, as good,bad, not {quoted(text)}")
    return names


def _context_columns(text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text is not None else ()
    if len(names) > 2 or not all(names):
        raise UnmaskError(f"--given takes one or two columns, as before,after, not {quoted(text)}")
    return names


def _reject(chosen: ScoreOptions, names: Sequence[str], why: str) -> None:
    options.reject(chosen, names, f"does not apply {why}; leave it out")
