"""The geometric mean of several orders of filling a text, and its normaliser.

An order s fills a masked text place by place: p_s(x) = prod_i q(x_{s_i} | x_{s_<i}, rest masked),
a distribution over all sequences of the model's outputs of that length, special tokens of the
vocabulary among them; those that the tokenizer puts around the text stay in place. The pool of R
orders is their geometric mean GM over its sum Z.

Z is the mean of GM / AM under the arithmetic mean AM of the orders. AM is drawn from exactly, and
its weights lie in [0, 1] because no geometric mean exceeds the arithmetic one: so a sample gives an
interval that is certified but for the arithmetic of the model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.arguments import real_number, whole_number
from unmask.errors import UnmaskError
from unmask.language_model import LanguageModel
from unmask.logspace import row_blocks
from unmask.printable import quoted
from unmask.sequences.intervals import chernoff_interval
from unmask.sequences.texts import TokenisedText, checked_length, template_of_length
from unmask.sequences.token_rows import TOKENS_PER_CHUNK, TokenReader, token_reader
from unmask.sequences.walks import Walks, drawn_orders, plan_walks
from unmask.settings import Settings

# log-probabilities of samples that are kept at a time, 8 bytes each
_READS_PER_BLOCK = 2**22


# what a person may ask for: more orders or samples than these are a slip of the hand
_LIMITS = {"orders": (1, 10_000), "seed": (0, 2**31 - 1), "samples": (1, 1_000_000)}


@dataclass(frozen=True)
class Sampling:
    """Which orders are pooled, and how their normaliser is estimated."""

    orders: int = 8
    seed: int = 0
    samples: int = 256
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be used."""
        for name, (least, most) in _LIMITS.items():
            count = whole_number(getattr(self, name))
            if count is None or not least <= count <= most:
                value = quoted(getattr(self, name))
                raise UnmaskError(f"{name} is a whole number from {least} to {most:,}, not {value}")
        if not 0 < (real_number(self.confidence) or 0.0) < 1:
            raise UnmaskError(
                f"confidence is a number between 0 and 1, not {quoted(self.confidence)}"
            )


@dataclass(frozen=True, eq=False)
class Normaliser:
    """An estimate of log Z for texts of so many tokens, and an interval that holds it.

    The interval holds log Z with probability `confidence`; its lower end is minus infinity where
    the samples bound Z by nothing that a float64 holds.
    """

    tokens: int
    orders: int
    confidence: float
    log_weights: Float[Tensor, " samples"]
    forward_passes: int
    exact: bool = False

    @property
    def log_z(self) -> float:
        """The logarithm of the mean weight."""
        return float(self.log_weights.logsumexp(dim=0)) - math.log(len(self.log_weights))

    def interval(self, confidence: float | None = None) -> tuple[float, float]:
        """What bounds log Z with this probability; `exact` it is 0."""
        if self.exact:
            return 0.0, 0.0
        mean = min(1.0, math.exp(self.log_z))
        wanted = self.confidence if confidence is None else confidence
        lower, upper = chernoff_interval(mean, len(self.log_weights), wanted)
        return (math.log(lower) if lower > 0 else -math.inf), math.log(upper)


def normaliser(
    lm: LanguageModel,
    tokens: object,
    *,
    orders: int = 8,
    seed: int = 0,
    samples: int = 256,
    confidence: float = 0.95,
    settings: Settings | None = None,
) -> Normaliser:
    """The normaliser of a pool of orders over texts of so many tokens, special ones not counted."""
    how = Sampling(orders, seed, samples, confidence)
    template = template_of_length(lm, checked_length(lm, tokens))
    with token_reader(lm.model, settings or Settings(), "normaliser") as reader:
        return OrderPool(reader, how).normaliser(template)


