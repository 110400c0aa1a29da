"""`unmask fill`: the likeliest joint fills of a text, by one construction or several."""

import argparse
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unmask.cli import announce, many, options, show
from unmask.errors import MethodError, SupportError, UnmaskError
from unmask.plots.saving import check_ending, library, save_figure
from unmask.printable import printable, quoted
from unmask.text.typed import piece_prior

if TYPE_CHECKING:
    from unmask.jobs.kinds.fill import Answerer
    from unmask.joints.joint import Joint
    from unmask.text.cloze import Cloze

SUMMARY = "rank what fills the blanks of a text together"
DESCRIPTION = (
    "Rank what fills the blanks of TEXT together. Write the model's mask token where a token is "
    "missing ([MASK] for BERT, <mask> for RoBERTa), or name the words of an ordinary text to "
    "blank with --blank. Several methods share the same forward passes and are shown side by "
    "side. With --input, every row of a file is a text; a row is written as soon as it is known, "
    "and one that cannot be answered has a reason instead."
)
EXAMPLE = 'unmask fill -m bert-base-cased "The [MASK] [MASK] at the casino." --method log-pool,mlm'
# above this a shorter way is named
_LONG_SECONDS = 60.0
# no more forward passes are timed beforehand
_FEW_PASSES = 5_000
# in a part of a folder: a text may take seconds
_TEXTS_PER_UNIT = 64
_RANK_WORDS = "rank words of any number of pieces with --targets"
_DEFAULT = "log-pool; orders for --targets, or if there are too many blanks for tables"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("text", nargs="?", metavar="TEXT", help="text with blanks; - reads it from stdin")
    options.add_model(parser)
    add(
        "--blank",
        action="append",
        metavar="WORD|START:END|INDEX",
        help="what to blank in an ordinary text: a word or phrase that occurs once (it becomes "
        "one blank; to fill it with words of several pieces, give --targets), a span of "
        "characters, or the index of a token (for a number, give its span); repeat the option "
        "for several blanks",
    )
    add("--top", type=int, default=10, metavar="N", help="number of fills to show (default: 10)")
    add(
        "--together",
        type=float,
        metavar="BITS",
        help="instead of ranking fills, write one: blanks that share at most BITS of mutual "
        "information, such as 0.05, are filled at the same time, each with its likeliest token",
    )
    add("--json", action="store_true", help="print JSON instead of a table")
    add(
        "--figure",
        metavar="FILE",
        help="also draw the fills into a .svg, .png or .pdf file: a heat map of two blanks, with "
        "several methods side by side, or a bar chart of one blank; needs the extra plots",
    )
    add("--quiet", action="store_true", help="print no cost, no progress bar and no closing line")
    _add_construction(parser)
    _add_rows(parser)
    announce.add_dry_run(parser)
    options.add_running(parser)
    many.add_arguments(parser, _TEXTS_PER_UNIT)


def _add_construction(parser: argparse.ArgumentParser) -> None:
    group = options.add_methods(parser, _DEFAULT, in_fill=True)
    add = group.add_argument
    options.add_support_by_blank(group)
    add(
        "--targets",
        action="append",
        metavar="[BLANK=]WORDS",
        help="rank only these words, separated by commas; a word of several pieces has the "
        "probability of all its pieces together. To give blanks different words, repeat the "
        'option: 0=man,woman and 1="New York,Paris"; a blank without words ranges over tokens '
        "that the model proposes",
    )
    add(
        "--piece-prior",
        metavar="uniform|N=P,...",
        help="probability of each number of pieces, such as 1=0.8,2=0.2; required to rank words "
        "with different numbers of pieces",
    )


