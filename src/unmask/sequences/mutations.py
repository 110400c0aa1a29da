"""What mutations do to a sequence of residues, alone and together, by the joint of their blanks.

Log-odds are in nats, log p(mutant) / p(wild type) given all other residues.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any

from unmask.constructions import DEFAULT_METHOD
from unmask.joints.joint import Joint
from unmask.joints.odds import changes, strongest_interaction
from unmask.language_model import LanguageModel
from unmask.sequences.residues import (
    Mutation,
    parse_mutations,
    residue_cloze,
    residue_tokens,
)
from unmask.settings import Settings
from unmask.text.alphabets import bare_letter
from unmask.text.candidates import Candidates
from unmask.text.residues import check_positions, check_sequence

DEFAULT_SUPPORT = "amino-acids"


@dataclass(frozen=True, eq=False)
class MutationEffect:
    """The log-odds of mutations together and of each alone in the wild type, in nats.

    Mutations are in the order of their positions. The interaction (epistasis) is the log-odds
    together minus the sum of those alone: for two mutations it is the log odds ratio of the joint,
    for one mutation 0. `incompatibility` is J in bits, None if there are not both tables.
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

    `mutual_information`, in bits, weights all pairs of residues by how likely they are, and does
    not depend on the wild type. `interaction`, in nats, is the largest in absolute value over all
    double mutants, however unlikely the mutant is: `mutations` names it. `incompatibility` is J in
    bits, and `method` the construction of the joint.
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
    """The effect of mutations such as "A42G:L45K" on a sequence, together and alone.

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
    places = [tuple(one.position for one in mutations) for mutations in parsed]
    clozes = {at: residue_cloze(lm, residues, at) for at in dict.fromkeys(places)}

    def tokens(kind: str) -> list[list[int]]:
        return [
            residue_tokens(lm, [getattr(one, kind) for one in mutations], clozes[at], axis)
            for mutations, at in zip(parsed, places, strict=True)
        ]

    # all of them first: a residue outside the support is rejected before the model runs
    mutated, wildtypes = tokens("mutant"), tokens("wildtype")
    joint_at = cache(
        lambda at: lm.joint(clozes[at], method=method, support=axis, settings=settings, **options)
    )
    return [
        _effect(mutations, mutant, wildtype, joint_at(at))
        for mutations, mutant, wildtype, at in zip(parsed, mutated, wildtypes, places, strict=True)
    ]


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
    residues, axis = check_sequence(sequence), lm.support(support)
    pairs = list(combinations(check_positions(positions, residues), 2))
    clozes = [residue_cloze(lm, residues, pair) for pair in pairs]
    # all of them first: a residue outside the support is rejected before the model runs
    wildtypes = [
        residue_tokens(lm, [residues[position - 1] for position in pair], cloze, axis)
        for pair, cloze in zip(pairs, clozes, strict=True)
    ]
    return [
        _pair_interaction(
            lm.joint(cloze, method=method, support=axis, settings=settings, **options),
            residues,
            pair,
            wildtype,
        )
        for pair, cloze, wildtype in zip(pairs, clozes, wildtypes, strict=True)
    ]


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
