"""`unmask score`: whole texts, words and minimal pairs, from a file into a file."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask.cli import many, score_notes, score_options
from unmask.cli.score_options import ScoreOptions
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.jobs.counts import Counts
    from unmask.jobs.kinds.score import ScoreKind
    from unmask.records.files import InputRows
    from unmask.records.rows import Row


@dataclass(frozen=True, kw_only=True)
class ScoreCommand(ScoreOptions):
    """Scores of whole texts, of words, or of minimal pairs."""

    SUMMARY = "score whole texts, their words, or minimal pairs"
    DESCRIPTION = (
        "Score every text of INPUT, or compare the two texts of every pair. Methods: pll "
        "(pseudo-log-likelihood), pll-word-l2r (the same, with the rest of a word masked too), "
        "unmasking (a log-probability, of the text among all with equally many tokens), elbo (its "
        "mean over all orders of the tokens, estimated from random masks), and for pairs hcb-path "
        "(the log-ratio of the two, along the tokens that differ). All columns of the input are "
        "kept in the output. In CSV and TSV, control characters are escaped, and a text that a "
        r"spreadsheet would read as a formula stands behind '\; JSON lines and Parquet hold texts "
        "unchanged. Texts that cannot be scored and pairs that cannot be compared have a reason "
        "instead of a number. The exit code is 2 on bad input, and if there is not a single number."
    )
    EXAMPLE = 'unmask score "The cats sleep." -m bert-base-cased'

    def run(self) -> int:
        """Read what can be rejected, load the model, then score and write unit by unit."""
        source = score_options.source_of(self)
        is_blimp = self.blimp is not None
        texts = (
            None
            if is_blimp
            else many.open_rows(self, source, score_options.named_columns(self), "txt")
        )
        kind, rows = score_options.checked(self), list["Row"]()
        texts = (self._blimp() if texts is None else texts).begin(hold=True)
        for name in self.by:
            if name not in texts.names:
                raise UnmaskError(f"--by {quoted(name)}: the input has no such column")
        is_table = self.output in (None, "-") and not (self.json or self.output_format)

        def conclude(counts: "Counts") -> int:
            self._print(kind, counts, rows, is_table=is_table)
            return 0

        keep = (lambda rows: None) if is_blimp else rows.extend
        return many.run(self, kind, texts, default_format=None, keep=keep, conclude=conclude)

    def _blimp(self) -> "InputRows":
        from unmask.records.files import rows_in_memory
        from unmask.records.rows import Record
        from unmask.sequences.blimp import read_blimp

        pairs = read_blimp(self.blimp or "", paradigms=self.paradigm, limit=self.limit)
        return rows_in_memory([Record(row) for row in pairs])

    def _print(
        self, kind: "ScoreKind", counts: "Counts", rows: "list[Row]", *, is_table: bool
    ) -> None:
        """The summary goes to stdout, unless rows for programs do; notes go below a table."""
        summary, notes = score_notes.summary(kind, counts), list[str]()
        if not self.quiet:
            notes += score_notes.notes(kind, counts)
        if is_table:
            parts = [self._table(kind, rows), summary, "\n".join(notes)]
            print("\n\n".join(part for part in parts if part))
            return
        if self.output not in (None, "-"):
            print(summary, end="\n" if summary else "")
        elif summary and not self.quiet:
            notes = [summary, "", *notes]
        for line in notes:
            print(line, file=sys.stderr)

    def _table(self, kind: "ScoreKind", rows: "list[Row]") -> str:
        from unmask.sequences.outputs import table

        if self.blimp is not None:
            return ""
        hidden = ["unit", "model", "order", *(["method"] if len(kind.methods) == 1 else [])]
        if not any(row.get(f"{self.prefix}unknown_tokens") for row in rows):
            hidden.append("unknown_tokens")
        left_out = {self.prefix + name for name in hidden}
        texts = () if self.no_text else kind.columns
        if self.words and len({row[kind.columns[0]] for row in rows}) == 1:
            texts = ()
        return table(
            rows, [*texts, *(name for name in kind.output_columns if name not in left_out)]
        )
