"""Several questions about a text whose answers should agree: pairs of blanks, orders.

Of every text two pairs of words are masked: one of neighbours, one drawn from all pairs. Words are
tokens with a letter or a digit, and whole words where there are such: punctuation and halves of
words are poor questions. If the model's conditionals came from one joint, filling one blank first
or the other would give the same probability (Wagner, Slavutsky & Abend 2024), and the distribution
of a blank with both masked would be the mean of its conditionals over the other blank (Young, Chen
& You 2022 compare and average such conditionals). And a text has as many log-probabilities as there
are orders of unmasking it.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.arguments import check_flags, check_numbers
from unmask.constructions import DEFAULT_METHOD, construct
from unmask.constructions.incompatibility import agreement
from unmask.errors import MethodError
from unmask.model.row_reader import RowReader
from unmask.names import CONSISTENCY_PASSES, ORDERS_DRAWN
from unmask.queries.joint_model import JointModel
from unmask.queries.sketched import joints_at
from unmask.sequences.texts import TokenisedText, tokenised_or_reasons
from unmask.sequences.unmasking import random_unmasking
from unmask.settings import Settings, Sketch
from unmask.tables.pair_tables import PairTables
from unmask.tables.proposals import AUTO, resolved
from unmask.tables.stationary import stationary_law
from unmask.text.cloze import Cloze

# two neighbours, and any two words; an order of unmasking
ADJACENT, ANY = PAIRS = ("adjacent", "random")
ORDER = "order"
# digits of a text's digest: enough that no two texts share one
_DIGITS = 16
# what every row holds, with its Arrow type
TOKENS = ("first_token", "second_token")
LOG_PROBS = ("text_log_p", "contrast_log_p")
COLUMNS = {
    **dict.fromkeys(("text_id", "part"), "string"),
    **dict.fromkeys(("first", "second", "distance"), "int64"),
    **dict.fromkeys(TOKENS, "string"),
    **dict.fromkeys(("incompatibility", "mutual_information", "marginal_divergence"), "double"),
    **dict.fromkeys(("first_then_second", "second_then_first", "independent"), "double"),
    **dict.fromkeys(("pseudo_gibbs", "log_pool", "ensemble"), "double"),
    **dict.fromkeys(LOG_PROBS, "double"),
    "order": "string",
    **dict.fromkeys(("tokens", "forward_passes"), "int64"),
}


@dataclass(frozen=True, kw_only=True)
class ConsistencyOptions:
    """The number of random orders, and the estimation of the joints of two blanks.

    A large vocabulary is estimated from `max_passes` forward passes per pair, unless `exact`. The
    `seed` decides the blanks, the orders and the estimates.
    """

    orders: int = ORDERS_DRAWN
    max_passes: int = CONSISTENCY_PASSES
    seed: int = 0
    exact: bool = False

    def __post_init__(self) -> None:
        """Reject what cannot be measured."""
        check_numbers(orders=self.orders, seed=self.seed)
        check_flags(exact=self.exact)
        if self.orders < 2:
            raise MethodError("orders is a number from 2: a single order has no spread")
        Sketch(None, self.max_passes, self.seed)

    def sketch(self, lm: JointModel) -> Sketch | None:
        """The sketch by which joints are estimated; None where the whole vocabulary runs."""
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
    every = tokenised_or_reasons(lm, [text or "" for pair in texts for text in pair])
    items: list[ContrastedText | str] = []
    for text, contrast in zip(every[::2], every[1::2], strict=True):
        if isinstance(text, str):
            items.append(text)
        elif not _neighbours(text, _words(lm, text)):
            items.append("the text has no two neighbouring words")
        else:
            other = None if isinstance(contrast, str) else contrast
            is_alike = other is not None and len(other.places) == len(text.places)
            items.append(ContrastedText(text, other if is_alike else None))
    return items


def measured(
    lm: JointModel, one: ContrastedText, options: ConsistencyOptions, settings: Settings
) -> list[dict[str, Any]]:
    """The rows of a text: one per pair of blanks, one per order of unmasking."""
    pairs = [_pair(lm, one, part, options, settings) for part in PAIRS]
    orders = _orders(RowReader(lm.model, settings), one, options)
    every = dict.fromkeys(COLUMNS) | {"text_id": one.id}
    return [{**every, **row} for row in [*pairs, *orders]]


# of words, by rank among the tokens, their first and last letter, counted over the text: the same
# with every tokenizer that keeps a word whole
Letters = dict[int, tuple[int, int]]


def _words(lm: JointModel, text: TokenisedText) -> Letters:
    """Tokens that are whole words; where no two of them are neighbours, pieces of words too."""
    letters = [sum(map(str.isalnum, lm.tokenizer.decode([token]))) for token in text.tokens]
    ends = enumerate(zip(text.tokens, letters, accumulate(letters), strict=True))
    unknown = lm.tokenizer.unk_token_id
    every = {n: (end - size, end) for n, (token, size, end) in ends if size and token != unknown}
    whole = {word.first for word in text.words if word.last - word.first == 1} & every.keys()
    words = {n: every[n] for n in sorted(whole)}
    return words if _neighbours(text, words) else every


def _neighbours(text: TokenisedText, words: Letters) -> list[tuple[int, ...]]:
    return [(a, b) for a, b in pairwise(words) if text.places[b] == text.places[a] + 1]


def masked_pair(lm: JointModel, text: TokenisedText, part: str, seed: int) -> Cloze:
    """The text with its two blanks.

    Those whose letters hash to the smallest number, so that in most texts models with different
    tokenizers have the same blanks.
    """
    words = _words(lm, text)

    def drawn(*ranks: int) -> bytes:
        about = (seed, part, text.text, *(words[rank] for rank in ranks))
        return hashlib.sha256(repr(about).encode()).digest()

    if part == ADJACENT:
        ranks = min(_neighbours(text, words), key=lambda pair: drawn(*pair))
    else:
        ranks = tuple(sorted(sorted(words, key=drawn)[:2]))
    places = tuple(text.places[rank] for rank in ranks)
    ids = [lm.model.mask_id if place in places else token for place, token in enumerate(text.ids)]
    gold = tuple(text.ids[place] for place in places)
    return Cloze(text.text, tuple(ids), places, gold, unknown=text.unknown)


def _pair(
    lm: JointModel, item: ContrastedText, part: str, options: ConsistencyOptions, settings: Settings
) -> dict[str, Any]:
    cloze, sketch = masked_pair(lm, item.text, part, options.seed), options.sketch(lm)
    first, second = map(item.text.places.index, cloze.positions)
    a, b = cloze.gold or ()
    tables = lm.tables(cloze, support="vocabulary", settings=settings)
    if sketch is None:
        tables.both()
        pool, passes = construct(DEFAULT_METHOD, tables), 1 + sum(tables.shape)
    else:
        # another one per text, so that the errors of a mean cancel
        sketch = replace(sketch, seed=(sketch.seed + int(item.id, 16)) % 2**63)
        joints, pair = joints_at({DEFAULT_METHOD: {}}, tables, sketch, (a, b), replicates=0)
        pool, tables, passes = joints[DEFAULT_METHOD], pair.tables(), pair.forward_passes
    # of a sketch, true tokens are in the head, where masses are probabilities
    i, j = tables.supports[0].index(a), tables.supports[1].index(b)
    return {
        "part": part,
        "first": first,
        "second": second,
        "distance": second - first,
        "first_token": tables.supports[0].names[i],
        "second_token": tables.supports[1].names[j],
        **_pair_measures(tables, (i, j)),
        "mutual_information": pool.mutual_information(base_two=True),
        "log_pool": pool.log_prob(a, b),
        "forward_passes": passes,
    }


def _pair_measures(tables: PairTables, cell: tuple[int, int]) -> dict[str, float | None]:
    """J, and log-probabilities of the true tokens, computed in ways that should agree.

    `ensemble` is the mean of four joints: fill either blank first, by its own distribution or by
    the mean of its conditionals.
    """
    i, j = cell
    law, agreed = stationary_law(tables), agreement(tables)
    row = slice(i, i + 1)
    a_given_b, b_given_a = (float(tables.log_given_others(t, row)[0, j]) for t in (0, 1))
    masked = tables.masked.log_a.double(), tables.masked.log_b.double()
    means = _mean_conditionals(tables)
    direct, mixed = (
        (float(log_a[i]) + b_given_a, float(log_b[j]) + a_given_b)
        for log_a, log_b in (masked, means)
    )
    # where pseudo-Gibbs sampling settles, both orders have an even share
    gibbs = a_given_b + float(law.log_b[j]), b_given_a + float(law.log_a[i])
    return {
        "incompatibility": None if agreed is None else agreed.bits,
        "marginal_divergence": sum(map(_divergence, masked, means)) / 2,
        "first_then_second": direct[0],
        "second_then_first": direct[1],
        "independent": float(masked[0][i] + masked[1][j]),
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
        of_a[rows] = torch.logsumexp(tables.log_given_others(0, rows) + log_b, dim=1)
        part = torch.logsumexp(tables.log_given_others(1, rows) + log_a[rows, None], dim=0)
        of_b = torch.logaddexp(of_b, part)
    return of_a, of_b


def _divergence(log_p: Float[Tensor, " size"], log_q: Float[Tensor, " size"]) -> float:
    """The Jensen-Shannon divergence in bits."""
    middle = torch.logaddexp(log_p, log_q) - math.log(2)
    total = sum(float((log_part.exp() * (log_part - middle)).sum()) for log_part in (log_p, log_q))
    return max(0.0, total / 2 / math.log(2))


def _orders(
    reader: RowReader, item: ContrastedText, options: ConsistencyOptions
) -> list[dict[str, Any]]:
    """By order the log-probability of the text, and that of its contrast."""
    texts = [text for text in (item.text, item.contrast) if text is not None]
    drawn = random_unmasking(reader, texts, orders=options.orders, seed=options.seed)
    tokens = len(item.text.places)
    shared = {"part": ORDER, "tokens": tokens, "forward_passes": tokens * len(texts)}
    return [
        {**shared, "order": f"{ANY}-{rank}", **dict(zip(LOG_PROBS, logs, strict=False))}
        for rank, logs in enumerate(zip(*drawn, strict=True), 1)
    ]
