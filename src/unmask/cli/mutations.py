"""`unmask mutations`: what mutations do to a sequence, together and alone."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask.cli import options, wild_type
from unmask.cli.command import argument, group, option
from unmask.errors import ClozeError
from unmask.printable import columns

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.sequences.mutations import MutationEffect


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
    json: bool = options.JSON()
    running: options.Running = group(options.Running())
    quiet: bool = option("print no progress bar and no closing line", default=False)

    def run(self) -> int:
        """Read everything, load the model, score every mutant, print them."""
        from unmask.sequences.residues import parse_mutations

        method = self.methods.one("mutations")
        how = self.methods.given([method]).get(method, {})
        settings = self.running.settings(progress=False if self.quiet else None)
        sequence = wild_type.read_wild_type(self.sequence)
        mutants = [line for given in self.mutants for line in _mutants(given)]
        for one in mutants:
            # the last of many is rejected before the model is loaded
            parse_mutations(one, sequence)
        lm = self.running.load(self.model)
        support = options.support(self.support)
        effects = lm.mutations(
            sequence, mutants, method=method, support=support, settings=settings, **how
        )
        print(_as_json(lm, sequence, effects) if self.json else _as_table(effects))
        if not self.json and not self.quiet:
            print(_about(effects), file=sys.stderr)
        for effect in effects:
            if effect.joint.diagnostics.get("converged") is False:
                options.say(
                    f"{_name(effect)}: {method} has not converged: treat its log-odds as "
                    "approximate"
                )
        return 0


def _as_table(effects: "list[MutationEffect]") -> str:
    head = ["mutations", "log-odds", "alone", "interaction", "J", "forward passes"]
    return columns([head, *map(_cells, effects)])


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


# --- what is read ------------------------------------------------------------------------------


def _mutants(given: str) -> list[str]:
    if given != "-":
        return [given]
    lines = [line.strip() for line in options.read_stdin("mutations").splitlines() if line.strip()]
    if not lines:
        raise ClozeError("there are no mutations on stdin; write one mutant per line, as A42G:L45K")
    return lines
