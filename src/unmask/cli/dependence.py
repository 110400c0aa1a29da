"""`unmask dependence`: which words or residues of a text depend on each other, in a model."""

import argparse
import hashlib
import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from unmask.cli import announce, many, options, score_options
from unmask.errors import UnmaskError
from unmask.plots.saving import check_ending, library, save_figure
from unmask.printable import quoted
from unmask.sequences.inputs import TEXT_COLUMN

if TYPE_CHECKING:
    from unmask.jobs.kinds.dependence import Dependence
    from unmask.jobs.running import Job
    from unmask.jobs.tally import Tally
    from unmask.language_model import LanguageModel
    from unmask.queries.costs.cost import Cost
    from unmask.queries.dependence.dependence_map import DependenceMap
    from unmask.queries.dependence.question import How, Question
    from unmask.settings import Settings
    from unmask.text.cloze import Cloze

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
_FORMATS = ("txt", "jsonl", "tsv", "csv", "parquet", "fasta")
# in a part of a folder: a text takes hundreds of forward passes
_TEXTS_PER_UNIT = 64


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
    add(
        "-o",
        "--output",
        metavar="FILE|FOLDER/",
        help="write all pairs to a .csv, .tsv or .jsonl file; its name is FILE.partial until it is "
        "complete. " + many.FOLDER_HELP,
    )
    announce.add_dry_run(parser)
    add("--quiet", action="store_true", help="print no cost, no progress bar and no closing line")
    group = parser.add_argument_group("many texts").add_argument
    group(
        "--input",
        metavar="FILE|-",
        help="read many texts instead of TEXT: one per line, .csv, .tsv or .jsonl with the column "
        "text (and id, which is kept), or FASTA. Rows go to stdout as CSV, or as JSON lines with "
        "--json, or to --output. Into a folder, also .parquet files, a pattern, a folder of files, "
        "or a URL; all columns are kept",
    )
    group(
        "--input-format",
        metavar="FORMAT",
        help=f"{', '.join(_FORMATS)}: if the name of the file does not show it (default: txt)",
    )
    options.add_running(parser, tables=False)
    many.add_arguments(parser, _TEXTS_PER_UNIT)
    parser.set_defaults(output_format=None)


@dataclass(frozen=True)
class Text:
    """A text to map, by its number from 1, with its id if it has one; or why it is none."""

    number: int
    id: str | None
    text: str | None
    reason: str | None = None


def run(chosen: argparse.Namespace) -> int:
    """Check all options and files, load the model, then map one text or many."""
    if chosen.input is not None:
        many.check_header([chosen.input], chosen.input_format, [TEXT_COLUMN])
    to_folder = many.wants_folder(chosen)
    _check(chosen, to_folder=to_folder)
    parse = _parser(chosen)
    settings = options.settings(chosen, progress=False if chosen.quiet else None)
    if to_folder:
        return _run_folder(chosen, replace(settings, progress=False))
    if chosen.input is not None:
        return _run_many(chosen, settings)
    text = options.read_stdin("the text").rstrip("\n") if chosen.text == "-" else chosen.text
    asked = Asked.of(chosen, options.load_model(chosen), settings)
    question = asked.question(text)
    if chosen.figure is not None and chosen.tree:
        from unmask.plots.dependence import check_arcs

        check_arcs(len(question.places))
    if chosen.dry_run or not chosen.quiet:
        asked.announce(chosen, question)
    if chosen.dry_run:
        return 0
    (found,) = asked.maps([question])
    edges = found.tree(projective=True) if chosen.tree else None
    print(_as_json(asked.lm, found, edges, chosen.top) if chosen.json else _shown(chosen, found))
    if chosen.output is not None:
        _write_one(chosen, found)
    if chosen.figure is not None:
        other = None if parse is None else _parsed(found, parse)
        save_figure(found.plot(tree=chosen.tree, other=other), chosen.figure)
        if not chosen.quiet:
            print(f"wrote {quoted(chosen.figure, limit=150)}", file=sys.stderr)
    if not chosen.quiet and not chosen.json:
        print(_about(found), file=sys.stderr)
    return 0


