"""`unmask mutations`: what mutations do to a sequence, together and alone."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unmask.cli import many, options, wild_type
from unmask.cli.announce import announce
from unmask.cli.command import argument, group, option
from unmask.errors import ClozeError
from unmask.printable import columns

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.queries.costs.cost import Cost
    from unmask.sequences.mutations import MutationEffect
    from unmask.text.cloze import Cloze


# what takes no longer is not announced
_FEW_PASSES = 512
COLUMNS = (
    *("mutant", "method", "log_odds", "single_log_odds", "interaction", "incompatibility"),
    *("window", "forward_passes"),
)


@dataclass(frozen=True, kw_only=True)
class MutationsCommand:
    """What mutations do to a sequence, together and alone."""

    SUMMARY = "score mutations of a protein, DNA or RNA, and how they interact"
    DESCRIPTION = (
        "Score mutations of a sequence by the joint of their positions. A mutation is written "
        "A42G: the wild-type residue, its position counted from 1, and the residue that replaces "
        "it. A mutant is one mutation, or several joined by colons, such as A42G:L45K. Prints the"
        " log-odds of the mutant against the wild type, in nats, those of each mutation alone, "
        "and their interaction (epistasis): the log-odds of all together minus the sum of those "
        "alone. The default support is amino-acids; --support names another, such as nucleotides "
        "or rna."
    )
    EXAMPLE = "unmask mutations -m facebook/esm2_t6_8M_UR50D --sequence MKTAYIAKQR A4G:I6L"

    mutants: tuple[str, ...] = argument(
        "a mutant, such as A42G or A42G:L45K; - reads them from stdin, one per line", "MUTATIONS"
    )
    model: str = options.MODEL()
    sequence: str = wild_type.SEQUENCE()
    methods: options.Methods = group(options.Methods())
    support: str = option(
        f"{options.SUPPORT} (default: {{default}})",
        "NAME|TOKENS",
        default="amino-acids",
        group="construction",
    )
    output: str | None = options.OUTPUT_FILE()
    output_format: str | None = options.OUTPUT_FORMAT()
    json: bool = options.JSON()
    running: options.Running = group(options.Running())
    dry_run: bool = options.DRY_RUN()
    quiet: bool = options.QUIET()

    def run(self) -> int:
        """Read everything, load the model, score every mutant, print them."""
        from unmask.sequences.residues import parse_mutations

        methods = self.methods.names()
        how = self.methods.given(methods)
        is_rows = many.check_text_output(self.output, self.output_format)
        if is_rows:
            options.reject(self, ("json",), "prints to stdout; leave it out to give --output")
        settings = self.running.settings(progress=False if self.quiet else None)
        sequence = wild_type.read_wild_type(self.sequence)
        mutants = [line for given in self.mutants for line in _mutants(given)]
        for one in mutants:
            # the last of many is rejected before the model is loaded
            parse_mutations(one, sequence)
        lm = self.running.load(self.model)
        support = options.support(self.support)
        if self.dry_run or not self.quiet:
            cloze, cost = _cost(lm, sequence, mutants, methods, support)
            if self.dry_run or cost.forward_passes > _FEW_PASSES:
                announce(self, f"{len(mutants):,} mutants", lm, cloze, cost, settings)
        if self.dry_run:
            return 0
        asked: dict[str, Any] = {"support": support, "settings": settings}
        effects = [
            effect
            for method in methods
            for effect in lm.mutations(sequence, mutants, method=method, **{**asked, **how[method]})
        ]
        if is_rows:
            every = [
                {**one.to_dict(), "mutant": _name(one), "window": _window(one)} for one in effects
            ]
            rows = [{name: row[name] for name in COLUMNS} for row in every]
            many.write_rows(self.output or "-", COLUMNS, rows, self.output_format)
        else:
            print(_as_json(lm, sequence, effects) if self.json else _as_table(effects))
        if not self.json and not self.quiet:
            print(_about(effects), file=sys.stderr)
        for effect in effects:
            if effect.joint.diagnostics.get("converged") is False:
                options.say(
                    f"{_name(effect)}: {effect.method} has not converged: treat its log-odds as "
                    "approximate"
                )
        return 0


def _as_table(effects: "list[MutationEffect]") -> str:
    head = ["mutations", "log-odds", "alone", "interaction", "J", "forward passes"]
    rows = [head, *map(_cells, effects)]
    if len({effect.method for effect in effects if len(effect.mutations) > 1}) > 1:
        names = ["method", *(effect.method for effect in effects)]
        rows = [[cells[0], name, *cells[1:]] for name, cells in zip(names, rows, strict=True)]
    return columns(rows)


def _cells(effect: "MutationEffect") -> list[str]:
    bits = effect.incompatibility
    return [
        _name(effect),
        f"{effect.log_odds:+z.3f}",
        " ".join(f"{one:+z.3f}" for one in effect.single_log_odds),
        f"{effect.interaction:+z.3f}" if len(effect.mutations) > 1 else "-",
        "-" if bits is None else f"{bits:z.3f}",
        str(effect.forward_passes),
    ]


def _about(effects: "list[MutationEffect]") -> str:
    """What the numbers are; a single mutation has the model's own distribution."""
    methods = dict.fromkeys(e.method for e in effects if len(e.mutations) > 1)
    single = ["the model's own distribution"] * any(len(e.mutations) == 1 for e in effects)
    return f"log-odds and interaction in nats, J in bits; by {', '.join([*methods, *single])}"


def _as_json(lm: "LanguageModel", sequence: str, effects: "list[MutationEffect]") -> str:
    return options.as_json(
        lm,
        sequence=sequence,
        units={"log_odds": "nats", "interaction": "nats", "incompatibility": "bits"},
        results=[effect.to_dict() for effect in effects],
    )


def _name(effect: "MutationEffect") -> str:
    return ":".join(map(str, effect.mutations))


def _window(effect: "MutationEffect") -> str | None:
    return None if effect.window is None else f"{effect.window[0]}-{effect.window[1]}"


def _cost(
    lm: "LanguageModel", sequence: str, mutants: list[str], methods: list[str], support: Any
) -> "tuple[Cloze, Cost]":
    """A text with blanks like the longest, and the forward passes of all; not timed."""
    from unmask.queries.costs.cost import Cost
    from unmask.sequences.residues import residue_cloze
    from unmask.sequences.variants.reading import VariantReader

    reader = VariantReader(lm, sequence, support)
    variants = [reader.read(one) for one in mutants]
    places = {(one.frame, tuple(change.place for change in one.changes)) for one in variants}
    clozes = [
        residue_cloze(lm, frame.residues, [place + 1 for place in some]) for frame, some in places
    ]
    passes = sum(
        lm.cost(cloze, methods=[method], support=support, timed=False).forward_passes
        for cloze in clozes
        for method in methods
    )
    longest = max(clozes, key=len)
    return longest, Cost(passes, len(longest), 0)


# --- what is read ------------------------------------------------------------------------------


def _mutants(given: str) -> list[str]:
    if given != "-":
        return [given]
    lines = [line.strip() for line in options.read_stdin("mutations").splitlines() if line.strip()]
    if not lines:
        raise ClozeError("there are no mutations on stdin; write one mutant per line, as A42G:L45K")
    return lines
