"""`unmask score`: whole texts, words and minimal pairs, from a file into a file."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from unmask.arguments import check_numbers
from unmask.cli import inputs, many, options
from unmask.cli.command import option
from unmask.errors import MethodError, UnmaskError
from unmask.names import DRAWS, ORDERS_OF_PATHS, PAIR_METHODS, model_name
from unmask.printable import printable, quoted
from unmask.records.rows import TEXT_COLUMN, Record, Row

if TYPE_CHECKING:
    from unmask.jobs.kinds import Counts
    from unmask.jobs.kinds.score import ScoreKind

_HCB_PATH = "hcb-path"
_pairs = partial(option, group="pairs")
_ORDERS = ("left-to-right", "surest", "margin")


@dataclass(frozen=True, kw_only=True)
class ScoreCommand(many.RowsCommand):
    """Scores of whole texts, of words, or of minimal pairs."""

    SUMMARY = "score whole texts, their words, or minimal pairs"
    DESCRIPTION = (
        "Methods: pll (pseudo-log-likelihood), pll-word-l2r (the same, with the rest of a word "
        "masked too), unmasking (a log-probability, of the text among all with equally many "
        "tokens), elbo (its mean over all orders of the tokens, estimated from random masks), and "
        "for pairs hcb-path (the log-ratio of the two, along the tokens that differ). All columns "
        "of the input are kept in the output. In CSV and TSV, control characters are escaped, and "
        "a text that a spreadsheet would read as a formula stands behind '\\; JSON lines and "
        "Parquet hold texts unchanged. Texts that cannot be scored and pairs that cannot be "
        "compared have a reason instead of a number. The exit code is 2 on bad input, and if there "
        "is not a single number."
    )
    EXAMPLE = 'unmask score "The cats sleep." -m bert-base-cased'

    input: tuple[str, ...] = inputs.INPUT()
    text: tuple[str, ...] = inputs.TEXT()
    column: str | None = option("column that holds the texts (default: text)", "NAME")
    pairs: str | None = _pairs("the two columns that hold minimal pairs", "GOOD,BAD")
    given: str | None = option(
        "the column that holds what stands before each text, and optionally one that holds what "
        "stands after it: only the text's own tokens are scored",
        "BEFORE[,AFTER]",
    )
    separator: str = option("what joins them to the text (default: nothing)", "TEXT", default="")
    blimp: str | None = _pairs(
        "BLiMP: a folder of .jsonl files, or its name on the Hub, nyu-mll/blimp; --limit is then "
        "the number of pairs per paradigm, in hashed order",
        "FOLDER|NAME",
    )
    paradigm: tuple[str, ...] = _pairs(
        "read only this paradigm of BLiMP; repeat the option for several", "NAME", default=()
    )
    by: tuple[str, ...] = _pairs(
        "also report the accuracy of pairs by the values of this column; repeat the option for "
        "several columns. The overall accuracy is then the mean over the values of the first "
        "(BLiMP is always reported by UID, linguistics_term and field)",
        "NAME",
        default=(),
    )
    method: tuple[str, ...] = option(
        "pll, pll-word-l2r, unmasking, elbo, and for pairs hcb-path; separate several with commas "
        "(default: {default})",
        "NAME",
        default=("pll",),
        commas=True,
        choices=PAIR_METHODS,
    )
    order: str | None = option(
        "unmasking: which token is revealed next: left-to-right, surest (the place where the "
        "likeliest token is most probable) or margin (where it is furthest ahead of the second) "
        "(default: left-to-right)",
        "NAME",
        choices=_ORDERS,
    )
    orders: int | None = _pairs("hcb-path: number of orders averaged (default: 8)", "R")
    draws: int | None = option(f"elbo: number of random masks averaged (default: {DRAWS})", "N")
    seed: int = options.SEED()
    words: bool = option("write one row per word: surprisal, start, end, pieces", default=False)
    base_two: bool = option("use bits instead of nats", default=False)
    prefix: str = options.PREFIX()
    no_text: bool = options.NO_TEXT()
    model_name: str | None = options.MODEL_NAME()

    def run(self) -> int:
        """Read what can be rejected, load the model, then score and write unit by unit."""
        from unmask.records.files import rows_in_memory
        from unmask.sequences.blimp import read_blimp

        is_blimp = self.blimp is not None
        source = inputs.Input((), ()) if is_blimp else inputs.read_input(self.input, self.text)
        columns, context = self.columns(is_text=bool(source.texts))
        output = many.output_of(self, many.format_of_stdout(source.files))
        remedy = "name others with --pairs" if self.pairs else "name another with --column"
        if is_blimp:
            pairs = read_blimp(self.blimp or "", paradigms=self.paradigm, limit=self.limit)
            texts = rows_in_memory([*map(Record, pairs)])
        else:
            texts = many.open_rows(self, source, columns, remedy=remedy)
        kind, rows = self.kind(columns, context), list[Row]()
        if texts.is_pipe:
            texts = rows_in_memory([*(texts.records or ())])
        for name in self.by:
            if name not in texts.names:
                raise UnmaskError(f"--by {quoted(name)}: the input has no such column")
        keep = None if is_blimp or output.format else rows.extend
        end = partial(self._conclude, kind, output, rows)
        return many.run(self, kind, texts, output, keep=keep, conclude=end)

    def columns(self, *, is_text: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns of the texts, and of what stands around them.

        Rejects options that do not apply beside the others; nothing is read.
        """
        is_pairs = self.blimp is not None or self.pairs is not None
        if _HCB_PATH in self.method and not is_pairs:
            raise MethodError("hcb-path compares two texts; give --pairs GOOD,BAD or --blimp")
        file_options = ("input_format", "column", "pairs", "by", "given")
        for applies, names, why in (
            (self.blimp is None, ("paradigm",), "without --blimp"),
            (self.blimp is not None, ("input", "text", *file_options), "with --blimp"),
            (is_text, file_options, "to a text, but to a file or standard input"),
            (self.pairs is not None, ("column",), "with --pairs, which names the columns"),
            (self.given is None, ("separator",), "without --given"),
            (is_pairs, ("words",), "with pairs, which are compared as whole texts"),
            (not is_pairs, ("by",), "without pairs, since only pairs have an accuracy"),
            (self.no_text, ("words",), "with --no-text, which leaves texts out"),
            (_HCB_PATH not in self.method, ("orders",), "without --method hcb-path"),
            ("elbo" not in self.method, ("draws",), "without --method elbo"),
        ):
            if applies:
                options.reject(self, names, f"does not apply {why}; leave it out")
        columns: tuple[str, ...] = (self.column or TEXT_COLUMN,)
        context: tuple[str, ...] = ()
        if self.pairs is not None:
            columns = options.columns("--pairs", self.pairs, "good,bad")
        if self.given is not None:
            context = options.columns("--given", self.given, "before,after", least=1)
        for name in set(context) & set(columns):
            raise UnmaskError(
                f"--given names {quoted(name)}, which holds the texts themselves; name the columns "
                "of what stands before and after them"
            )
        return columns, context

    def kind(self, columns: tuple[str, ...], context: tuple[str, ...]) -> "ScoreKind":
        """The job that the options ask for."""
        from unmask.jobs.kinds.score import ScoreKind
        from unmask.sequences import blimp
        from unmask.sequences.scoring import checked_order

        is_blimp = self.blimp is not None
        orders = ORDERS_OF_PATHS if self.orders is None else self.orders
        draws = DRAWS if self.draws is None else self.draws
        check_numbers(orders=orders, draws=draws, seed=self.seed)
        return ScoreKind(
            columns=blimp.PAIR if is_blimp else columns,
            given=context,
            separator=self.separator,
            methods=self.method,
            model_name=self.model_name or model_name(self.model),
            order=checked_order(self.order, self.method),
            orders=orders,
            draws=draws,
            seed=self.seed,
            words=self.words,
            base_two=self.base_two,
            without_text=self.no_text,
            prefix=self.prefix,
            groups=(blimp.PARADIGM, *blimp.GROUPS) if is_blimp else self.by,
            settings=self.settings(),
        )

    def _conclude(
        self, kind: "ScoreKind", output: many.Output, rows: list[Row], counts: "Counts"
    ) -> int:
        """Print the summary to stdout, unless rows go there; notes go below a table."""
        from unmask.sequences.outputs import table

        # a shard may have no pairs
        accuracies = _accuracies(kind, counts) if kind.is_pairs and counts["texts"] else ""
        notes = [] if self.quiet else _notes(kind, counts)
        if output == many.Output():
            is_blimp = self.blimp is not None
            rows_shown = "" if is_blimp else table(rows, self._shown_columns(kind, rows))
            print("\n\n".join(filter(None, [rows_shown, accuracies, "\n".join(notes)])))
            return 0
        if output.file or output.folder:
            print(accuracies, end="\n" if accuracies else "")
        elif accuracies:
            self.note(f"{accuracies}\n")
        for line in notes:
            self.note(line)
        return 0

    def _shown_columns(self, kind: "ScoreKind", rows: list[Row]) -> list[str]:
        """The columns of a table to read: without those that say the same in every row."""
        hidden = ["unit", "model", "order", *(["method"] if len(kind.methods) == 1 else [])]
        hidden += [
            name
            for name in ("unknown_tokens", "special_tokens")
            if not any(row.get(f"{self.prefix}{name}") for row in rows)
        ]
        left_out = {self.prefix + name for name in hidden}
        texts = () if self.no_text else kind.columns
        if self.words and len({row[kind.columns[0]] for row in rows}) == 1:
            texts = ()
        return [*texts, *(name for name in kind.output_columns if name not in left_out)]