@dataclass(frozen=True)
class Asked:
    """A model and how it is asked."""

    lm: "LanguageModel"
    how: "How"
    support: Any
    places: Any
    settings: "Settings"
    corrected: bool

    @classmethod
    def of(cls, chosen: argparse.Namespace, lm: "LanguageModel", settings: "Settings") -> "Asked":
        """What the options ask of a model."""
        from unmask.queries.dependence.question import How

        support = options.support(chosen.support or "vocabulary")
        axis = lm.support(support)
        how = How(chosen.measure, axis, chosen.samples, chosen.window, chosen.seed)
        places = None if chosen.places is None else [options.blank(one) for one in chosen.places]
        return cls(lm, how, support, places, settings, chosen.apc)

    def question(self, text: str) -> "Question":
        """A text with its places, or an error that names what is wrong with it."""
        from unmask.queries.dependence.mapping import check_memory

        question = self.lm.dependence_question(text, places=self.places, support=self.support)
        self.how.check(question)
        check_memory(question, self.how, self.settings)
        return question

    def maps(
        self, questions: "Iterator[Question] | Sequence[Question]"
    ) -> "Iterator[DependenceMap]":
        """The map of every text, in their order."""
        from unmask.queries.dependence.mapping import dependence_maps

        name = self.lm.name
        for found in dependence_maps(self.lm.model, questions, self.how, self.settings, name=name):
            yield found.corrected() if self.corrected else found

    def announce(self, chosen: argparse.Namespace, question: "Question") -> None:
        """Print what a text costs."""
        announce.announce(chosen, self.how.measure, *self._cost(question))

    def announce_many(
        self, chosen: argparse.Namespace, question: "Question", count: int | None
    ) -> None:
        """Print what so many texts like this one cost, if it is much."""
        announce.announce_many(chosen, self.how.measure, *self._cost(question), count)

    def _cost(self, question: "Question") -> "tuple[LanguageModel, Cloze, Cost, Settings]":
        from unmask.queries.costs.cost import Cost
        from unmask.text.cloze import Cloze

        passes, counted = self.how.forward_passes(question), self.how.is_counted(question)
        cloze = Cloze("", question.ids, question.places[0].positions[:1])
        return self.lm, cloze, Cost(passes, len(cloze), 0, at_most=not counted), self.settings


# --- many texts --------------------------------------------------------------------------------


def _run_folder(chosen: argparse.Namespace, settings: "Settings") -> int:
    def announced(job: "Job") -> many.Announce:
        def of_first(lm: "LanguageModel", items: Sequence[Any]) -> None:
            for question in islice((one for one in items if not isinstance(one, str)), 1):
                asked = Asked.of(chosen, lm, settings)
                asked.announce_many(chosen, question, job.source.texts)

        return of_first

    return many.run_folder(
        chosen,
        _kind(chosen, settings),
        [chosen.input],
        chosen.input_format,
        lambda tally: _conclude(chosen, tally),
        announce=announced,
    )


def _kind(chosen: argparse.Namespace, settings: "Settings") -> "Dependence":
    from unmask.jobs.kinds.dependence import Dependence

    support = options.support(chosen.support or "vocabulary")
    return Dependence(
        measure=chosen.measure,
        samples=chosen.samples,
        window=chosen.window,
        seed=chosen.seed,
        support=support if isinstance(support, str) else tuple(support),
        corrected=chosen.apc,
        tree=chosen.tree,
        model_name=options.model_name(chosen.model),
        settings=settings,
    )


def _conclude(chosen: argparse.Namespace, tally: "Tally") -> int:
    from unmask.jobs.kinds.dependence import Dependence

    bad, example = tally.without.get(Dependence.name, (0, ""))
    if bad or not chosen.quiet:
        others = f"; the others have a reason instead, e.g.: {example}" if bad else ""
        options.say(f"{tally.texts - bad:,} of {tally.texts:,} texts mapped{others}")
    # a shard may have none at all
    return 2 if tally.texts and bad == tally.texts else 0


