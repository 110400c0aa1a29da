"""`unmask variants`: every variant of an assay, or of a folder of them, against its wild type."""

import argparse
from typing import TYPE_CHECKING

from unmask.cli import (
    announce,
    many,
    options,
    variant_agreement,
    wild_type,
)
from unmask.errors import CorpusError
from unmask.sequences.variants import MUTANT, MUTATED_SEQUENCE

if TYPE_CHECKING:
    from unmask.jobs.kinds.variants import Variants

SUMMARY = "score the variants of a protein, DNA or RNA, as ProteinGym's assays list them"
DESCRIPTION = (
    "Score every variant of FILE against its wild type: log-odds in nats, above 0 if the model "
    "prefers the variant. A variant is in the column mutant, as A24G:K31R: the wild-type residue, "
    "its position counted from 1, the new residue. The wild type is --sequence, or what undoing "
    "the mutations leaves of the column mutated_sequence, so ProteinGym's assays need nothing "
    "else. All columns of the input are kept. Each method adds a column with its name; with the "
    "interaction (epistasis), which is the score minus the scores of the single mutations; with "
    "the spread over orders (hcb-path) or J (joints); and with the number of forward passes that "
    "the variant takes on its own. Forward passes that variants or methods have in common run "
    "once. Variants that cannot be scored have a reason. The exit code is 2 on bad input, and if "
    "no variant can be scored."
)
EXAMPLE = "unmask variants assay.csv -m facebook/esm2_t12_35M_UR50D -o scores.csv"
# in a part of a folder, or between two places where a file can be continued
_VARIANTS_PER_UNIT = 2048
# where the name of each file goes if there are several
_FILE_COLUMN = "assay"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add(
        "files",
        nargs="+",
        metavar="FILE",
        help=f"an assay: {many.FILES_HELP}; with several, a column assay names the file",
    )
    options.add_model(parser)
    wild_type.add_sequence(parser, required=False)
    add(
        "--method",
        action="append",
        metavar="NAME",
        help="wt-marginals, mutant-marginals, masked-marginals, single-mask-marginals, mut-fill, "
        "match-fill, pll, hcb-path, log-pool, pseudo-gibbs, ag, orders or another construction; "
        "separate several with commas (default: log-pool)",
    )
    add(
        "--support",
        default="amino-acids",
        metavar="NAME|LETTERS",
        help="the letters that mutations may have: amino-acids, nucleotides, rna, or letters "
        "separated by commas (default: amino-acids)",
    )
    add(
        "--block",
        type=int,
        metavar="N",
        help="hcb-path and joints: cut more than N mutations into blocks; k mutations take k "
        "2^(k-1) forward passes (default and most: 11)",
    )
    many.add_input(parser)
    many.add_output(parser)
    add("--prefix", default="", help="prefix for the names of new columns (default: none)")
    add(
        "--score-column",
        metavar="COLUMN",
        help="a column with measurements, such as DMS_score: after scoring, print how each method "
        "agrees with it (Spearman's correlation, recall of the top 10%%, pairwise epistasis), with "
        "95%% intervals and differences to the first method; of several assays, the correlations "
        "and their mean",
    )
    announce.add_dry_run(parser)
    add("--quiet", action="store_true", help="print no cost, no progress bar and no closing line")
    options.add_running(parser, tables=False)
    many.add_arguments(parser, _VARIANTS_PER_UNIT)


def run(chosen: argparse.Namespace) -> int:
    """Read what can be rejected, load the model, then score and write a unit at a time."""
    variant_agreement.check_output(chosen)
    given = many.GivenRows(chosen.files, chosen.format, chosen.limit)
    try:
        given.check_header((MUTANT, *(() if chosen.sequence else (MUTATED_SEQUENCE,))))
        kind = _kind(chosen)
        code = many.rows_command(
            chosen,
            kind,
            given,
            at_once=_VARIANTS_PER_UNIT,
            check=lambda job: variant_agreement.check_column(chosen, job.columns),
        )
    except CorpusError as error:
        if chosen.sequence is None and "'mutated_sequence'" in str(error):
            raise CorpusError(f"{error}; give the wild type with --sequence") from None
        raise
    if code == 0 and chosen.score_column is not None and not chosen.dry_run:
        variant_agreement.print_agreement(chosen, kind, is_folder=many.is_folder(chosen))
    return code


def _kind(chosen: argparse.Namespace) -> "Variants":
    from unmask.jobs.kinds.variants import Variants
    from unmask.sequences.variants.cubes import LARGEST_BLOCK
    from unmask.sequences.variants.methods import method_of_variants
    from unmask.sequences.variants.scoring import checked_block
    from unmask.text.residues import check_sequence

    named = [method_of_variants(name) for name in options.listed(chosen.method, "log-pool")]
    support = options.support(chosen.support)
    sequence = chosen.sequence
    return Variants(
        sequence=None if sequence is None else check_sequence(wild_type.read_wild_type(sequence)),
        methods=tuple(dict.fromkeys(named)),
        support=support if isinstance(support, str) else tuple(support),
        largest_block=checked_block(LARGEST_BLOCK if chosen.block is None else chosen.block),
        model_name=options.model_name(chosen.model),
        prefix=chosen.prefix,
        file_column=_FILE_COLUMN if many.are_many(chosen.files, chosen.format) else None,
        settings=options.settings(chosen, progress=False if chosen.quiet else None),
    )
