"""`unmask consistency`: how far a model contradicts itself, as rows and as a card."""

import json
import os
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING

from unmask.cli import inputs, many, options
from unmask.cli.command import option
from unmask.errors import StoreError, UnmaskError
from unmask.names import CONSISTENCY_PASSES, ORDERS_DRAWN, model_name

if TYPE_CHECKING:
    from unmask.jobs.kinds import Counts
    from unmask.jobs.kinds.consistency import ConsistencyKind
    from unmask.records.rows import Row
    from unmask.sequences.consistency.result import Consistency

# behind an underscore, which readers of a folder of Parquet files skip
_CARD, _JSON, _PICTURE = "_card.md", "_card.json", "_card.png"


@dataclass(frozen=True, kw_only=True)
class ConsistencyCommand(many.RowsCommand, options.TableOptions):
    """Contradictions of a model."""

    SUMMARY = "measure how far a model contradicts itself, and write a card"
    DESCRIPTION = (
        "Ask a model the same in several ways that should agree, and measure how far its answers "
        "differ: for two blanks of every text J, the constructions, either blank first; for whole "
        "texts orders of unmasking, and which text of a minimal pair wins. INPUT has a column "
        "text, and for minimal pairs a column contrast; without INPUT, 125 English sentences that "
        "come with unmask. Prints a table; --output FOLDER/ keeps the rows there, with _card.md "
        "for the Hugging Face Hub, _card.json and _card.png. --compare shows such folders side by "
        "side, paired by text, and runs nothing."
    )
    EXAMPLE = "unmask consistency -m bert-base-cased -o bert/"

    input: tuple[str, ...] = inputs.INPUT()
    text: tuple[str, ...] = inputs.TEXT()
    model: str = options.MODEL(default="", group="model")
    compare: tuple[str, ...] = option(
        "folders that this command wrote, to show side by side", "FOLDER", default=(), nargs="+"
    )
    random_orders: int = option(
        "random orders of unmasking per text (default: {default})", "N", default=ORDERS_DRAWN
    )
    max_passes: int = option(
        "forward passes per pair of blanks (default: {default})", "N", default=CONSISTENCY_PASSES
    )
    exact: bool = option(
        "run every token of the vocabulary for every pair of blanks", default=False
    )
    seed: int = options.SEED()
    no_text: bool = options.NO_TEXT()
    model_name: str | None = options.MODEL_NAME()

    def run(self) -> int:
        """Check the options, load the model, measure; or read what was measured."""
        if self.compare:
            if self.model or self.input or self.text or self.output:
                raise UnmaskError("--compare reads folders and runs nothing; leave out all others")
            first, *others = (read_consistency(many.whole_path(each)) for each in self.compare)
            print(first.compare(*others), end="")
            return 0
        if not self.model:
            raise UnmaskError("give a model with --model, or folders with --compare")
        sentences = str(files("unmask.sequences.consistency") / "sentences.csv")
        source = inputs.read_input(self.input or (() if self.text else (sentences,)), self.text)
        # without INPUT a model is asked about, not a file
        output = many.output_of(self, many.format_of_stdout(source.files if self.input else ()))
        texts = many.open_rows(self, source)
        kind, rows = self._kind(source), list["Row"]()

        def conclude(counts: "Counts") -> int:
            from unmask.sequences.consistency.result import Consistency

            if output.folder and not output.file and self.shard is None:
                self._write_card()
            elif rows:
                table = str(Consistency(rows, kind.options()))
                print(table) if output.format is None else self.note(table)
            return many.concluded(self, kind, counts)

        return many.run(self, kind, texts, output, keep=rows.extend, conclude=conclude)

    def _kind(self, source: inputs.Input) -> "ConsistencyKind":
        from unmask.jobs.kinds.consistency import ConsistencyKind

        return ConsistencyKind(
            orders=self.random_orders,
            max_passes=self.max_passes,
            seed=self.seed,
            exact=self.exact,
            corpus=", ".join(os.path.basename(file.rstrip("/")) or file for file in source.files),
            limit=self.limit,
            model_name=self.model_name or model_name(self.model),
            without_text=self.no_text,
            settings=self.settings(),
        )

    def _write_card(self) -> None:
        """The card beside the parts, if all of them are there."""
        from unmask.plots.saving import write_figure
        from unmask.records import places

        folder, picture = many.whole_path(self.output or ""), BytesIO()
        try:
            answers = read_consistency(folder)
        except StoreError as error:
            options.say(f"no card is written: {error}")
            return
        try:
            write_figure(answers.plot(), picture, ".png")
        except UnmaskError as error:
            options.say(f"the card has no picture: {error}")
        facts, drawn = json.dumps(answers.to_dict(), indent=2, allow_nan=False), picture.getvalue()
        contents = {_JSON: f"{facts}\n".encode(), **({_PICTURE: drawn} if drawn else {})}
        # written last, so that everything is there if there is a card
        contents[_CARD] = answers.card(picture=_PICTURE if drawn else None).encode()
        for name, content in contents.items():
            places.write_whole(places.inside(folder, name), content)
        if not self.quiet:
            print(answers)
            options.say_written(os.path.join(self.output or "", _CARD))


def read_consistency(place: str) -> "Consistency":
    """Read the rows of a model from a folder of parts; a `StoreError` if parts are missing."""
    from unmask.jobs.folder import folder_at
    from unmask.jobs.parts import rows_of
    from unmask.records import places
    from unmask.sequences.consistency.result import Consistency

    folder = folder_at(place)
    plan, receipts = folder.plan, folder.receipts()
    if plan.kind != "consistency":
        raise StoreError(f"{places.shown(place)} is not a folder that unmask consistency made")
    if missing := folder.missing(receipts):
        raise StoreError(f"{places.shown(place)}: {missing}; repeat the command that began it")
    facts = {
        "model": plan.options["model_name"],
        "revision": plan.model.revision,
        "weights": plan.model.weights,
        **{name: value for name, value in plan.options.items() if name != "model_name"},
        "input": [str(file[-1]) for file in plan.input],
        "software": sorted({str(receipt["software"]) for receipt in receipts.values()}),
    }
    tables = (folder.table(*part) for part in receipts.items())
    return Consistency([row for table in tables for row in rows_of(table)], facts)
