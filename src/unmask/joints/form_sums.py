"""What metrics and marginals need of joints of two blanks: sums over cells, by rows and columns.

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

from unmask.joints.engine import Scores
from unmask.joints.forms import Form, Product, Sum, by_axis
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
class FormSums:
    """Sums over the cells of an unnormalised joint w.

    `log_a` and `log_b` are the logarithms of its sums over the other blank; `cross_a` is the mean
    of log w under q(a | b), a number per context b, and `cross_b` under q(b | a). `mean_log` is the
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
    """Negative entropies of the model's own conditionals, a number per context.

    `log_total_a` and `log_total_b` are what cells of half precision sum to: conditionals are those
    cells divided by it.
    """

    of_a: Float[Tensor, " b"]
    of_b: Float[Tensor, " a"]
    log_total_a: Float[Tensor, " b"]
    log_total_b: Float[Tensor, " a"]


def compiled_for(tables: PairTables) -> bool:
    """Whether compiled passes can be used; they read both tables, which must be there."""
    return tables.holds_all() and probabilities(tables).fused()


def can_compile(form: Form, shape: tuple[int, int]) -> bool:
    """Whether a form is one that compiled sweeps know, with numbers that they can hold."""
    if not all(1 in part.shape for part in form.parts()):
        return False
    if isinstance(form, Product):
        device = form.log_factors[0].device if form.log_factors else None
        log_a, log_b = by_axis(form.log_factors, shape, device)
        return form.powers in _POWERS and _narrow(log_a) and _narrow(log_b)
    each = [form.log_times, *([form.log_over] if form.log_over else [])]
    return all(_narrow(torch.cat(_vectors(parts, shape))) for parts in each)