def _notes(kind: "ScoreKind", counts: "Counts") -> Iterator[str]:
    """The meaning of the numbers, and of how many texts or pairs each method has none, with why."""
    unit = kind.shared(None)["unit"]
    if kind.is_pairs:
        yield (
            f"log-ratios in {unit}, above 0 where the first text of a pair wins; a tie counts "
            "half; intervals are Wilson's, and for a mean over paradigms combined from theirs"
        )
    elif scores := [name for name in kind.methods if name not in ("unmasking", "elbo")]:
        yield f"{', '.join(scores)}: in {unit}; a score, not a log-probability"
    if kind.order is not None:
        score = "differences of log-probabilities, each" if kind.is_pairs else "the log-probability"
        yield (
            f"unmasking, {kind.order}: in {unit}; {score} of a text among all with "
            "equally many tokens"
        )
    if "elbo" in kind.methods:
        yield (
            f"elbo: in {unit}; an estimate from {kind.draws} random masks of the mean of the "
            "log-probability over all orders of the tokens"
        )
    what, done = ("pairs", "compared") if kind.is_pairs else ("texts", "scored")
    if counts["unknown"]:
        counted = "" if kind.is_pairs else "unknown_tokens counts them, and "
        if kind.words:
            counted = "these words have a reason instead of a surprisal, and "
        unknown, texts = counts["unknown"], counts["texts"]
        yield (
            f"{unknown} of {texts} {what} have words that the vocabulary has no token "
            f"for: {counted}the model reads the unknown token there"
        )
    if special := counts["special"]:
        yield (
            f"{special} of {counts['texts']} {what} have special tokens of this model written in "
            "them: special_tokens counts them, and the model reads them as such"
        )
    for method in kind.methods:
        if method in counts["without"]:
            without = counts["without"][method]
            share = f"{without['count']} of {counts['texts']} {what} not {done}"
            yield f"{method}: {share}, e.g.: {printable(without['example'])}"


def _accuracies(kind: "ScoreKind", counts: "Counts") -> str:
    """Tables of accuracy: by each kind of group, of which the first are paradigms, and overall."""
    from unmask.sequences.minimal_pairs import Verdict, accuracies, accuracy
    from unmask.sequences.outputs import accuracy_table

    groups, verdicts = kind.groups, {method: list[Verdict]() for method in kind.methods}
    for verdict, pairs in counts["pairs"].items():
        method, text_groups, correct = json.loads(verdict)
        by_kind = dict(text_groups)
        paradigm = next(iter(by_kind.values()), "")
        verdicts[method].append(
            Verdict(paradigm, correct, pairs["passes"], by_kind, pairs["count"])
        )
    tables = []
    for name in groups:
        by_method = {method: accuracies(ones, name) for method, ones in verdicts.items()}
        parts = next(iter(by_method.values()))
        turned = {part: {method: by_method[method][part] for method in by_method} for part in parts}
        tables.append(accuracy_table(turned, name))
    overall = {method: accuracy(ones) for method, ones in verdicts.items()}
    mean = f"mean over {printable(groups[0])}" if groups else "all pairs"
    return "\n\n".join([*tables, accuracy_table({mean: overall}, "overall")])