def _run_many(chosen: argparse.Namespace, settings: "Settings") -> int:
    from unmask.jobs.single_file import Layout, rows_into
    from unmask.jobs.tally import Tally
    from unmask.progress import bar

    if _format(chosen) == "fasta" and chosen.support is None:
        chosen.support = "amino-acids"
    texts, quiet = _texts(chosen), replace(settings, progress=False)
    first, source = next(texts), _source(chosen)
    count = source.texts
    asked = Asked.of(chosen, options.load_model(chosen), quiet)
    if (chosen.dry_run or not chosen.quiet) and first.text is not None:
        # a bad text has a reason when its turn comes
        with suppress(UnmaskError):
            asked.announce_many(chosen, asked.question(first.text), count)
    if chosen.dry_run:
        return 0
    format = "jsonl" if chosen.json else _output_format(chosen)
    names = [*_own(chosen), "model", "reason"]
    kind = _kind(chosen, quiet)
    plan = None if chosen.output is None else source.plan(chosen, kind, asked.lm)
    counted = bar("texts", unit="text", total=count, shown=False if chosen.quiet else None)
    with rows_into(chosen.output, Layout(names, format), plan) as writer, counted:
        if writer.units and not chosen.quiet:
            options.say(f"continuing after the first {writer.units:,} texts")
        counted.update(writer.units)
        left = islice(chain([first], texts), writer.units, None)
        for text, found in _mapped(asked, left):
            rows, why = _rows(chosen, text, found)
            tally = Tally(1)
            tally.note(kind.name, [] if why is None else [why])
            writer.append(rows, tally, units=text.number)
            counted.update()
    return _conclude(chosen, writer.tally)


def _mapped(asked: Asked, texts: Iterator[Text]) -> "Iterator[tuple[Text, DependenceMap | str]]":
    """Every text with its map, or why it has none, in their order."""
    waiting: deque[tuple[Text, str | None]] = deque()

    def questions() -> "Iterator[Question]":
        for text in texts:
            try:
                if text.text is None:
                    raise UnmaskError(text.reason or "there is no text")
                question = asked.question(text.text)
            except UnmaskError as error:
                waiting.append((text, str(error)))
            else:
                waiting.append((text, None))
                yield question

    def bad() -> "Iterator[tuple[Text, DependenceMap | str]]":
        while waiting and waiting[0][1] is not None:
            text, why = waiting.popleft()
            yield text, why or ""

    for found in asked.maps(questions()):
        yield from bad()
        yield waiting.popleft()[0], found
    yield from bad()


def _own(chosen: argparse.Namespace) -> list[str]:
    measure = chosen.measure.replace("-", "_")
    return [
        *("number", "id", "first", "second", "first_name", "second_name", "distance", measure),
        *("standard_error", "unit", *(["tree"] if chosen.tree else [])),
    ]


def _rows(
    chosen: argparse.Namespace, text: Text, found: "DependenceMap | str"
) -> tuple[list[dict[str, object]], str | None]:
    """A row per pair; of a text without a map one, with its reason."""
    about: dict[str, object] = {"number": text.number, "id": text.id}
    model = options.model_name(chosen.model)
    try:
        if isinstance(found, str):
            raise UnmaskError(found)
        edges = set(found.tree(projective=True)) if chosen.tree else set()
    except UnmaskError as error:
        empty = dict.fromkeys(_own(chosen)) | about
        return [{**empty, "model": model, "reason": str(error)}], str(error)
    rows = []
    for pair in found.to_dicts():
        is_edge = {"tree": (pair["first"], pair["second"]) in edges} if chosen.tree else {}
        rows.append({**about, **pair, **is_edge, "model": model, "reason": None})
    return rows, None


