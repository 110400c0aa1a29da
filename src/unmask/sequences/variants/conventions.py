"""The literature's conventions: what the model sees at the other mutated positions.

Each is a sum over mutated positions of log p(mutant) - log p(wild type), or for `pll` over all
positions. A function requests rows by reading them, so that the same lines say what to run and
what to make of it.

The marginals are those of Meier et al. (2021), "Language models enable zero-shot prediction of the
effects of mutations on protein function". Their released script, and ProteinGym (Notin et al.
2023), call `single-mask-marginals` masked marginals. `mut-fill` and `match-fill` are RNAGym's,
where `single-mask-marginals` is called wt-fill and `masked-marginals` mask-fill. `pll` is the
difference of two pseudo-log-likelihoods (Salazar et al. 2020).
"""

import math
from collections.abc import Callable, Iterator, Sequence

from unmask.sequences.variants.reading import Change, Frame
from unmask.sequences.variants.rows import Changed, LogProb, Row

Convention = Callable[[Frame, Sequence[Change], LogProb], float]


def mutated(changes: Sequence[Change]) -> Changed:
    """Changes as a row has them."""
    return tuple((one.place, one.mutant) for one in changes)


def wt_marginals(frame: Frame, changes: Sequence[Change], log_prob: LogProb) -> float:
    """Every position read in the wild type, with nothing masked."""
    return math.fsum(_odds(log_prob, Row(frame), one) for one in changes)


def mutant_marginals(frame: Frame, changes: Sequence[Change], log_prob: LogProb) -> float:
    """Every position read in the mutant, with nothing masked."""
    row = Row(frame, mutated(changes))
    return math.fsum(_odds(log_prob, row, one) for one in changes)


def masked_marginals(frame: Frame, changes: Sequence[Change], log_prob: LogProb) -> float:
    """Every position read with all mutated positions masked at once."""
    row = Row(frame, masked=tuple(one.place for one in changes))
    return math.fsum(_odds(log_prob, row, one) for one in changes)


def single_mask_marginals(frame: Frame, changes: Sequence[Change], log_prob: LogProb) -> float:
    """Every position read with itself masked, and the others at wild type."""
    return math.fsum(single_scores(frame, changes, log_prob))


def mut_fill(frame: Frame, changes: Sequence[Change], log_prob: LogProb) -> float:
    """Every position read with itself masked, and the others mutated."""
    rows = _others_mutated(frame, changes)
    return math.fsum(_odds(log_prob, row, one) for row, one in rows)


def match_fill(frame: Frame, changes: Sequence[Change], log_prob: LogProb) -> float:
    """Every position masked: the mutant's residue among mutants, the wild type's in the wild type.

    The terms of `pll` at the mutated positions.
    """
    mutants = (log_prob(row, one.place, one.mutant) for row, one in _others_mutated(frame, changes))
    wildtypes = (
        log_prob(Row(frame, masked=(one.place,)), one.place, one.wildtype) for one in changes
    )
    return math.fsum(mutants) - math.fsum(wildtypes)


def pll(frame: Frame, changes: Sequence[Change], log_prob: LogProb) -> float:
    """The pseudo-log-likelihood of the mutant minus that of the wild type."""
    after = _pll_terms(frame, mutated(changes), log_prob)
    return math.fsum(after) - math.fsum(_pll_terms(frame, (), log_prob))


def single_scores(frame: Frame, changes: Sequence[Change], log_prob: LogProb) -> list[float]:
    """What each mutation has on its own by whatever masks it: one number for all such methods."""
    return [_odds(log_prob, Row(frame, masked=(one.place,)), one) for one in changes]


def wildtype_odds(frame: Frame, changes: Sequence[Change], log_prob: LogProb) -> list[float]:
    """What each mutation has on its own in the wild type, with nothing masked."""
    return [_odds(log_prob, Row(frame), one) for one in changes]


def _others_mutated(frame: Frame, changes: Sequence[Change]) -> Iterator[tuple[Row, Change]]:
    made = mutated(changes)
    for one in changes:
        others = tuple(change for change in made if change[0] != one.place)
        yield Row(frame, others, (one.place,)), one


def _odds(log_prob: LogProb, row: Row, one: Change) -> float:
    return log_prob(row, one.place, one.mutant) - log_prob(row, one.place, one.wildtype)


def _pll_terms(frame: Frame, changed: Changed, log_prob: LogProb) -> Iterator[float]:
    letters = [frame.letters.index(residue) for residue in frame.residues]
    for place, letter in changed:
        letters[place] = letter
    for place, letter in enumerate(letters):
        others = tuple(one for one in changed if one[0] != place)
        yield log_prob(Row(frame, others, (place,)), place, letter)
