"""The paper's four metrics of one masked example, for many joints in one pass over the tables.

Definitions: Torroba Hennigen & Kim (2023), section 3. NLLs are natural logarithms per token;
a perplexity is the exponential of the mean NLL over examples, never a mean of perplexities.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import SupportError
from unmask.joints.joint import Joint
from unmask.joints.sketched import Sketched, spread
from unmask.logspace import log_sum_exp_by_column, log_zeros
from unmask.printable import quoted
from unmask.results import ModelResult
from unmask.tables.pair_tables import PairTables
from unmask.text.support import Token


@dataclass(frozen=True)
class PairMetrics(ModelResult):
    """The fit of a joint to the gold pair, and its faithfulness to the model's conditionals.

    `pairwise_nll` and `unary_nll` are per token (their exponentials over examples are P-PPL and
    U-PPL); `all_kl` averages over every context of the support (A-KL), `gold_kl` over the two
    gold contexts (G-KL).

    Examples:
        >>> tables = lm.tables("Two [MASK] are [MASK].", support=20)
        >>> joints = {"mlm": unmask.construct("mlm", tables)}
        >>> metrics = unmask.pair_metrics(joints, tables, ("dogs", "running"))["mlm"]
        >>> round(metrics.pairwise_nll, 2)
        2.48
    """

    pairwise_nll: float
    unary_nll: float
    all_kl: float
    gold_kl: float


def pair_metrics(
    joints: Mapping[str, Joint], tables: PairTables, gold: tuple[Token, Token]
) -> dict[str, PairMetrics]:
    """The paper's four metrics of every joint at the gold tokens, in one pass over the tables.

    The unary NLL of independent blanks, of `mlm`, uses the model's own conditionals, as in the
    paper: the product's conditionals are its marginals, which no one would use for one blank.

    Args:
        joints: Joints by name.
        tables: The tables that they were built from.
        gold: The tokens that were masked, by name or id.
    Returns:
        The metrics of each joint, in nats per token.
    Raises:
        SupportError: A token is not on its axis.
    Examples:
        >>> tables = lm.tables("Two [MASK] are [MASK].", support=20)
        >>> joints = {name: unmask.construct(name, tables) for name in ("mlm", "log-pool")}
        >>> metrics = unmask.pair_metrics(joints, tables, ("dogs", "running"))
        >>> {name: round(one.pairwise_nll, 2) for name, one in metrics.items()}
        {'mlm': 2.48, 'log-pool': 1.86}
    """
    for name, joint in joints.items():
        axes = zip(joint.supports, tables.supports, strict=False)
        if not all(torch.equal(axis.ids, wanted.ids) for axis, wanted in axes):
            raise SupportError(f"the joint {quoted(name)} is not over the tokens of these tables")
    place = a, b = tables.supports[0].index(gold[0]), tables.supports[1].index(gold[1])
    tables.both()
    sums = _summed(joints, tables)
    log_a, log_b = tables.a_given_b.log_prob_at(b)[a], tables.b_given_a.log_prob_at(a)[b]
    own_unary = -float(log_a + log_b) / 2
    return {name: _metrics(joint, sums[name], place, own_unary) for name, joint in joints.items()}


def pair_errors(joint: Joint, gold: tuple[int, int]) -> tuple[float, float]:
    """The standard errors of the pairwise and the unary NLL of a joint from a sketch.

    The gold tokens are given by id. What is read from the model's own conditionals has run, and
    has no error.
    """
    engine = joint.engine
    if not isinstance(engine, Sketched):
        return 0.0, 0.0
    a, b = (axis.index(token) for axis, token in zip(joint.supports, gold, strict=True))
    log_p = engine.log_probs(torch.tensor([[a, b]]))[:, 0]
    alone = [
        engine.marginal([t]).log_probs(torch.tensor([[place]]))[:, 0]
        for t, place in enumerate((a, b))
    ]
    unary = 0.0 if engine.independent else float(spread(log_p - (alone[0] + alone[1]) / 2))
    return float(spread(log_p / 2)), unary


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the cells of an unnormalised joint w.

    `log_a` and `log_b` are the logarithms of its sums over the other blank; `gap_a` is the mean of
    log q(a | b) / w under q(a | b), a number per context b, and `gap_b` that of the other table.
    """

    log_a: Float[Tensor, " a"]
    log_b: Float[Tensor, " b"]
    gap_a: Float[Tensor, " b"]
    gap_b: Float[Tensor, " a"]


def _summed(joints: Mapping[str, Joint], tables: PairTables) -> dict[str, _Sums]:
    """The sums of all joints, in one sweep."""
    (rows, columns), device = tables.shape, tables.a_given_b.logits.device
    sums = {
        name: _Sums(
            log_zeros(rows, device=device),
            log_zeros(columns, device=device),
            torch.zeros(columns, dtype=torch.float64, device=device),
            torch.zeros(rows, dtype=torch.float64, device=device),
        )
        for name in joints
    }
    for block in tables.blocks():
        log_a_given_b, log_b_given_a = (tables.log_given_others(t, block) for t in (0, 1))
        a_given_b, b_given_a = log_a_given_b.exp(), log_b_given_a.exp()
        for name, joint in joints.items():
            scores, total = joint.scores(block), sums[name]
            total.log_a[block] = torch.logsumexp(scores, dim=1)
            total.log_b[:] = log_sum_exp_by_column(total.log_b, scores)
            total.gap_a.add_((a_given_b * (log_a_given_b - scores)).sum(dim=0))
            total.gap_b[block] = (b_given_a * (log_b_given_a - scores)).sum(dim=1)
    return sums


def _metrics(joint: Joint, sums: _Sums, gold: tuple[int, int], own_unary: float) -> PairMetrics:
    a, b = gold
    at_gold = float(joint.scores(slice(a, a + 1))[0, b])
    kl_a, kl_b = sums.gap_a + sums.log_b, sums.gap_b + sums.log_a
    unary = -(2 * at_gold - float(sums.log_a[a]) - float(sums.log_b[b])) / 2
    return PairMetrics(
        pairwise_nll=-(at_gold - float(torch.logsumexp(sums.log_a, dim=0))) / 2,
        unary_nll=own_unary if joint.engine.independent else unary,
        all_kl=float(kl_a.sum() + kl_b.sum()) / (len(kl_a) + len(kl_b)),
        gold_kl=float(kl_a[b] + kl_b[a]) / 2,
    )
