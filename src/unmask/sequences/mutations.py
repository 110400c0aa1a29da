"""What mutations do to a sequence, alone and together, by the joint over all letters of a support.

Variants are read as in `sequences/variants`, whose joints are over wild type and mutant: other
numbers, and so other names. A joint over 20 letters is `log-pool-20`. Log-odds are in nats,
log p(mutant) / p(wild type) given all other residues.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any

from unmask.constructions import DEFAULT_METHOD
from unmask.joints.joint import Joint
from unmask.joints.odds import changes, strongest_interaction
from unmask.lazy import Guessable
from unmask.queries.joint_model import JointModel
from unmask.sequences.residues import Mutation, residue_cloze
from unmask.sequences.variants.reading import Frame, Variant, VariantReader
from unmask.sequences.variants.scoring import DEFAULT_SUPPORT
from unmask.settings import Settings
from unmask.text.alphabets import bare_letter
from unmask.text.candidates import Candidates
from unmask.text.residues import check_positions, check_sequence
from unmask.text.support import Support


@dataclass(frozen=True, eq=False)
class MutationEffect(Guessable):
    """The log-odds of mutations together and of each alone in the wild type, in nats.

    Mutations are in the order of their positions. The interaction (epistasis) is the log-odds
    together minus the sum of those alone: for two mutations it is the log odds ratio of the joint,
    for one mutation 0. `incompatibility` is J in bits, None if there are not both tables. `window`
    is the first and last position that the model read, None if it read all.

    Examples:
        >>> lm.mutations("MKTAYIAKQR", "A4G:I6L").joint.top(1)[0].tokens
        ('A', 'A')
    """

    mutations: tuple[Mutation, ...]
    joint: Joint = field(repr=False)
    log_odds: float
    single_log_odds: tuple[float, ...]
    interaction: float
    incompatibility: float | None
    forward_passes: int
    window: tuple[int, int] | None = None

    @property
    def method(self) -> str:
        """The construction with the number of letters that its joint is over: `log-pool-20`."""
        return over_letters(self.joint)

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {
            "mutations": list(map(str, self.mutations)),
            "method": self.method,
            "log_odds": self.log_odds,
            "single_log_odds": list(self.single_log_odds),
            "interaction": self.interaction,
            "incompatibility": self.incompatibility,
            "forward_passes": self.forward_passes,
            "window": None if self.window is None else list(self.window),
        }


def over_letters(joint: Joint) -> str:
    """The name of a joint over all letters; one blank has the model's own distribution."""
    letters = len(joint.supports[0])
    return joint.method if len(joint.supports) == 1 else f"{joint.method}-{letters}"


@dataclass(frozen=True)
class PairInteraction:
    """How two positions of a sequence depend on each other, by the joint of their residues.

    `mutual_information`, in bits, weights all pairs of residues by how likely they are, and does
    not depend on the wild type. `interaction`, in nats, is the largest in absolute value over all
    double mutants, however unlikely the mutant is: `mutations` names it. `incompatibility` is J in
    bits, and `method` the construction with the number of letters: `log-pool-20`.

    Examples:
        >>> str(lm.interactions("MKTAYIAKQR", [4, 6])[0].mutations[0])
        'A4I'
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


def mutation_effects(
    lm: JointModel,
    sequence: str,
    mutants: Sequence[str],
    *,
    method: str = DEFAULT_METHOD,
    support: Candidates = DEFAULT_SUPPORT,
    settings: Settings | None = None,
    **options: Any,
) -> list[MutationEffect]:
    """`LanguageModel.mutations` of several mutants; those of the same positions share a joint."""
    axis, reader = lm.support(support), VariantReader(lm, sequence, support)
    variants = [reader.read(one) for one in mutants]
    # all of them first: a residue outside the support is rejected before the model runs
    fills = [_fills(one, axis) for one in variants]

    @cache
    def joint_at(frame: Frame, places: tuple[int, ...]) -> Joint:
        cloze = residue_cloze(lm, frame.residues, [place + 1 for place in places])
        return lm.joint(cloze, method=method, support=axis, settings=settings, **options)

    return [
        _effect(one, joint_at(one.frame, tuple(change.place for change in one.changes)), *both)
        for one, both in zip(variants, fills, strict=True)
    ]


def _fills(variant: Variant, axis: Support) -> tuple[list[int], list[int]]:
    """The tokens of mutant and wild type, spelled as what they replace."""
    token, changes = variant.frame.token, variant.changes
    both = (
        [token(one.place, one.mutant) for one in changes],
        [token(one.place, one.wildtype) for one in changes],
    )
    for one in (*both[0], *both[1]):
        axis.index(one)
    return both


def _effect(
    variant: Variant, joint: Joint, mutant: list[int], wildtype: list[int]
) -> MutationEffect:
    change = changes(joint.supports, joint.log_prob, mutant, wildtype)
    return MutationEffect(
        mutations=variant.mutations,
        joint=joint,
        log_odds=change.log_odds,
        single_log_odds=change.single_log_odds,
        interaction=change.interaction,
        incompatibility=joint.incompatibility(),
        forward_passes=_forward_passes(joint),
        window=variant.window,
    )


def interaction_map(
    lm: JointModel,
    sequence: str,
    positions: Sequence[int],
    *,
    method: str = DEFAULT_METHOD,
    support: Candidates = DEFAULT_SUPPORT,
    settings: Settings | None = None,
    **options: Any,
) -> list[PairInteraction]:
    """`LanguageModel.interactions`."""
    residues, axis = check_sequence(sequence), lm.support(support)
    pairs = list(combinations(check_positions(positions, residues), 2))
    clozes = [residue_cloze(lm, residues, pair) for pair in pairs]
    # all of them first: a residue outside the support is rejected before the model runs
    wildtypes = [[axis.index(token) for token in cloze.gold or ()] for cloze in clozes]
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
    joint: Joint, residues: str, pair: tuple[int, int], here: list[int]
) -> PairInteraction:
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
        method=over_letters(joint),
    )


def _forward_passes(joint: Joint) -> int:
    # read last: those of a lazy joint grow with every query
    passes = joint.diagnostics["forward_passes"]
    assert isinstance(passes, int)
    return passes
