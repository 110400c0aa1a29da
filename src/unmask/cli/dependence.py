"""`unmask dependence`: which words or residues of a text depend on each other, in a model."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unmask.cli import announce, many, options
from unmask.errors import UnmaskError
from unmask.plots.saving import check_ending, library, save_figure
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.jobs.kinds.dependence import Dependence
    from unmask.language_model import LanguageModel
    from unmask.queries.dependence.dependence_map import DependenceMap

SUMMARY = "map which words or residues of a text depend on each other"
DESCRIPTION = (
    "Map how strongly every two words of TEXT depend on each other in the model. "
    "mutual-information (in bits): with both words masked, how far filling one moves the "
    "distribution of the other. pmi (in nats): how much likelier each of the two words is when "
    "the other is known; the cheapest. jacobian (in nats): with the text as it stands, how far "
    "writing other tokens at one place moves the log-probabilities at the other. If TEXT has mask "
    "tokens, the blanks are the places, and stay masked. --support amino-acids makes TEXT a "
    "sequence of residues, counted from 1. Prints the strongest pairs; --output writes all of "
    "them. With --input, rows of many texts are written as they are known, and a text that cannot "
    "be mapped has a reason instead of numbers."
)
EXAMPLE = 'unmask dependence "Two dogs are running." -m bert-base-cased --tree --figure arcs.svg'
_MEASURES = ("mutual-information", "pmi", "jacobian")
# in a part of a folder: a text takes hundreds of forward passes
_TEXTS_PER_UNIT = 64
# in one file, so that short texts share forward passes and long ones are written soon
_TEXTS_AT_ONCE = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("text", nargs="?", metavar="TEXT", help="the text; - reads it from stdin")
    options.add_model(parser)
    add(
        "--measure",
        default=_MEASURES[0],
        metavar="NAME",
        help=f"{', '.join(_MEASURES)} (default: {_MEASURES[0]})",
    )
    add(
        "--samples",
        type=int,
        default=32,
        metavar="N",
        help="tokens that are tried at each place; a support with no more of them is exact "
        "(default: 32)",
    )
    add("--window", type=int, metavar="N", help="leave out pairs that are further apart than this")
    add(
        "--support",
        metavar="NAME|TOKENS",
        help=f"tokens that a place may hold: {options.NAMED}, or tokens separated by commas "
        "(default: vocabulary; for FASTA amino-acids)",
    )
    add(
        "--places",
        nargs="+",
        metavar="PLACE",
        help="only these places: words that occur once, spans of characters as START:END, or "
        "indices of tokens; of residues, positions from 1 (default: all)",
    )
    add(
        "--apc",
        action="store_true",
        help="apply the average product correction, which takes off what both places depend on "
        "all others",
    )
    add(
        "--tree",
        action="store_true",
        help="print the edges of the strongest tree without crossings instead of the strongest "
        "pairs, and draw them as arcs over the text",
    )
    add("--top", type=int, default=10, metavar="N", help="number of pairs to print (default: 10)")
    add("--seed", type=int, default=0, metavar="N", help="seed of the samples (default: 0)")
    add("--json", action="store_true", help="print JSON instead of a table")
    add(
        "--figure",
        metavar="FILE",
        help="also draw a .svg, .png or .pdf file: a heat map, or arcs with --tree; needs the "
        "extra plots",
    )
    add(
        "--parser",
        metavar="NAME",
        help="draw the tree of this spaCy model below the arcs; needs the extra syntax",
    )
    many.add_output(parser, "the strongest pairs of TEXT, or all of --input as CSV, on stdout")
    announce.add_dry_run(parser)
    add("--quiet", action="store_true", help="print no cost, no progress bar and no closing line")
    group = parser.add_argument_group("many texts").add_argument
    group(
        "--input",
        metavar="FILE|-",
        help="read many texts instead of TEXT: one per line, .csv, .tsv, .jsonl or .parquet with "
        "the column text, or FASTA; also a pattern, a folder of files, or a URL. All columns are "
        "kept. Rows go to stdout as CSV, or as JSON lines with --json, or to --output",
    )
    group(
        "--input-format",
        metavar="FORMAT",
        help=f"{many.INPUT_FORMATS}: if the name of the file does not show it (default for -: txt)",
    )
    group("--limit", type=int, metavar="N", help="read only the first N rows")
    options.add_running(parser, tables=False)
    many.add_arguments(parser, _TEXTS_PER_UNIT)


def run(chosen: argparse.Namespace) -> int:
    """Check all options and files, load the model, then map one text or many."""
    given = many.GivenRows(
        [chosen.input or ""], chosen.input_format, chosen.limit, piped_format="txt"
    )
    if chosen.input is not None:
        given.check_header(["text"])
    _check(chosen)
    parse = _parser(chosen)
    kind = _kind(chosen)
    if chosen.input is not None:
        default = "jsonl" if chosen.json else "csv"
        return many.rows_command(
            chosen, kind, given, at_once=_TEXTS_AT_ONCE, default_format=default
        )
    text = options.read_stdin("the text").rstrip("\n") if chosen.text == "-" else chosen.text
    lm = options.load_model(chosen)
    question = kind.question(lm, text)
    if chosen.figure is not None and chosen.tree:
        from unmask.plots.dependence import check_arcs

        check_arcs(len(question.places))
    if chosen.dry_run or not chosen.quiet:
        cost = kind.cost_of(lm, question)
        announce.announce(chosen, cost.name, lm, cost.cloze, cost.cost, kind.settings)
    if chosen.dry_run:
        return 0
    (found,) = kind.maps(lm, [question])
    edges = found.tree(projective=True) if chosen.tree else None
    print(_as_json(lm, found, edges, chosen.top) if chosen.json else _shown(chosen, found))
    if chosen.output is not None:
        _write_one(chosen, kind, found)
    if chosen.figure is not None:
        other = None if parse is None else _parsed(found, parse)
        save_figure(found.plot(tree=chosen.tree, other=other), chosen.figure)
        if not chosen.quiet:
            print(f"wrote {quoted(chosen.figure, limit=150)}", file=sys.stderr)
    if not chosen.quiet and not chosen.json:
        print(_about(found), file=sys.stderr)
    return 0


def _kind(chosen: argparse.Namespace) -> "Dependence":
    from unmask.jobs.kinds.dependence import Dependence
    from unmask.records.files import format_by_name

    is_fasta = "fasta" in (chosen.input_format, format_by_name(chosen.input or ""))
    support = options.support(chosen.support or ("amino-acids" if is_fasta else "vocabulary"))
    places = None if chosen.places is None else tuple(options.blank(one) for one in chosen.places)
    return Dependence(
        measure=chosen.measure,
        samples=chosen.samples,
        window=chosen.window,
        seed=chosen.seed,
        support=support if isinstance(support, str) else tuple(support),
        corrected=chosen.apc,
        tree=chosen.tree,
        places=places,
        model_name=options.model_name(chosen.model),
        settings=options.settings(chosen, progress=False if chosen.quiet else None),
    )


def _write_one(chosen: argparse.Namespace, kind: "Dependence", found: "DependenceMap") -> None:
    from unmask.jobs.single_file import FileLayout, growing
    from unmask.jobs.tally import Tally

    names = ["text", *kind.output_columns]
    format = many.output_format(chosen.output, chosen.output_format) or "csv"
    output = None if chosen.output == "-" else chosen.output
    with growing(output, FileLayout(names, format)) as writer:
        rows = [{"text": found.text, **row} for row in kind.rows_of(found)]
        writer.append(rows, Tally(1))


# --- what is printed ---------------------------------------------------------------------------


def _shown(chosen: argparse.Namespace, found: "DependenceMap") -> str:
    if not chosen.tree:
        return found.table(found.top(chosen.top))
    edges = set(found.tree(projective=True))
    return found.table(one for one in found.pairs() if (one.first, one.second) in edges)


def _as_json(
    lm: "LanguageModel", found: "DependenceMap", edges: Sequence[tuple[int, int]] | None, top: int
) -> str:
    return json.dumps(
        {
            "model": lm.name,
            "revision": lm.revision,
            "text": found.text,
            "measure": found.measure,
            "unit": found.unit,
            "samples": found.samples,
            "forward_passes": found.forward_passes,
            "average_product_correction": found.is_corrected,
            "places": [
                {"name": one.name, "start": one.start, "end": one.end} for one in found.places
            ],
            "pairs": [one._asdict() for one in found.top(top)],
            "tree": edges,
        },
        indent=2,
        allow_nan=False,
    )


def _about(found: "DependenceMap") -> str:
    exact = "" if found.standard_errors is None else f", estimated from {found.samples} samples"
    corrected = ", less the average product" if found.is_corrected else ""
    return (
        f"{found.measure} in {found.unit}{exact}{corrected}: dependence in the model; "
        f"{found.forward_passes:,} forward passes"
    )


# --- reading the options -----------------------------------------------------------------------


def _check(chosen: argparse.Namespace) -> None:
    """Reject options that do not go together, before a model is loaded."""
    from unmask.queries.dependence.question import How, check_support
    from unmask.text.support import Support

    # the numbers, over any support: that of the model is known later
    How(chosen.measure, Support.of(["a", "b"]), chosen.samples, chosen.window, chosen.seed)
    check_support(chosen.measure, options.support(chosen.support or "vocabulary"))
    if (chosen.text is None) == (chosen.input is None):
        raise UnmaskError("give a TEXT, or --input FILE for many; one of the two")
    if chosen.top < 1:
        raise UnmaskError(f"--top takes a number of pairs from 1, not {chosen.top}")
    for name in ("input_format", "limit"):
        if chosen.input is None and getattr(chosen, name) is not None:
            raise UnmaskError(f"--{name.replace('_', '-')} is for many texts; give --input FILE")
    if chosen.input is not None and chosen.json and chosen.output is not None:
        raise UnmaskError("--json prints rows to stdout; leave it out to give --output")
    if chosen.parser is not None and not (chosen.tree and chosen.figure):
        raise UnmaskError("--parser draws a second tree; give --tree and --figure too")
    if not many.is_folder(chosen):
        if (
            many.output_format(chosen.output, chosen.output_format) == "parquet"
            and chosen.input is None
        ):
            raise UnmaskError("the pairs of one TEXT are written to .csv, .tsv or .jsonl")
    elif chosen.input is None:
        raise UnmaskError("a folder of parts is for many texts; give --input FILE")
    if chosen.figure is not None:
        check_ending(chosen.figure)
        if chosen.input is not None:
            raise UnmaskError("--figure is of one TEXT; leave out --input")
        options.check_file("--figure", chosen.figure)
        library("matplotlib.figure")


def _parser(chosen: argparse.Namespace) -> Any:
    if chosen.parser is None:
        return None
    from unmask.evaluation.reports.syntax import spacy_parser

    return spacy_parser(chosen.parser)


def _parsed(found: "DependenceMap", parse: Any) -> list[tuple[int, int]]:
    """The parser's tree between the places, by their characters."""
    from unmask.evaluation.reports.syntax import tree_edges

    spans = [(one.start, one.end) for one in found.places]
    if any(start is None for start, _ in spans):
        raise UnmaskError(
            "the places of this text have no characters, so a parse cannot be drawn below it; "
            "leave out --parser"
        )
    (words,) = parse([found.text])
    return tree_edges([(start or 0, end or 0) for start, end in spans], words)