def _add_rows(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("many texts")
    add = group.add_argument
    add(
        "--input",
        metavar="FILE|-",
        help="read many texts instead of TEXT: one per line, or .csv, .tsv, .jsonl or .parquet "
        "with the column text, and optionally targets, piece_prior, blanks, support and method "
        "instead of the options; also a pattern, a folder of files or a URL. Other columns are "
        "kept; rows have text, fills, method, J, diagnostics and reason",
    )
    add(
        "--input-format",
        metavar="FORMAT",
        help=f"{many.INPUT_FORMATS}: if the name of the file does not show it (default for -: txt)",
    )
    add("--limit", type=int, metavar="N", help="read only the first N rows")
    many.add_output(group, "stdout, as JSON lines")


def run(chosen: argparse.Namespace) -> int:
    """Check all options, then fill one text or many lines."""
    given = many.GivenRows(
        [chosen.input or ""], chosen.input_format, chosen.limit, piped_format="txt"
    )
    _check(chosen)
    if chosen.input is not None:
        given.check_header(["text"])
    from unmask.jobs.kinds.fill import Answerer, Fill, Request

    default = "log-pool" if chosen.targets is None else "orders"
    names = options.methods(chosen, default)
    how = options.method_options(chosen, names)
    request = Request(
        blanks=None if chosen.blank is None else [options.blank(one) for one in chosen.blank],
        method=names[0] if chosen.method else None,
        support=options.support_by_blank(chosen),
        targets=chosen.targets and options.by_blank(chosen.targets, "--targets", _words),
        piece_prior=_piece_prior(chosen.piece_prior),
    )
    settings = options.settings(chosen, progress=False if chosen.quiet else None)
    if chosen.input is not None:
        options.one_method(chosen, "--input", default)
        kind = Fill(request=request, how=how, top=chosen.top, settings=settings)
        # a text may take seconds: each is written when it is done
        return many.rows_command(chosen, kind, given, at_once=1, default_format="jsonl")
    text = options.read_stdin("the text").rstrip("\n") if chosen.text == "-" else chosen.text
    lm = options.load_model(chosen)
    if chosen.together is not None:
        _fill_together(chosen, Answerer(lm, request, how, chosen.top, settings), text)
        return 0
    cloze = lm.cloze(text, blanks=request.blanks)
    if request.targets is None:
        _fill_tokens(chosen, Answerer(lm, request, how, chosen.top, settings), cloze)
    else:
        announced = replace(settings, announce=not chosen.quiet)
        _fill_words(chosen, Answerer(lm, request, how, chosen.top, announced), cloze, names)
    return 0


def _fill_tokens(chosen: argparse.Namespace, answerer: "Answerer", cloze: "Cloze") -> None:
    from unmask.tables import kernels
    from unmask.text.pieces import one_blank_for_each

    lm, support = answerer.lm, answerer.request.support
    cloze, said = one_blank_for_each(cloze, _RANK_WORDS)
    if said is not None:
        options.say(said)
    blanks = len(cloze.positions)
    if chosen.figure is not None and blanks > 2:
        raise UnmaskError(
            f"--figure shows one or two blanks, and this text has {blanks}: in Python take "
            "joint.marginal(a, b).plot(), or leave out --figure"
        )
    methods = _methods(chosen, blanks, support)
    given: Any = {
        "methods": methods,
        "support": support,
        "settings": answerer.settings,
        "options": {name: values for name, values in answerer.how.items() if values},
    }
    if chosen.pivot is not None and isinstance(support, str | list):
        # raises on an unknown pivot before the model runs
        lm.support("vocabulary" if support == "auto" else support).index(chosen.pivot)
    if blanks > 1 and not chosen.quiet:
        counted = lm.cost(cloze, timed=False, **given)
        # timing the model takes a second: only where it is a small part of the work
        cost = lm.cost(cloze, **given) if counted.forward_passes > _FEW_PASSES else counted
        searched = blanks > 2 and not cost.table_bytes
        more = " for one fill; the search for the likeliest runs more" if searched else ""
        print(f"{', '.join(methods)}: {cost}{more}", file=sys.stderr)
        if support == "vocabulary" and (cost.seconds or 0.0) > _LONG_SECONDS:
            options.say("without --exact the same is estimated from a few hundred forward passes")
    written = show.as_json if chosen.json else show.as_table
    with kernels.for_one_text():
        joints = lm.joints(cloze, **given)
        if blanks == 1:
            # every construction of one blank is the model's own distribution
            joints = {"mlm": next(iter(joints.values()))}
        print(written(lm, cloze, joints, chosen.top), flush=True)
    if chosen.figure is not None:
        _draw(chosen, joints)
    _warn(joints)


def _fill_words(
    chosen: argparse.Namespace, answerer: "Answerer", cloze: "Cloze", methods: list[str]
) -> None:
    request = answerer.request
    fills = {name: answerer.ranked_words(cloze, request, name) for name in methods}
    if chosen.json:
        print(show.words_as_json(answerer.lm, cloze, fills, request.piece_prior))
    else:
        print(show.words_as_table(fills, request.piece_prior))


def _fill_together(chosen: argparse.Namespace, answerer: "Answerer", text: str) -> None:
    lm, request = answerer.lm, answerer.request
    (found,) = lm.fill(
        text,
        blanks=request.blanks,
        support=request.support,
        together=chosen.together,
        settings=answerer.settings,
    )
    if chosen.json:
        print(json.dumps({"model": lm.name, "revision": lm.revision, **found}, indent=2))
        return
    print(printable(found["sequence"]))
    if not chosen.quiet:
        groups = " then ".join(" ".join(map(str, group)) for group in found["groups"])
        print(
            f"blanks filled together: {groups}; {found['forward_passes']:,} forward passes",
            file=sys.stderr,
        )


def _draw(chosen: argparse.Namespace, joints: "dict[str, Joint]") -> None:
    from unmask.plots.comparison import compare
    from unmask.plots.heat_map import plot

    figure = compare(joints) if len(joints) > 1 else plot(next(iter(joints.values())))
    save_figure(figure, chosen.figure)
    if not chosen.quiet:
        print(f"wrote {quoted(chosen.figure, limit=150)}", file=sys.stderr)


def _warn(joints: "dict[str, Joint]") -> None:
    for name, joint in joints.items():
        did = joint.diagnostics
        if did.get("converged") is False:
            # a residual can be small while groups of tokens that hardly meet are still off
            bound = did.get("error_bound")
            why = f"residual {did['residual']:.1g}" if bound is None else f"error below {bound:.1g}"
            options.say(
                f"{name} has not converged ({why} after {did['passes']} sweeps): treat its "
                "probabilities as approximate"
            )
    agreement = next(iter(joints.values())).agreement()
    if agreement is not None and not agreement.converged:
        options.say("the solver behind J has not converged: treat J as approximate")


# --- reading the options -----------------------------------------------------------------------


def _check(chosen: argparse.Namespace) -> None:
    """Reject options that do not go together, before a model is loaded."""
    if chosen.top < 1:
        raise UnmaskError(f"--top takes a number of fills from 1, not {chosen.top}")
    if chosen.figure is not None:
        _check_figure(chosen)
    if chosen.together is not None:
        for name in ("method", "targets", "piece_prior", "input", "figure", "precision"):
            if getattr(chosen, name) is not None:
                raise UnmaskError(
                    f"--together writes one fill of one TEXT; leave out --{name.replace('_', '-')}"
                )
    if (chosen.text is None) == (chosen.input is None):
        raise UnmaskError("give a TEXT, or --input FILE for many; one of the two")
    for name in ("input_format", "output", "output_format", "limit", "dry_run"):
        if chosen.input is None and getattr(chosen, name):
            raise UnmaskError(f"--{name.replace('_', '-')} is for many texts; give --input FILE")
    if chosen.input is not None and chosen.json:
        raise UnmaskError("--input is answered with JSON lines as it is; leave out --json")
    if chosen.piece_prior is not None and chosen.targets is None and chosen.input is None:
        raise SupportError("--piece-prior ranks words of different numbers of pieces: --targets")
    if chosen.towards is not None and chosen.pseudo_counts is None:
        raise MethodError("--towards is what --pseudo-counts pull to; give both")


def _check_figure(chosen: argparse.Namespace) -> None:
    check_ending(chosen.figure)
    for name in ("input", "targets"):
        if getattr(chosen, name) is not None:
            raise UnmaskError(f"--figure is of the tokens of one TEXT; leave out --{name}")
    options.check_file("--figure", chosen.figure)
    library("matplotlib.figure")


def _methods(chosen: argparse.Namespace, blanks: int, support: object) -> list[str]:
    """The constructions of so many blanks; `all` are those that take so many."""
    from unmask.constructions import METHOD_WITHOUT_TABLES, constructions_of
    from unmask.queries.joints import default_method

    default = default_method(blanks, support)
    alone = default == METHOD_WITHOUT_TABLES
    return options.methods(chosen, default, every=[default] if alone else constructions_of(blanks))


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _piece_prior(text: str | None) -> "str | dict[int, float] | None":
    return None if text is None else piece_prior(text, "--piece-prior")
