"""What mutations do to a sequence of residues, alone and together, by the joint of their blanks.

Log-odds are in nats, log p(mutant) / p(wild type) given all other residues.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from unmask.constructions import DEFAULT_METHOD
from unmask.joints.joint import Joint
from unmask.joints.odds import changes, strongest_interaction
from unmask.language_model import LanguageModel
from unmask.sequences.residues import (
    Mutation,
    check_positions,
    check_sequence,
    parse_mutations,
    residue_cloze,
    residue_tokens,
)
from unmask.settings import Settings
from unmask.text.alphabets import bare_letter
from unmask.text.candidates import Candidates
from unmask.text.cloze import Cloze
from unmask.text.support import Support

DEFAULT_SUPPORT = "amino-acids"


@dataclass(frozen=True, eq=False)
class MutationEffect:
    """The log-odds of mutations together and of each alone in the wild type, in nats.

    Mutations stand in the order of their positions. The interaction (epistasis) is the log-odds
    together less the sum of those alone: for two mutations the log odds ratio of the joint, for
    one mutation 0. `incompatibility` is J in bits, None where there are not both tables.
    """

    mutations: tuple[Mutation, ...]
    joint: Joint = field(repr=False)
    log_odds: float
    single_log_odds: tuple[float, ...]
    interaction: float
    incompatibility: float | None
    forward_passes: int

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {
            "mutations": list(map(str, self.mutations)),
            "method": self.joint.method,
            "log_odds": self.log_odds,
            "single_log_odds": list(self.single_log_odds),
            "interaction": self.interaction,
            "incompatibility": self.incompatibility,
            "forward_passes": self.forward_passes,
        }


@dataclass(frozen=True)
class PairInteraction:
    """How two positions of a sequence depend on each other, by the joint of their residues.

    `mutual_information`, in bits, weighs all pairs of residues by how likely they are, and does not
    depend on the wild type. `interaction`, in nats, is that of the double mutant for which it is
    largest in size, however unlikely that mutant is: `mutations` names it. `incompatibility` is J
    in bits, and `method` the construction of the joint.
    """

    positions: tuple[int, int]
    mutual_information: float
    interaction: float
    mutations: tuple[Mutation, Mutation]
    incompatibility: float | None
    forward_passes: int
    method: str

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {
            "positions": list(self.positions),
            "method": self.method,
            "mutual_information": self.mutual_information,
            "interaction": self.interaction,
            "mutations": list(map(str, self.mutations)),
            "incompatibility": self.incompatibility,
            "forward_passes": self.forward_passes,
        }


def mutation_effect(
    lm: LanguageModel,
    sequence: str,
    mutations: str,
    *,
    method: str = DEFAULT_METHOD,
    support: Candidates = DEFAULT_SUPPORT,
    settings: Settings | None = None,
    **options: Any,
) -> MutationEffect:
    """What mutations such as "A42G:L45K" do to a sequence, together and alone.

    Their positions are the blanks, all other residues the text. One mutation is scored by the
    model's own distribution, whatever the method.
    """
    (effect,) = mutation_effects(
        lm, sequence, [mutations], method=method, support=support, settings=settings, **options
    )
    return effect


def mutation_effects(
    lm: LanguageModel,
    sequence: str,
    mutants: Sequence[str],
    *,
    method: str = DEFAULT_METHOD,
    support: Candidates = DEFAULT_SUPPORT,
    settings: Settings | None = None,
    **options: Any,
) -> list[MutationEffect]:
    """`mutation_effect` of many mutants; those of the same positions share one joint.

    All are checked before the model runs.
    """
    residues, axis = check_sequence(sequence), lm.support(support)
    parsed = [parse_mutations(one, residues) for one in mutants]
    clozes = {at: residue_cloze(lm, residues, at) for at in dict.fromkeys(map(_positions, parsed))}
    tokens = [_tokens(lm, one, clozes[_positions(one)], axis) for one in parsed]
    joints: dict[tuple[int, ...], Joint] = {}
    found = []
    for mutations, (mutant, wildtype) in zip(parsed, tokens, strict=True):
        at = _positions(mutations)
        if at not in joints:
            joints[at] = lm.joint(
                clozes[at], method=method, support=axis, settings=settings, **options
            )
        found.append(_effect(mutations, mutant, wildtype, joints[at]))
    return found


def _positions(mutations: tuple[Mutation, ...]) -> tuple[int, ...]:
    return tuple(one.position for one in mutations)


def _tokens(
    lm: LanguageModel, mutations: tuple[Mutation, ...], cloze: Cloze, axis: Support
) -> tuple[list[int], list[int]]:
    """The tokens of the mutant and of the wild type."""
    mutant = residue_tokens(lm, [one.mutant for one in mutations], cloze, axis)
    return mutant, residue_tokens(lm, [one.wildtype for one in mutations], cloze, axis)


def _effect(
    mutations: tuple[Mutation, ...], mutant: list[int], wildtype: list[int], joint: Joint
) -> MutationEffect:
    found = changes(joint.supports, joint.log_prob, mutant, wildtype)
    return MutationEffect(
        mutations=mutations,
        joint=joint,
        log_odds=found.log_odds,
        single_log_odds=found.single_log_odds,
        interaction=found.interaction,
        incompatibility=joint.incompatibility(),
        forward_passes=_forward_passes(joint),
    )


def interaction_map(
    lm: LanguageModel,
    sequence: str,
    positions: Sequence[int],
    *,
    method: str = DEFAULT_METHOD,
    support: Candidates = DEFAULT_SUPPORT,
    settings: Settings | None = None,
    **options: Any,
) -> list[PairInteraction]:
    """How every two of these positions (from 1) depend on each other, each pair by its own joint.

    Pairs come in the order of `itertools.combinations` of the sorted positions.
    """
    residues = check_sequence(sequence)
    chosen = check_positions(positions, residues)
    axis = lm.support(support)
    pairs = list(combinations(chosen, 2))
    clozes = [residue_cloze(lm, residues, pair) for pair in pairs]
    # all of them first: a residue outside the support is rejected before the model runs
    wildtypes = [
        residue_tokens(lm, [residues[position - 1] for position in pair], cloze, axis)
        for pair, cloze in zip(pairs, clozes, strict=True)
    ]
    found = []
    for pair, cloze, wildtype in zip(pairs, clozes, wildtypes, strict=True):
        joint = lm.joint(cloze, method=method, support=axis, settings=settings, **options)
        found.append(_pair_interaction(joint, residues, pair, wildtype))
    return found


def _pair_interaction(
    joint: Joint, residues: str, pair: tuple[int, int], wildtype: list[int]
) -> PairInteraction:
    here = [axis.index(token) for axis, token in zip(joint.supports, wildtype, strict=True)]
    places, value = strongest_interaction(joint.log_rows, joint.shape, here)
    one, other = (
        Mutation(residues[position - 1], position, bare_letter(axis.names[place]))
        for position, axis, place in zip(pair, joint.supports, places, strict=True)
    )
    return PairInteraction(
        positions=pair,
        mutual_information=joint.mutual_information(base_two=True),
        interaction=value,
        mutations=(one, other),
        incompatibility=joint.incompatibility(),
        forward_passes=_forward_passes(joint),
        method=joint.method,
    )


def _forward_passes(joint: Joint) -> int:
    # read last: those of a lazy joint grow with every query
    passes = joint.diagnostics["forward_passes"]
    assert isinstance(passes, int)
    return passes