class OrderPool:
    """Pools by template; what one length needs is made once."""

    def __init__(self, reader: TokenReader, how: Sampling) -> None:
        self.reader, self.how = reader, how
        self._walks: dict[int, Walks] = {}
        self._normalisers: dict[tuple[int, ...], Normaliser] = {}

    def walks(self, tokens: int) -> Walks:
        """The orders of texts of so many tokens: they depend on that, the seed and R alone."""
        if tokens not in self._walks:
            entropy = (self.how.seed, tokens, self.how.orders)
            orders = drawn_orders(tokens, self.how.orders, entropy)
            self._walks[tokens] = plan_walks(orders, rows_by_place=False)
        return self._walks[tokens]

    def log_means(self, texts: Sequence[TokenisedText]) -> list[float]:
        """The mean over orders of every text's log-probability: log GM."""
        by_template: dict[tuple[int, ...], list[int]] = {}
        for number, text in enumerate(texts):
            by_template.setdefault(text.template(self.reader.mask_id), []).append(number)
            self.reader.expect(self.walks(len(text.places)).rows)
        found = torch.empty(len(texts), dtype=torch.float64)
        for template, members in sorted(by_template.items(), key=lambda item: -len(item[0])):
            masked, places = self._layout(template)
            cells = self.walks(len(places)).rows * len(template)
            for chunk in row_blocks(len(members), cells, TOKENS_PER_CHUNK):
                ids = torch.tensor([texts[number].ids for number in members[chunk]])
                found[members[chunk]] = self._log_by_order(ids, masked, places).mean(dim=1)
        return found.tolist()

    def normaliser(self, template: tuple[int, ...]) -> Normaliser:
        """The normaliser of texts with these special tokens and masks."""
        if template not in self._normalisers:
            self._normalisers[template] = self._estimated(template)
        return self._normalisers[template]

    def _estimated(self, template: tuple[int, ...]) -> Normaliser:
        before, samples = self.reader.forward_passes, self.how.samples
        masked, places = self._layout(template)
        walks = self.walks(len(places))
        if len(walks.orders) == 1:
            # one order is a distribution as it stands
            known = torch.zeros(1, dtype=torch.float64)
            return Normaliser(len(places), 1, self.how.confidence, known, 0, exact=True)
        rng = np.random.default_rng([self.how.seed, len(places), self.how.orders, samples])
        order = torch.from_numpy(rng.integers(len(walks.orders), size=samples))
        uniforms = torch.from_numpy(rng.random((samples, len(places))))
        log_weights = torch.empty(samples, dtype=torch.float64)
        for block in row_blocks(samples, len(walks.place_of_read), _READS_PER_BLOCK):
            log_p = self._log_of_drawn(masked, places, order[block], uniforms[block])
            log_arithmetic = log_p.logsumexp(dim=1) - math.log(log_p.shape[1])
            # a geometric mean above the arithmetic one is rounding
            log_weights[block] = (log_p.mean(dim=1) - log_arithmetic).clamp(max=0)
        passes = self.reader.forward_passes - before
        return Normaliser(len(places), len(walks.orders), self.how.confidence, log_weights, passes)

    def _layout(
        self, template: tuple[int, ...]
    ) -> tuple[Int[Tensor, " length"], Int[Tensor, " places"]]:
        masked = torch.tensor(template)
        return masked, (masked == self.reader.mask_id).nonzero()[:, 0]

    def _log_of_drawn(
        self,
        masked: Int[Tensor, " length"],
        places: Int[Tensor, " places"],
        order: Int[Tensor, " samples"],
        uniforms: Float[Tensor, "samples places"],
    ) -> Float[Tensor, "samples orders"]:
        """Log-probabilities by every order of texts that are drawn along one order each."""
        walks = self.walks(len(places))
        ids = masked.repeat(len(order), 1)
        log_q = torch.zeros(len(order), len(walks.place_of_read), dtype=torch.float64)
        unread = torch.ones(log_q.shape, dtype=torch.bool)
        unread.scatter_(1, walks.reads[order], value=False)
        self.reader.expect(
            uniforms.numel()
            + sum(int(unread[:, reads].any(dim=2).sum()) for _, reads in walks.groups)
        )
        for step in range(len(places)):
            at = places[walks.orders[order, step]]
            tokens, log_probs = self.reader.draw(ids, at, uniforms[:, step])
            ids.scatter_(1, at[:, None], tokens[:, None])
            log_q.scatter_(1, walks.reads[order, step, None], log_probs[:, None])
        return self._completed(ids, masked, places, log_q, unread)

    def _log_by_order(
        self,
        ids: Int[Tensor, "texts length"],
        masked: Int[Tensor, " length"],
        places: Int[Tensor, " places"],
    ) -> Float[Tensor, "texts orders"]:
        walks = self.walks(len(places))
        log_q = torch.zeros(len(ids), len(walks.place_of_read), dtype=torch.float64)
        unread = torch.ones(log_q.shape, dtype=torch.bool)
        return self._completed(ids, masked, places, log_q, unread)

    def _completed(
        self,
        ids: Int[Tensor, "texts length"],
        masked: Int[Tensor, " length"],
        places: Int[Tensor, " places"],
        log_q: Float[Tensor, "texts reads"],
        unread: Bool[Tensor, "texts reads"],
    ) -> Float[Tensor, "texts orders"]:
        """Read what is not yet, and add up the log-probability of every text by every order."""
        walks = self.walks(len(places))
        shown = (masked != self.reader.mask_id).repeat(walks.rows, 1)
        shown[:, places] = walks.filled
        for rows, reads in walks.groups:
            text, member = unread[:, reads].any(dim=2).nonzero(as_tuple=True)
            for chunk in row_blocks(len(text), len(masked), TOKENS_PER_CHUNK):
                of, which = text[chunk], reads[member[chunk]]
                at = places[walks.place_of_read[which]]
                written = torch.where(shown[rows[member[chunk]]], ids[of], masked)
                found = self.reader.log_probs(written, at, ids[of].gather(1, at)[:, :, None])
                log_q[of[:, None], which] = found[:, :, 0]
        return log_q[:, walks.reads].sum(dim=2)