def _write_one(chosen: argparse.Namespace, found: "DependenceMap") -> None:
    from unmask.jobs.single_file import Layout, rows_into
    from unmask.jobs.tally import Tally

    rows, _ = _rows(chosen, Text(1, None, found.text), found)
    names = [*_own(chosen), "model", "reason"]
    with rows_into(chosen.output, Layout(names, _output_format(chosen))) as writer:
        writer.append(rows, Tally(1))


def _format(chosen: argparse.Namespace) -> str | None:
    """The format of the input as far as it is named; other endings are known where files are."""
    from unmask.sequences.fasta import ENDINGS

    if chosen.input_format is None and chosen.input.lower().endswith(ENDINGS):
        return "fasta"
    named: str | None = chosen.input_format
    return named


def _texts(chosen: argparse.Namespace) -> Iterator[Text]:
    from unmask.sequences.fasta import read_fasta
    from unmask.sequences.inputs import ItemFile, item_of

    format = _format(chosen)
    if format == "fasta":
        for number, (name, letters) in enumerate(read_fasta(chosen.input), start=1):
            yield Text(number, name, letters)
        return
    rows = ItemFile(chosen.input, (), format).rows()
    for number, (row, where) in enumerate(rows, start=1):
        own = None if row.get("id") is None else str(row["id"])
        try:
            yield Text(number, own, item_of(row, [TEXT_COLUMN], where).texts[0])
        except UnmaskError as error:
            yield Text(number, own, None, str(error))


def _source(chosen: argparse.Namespace) -> many.Source:
    """How many texts there are, and what they are recognised by, if they can be read again."""
    from unmask.sequences.inputs import can_be_read_again

    # texts are mapped some at a time, not by units
    none = many.in_units((), 1)
    if not can_be_read_again(chosen.input):
        return many.Source(none, None, None, 1)
    count, total = 0, hashlib.sha256(json.dumps(chosen.places).encode())
    for text in _texts(chosen):
        count += 1
        total.update(json.dumps([text.id, text.text, text.reason]).encode() + b"\n")
    return many.Source(none, count, [["rows", count, total.hexdigest()]], 1)


def _output_format(chosen: argparse.Namespace) -> str:
    return score_options.output_format(chosen) or "csv"


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


def _check(chosen: argparse.Namespace, *, to_folder: bool) -> None:
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
    if chosen.input_format is not None:
        if chosen.input is None:
            raise UnmaskError("--input-format is for many texts; give --input FILE")
        options.check_choice("--input-format", chosen.input_format, _FORMATS)
    if chosen.input is not None and chosen.json and chosen.output is not None:
        raise UnmaskError("--json prints rows to stdout; leave it out to give --output")
    if chosen.parser is not None and not (chosen.tree and chosen.figure):
        raise UnmaskError("--parser draws a second tree; give --tree and --figure too")
    chosen.file = chosen.input
    if to_folder:
        _check_folder(chosen)
    elif chosen.input is not None and (
        chosen.input_format == "parquet" or many.are_many([chosen.input])
    ):
        raise UnmaskError(
            "Parquet, a pattern, a folder or a URL is read into a folder of parts; give --output "
            "FOLDER/, with a slash at its end"
        )
    elif chosen.output is not None:
        _output_format(chosen)
    if chosen.figure is not None:
        check_ending(chosen.figure)
        if chosen.input is not None:
            raise UnmaskError("--figure is of one TEXT; leave out --input")
        options.check_file("--figure", chosen.figure)
        library("matplotlib.figure")


def _check_folder(chosen: argparse.Namespace) -> None:
    if chosen.input is None:
        raise UnmaskError("a folder of parts is for many texts; give --input FILE")
    if chosen.places is not None:
        raise UnmaskError("--places does not apply with a folder of parts; leave it out")
    if _format(chosen) == "fasta":
        raise UnmaskError("pairs of FASTA are written to one file; give --output FILE")


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
