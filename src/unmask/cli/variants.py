"""`unmask variants`: every variant of an assay, or of a folder of them, against its wild type."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unmask.cli import (
    announce,
    many,
    options,
    score_options,
    table_rows,
    variant_agreement,
    wild_type,
)
from unmask.errors import CorpusError, UnmaskError
from unmask.sequences.variants import MUTANT, MUTATED_SEQUENCE

if TYPE_CHECKING:
    from unmask.jobs.kinds.variants import Variants
    from unmask.jobs.tally import Tally
    from unmask.language_model import LanguageModel

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
        help="an assay: a .csv, .tsv, .jsonl or .parquet file, or - for standard input; several "
        "files, a pattern in quotation marks, a folder of them, or a URL (s3://, gs://, hf://); "
        "with several, a column assay names the file",
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
    table_rows.add_arguments(parser)
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
    chosen.output = None if chosen.output == "-" else chosen.output
    chosen.file = None if many.are_many(chosen.files, chosen.format) else chosen.files[0]
    size = chosen.texts_per_unit
    # of a file too: variants of one unit share forward passes
    chosen.texts_per_unit = None
    to_folder = many.wants_folder(chosen)
    chosen.texts_per_unit = size
    format = None if to_folder else score_options.output_format(chosen) or "csv"
    score_options.check_limit(chosen.limit)
    variant_agreement.check_output(chosen)
    try:
        given = () if chosen.sequence else (MUTATED_SEQUENCE,)
        many.check_header(chosen.files, chosen.format, (MUTANT, *given))
        kind = _kind(chosen, to_folder=to_folder)
        code = (
            table_rows.to_folder(
                chosen,
                kind,
                lambda tally: _conclude(chosen, tally),
                lambda job: variant_agreement.check_column(chosen, job.columns),
                lambda job: _Announced(
                    chosen, kind, job.source.texts, is_rough=True, is_all=job.source.unit_count == 1
                ),
            )
            if to_folder
            else _to_file(chosen, kind, format or "csv")
        )
    except CorpusError as error:
        if chosen.sequence is None and "'mutated_sequence'" in str(error):
            raise CorpusError(f"{error}; give the wild type with --sequence") from None
        raise
    if code == 0 and chosen.score_column is not None and not chosen.dry_run:
        variant_agreement.print_agreement(chosen, kind, is_folder=to_folder)
    return code


def _to_file(chosen: argparse.Namespace, kind: "Variants", format: str) -> int:
    from unmask.jobs.running import check_names
    from unmask.jobs.single_file import Layout

    size = _VARIANTS_PER_UNIT if chosen.texts_per_unit is None else chosen.texts_per_unit
    if size < 1:
        raise UnmaskError(f"a unit has texts from 1, not {size}")
    opened = table_rows.opened(chosen, kind, size)
    check_names(opened.names, kind.output_columns)
    variant_agreement.check_column(chosen, opened.names)
    lm = options.load_model(chosen)
    layout = Layout([*opened.names, *kind.output_columns], format, wait_for=kind.methods)
    announce = _Announced(chosen, kind, opened.source.texts, is_rough=chosen.file is None)
    if chosen.dry_run:
        many.after_announcing(announce, kind, lm, opened.source.units(0))
        return 0
    tally = many.run_file(
        chosen, kind, opened.source, lm, layout, None if chosen.quiet else announce
    )
    many.check_any(kind, tally)
    return _conclude(chosen, tally)


@dataclass(frozen=True)
class _Announced:
    """Prints what the variants that run first cost, and about how much all of them.

    A `count` is rough where the heads of files are in it; `is_all` if the first are all there are.
    """

    chosen: argparse.Namespace
    kind: "Variants"
    count: int | None
    is_rough: bool = False
    is_all: bool = False

    def __call__(self, lm: "LanguageModel", items: Sequence[Any]) -> None:
        """The forward passes that these variants have in common count once."""
        from unmask.queries.costs.cost import Cost
        from unmask.sequences.variants.reading import Variant
        from unmask.sequences.variants.scoring import count_passes

        kind, variants = self.kind, [one for one in items if isinstance(one, Variant)]
        if not variants:
            return
        passes, counted = count_passes(variants, kind.methods, kind.largest_block)
        # windows of one assay are equally long
        frame = max((one.frame for one in variants), key=lambda frame: len(frame.ids))
        is_all = counted == len(variants) and (self.is_all or len(items) == self.count)

        def others(cost: Cost) -> str:
            if is_all:
                return ""
            if self.count is None:
                return f" for the first {counted:,} variant{'s' * (counted != 1)}"
            every = announce.times(cost, self.count / counted)
            of = f" for {counted:,} of {'about ' * self.is_rough}{self.count:,} variants"
            return f"{of}; for all of them, if they are like these, about {every}"

        announce.announce(
            self.chosen,
            ", ".join(kind.methods),
            lm,
            frame.cloze,
            Cost(passes, len(frame.ids), 0),
            kind.settings,
            others,
        )


def _conclude(chosen: argparse.Namespace, tally: "Tally") -> int:
    bad, example = max(tally.without.values(), default=(0, ""))
    if bad or not chosen.quiet:
        others = f"; the others have a reason instead, e.g.: {example}" if bad else ""
        options.say(f"{tally.texts - bad:,} of {tally.texts:,} variants scored{others}")
    # a shard may have none at all
    return 2 if tally.texts and bad == tally.texts else 0


def _kind(chosen: argparse.Namespace, *, to_folder: bool) -> "Variants":
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
        file_column=_FILE_COLUMN if chosen.file is None else None,
        settings=options.settings(chosen, progress=False if chosen.quiet or to_folder else None),
    )
