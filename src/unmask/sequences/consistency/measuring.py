"""What a model says of a text in several ways that should agree: pairs of blanks, orders.

Of every text two pairs of tokens are masked: one of neighbours, one drawn from all pairs. If the
model's conditionals came from one joint, filling one blank first or the other would give the same
probability (Wagner, Slavutsky & Abend 2024), and the distribution of a blank with both masked would
be the mean of its conditionals over the other blank (Young, Chen & You 2022 compare and average
such conditionals). And a text has as many log-probabilities as there are orders of unmasking it.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions import DEFAULT_METHOD, construct
from unmask.constructions.incompatibility import agreement
from unmask.constructions.solvers.fits import stationary_law
from unmask.errors import MethodError
from unmask.joints.joint import Joint
from unmask.model.hooks import without_gradients
from unmask.model.row_reader import RowReader
from unmask.names import CONSISTENCY_PASSES, ORDERS_DRAWN
from unmask.queries.joint_model import JointModel
from unmask.queries.sketched import joint_at, tables_of
from unmask.sequences.paths import check_drawing
from unmask.sequences.texts import TokenisedText, tokenised_or_reasons
from unmask.sequences.unmasking import ORDERS, random_unmasking, unmasking_log_probs
from unmask.settings import Settings, Sketch
from unmask.tables.pair_tables import PairTables
from unmask.tables.proposals import AUTO, resolved
from unmask.text.cloze import Cloze

# two neighbours, and any two tokens; an order of unmasking
ADJACENT, ANY = PAIRS = ("adjacent", "random")
ORDER = "order"
# digits of a text's digest: enough that no two texts share one
_DIGITS = 16
# what every row holds, with its Arrow type
TOKENS = ("first_token", "second_token")
COLUMNS = {
    **dict.fromkeys(("text_id", "part"), "string"),
    **dict.fromkeys(("first", "second", "distance"), "int64"),
    **dict.fromkeys(TOKENS, "string"),
    **dict.fromkeys(("incompatibility", "mutual_information", "marginal_divergence"), "double"),
    **dict.fromkeys(("first_then_second", "second_then_first", "independent"), "double"),
    **dict.fromkeys(("pseudo_gibbs", "log_pool", "ensemble"), "double"),
    "order": "string",
    "tokens": "int64",
    "text_log_p": "double",
    "contrast_log_p": "double",
    "forward_passes": "int64",
}


@dataclass(frozen=True, kw_only=True)
class ConsistencyOptions:
    """What is measured: how many random orders, and how the joints of two blanks are computed.

    A large vocabulary is estimated from `max_passes` forward passes per pair, unless `exact`. The
    `seed` decides the blanks, the orders and the estimates.
    """

    orders: int = ORDERS_DRAWN
    max_passes: int = CONSISTENCY_PASSES
    seed: int = 0
    exact: bool = False

    def __post_init__(self) -> None:
        """Reject what cannot be measured."""
        check_drawing(orders=self.orders, seed=self.seed)
        if self.orders < 2:
            raise MethodError("orders is a number from 2: a single order has no spread")
        Sketch(None, self.max_passes, self.seed)

    def sketch(self, lm: JointModel) -> Sketch | None:
        """How joints are estimated; None where the whole vocabulary runs."""
        is_large = isinstance(resolved(AUTO, 2, lm.model.vocabulary_size), Sketch)
        wanted = Sketch(None, self.max_passes, self.seed)
        return wanted if is_large and not self.exact else None


@dataclass(frozen=True)
class ContrastedText:
    """A text, and the other one of its minimal pair, if it has one of as many tokens.

    Log-probabilities by unmasking are among texts of one length: others give no verdict.
    """

    text: TokenisedText
    contrast: TokenisedText | None = None

    @property
    def id(self) -> str:
        """A digest of the text: the same with every model."""
        return hashlib.sha256(self.text.text.encode()).hexdigest()[:_DIGITS]


def read_texts(
    lm: JointModel, texts: Sequence[tuple[str | None, str | None]]
) -> list[ContrastedText | str]:
    """Each text with its contrast as the model reads them, or why the text cannot be measured."""
    every = tokenised_or_reasons(lm, [one or "" for pair in texts for one in pair])
    items: list[ContrastedText | str] = []
    for text, contrast in zip(every[::2], every[1::2], strict=True):
        if isinstance(text, str):
            items.append(text)
        elif not _starts(text):
            items.append("the text has no two neighbouring tokens")
        else:
            other = None if isinstance(contrast, str) else contrast
            is_alike = other is not None and len(other.places) == len(text.places)
            items.append(ContrastedText(text, other if is_alike else None))
    return items


@without_gradients
def measured(
    lm: JointModel, texts: Sequence[ContrastedText], options: ConsistencyOptions, settings: Settings
) -> list[list[dict[str, Any]]]:
    """The rows of each text: one per pair of blanks, one per order of unmasking."""
    by_order = _orders(RowReader(lm.model, settings), texts, options)
    return [
        [
            {**dict.fromkeys(COLUMNS), "text_id": one.id, **row}
            for row in [*(_pair(lm, one, part, options, settings) for part in PAIRS), *rows]
        ]
        for one, rows in zip(texts, by_order, strict=True)
    ]


# --- two blanks --------------------------------------------------------------------------------


def _starts(text: TokenisedText) -> list[int]:
    """The ranks of tokens whose right neighbour is one of the text too."""
    return [rank for rank, (low, high) in enumerate(pairwise(text.places)) if high == low + 1]


def _blanks(text: TokenisedText, part: str, seed: int) -> tuple[int, int]:
    """The ranks of the two tokens that are masked.

    From a hash and not a generator: it is the same in every library and version.
    """
    hashed = hashlib.sha256(f"{seed}\x00{part}\x00{text.text}".encode()).digest()
    number, count = int.from_bytes(hashed[:8], "big"), len(text.places)
    if part == ADJACENT:
        starts = _starts(text)
        start = starts[number % len(starts)]
        return start, start + 1
    first, second = number % count, (number // count) % (count - 1)
    second += second >= first
    return min(first, second), max(first, second)


def masked_pair(lm: JointModel, text: TokenisedText, part: str, seed: int) -> Cloze:
    """The text with its two blanks."""
    places = tuple(text.places[rank] for rank in _blanks(text, part, seed))
    ids = [lm.model.mask_id if place in places else one for place, one in enumerate(text.ids)]
    gold = tuple(text.ids[place] for place in places)
    return Cloze(text.text, tuple(ids), places, gold, unknown=text.unknown)


def _pair(
    lm: JointModel, one: ContrastedText, part: str, options: ConsistencyOptions, settings: Settings
) -> dict[str, Any]:
    first, second = _blanks(one.text, part, options.seed)
    cloze, sketch = masked_pair(lm, one.text, part, options.seed), options.sketch(lm)
    gold = cloze.gold or ()
    if sketch is not None:
        # another one per text, so that the errors of a mean cancel
        sketch = replace(sketch, seed=(sketch.seed + int(one.id, 16)) % 2**63)
    tables, pool, passes = _joint(lm, cloze, sketch, settings)
    axes = list(zip(tables.supports, gold, strict=True))
    # of a sketch, true tokens are in the head, where masses are probabilities
    at = axes[0][0].index(gold[0]), axes[1][0].index(gold[1])
    names = [axis.names[place] for (axis, _), place in zip(axes, at, strict=True)]
    return {
        "part": part,
        "first": first,
        "second": second,
        "distance": second - first,
        **dict(zip(TOKENS, names, strict=True)),
        **_answers(tables, at),
        "mutual_information": pool.mutual_information(base_two=True),
        "log_pool": pool.log_prob(*gold),
        "forward_passes": passes,
    }


def _joint(
    lm: JointModel, cloze: Cloze, sketch: Sketch | None, settings: Settings
) -> tuple[PairTables, Joint, int]:
    """The conditionals of both blanks, their joint, and the forward passes."""
    whole = lm.tables(cloze, support="vocabulary", settings=settings)
    if sketch is None:
        whole.both()
        return whole, construct(DEFAULT_METHOD, whole), 1 + sum(whole.shape)
    first, second = cloze.gold or ()
    pool, pair = joint_at(DEFAULT_METHOD, whole, sketch, (first, second))
    return tables_of(pair), pool, pair.forward_passes


def _answers(tables: PairTables, at: tuple[int, int]) -> dict[str, float | None]:
    """J, and what the conditionals give the true tokens in ways that should agree.

    `ensemble` is the mean of four joints: fill either blank first, by its own distribution or by
    the mean of its conditionals.
    """
    i, j = at
    tile, law, apart = tables.tile(slice(i, i + 1)), stationary_law(tables), agreement(tables)
    a_given_b, b_given_a = float(tile.log_a_given_b[0, j]), float(tile.log_b_given_a[0, j])
    own = tables.masked.log_a.double(), tables.masked.log_b.double()
    means = _mean_conditionals(tables)
    direct, mixed = (
        (float(log_a[i]) + b_given_a, float(log_b[j]) + a_given_b) for log_a, log_b in (own, means)
    )
    gibbs = a_given_b + float(law.log_b[j]), b_given_a + float(law.log_a[i])
    return {
        # only where its solver has converged: a rough number would be averaged as a good one
        "incompatibility": apart.bits if apart.converged else None,
        "marginal_divergence": sum(map(_divergence, own, means)) / 2,
        "first_then_second": direct[0],
        "second_then_first": direct[1],
        "independent": float(own[0][i] + own[1][j]),
        "pseudo_gibbs": _log_mean(gibbs),
        "ensemble": _log_mean([*direct, *mixed]),
    }


def _log_mean(logs: Sequence[float]) -> float:
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def _mean_conditionals(tables: PairTables) -> tuple[Float[Tensor, " a"], Float[Tensor, " b"]]:
    """The mean of each blank's conditionals over what the other one, masked too, may hold.

    By the law of total probability it is the blank's own distribution with both masked.
    """
    log_a, log_b = tables.masked.log_a.double(), tables.masked.log_b.double()
    of_a, of_b = torch.empty_like(log_a), torch.full_like(log_b, -torch.inf)
    for rows in tables.blocks():
        tile = tables.tile(rows)
        of_a[rows] = torch.logsumexp(tile.log_a_given_b + log_b, dim=1)
        part = torch.logsumexp(tile.log_b_given_a + log_a[rows, None], dim=0)
        of_b = torch.logaddexp(of_b, part)
    return of_a, of_b


def _divergence(log_p: Float[Tensor, " size"], log_q: Float[Tensor, " size"]) -> float:
    """The Jensen-Shannon divergence in bits."""
    middle = torch.logaddexp(log_p, log_q) - math.log(2)
    total = sum(float((one.exp() * (one - middle)).sum()) for one in (log_p, log_q))
    return max(0.0, total / 2 / math.log(2))


# --- orders of unmasking -----------------------------------------------------------------------


def _orders(
    reader: RowReader, texts: Sequence[ContrastedText], options: ConsistencyOptions
) -> list[list[dict[str, Any]]]:
    """A row per order of every text: its log-probability, and that of its contrast."""
    contrasts = [one.contrast for one in texts if one.contrast is not None]
    every = [*(one.text for one in texts), *contrasts]
    named = {order: unmasking_log_probs(reader, every, order=order) for order in ORDERS}
    drawn = random_unmasking(reader, every, orders=options.orders, seed=options.seed)
    by_text = [
        {order: scores[number].score for order, scores in named.items()}
        | {f"{ANY}-{rank}": log_p for rank, log_p in enumerate(drawn[number], 1)}
        for number in range(len(every))
    ]
    others = iter(by_text[len(texts) :])
    return [
        _order_rows(one, by_order, None if one.contrast is None else next(others))
        for one, by_order in zip(texts, by_text, strict=False)
    ]


def _order_rows(
    one: ContrastedText, by_order: dict[str, float], others: dict[str, float] | None
) -> list[dict[str, Any]]:
    tokens = len(one.text.places)
    return [
        {
            "part": ORDER,
            "order": order,
            "tokens": tokens,
            "text_log_p": log_p,
            "contrast_log_p": None if others is None else others[order],
            "forward_passes": tokens * (1 if others is None else 2),
        }
        for order, log_p in by_order.items()
    ]
