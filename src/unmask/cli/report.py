"""`unmask report`: tables and figures of evaluations."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.cli import options
from unmask.cli.command import argument, option
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.evaluation.reports.reporting import Report
    from unmask.evaluation.run import EvaluationRun

_TABLES = ("results", "differences", "distance-differences")


@dataclass(frozen=True, kw_only=True)
class ReportCommand:
    """Tables and figures of evaluations."""

    SUMMARY = "make tables and figures from evaluations"
    DESCRIPTION = (
        "Tables have the paper's four metrics for every construction, with bootstrap intervals "
        "over sentences, and paired differences. The paper's own numbers are shown where model and "
        "corpus match."
    )
    EXAMPLE = "unmask report runs/snli runs/xsum --output-format markdown -o results.md"

    runs: tuple[str, ...] = argument("folder that unmask evaluate wrote", "RUN")
    output_format: str = option(
        "text, markdown, latex or csv (default: {default})",
        "FORMAT",
        default="text",
        choices=("text", "markdown", "latex", "csv"),
    )
    table: tuple[str, ...] = option(
        "results, differences or distance-differences; several with commas (default: "
        "results,differences; for csv, which holds one table, results)",
        "NAME",
        default=(),
        commas=True,
        choices=_TABLES,
    )
    output: str | None = option("file for the tables, instead of stdout", "FILE", short="-o")
    baseline: str | None = option(
        "construction that others are compared with (default: mlm, if measured)", "NAME"
    )
    resamples: int = option(
        "number of bootstrap resamples (default: {default})", "N", default=10_000
    )
    seed: int = options.SEED()
    figures: str | None = option(
        "also draw differences from the baseline by distance, as SVG, with the numbers as CSV",
        "FOLDER",
    )
    copy_to: str | None = option(
        "also copy a single RUN into this folder, to publish it: with ids but no text", "FOLDER"
    )

    def run(self) -> int:
        """Read the runs, make the tables."""
        tables = self._tables()
        options.check_place("--output", self.output)
        options.check_place("--figures", self.figures, is_folder=True)

        from unmask.evaluation.reports.figures import draw
        from unmask.evaluation.reports.reporting import report
        from unmask.evaluation.run import copy_run
        from unmask.resampling import Resampling

        resampling = Resampling(resamples=self.resamples, seed=self.seed)
        result = report(_runs(self.runs), resampling=resampling, baseline=self.baseline)
        if result.baseline is None:
            means = [name for name in tables if not name.endswith("differences")]
            if self.table and means != tables:
                raise UnmaskError(
                    "differences are to mlm, which was not measured; give --baseline NAME"
                )
            tables = means
        self._write(_document(result, tables, self.output_format))
        # behind what can reject a command, because a folder is copied to once
        if self.copy_to is not None:
            if len(result.runs) != 1:
                raise UnmaskError(f"--copy-to copies one run, not {len(result.runs)}; give one RUN")
            copy_run(result.runs[0], self.copy_to)
        if self.figures is not None:
            for path in draw(result, Path(self.figures), say=options.say):
                options.say_written(str(path))
        return 0

    def _tables(self) -> list[str]:
        """The requested tables, checked before anything is read."""
        is_single = self.output_format == "csv"
        table_names = [*(self.table or (_TABLES[:1] if is_single else _TABLES[:2]))]
        if is_single and len(table_names) > 1:
            raise UnmaskError(
                f"csv holds one table, not {len(table_names)}; write each with --table NAME"
            )
        return table_names

    def _write(self, document: str) -> None:
        if self.output is None:
            print(document, end="")
        elif os.path.exists(self.output) and not os.path.isfile(self.output):
            # a device or a pipe is written to, never replaced
            Path(self.output).write_text(document, encoding="utf-8", newline="")
        else:
            from unmask.records.places import write_whole

            write_whole(os.path.realpath(self.output), document.encode())


def _runs(folders: Sequence[str]) -> "list[EvaluationRun]":
    """Read the evaluations in folders; among several, name and skip folders that hold none."""
    from unmask.evaluation.run import holds_run, read_run

    runs = [folder for folder in folders if holds_run(folder)]
    for folder in (folder for folder in folders if runs and folder not in runs):
        options.say(f"left out, since no evaluation is in it: {quoted(folder, limit=150)}")
    return [read_run(folder) for folder in runs or folders]


def _document(report: "Report", tables: list[str], format: str) -> str:
    from unmask.evaluation.reports import rendering

    if format == "csv":
        # a table for programs has no place for them
        for note in report.notes():
            options.say(note)
    return "\n".join(map(rendering.FORMATS[format], report.tables(tables)))
