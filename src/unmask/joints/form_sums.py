"""What metrics and marginals ask of a joint: a few sums over its cells, by rows and by columns.

Read off the compiled passes for many joints at once where they can be used, and streamed through
torch where not; both give the same.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from unmask.joints.forms import Form, Product, Sum
from unmask.joints.joint import Scores
from unmask.logspace import log_sum_exp_by_column, log_zeros
from unmask.tables.pair_tables import PairTables
from unmask.tables.probabilities import Cells, probabilities

if TYPE_CHECKING:
    from unmask.tables.kernels.measures import Own, Weights

Vector = NDArray[np.float64]

# powers of both conditionals that compiled passes know
_POWERS = {(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5)}
# factors further apart than this are left to logarithms
_WIDEST = 250.0


@dataclass(frozen=True, eq=False)
class Reductions:
    """Sums over the cells of an unnormalised joint w.

    `log_a` and `log_b` are the logarithms of its sums over the other blank; `cross_a` is the mean
    of log w under q(a | b), a number a context b, and `cross_b` under q(b | a). `mean_log` is the
    mean of log w under the joint itself, if it was summed.
    """

    log_a: Float[Tensor, " a"]
    log_b: Float[Tensor, " b"]
    cross_a: Float[Tensor, " b"]
    cross_b: Float[Tensor, " a"]
    mean_log: float | None = None

    @property
    def log_normalizer(self) -> float:
        """The logarithm of the sum of all cells."""
        return float(torch.logsumexp(self.log_a, dim=0))

    @property
    def entropy(self) -> float | None:
        """Shannon entropy of the normalised joint, in nats."""
        return None if self.mean_log is None else self.log_normalizer - self.mean_log


@dataclass(frozen=True, eq=False)
class Entropies:
    """Negative entropies of the model's own conditionals, a number a context."""

    of_a: Float[Tensor, " b"]
    of_b: Float[Tensor, " a"]


def compiled_for(tables: PairTables) -> bool:
    """Whether compiled passes can be used; they read both tables, which must be there."""
    return tables.holds_both() and probabilities(tables).fused()


def can_compile(form: Form) -> bool:
    """Whether a form is one that compiled passes know, with numbers that they can hold."""
    if isinstance(form, Product):
        known = (form.power_a_given_b, form.power_b_given_a) in _POWERS
        return known and _narrow(form.log_a) and _narrow(form.log_b)
    over = [v for v in (form.log_over_a, form.log_over_b) if v is not None]
    times = torch.cat([form.log_times_a, form.log_times_b])
    return _narrow(times) and (not over or _narrow(torch.cat(over)))


def _narrow(log_values: Tensor) -> bool:
    spread = float(log_values.max() - log_values.min())
    return math.isfinite(spread) and spread < _WIDEST


def compiled_reductions(
    forms: Mapping[str, Form], tables: PairTables, *, entropies: bool
) -> tuple[dict[str, Reductions], Entropies]:
    """The sums of all joints of known forms, and the tables' own, in few reads of the tables.

    Without `entropies`, products leave out `mean_log`, which takes a logarithm a cell.
    """
    from unmask.tables.kernels.measures import Own, own_sums

    arrays = probabilities(tables).arrays()
    own = tables.remember("own sums", lambda: own_sums(arrays))
    assert isinstance(own, Own)
    products = {n: f for n, f in forms.items() if isinstance(f, Product)}
    plain = {n: f for n, f in forms.items() if isinstance(f, Sum) and f.log_over_a is None}
    divided = {n: f for n, f in forms.items() if isinstance(f, Sum) and f.log_over_a is not None}
    found = {
        **_products(products, arrays, own, entropies=entropies),
        **_sums(plain, arrays),
        **_sums(divided, arrays),
    }
    of_a, of_b = torch.from_numpy(own.a_log_a), torch.from_numpy(own.b_log_b)
    return {name: found[name] for name in forms}, Entropies(of_a, of_b)


def _sums(forms: Mapping[str, Form], arrays: tuple[Cells, Cells]) -> dict[str, Reductions]:
    from unmask.tables.kernels.measures import sums_of_sums

    if not forms:
        return {}
    chosen = [form for form in forms.values() if isinstance(form, Sum)]
    times, shift = _scaled([(f.log_times_a, f.log_times_b) for f in chosen])
    over, unshift = None, np.zeros(len(chosen))
    if chosen[0].log_over_a is not None:
        pairs = [(f.log_over_a, f.log_over_b) for f in chosen]
        over, unshift = _scaled([(a, b) for a, b in pairs if a is not None and b is not None])
    found = sums_of_sums(arrays, times, over)
    results = {}
    for k, name in enumerate(forms):
        log_scale = float(shift[k] - unshift[k])
        total = float(found.over_b[k].sum())
        results[name] = Reductions(
            torch.from_numpy(np.log(found.over_b[k]) + log_scale),
            torch.from_numpy(np.log(found.over_a[k]) + log_scale),
            torch.from_numpy(found.cross_a[k] + log_scale),
            torch.from_numpy(found.cross_b[k] + log_scale),
            float(found.w_log_w[k].sum()) / total + log_scale,
        )
    return results


