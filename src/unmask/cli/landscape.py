"""`unmask landscape`: all combinations of some mutations of a sequence, by one joint over them."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask.cli import many, options, wild_type
from unmask.cli.announce import announce
from unmask.cli.command import argument, group, option
from unmask.errors import UnmaskError
from unmask.names import DEFAULT_METHOD
from unmask.plots.saving import save_figure
from unmask.printable import columns

if TYPE_CHECKING:
    from unmask.sequences.landscapes import Landscape


@dataclass(frozen=True, kw_only=True)
class LandscapeCommand:
    """All combinations of some mutations, by one joint over them."""

    SUMMARY = "score all combinations of some mutations, and how they interact"
    DESCRIPTION = (
        "Score all 2^k combinations of k mutations of a sequence by one joint over wild type and "
        "mutant at each position, from k 2^(k-1) forward passes and one with all positions "
        "masked, which tells how much of the model's mass the two residues hold. A mutation is "
        "written A42G: the wild-type residue, its position counted from 1, and the residue that "
        "replaces it. Prints the log-odds of each mutation alone against the wild type, the pairs"
        " with the strongest epistasis (what both do together beyond what each does alone, the "
        "mean over all combinations of the others), and the likeliest combinations, all in nats. "
        "--output writes all combinations, with a column per method; --figure draws epistasis and "
        "combinations by the first method."
    )
    EXAMPLE = (
        "unmask landscape -m facebook/esm2_t6_8M_UR50D --sequence MKTAYIAKQR K2R A4G I6L -o all.csv"
    )

    mutations: tuple[str, ...] = argument(
        "two to twelve mutations, such as K2R A4G or K2R:A4G", "MUTATION"
    )
    model: str = options.MODEL()
    sequence: str = wild_type.SEQUENCE()
    method: tuple[str, ...] = option(
        "constructions that take more than two blanks (orders: up to eight mutations), hcb-path "
        "(the mean over all orders in which mutations can be made), or all; separate several with "
        "commas (default: {default})",
        "NAME",
        default=(DEFAULT_METHOD,),
    )
    top: int = options.TOP()
    json: bool = options.JSON()
    output: str | None = options.OUTPUT_FILE()
    output_format: str | None = options.OUTPUT_FORMAT()
    figure: str | None = options.FIGURE()
    running: options.Running = group(options.Running())
    dry_run: bool = options.DRY_RUN()
    quiet: bool = options.QUIET()

    def run(self) -> int:
        """Check everything, load the model, say the cost, print the landscape."""
        from unmask.queries.costs.cost import Cost
        from unmask.sequences.landscapes import (
            check_landscape_methods,
            landscape_methods,
            landscape_requests,
            landscape_variant,
            parse_landscape,
        )

        settings = self.running.settings(progress=False if self.quiet else None)
        self._check()
        residues = wild_type.read_wild_type(self.sequence)
        parsed = parse_landscape(":".join(self.mutations), residues)
        named = options.listed(self.method)
        every = landscape_methods(len(parsed))
        given = [one for name in named for one in (every if name.lower() == "all" else [name])]
        methods = check_landscape_methods(given, len(parsed))
        lm = self.running.load(self.model)
        if self.dry_run or not self.quiet:
            variant = landscape_variant(lm, residues, parsed)
            cloze, requests = variant.frame.cloze, landscape_requests(variant, methods)
            what = f"{len(parsed)} mutations, {2 ** len(parsed):,} combinations"
            announce(self, what, lm, cloze, Cost(len(requests), len(cloze), 0), settings)
        if self.dry_run:
            return 0
        table = lm.landscape(residues, ":".join(self.mutations), methods=methods, settings=settings)
        is_rows = many.check_text_output(self.output, self.output_format)
        if not is_rows or self.output not in (None, "-"):
            print(
                options.as_json(lm, **table.to_dict()) if self.json else _as_tables(table, self.top)
            )
        if is_rows:
            names = ["mutant", "mutation_count", *table.methods]
            many.write_rows(self.output or "-", names, table.to_rows(), self.output_format)
            if not self.quiet and self.output not in (None, "-"):
                options.say_written(self.output)
        if self.figure is not None:
            save_figure(table.plot(), self.figure)
        if not self.quiet and not self.json:
            print(_about(table), file=sys.stderr)
        for method, converged in table.converged.items():
            if not converged:
                options.say(f"{method} has not converged: treat its log-odds as approximate")
        return 0

    def _check(self) -> None:
        if self.top < 1:
            raise UnmaskError(f"--top takes a number from 1, not {self.top}")
        many.check_text_output(self.output, self.output_format)
        if self.figure is not None:
            options.check_figure(self.figure)


def _as_tables(scores: "Landscape", top: int) -> str:
    """Singles, pairs and combinations; ranked by the first method, a column for each."""
    methods = scores.methods
    alone = zip(*(scores.single(name) for name in methods), strict=True)
    singles = [
        [str(one), *map(_signed, values)]
        for one, values in zip(scores.mutations, alone, strict=True)
    ]
    each = list(zip(*(scores.epistasis(name) for name in methods), strict=True))
    strongest = sorted(each, key=lambda pairs: -abs(pairs[0].mean))[:top]
    pairs = [
        [
            ":".join(map(str, by_method[0].mutations)),
            *(_signed(one.mean) for one in by_method),
            _signed(by_method[0].wildtype),
        ]
        for by_method in strongest
    ]
    best = [
        [str(row["mutant"]), *(_signed(float(str(row[name]))) for name in methods)]
        for row in scores.best(top)
    ]
    only = f"in the wild type{f' ({methods[0]})' * (len(methods) > 1)}"
    return "\n\n".join(
        columns(table)
        for table in (
            [["alone", *methods], *singles],
            [["epistasis", *methods, only], *pairs],
            [["combination", *methods], *best],
        )
    )


def _signed(value: float) -> str:
    return f"{value:+z.3f}"


def _about(table: "Landscape") -> str:
    bits = "" if table.incompatibility is None else f"; J = {table.incompatibility:z.3f} bits"
    count = 2 ** (len(table.mutations) - 2)
    return (
        f"log-odds and epistasis in nats, the latter as the mean over "
        f"{count:,} background{'s' * (count != 1)}{bits}; "
        f"{table.forward_passes:,} forward passes"
    )
