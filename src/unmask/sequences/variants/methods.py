"""Every method by its name: which rows a variant requests, and what comes of them."""

import math
from collections.abc import Sequence

import numpy as np

from unmask.constructions import constructions_of, no_method
from unmask.names import ALIASES
from unmask.sequences.variants import conventions
from unmask.sequences.variants.conventions import Convention
from unmask.sequences.variants.cubes import Block, Vector, blocks_of, path_moments
from unmask.sequences.variants.joints import MethodScore, joined, reads_all, rows_read
from unmask.sequences.variants.laws import stationary_laws
from unmask.sequences.variants.reading import Variant
from unmask.sequences.variants.rows import Answers, LogProb, Requests

CONVENTIONS: dict[str, Convention] = {
    "wt-marginals": conventions.wt_marginals,
    "mutant-marginals": conventions.mutant_marginals,
    "masked-marginals": conventions.masked_marginals,
    "single-mask-marginals": conventions.single_mask_marginals,
    "mut-fill": conventions.mut_fill,
    "match-fill": conventions.match_fill,
    "pll": conventions.pll,
}
HCB_PATH = "hcb-path"
JOINTS = tuple(constructions_of(3))
METHODS = (*CONVENTIONS, HCB_PATH, *JOINTS)
# those that run the mutant whole: the single mutants would be runs of their own
_WITHOUT_SINGLES = ("mutant-marginals", "pll")
# numbers of blocks of one size whose laws are found together
_CELLS = 2**21


def method_of_variants(
    name: object, methods: Sequence[str] = METHODS, what: str = "variants"
) -> str:
    """The name of a method, from that or an alias of a construction, in any case."""
    plain = name.strip().lower().replace("_", "-") if isinstance(name, str) else name
    plain = ALIASES.get(plain, plain) if isinstance(plain, str) else plain
    if plain not in methods:
        raise no_method(name, methods, f" of {what}")
    assert isinstance(plain, str)
    return plain


def has_singles(method: str) -> bool:
    """Whether the single mutations are read with the variant, so that it has an interaction."""
    return method not in _WITHOUT_SINGLES


def has_tables(method: str) -> bool:
    """Whether a method reads whole tables, so that it has a J."""
    return method in JOINTS and reads_all(method)


# --- what is read ------------------------------------------------------------------------------


def requests_of(variant: Variant, method: str, largest: int) -> Requests:
    """The rows of one variant by one method, with those of its single mutations."""
    requests = Requests()
    if method in CONVENTIONS:
        CONVENTIONS[method](variant.frame, variant.changes, requests.log_prob)
    else:
        for block in blocks_of(variant.frame, variant.changes, largest):
            if method == HCB_PATH or len(block.changes) == 1:
                requests.add(row for _, _, row in block.edges())
            else:
                requests.add(rows_read(method, block))
    single_scores(variant, method, requests.log_prob)
    return requests


def single_scores(variant: Variant, method: str, log_prob: LogProb) -> tuple[float, ...] | None:
    """The scores of the mutations as variants of their own, by the same method."""
    if not has_singles(method):
        if len(variant.changes) > 1:
            return None
        return (CONVENTIONS[method](variant.frame, variant.changes, log_prob),)
    alone = conventions.wildtype_odds if method == "wt-marginals" else conventions.single_scores
    return tuple(alone(variant.frame, variant.changes, log_prob))


# --- what comes of it --------------------------------------------------------------------------


class Scorer:
    """Scores variants whose rows have run; what blocks and methods share is found once."""

    def __init__(self, answers: Answers, largest: int) -> None:
        self._answers, self._largest = answers, largest
        self._laws: dict[Block, Vector] = {}

    def prepare(self, variants: Sequence[Variant], methods: Sequence[str]) -> None:
        """Find the stationary laws of all blocks that have whole tables, many at once."""
        if not any(map(has_tables, methods)):
            return
        by_size: dict[int, dict[Block, None]] = {}
        for variant in variants:
            for block in blocks_of(variant.frame, variant.changes, self._largest):
                by_size.setdefault(len(block.changes), {})[block] = None
        by_size.pop(1, None)
        for k, blocks in by_size.items():
            listed, size = list(blocks), max(1, _CELLS // (k * 2**k))
            for start in range(0, len(listed), size):
                some = listed[start : start + size]
                log_odds = [block.log_odds(self._answers) for block in some]
                laws = stationary_laws(np.stack(log_odds))
                self._laws.update(zip(some, laws, strict=True))

    def score(self, variant: Variant, method: str) -> MethodScore:
        """A variant by one method."""
        if method in CONVENTIONS:
            log_prob = self._answers.log_prob
            return MethodScore(CONVENTIONS[method](variant.frame, variant.changes, log_prob))
        blocks = blocks_of(variant.frame, variant.changes, self._largest)
        if method == HCB_PATH:
            moments = [path_moments(block.log_odds(self._answers)) for block in blocks]
            spread = math.sqrt(math.fsum(float(variance[-1]) for _, variance in moments))
            return MethodScore(
                math.fsum(float(mean[-1]) for mean, _ in moments),
                spread=spread if len(variant.changes) > 1 else None,
                blocks=len(blocks),
            )
        each = [joined(method, one, self._answers, self._laws.get(one)) for one in blocks]
        return MethodScore(
            math.fsum(one.score for one in each),
            incompatibility=each[0].incompatibility if len(each) == 1 else None,
            blocks=len(each),
            converged=all(one.converged for one in each),
        )