def _products(
    forms: Mapping[str, Product], arrays: tuple[Cells, Cells], own: "Own", *, entropies: bool
) -> dict[str, Reductions]:
    from unmask.tables.kernels.measures import Weights, sums_of_products

    if not forms:
        return {}
    chosen = list(forms.values())
    powers = np.array([(f.power_a_given_b, f.power_b_given_a) for f in chosen])
    highest = np.array([(float(f.log_a.max()), float(f.log_b.max())) for f in chosen])
    logs = Weights(
        np.stack([f.log_a.numpy() for f in chosen]) - highest[:, :1],
        np.stack([f.log_b.numpy() for f in chosen]) - highest[:, 1:],
    )
    factors = Weights(np.exp(logs.by_row), np.exp(logs.by_column))
    found = sums_of_products(arrays, powers, factors, logs, entropies=entropies)
    results = {}
    for k, name in enumerate(forms):
        (s, t), (top_a, top_b) = powers[k], highest[k]
        log_f, log_g = logs.by_row[k] + top_a, logs.by_column[k] + top_b
        log_a = np.log(found.over_b[k]) + log_f + top_b
        mean_log = None
        if found.w_log_w is not None:
            share = np.exp(log_a - np.logaddexp.reduce(log_a))
            mean_log = float(share @ (found.w_log_w[k] / found.over_b[k] + log_f + top_b))
        results[name] = Reductions(
            torch.from_numpy(log_a),
            torch.from_numpy(np.log(found.over_a[k]) + log_g + top_a),
            torch.from_numpy(s * own.a_log_a + t * own.a_log_b + found.a_log_f[k] + top_a + log_g),
            torch.from_numpy(t * own.b_log_b + s * own.b_log_a + found.b_log_g[k] + top_b + log_f),
            mean_log,
        )
    return results


def _scaled(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple["Weights", Vector]:
    """Exponentials of vectors by row and by column, each pair with its largest made one."""
    from unmask.tables.kernels.measures import Weights

    shift = np.array([max(float(a.max()), float(b.max())) for a, b in pairs])
    by_row = np.stack([a.numpy() for a, _ in pairs])
    by_column = np.stack([b.numpy() for _, b in pairs])
    return Weights(np.exp(by_row - shift[:, None]), np.exp(by_column - shift[:, None])), shift


def streamed_reductions(
    scores: Mapping[str, Scores], tables: PairTables
) -> tuple[dict[str, Reductions], Entropies]:
    """The same for any joints, in one pass of torch over tiles."""
    entropies = Entropies(_zeros(tables, axis=1), _zeros(tables, axis=0))
    device = tables.a_given_b.logits.device
    kept = {
        name: Reductions(
            log_zeros(tables.shape[0], device=device),
            log_zeros(tables.shape[1], device=device),
            _zeros(tables, axis=1),
            _zeros(tables, axis=0),
        )
        for name in scores
    }
    for rows in tables.blocks():
        tile = tables.tile(rows)
        a_given_b, b_given_a = tile.log_a_given_b.exp(), tile.log_b_given_a.exp()
        entropies.of_a.add_((a_given_b * tile.log_a_given_b).sum(dim=0))
        entropies.of_b[rows] = (b_given_a * tile.log_b_given_a).sum(dim=1)
        for name, score in scores.items():
            _add(kept[name], rows, score(rows), a_given_b, b_given_a)
    return kept, entropies


def _add(
    kept: Reductions, rows: slice, scores: Tensor, a_given_b: Tensor, b_given_a: Tensor
) -> None:
    kept.log_a[rows] = torch.logsumexp(scores, dim=1)
    kept.log_b[:] = log_sum_exp_by_column(kept.log_b, scores)
    kept.cross_a.add_((a_given_b * scores).sum(dim=0))
    kept.cross_b[rows] = (b_given_a * scores).sum(dim=1)


def _zeros(tables: PairTables, *, axis: int) -> Float[Tensor, " size"]:
    device = tables.a_given_b.logits.device
    return torch.zeros(tables.shape[axis], dtype=torch.float64, device=device)