def _vectors(parts: tuple[Tensor, ...], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """What belongs to blank 0 is a vector along blank 1, and the other way round: by a, by b."""
    return parts[1].expand(shape[0], 1)[:, 0], parts[0].expand(1, shape[1])[0]


def _narrow(log_values: Tensor) -> bool:
    spread = float(log_values.max() - log_values.min())
    return math.isfinite(spread) and spread < _WIDEST


def compiled_sums(
    forms: Mapping[str, Form], tables: PairTables, *, entropies: bool
) -> tuple[dict[str, FormSums], Entropies]:
    """The sums of all joints of known forms, and the tables' own, in few reads of the tables.

    Without `entropies`, products leave out `mean_log`, which takes a logarithm per cell.
    """
    arrays, own = probabilities(tables).arrays(), _own(tables)
    products = {n: f for n, f in forms.items() if isinstance(f, Product)}
    plain = {n: f for n, f in forms.items() if isinstance(f, Sum) and f.log_over is None}
    divided = {n: f for n, f in forms.items() if isinstance(f, Sum) and f.log_over is not None}
    sums = {
        **_products(products, tables.shape, arrays, own, entropies=entropies),
        **_sums(plain, tables.shape, arrays, own),
        **_sums(divided, tables.shape, arrays, own),
    }
    return {name: sums[name] for name in forms}, own_entropies(tables)


def own_entropies(tables: PairTables) -> Entropies:
    """The tables' own alone."""
    own = _own(tables)
    log_a, log_b = np.log(own.a_total), np.log(own.b_total)
    vectors = (own.a_log_a / own.a_total - log_a, own.b_log_b / own.b_total - log_b, log_a, log_b)
    return Entropies(*map(torch.from_numpy, vectors))


def _own(tables: PairTables) -> "Own":
    from unmask.tables.kernels.measures import Own, own_sums

    own = tables.remember("own sums", lambda: own_sums(probabilities(tables).arrays()))
    assert isinstance(own, Own)
    return own


def _sums(
    forms: Mapping[str, Form], shape: tuple[int, int], arrays: tuple[Cells, Cells], own: "Own"
) -> dict[str, FormSums]:
    from unmask.tables.kernels.measures import sums_of_sums

    if not forms:
        return {}
    chosen = [form for form in forms.values() if isinstance(form, Sum)]
    times, shift = _scaled([_vectors(form.log_times, shape) for form in chosen])
    over, unshift = None, np.zeros(len(chosen))
    divisors = [_vectors(form.log_over, shape) for form in chosen if form.log_over is not None]
    if divisors:
        over, unshift = _scaled(divisors)
    parts = sums_of_sums(arrays, times, over)
    results = {}
    for k, name in enumerate(forms):
        log_scale = float(shift[k] - unshift[k])
        total = float(parts.over_b[k].sum())
        results[name] = FormSums(
            torch.from_numpy(np.log(parts.over_b[k]) + log_scale),
            torch.from_numpy(np.log(parts.over_a[k]) + log_scale),
            torch.from_numpy(parts.cross_a[k] / own.a_total + log_scale),
            torch.from_numpy(parts.cross_b[k] / own.b_total + log_scale),
            float(parts.w_log_w[k].sum()) / total + log_scale,
        )
    return results


def _products(
    forms: Mapping[str, Product],
    shape: tuple[int, int],
    arrays: tuple[Cells, Cells],
    own: "Own",
    *,
    entropies: bool,
) -> dict[str, FormSums]:
    from unmask.tables.kernels.measures import Weights, sums_of_products

    if not forms:
        return {}
    chosen = list(forms.values())
    powers = np.array([form.powers for form in chosen])
    factors_of = [by_axis(form.log_factors, shape) for form in chosen]
    highest = np.array([(float(a.max()), float(b.max())) for a, b in factors_of])
    logs = Weights(
        np.stack([a.numpy() for a, _ in factors_of]) - highest[:, :1],
        np.stack([b.numpy() for _, b in factors_of]) - highest[:, 1:],
    )
    factors = Weights(np.exp(logs.by_row), np.exp(logs.by_column))
    parts = sums_of_products(arrays, powers, factors, logs, entropies=entropies)
    results = {}
    for k, name in enumerate(forms):
        (s, t), (top_a, top_b) = powers[k], highest[k]
        log_f, log_g = logs.by_row[k] + top_a, logs.by_column[k] + top_b
        log_a = np.log(parts.over_b[k]) + log_f + top_b
        mean_log = None
        if parts.w_log_w is not None:
            share = np.exp(log_a - np.logaddexp.reduce(log_a))
            mean_log = float(share @ (parts.w_log_w[k] / parts.over_b[k] + log_f + top_b))
        cross_a = (s * own.a_log_a + t * own.a_log_b + parts.a_log_f[k]) / own.a_total
        cross_b = (t * own.b_log_b + s * own.b_log_a + parts.b_log_g[k]) / own.b_total
        results[name] = FormSums(
            torch.from_numpy(log_a),
            torch.from_numpy(np.log(parts.over_a[k]) + log_g + top_a),
            torch.from_numpy(cross_a + top_a + log_g),
            torch.from_numpy(cross_b + top_b + log_f),
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


def streamed_sums(
    scores: Mapping[str, Scores], tables: PairTables
) -> tuple[dict[str, FormSums], Entropies]:
    """The same for any joints, in one pass of torch over tiles."""
    entropies = Entropies(*(_zeros(tables, axis=axis) for axis in (1, 0, 1, 0)))
    device = tables.a_given_b.logits.device
    kept = {
        name: FormSums(
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


def _add(kept: FormSums, rows: slice, scores: Tensor, a_given_b: Tensor, b_given_a: Tensor) -> None:
    kept.log_a[rows] = torch.logsumexp(scores, dim=1)
    kept.log_b[:] = log_sum_exp_by_column(kept.log_b, scores)
    kept.cross_a.add_((a_given_b * scores).sum(dim=0))
    kept.cross_b[rows] = (b_given_a * scores).sum(dim=1)


def _zeros(tables: PairTables, *, axis: int) -> Float[Tensor, " size"]:
    device = tables.a_given_b.logits.device
    return torch.zeros(tables.shape[axis], dtype=torch.float64, device=device)
