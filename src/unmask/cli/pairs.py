"""`unmask pairs`: two words in two blanks, scored for every item of a table."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unmask.cli import inputs, many, options
from unmask.cli.command import option
from unmask.names import model_name

if TYPE_CHECKING:
    from unmask.jobs.kinds.pairs import PairsKind

_COLUMNS = "text,word1,word2"
_INSTEAD = "items have two words besides their text, in the columns of a table"


@dataclass(frozen=True, kw_only=True)
class PairsCommand(many.RowsCommand, options.TableOptions, options.Estimation):
    """Two words in two blanks, for every item of a table."""

    SUMMARY = "score two words in the two blanks of every item of a table"
    DESCRIPTION = (
        "Scores are log p(w1, w2), p(w1 | w2), p(w2 | w1) and their association, as natural "
        "logarithms. An item has the two words and a text: either with two mask tokens, or a "
        "complete text that contains both words once. The default method, orders, takes 3 forward "
        "passes per item with single-token words, and mlm takes 1, both with words of any number "
        "of pieces; log-pool takes hundreds, only words with one piece, and adds PMI, J and "
        "standard errors. Items that cannot be scored have a reason instead of numbers."
    )
    EXAMPLE = "unmask pairs items.csv -m bert-base-cased -o scores.csv"

    input: tuple[str, ...] = inputs.INPUT_FILES()
    prefix: str = options.PREFIX()
    columns: str = option(
        "the columns that hold the text and the two words (default: {default})",
        "TEXT,WORD1,WORD2",
        default=_COLUMNS,
    )
    method: tuple[str, ...] = option(
        options.METHOD, "NAME", default=("orders",), commas=True, group=options.CONSTRUCTION
    )

    def run(self) -> int:
        """Read what can be rejected, load the model, then score and write some items at a time."""
        output = many.output_of(self)
        source = inputs.read_input(self.input, instead=_INSTEAD)
        rows = many.open_rows(self, source, self._named(), "csv", "name others with --columns")
        from unmask.sequences.word_pairs import ITEMS_AT_ONCE

        kind = self._kind()
        # by tables an item takes seconds: each is written when it is done
        at_once = 1 if kind.runs_alone else ITEMS_AT_ONCE
        return many.run(self, kind, rows, output, at_once)

    def _kind(self) -> "PairsKind":
        from unmask.jobs.kinds.pairs import PairsKind
        from unmask.queries.sketched import sketchable
        from unmask.sequences.word_pairs import WITHOUT_TABLES

        methods = options.methods(self.method, None if self.exact else sketchable())
        if set(methods) <= set(WITHOUT_TABLES):
            without_tables = " and ".join(methods) + (" is" if len(methods) == 1 else " are")
            why = (
                f"is for methods with tables, and {without_tables} exact without; leave it out, or "
                "give --method log-pool"
            )
            options.reject(self, ("precision", "max_passes", "exact"), why)
        support: Any = self.axes(seed=self.seed)
        return PairsKind(
            columns=self._named(),
            methods=tuple(methods),
            support=support,
            model_name=model_name(self.model),
            prefix=self.prefix,
            settings=self.settings(),
        )

    def _named(self) -> tuple[str, str, str]:
        text, first, second = options.columns("--columns", self.columns, _COLUMNS)
        return text, first, second
