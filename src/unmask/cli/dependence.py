"""`unmask dependence`: which words or residues of a text depend on each other, in a model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask.cli import inputs, many, options
from unmask.cli.command import option
from unmask.errors import UnmaskError
from unmask.names import MEASURES, model_name
from unmask.text.typed import blank
from unmask.text.typed import support as support_of

if TYPE_CHECKING:
    from unmask.jobs.kinds.dependence import DependenceKind
    from unmask.language_model import LanguageModel
    from unmask.queries.dependence.dependence_map import DependenceMap

_MEASURE = next(iter(MEASURES))
# of a pipe, so that short texts share forward passes and long ones are written soon
_TEXTS_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class DependenceCommand(many.RowsCommand):
    """The dependence between places of a text."""

    SUMMARY = "map which words or residues of a text depend on each other"
    DESCRIPTION = (
        "Measures: mutual-information (in bits): with both words masked, how far filling one moves "
        "the distribution of the other. pmi (in nats): how much likelier each word is when the "
        "other is known; the cheapest. jacobian (in nats): how far writing other tokens at one "
        "place moves the log-probabilities at the other. head (in bits): mutual information as the "
        "model's dependence head predicts it (unmask head). If a text has mask tokens, the blanks "
        "are the places, and stay masked. --support amino-acids makes a text a sequence of "
        "residues, counted from 1. Prints the strongest pairs of one text; of files, all pairs are "
        "written, and a text that cannot be mapped has a reason instead of numbers."
    )
    EXAMPLE = (
        'unmask dependence "Two dogs are running." -m bert-base-cased --tree --figure arcs.svg'
    )

    input: tuple[str, ...] = inputs.INPUT()
    text: tuple[str, ...] = inputs.TEXT()
    measure: str = option(f"{', '.join(MEASURES)} (default: {{default}})", "NAME", default=_MEASURE)
    samples: int = option(
        "tokens tried at each place; a support with no more is exact (default: {default})",
        "N",
        default=32,
    )
    window: int | None = option("leave out pairs that are further apart than this", "N")
    support: str | None = option(
        f"tokens that a place may hold: {options.NAMED}, or tokens separated by commas (default: "
        "vocabulary; for FASTA amino-acids)",
        "NAME|TOKENS",
    )
    places: tuple[str, ...] = option(
        "only these places: words that occur once, spans of characters as START:END, or indices of "
        "tokens; of residues, positions from 1 (default: all)",
        "PLACE",
        default=(),
        nargs="+",
    )
    apc: bool = option(
        "take off what both places depend on all others: the average product correction",
        default=False,
    )
    tree: bool = option(
        "print the strongest tree without crossings instead of the strongest pairs, and draw it as "
        "arcs over the text",
        default=False,
    )
    top: int = options.TOP()
    seed: int = options.SEED()
    figure: str | None = options.FIGURE()

    def run(self) -> int:
        """Check all options and files, load the model, then map one text or many."""
        source, output = inputs.read_input(self.input, self.text), many.output_of(self)
        is_one = many.is_one_text(self, source)
        if self.top < 1:
            raise UnmaskError(f"--top takes a number of pairs from 1, not {self.top}")
        if self.figure is not None:
            if not is_one:
                raise UnmaskError("--figure is of one text; give one, and leave out --output")
            options.check_figure(self.figure)
        rows = many.open_rows(self, source)
        kind = self._kind()
        if not is_one or self.dry_run:
            return many.run(self, kind, rows, output, _TEXTS_AT_ONCE)
        lm = self.source().load()
        question = kind.item(lm, {"text": source.texts[0]})
        if self.figure is not None and self.tree:
            from unmask.plots.dependence import check_arcs

            check_arcs(len(question.places))
        self._print(lm, next(iter(kind.maps(lm, [question]))))
        return 0

    def _kind(self) -> "DependenceKind":
        from unmask.jobs.kinds.dependence import DependenceKind
        from unmask.records.files import format_by_name

        name = self.input[0] if self.input else ""
        is_fasta = "fasta" in (self.input_format, format_by_name(name))
        support = support_of(self.support or ("amino-acids" if is_fasta else "vocabulary"))
        return DependenceKind(
            measure=self.measure,
            samples=self.samples,
            window=self.window,
            seed=self.seed,
            support=support if isinstance(support, str) else tuple(support),
            corrected=self.apc,
            tree=self.tree,
            places=tuple(map(blank, self.places)) or None,
            model_name=model_name(self.model),
            settings=self.settings(),
        )

    def _print(self, lm: "LanguageModel", result: "DependenceMap") -> None:
        """The strongest pairs or the tree, a figure if one is wanted, and what was measured."""
        edges = result.tree() if self.tree else None
        pairs = result.top(self.top)
        if self.json:
            places = [{"name": p.name, "start": p.start, "end": p.end} for p in result.places]
            answer = options.as_json(
                lm,
                text=result.text,
                measure=result.measure,
                unit=result.unit,
                samples=result.samples,
                forward_passes=result.forward_passes,
                average_product_correction=result.is_corrected,
                places=places,
                pairs=[pair._asdict() for pair in pairs],
                tree=edges,
            )
        else:
            if edges is not None:
                pairs = [pair for pair in result.pairs() if (pair.first, pair.second) in edges]
            answer = result.table(pairs)
        print(answer)
        if self.figure is not None:
            options.save_figure(result.plot(tree=self.tree), self.figure, quiet=self.quiet)
        if self.json:
            return
        exact = result.standard_errors is None
        qualifier = "" if exact else f", estimated from {result.samples} samples"
        qualifier += ", minus the average product" if result.is_corrected else ""
        self.note(
            f"{result.measure} in {result.unit}{qualifier}: dependence in the model; "
            f"{result.forward_passes:,} forward passes"
        )
