"""`unmask variants`: every variant of an assay, or of a folder of them, against its wild type."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask.cli import (
    inputs,
    many,
    options,
    variant_agreement,
    wild_type,
)
from unmask.cli.command import group, option
from unmask.errors import CorpusError
from unmask.names import DEFAULT_VARIANT_METHOD
from unmask.sequences.variants import MUTANT, MUTATED_SEQUENCE

if TYPE_CHECKING:
    from unmask.jobs.kinds.variants import VariantsKind

# in a part of a folder, or between two places where a file can be continued
_VARIANTS_PER_UNIT = 2048
# where the name of each file goes if there are several
_FILE_COLUMN = "assay"
_INSTEAD = "give an assay, or mutants by hand to unmask mutations"


@dataclass(frozen=True, kw_only=True)
class VariantsCommand(many.RowsCommand):
    """Every variant of an assay against its wild type."""

    SUMMARY = "score the variants of a protein, DNA or RNA, as ProteinGym's assays list them"
    DESCRIPTION = (
        "Score every variant of INPUT against its wild type: log-odds in nats, above 0 if the "
        "model prefers the variant. A variant is in the column mutant, as A24G:K31R: the "
        "wild-type residue, its position counted from 1, the new residue. The wild type is "
        "--sequence, or what undoing the mutations leaves of the column mutated_sequence, so "
        "ProteinGym's assays need nothing else. All columns of the input are kept; of several "
        "files, a column assay has the names. Each method adds a column with its name; with the "
        "interaction (epistasis), which is the score minus the scores of the single "
        "mutations; with the spread over orders (hcb-path) or J (joints); and with the "
        "number of forward passes that the variant takes on its own. "
        "Forward passes that variants or methods have in common run once. Variants that cannot be"
        " scored have a reason. The exit code is 2 on bad input, and if no variant can be scored."
    )
    EXAMPLE = "unmask variants assay.csv -m facebook/esm2_t12_35M_UR50D -o scores.csv"

    TEXTS_PER_UNIT = _VARIANTS_PER_UNIT

    input: tuple[str, ...] = inputs.INPUT_FILES()
    model: str = options.MODEL()
    sequence: str | None = wild_type.OPTIONAL_SEQUENCE()
    method: tuple[str, ...] = option(
        "wt-marginals, mutant-marginals, masked-marginals, single-mask-marginals, mut-fill, "
        "match-fill, pll, hcb-path, log-pool, pseudo-gibbs, ag, orders or another construction; "
        "separate several with commas (default: {default})",
        "NAME",
        default=(DEFAULT_VARIANT_METHOD,),
    )
    support: str = option(
        "the letters that mutations may have: amino-acids, nucleotides, rna, or letters separated "
        "by commas (default: {default})",
        "NAME|LETTERS",
        default="amino-acids",
    )
    block: int | None = option(
        "hcb-path and joints: cut more than N mutations into blocks; k mutations take k 2^(k-1) "
        "forward passes (default and most: 11)",
        "N",
    )
    prefix: str = many.PREFIX()
    score_column: str | None = option(
        "a column with measurements, such as DMS_score: after scoring, print how each method "
        "agrees with it (Spearman's correlation, recall of the top 10%, pairwise epistasis), with "
        "95% intervals and differences to the first method; of several assays, the correlations "
        "and their mean",
        "COLUMN",
    )
    running: options.Running = group(options.Running(), without=options.TABLES)

    def run(self) -> int:
        """Read what can be rejected, load the model, then score and write a unit at a time."""
        variant_agreement.check_output(self.score_column, self.output)
        given = many.GivenRows.of(inputs.read_input(self.input, instead=_INSTEAD), self)
        try:
            given.check_header((MUTANT, *(() if self.sequence else (MUTATED_SEQUENCE,))))
            kind = self._kind()
            code = many.rows_command(
                self,
                kind,
                given,
                at_once=_VARIANTS_PER_UNIT,
                check=lambda job: variant_agreement.check_column(self.score_column, job.columns),
            )
        except CorpusError as error:
            if self.sequence is None and "'mutated_sequence'" in str(error):
                raise CorpusError(f"{error}; give the wild type with --sequence") from None
            raise
        if code == 0 and self.score_column is not None and not self.dry_run:
            variant_agreement.print_agreement(
                kind,
                self.score_column,
                self.output or "",
                self.output_format,
                is_folder=many.is_folder(self),
            )
        return code

    def _kind(self) -> "VariantsKind":
        from unmask.jobs.kinds.variants import VariantsKind
        from unmask.sequences.variants.cubes import LARGEST_BLOCK
        from unmask.sequences.variants.methods import method_of_variants
        from unmask.sequences.variants.scoring import checked_block

        named = [method_of_variants(name) for name in options.listed(self.method)]
        support = options.support(self.support)
        sequence = self.sequence
        return VariantsKind(
            sequence=None if sequence is None else wild_type.read_wild_type(sequence),
            methods=tuple(dict.fromkeys(named)),
            support=support if isinstance(support, str) else tuple(support),
            largest_block=checked_block(LARGEST_BLOCK if self.block is None else self.block),
            model_name=options.model_name(self.model),
            prefix=self.prefix,
            file_column=_FILE_COLUMN if many.are_many(self.input, self.input_format) else None,
            settings=self.running.settings(progress=False if self.quiet else None),
        )
