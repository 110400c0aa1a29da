"""The paper's four metrics of one masked example, for many joints in one pass over the tables.

Definitions: Torroba Hennigen & Kim (2023), section 3. NLLs are natural logarithms per token;
a perplexity is the exponential of the mean NLL over examples, never a mean of perplexities.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import SupportError, UnmaskError
from unmask.joint import Joint
from unmask.logspace import log_sum_exp_by_column, log_zeros
from unmask.printable import quoted
from unmask.support import Support, Token
from unmask.tables import PairTables, Tile


@dataclass(frozen=True)
class PairMetrics:
    """How good a joint is at the gold pair, and how faithful to the model's conditionals.

    `pairwise_nll` and `unary_nll` are per token (their exponentials over examples are P-PPL and
    U-PPL); `all_kl` averages over every context of the support (A-KL), `gold_kl` over the two
    gold contexts (G-KL).
    """

    pairwise_nll: float
    unary_nll: float
    all_kl: float
    gold_kl: float

    def to_dict(self) -> dict[str, float]:
        """The four numbers by name."""
        return asdict(self)


def pair_metrics(
    joints: Mapping[str, Joint], tables: PairTables, gold: tuple[Token, Token]
) -> dict[str, PairMetrics]:
    """All four metrics of every joint at the gold tokens (names or ids), in one pass.

    The unary NLL of `mlm` uses the model's own conditionals, as in the paper: the product's
    conditionals are its marginals, which nobody would use for one blank.
    """
    for name, joint in joints.items():
        if not all(map(_same_axis, joint.supports, tables.supports)):
            raise SupportError(f"the joint {quoted(name)} is not over the tokens of these tables")
    place = (tables.supports[0].index(gold[0]), tables.supports[1].index(gold[1]))
    entropies = _Entropies.empty(tables)
    passes = {name: _Pass(joint, tables, place) for name, joint in joints.items()}
    for rows in tables.blocks():
        tile = tables.tile(rows)
        a_given_b, b_given_a = tile.log_a_given_b.exp(), tile.log_b_given_a.exp()
        entropies.add(tile, a_given_b, b_given_a)
        for one in passes.values():
            one.add(rows, a_given_b, b_given_a)
    own_unary = _model_unary_nll(tables, place)
    return {name: one.finish(entropies, own_unary) for name, one in passes.items()}


def perplexity(nlls: Iterable[float]) -> float:
    """The exponential of the mean."""
    values = list(nlls)
    if not values:
        raise UnmaskError("a perplexity needs at least one example")
    return math.exp(math.fsum(values) / len(values))


@dataclass
class _Entropies:
    """Negative entropies of the model's own conditionals, a number a context."""

    of_a: Float[Tensor, " b"]
    of_b: Float[Tensor, " a"]

    @classmethod
    def empty(cls, tables: PairTables) -> "_Entropies":
        return cls(_zeros(tables, axis=1), _zeros(tables, axis=0))

    def add(self, tile: Tile, a_given_b: Tensor, b_given_a: Tensor) -> None:
        self.of_a += (a_given_b * tile.log_a_given_b).sum(dim=0)
        self.of_b[tile.rows] = (b_given_a * tile.log_b_given_a).sum(dim=1)


class _Pass:
    """The accumulators of one joint: two marginals and two cross-entropies, O(V)."""

    def __init__(self, joint: Joint, tables: PairTables, gold: tuple[int, int]) -> None:
        device = tables.a_given_b.logits.device
        self._joint, self._gold = joint, gold
        self._log_a, self._log_b = (log_zeros(size, device=device) for size in tables.shape)
        self._cross_a, self._cross_b = _zeros(tables, axis=1), _zeros(tables, axis=0)
        self._at_gold = math.nan

    def add(self, rows: slice, a_given_b: Tensor, b_given_a: Tensor) -> None:
        scores = self._joint.scores(rows)
        self._log_a[rows] = torch.logsumexp(scores, dim=1)
        self._log_b[:] = log_sum_exp_by_column(self._log_b, scores)
        self._cross_a += (a_given_b * scores).sum(dim=0)
        self._cross_b[rows] = (b_given_a * scores).sum(dim=1)
        if rows.start <= self._gold[0] < rows.stop:
            self._at_gold = float(scores[self._gold[0] - rows.start, self._gold[1]])

    def finish(self, entropies: _Entropies, own_unary: float) -> PairMetrics:
        a, b = self._gold
        kl_a = entropies.of_a - self._cross_a + self._log_b
        kl_b = entropies.of_b - self._cross_b + self._log_a
        log_z = float(torch.logsumexp(self._log_a, dim=0))
        unary = -(2 * self._at_gold - float(self._log_a[a]) - float(self._log_b[b])) / 2
        return PairMetrics(
            pairwise_nll=-(self._at_gold - log_z) / 2,
            unary_nll=own_unary if self._joint.method == "mlm" else unary,
            all_kl=float(kl_a.sum() + kl_b.sum()) / (len(kl_a) + len(kl_b)),
            gold_kl=float(kl_a[b] + kl_b[a]) / 2,
        )


def _same_axis(one: Support, other: Support) -> bool:
    return one is other or torch.equal(one.ids, other.ids)


def _zeros(tables: PairTables, *, axis: int) -> Float[Tensor, " size"]:
    device = tables.a_given_b.logits.device
    return torch.zeros(tables.shape[axis], dtype=torch.float64, device=device)


def _model_unary_nll(tables: PairTables, gold: tuple[int, int]) -> float:
    log_a = float(tables.a_given_b.log_prob_at(gold[1])[gold[0]])
    log_b = float(tables.b_given_a.log_prob_at(gold[0])[gold[1]])
    return -(log_a + log_b) / 2
