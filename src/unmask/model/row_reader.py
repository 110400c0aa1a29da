"""Rows in, the log-probabilities of given tokens out: no distribution is kept.

Logits exist some columns at a time and are folded at once, so that memory does not grow with the
vocabulary, and the output layer is read from memory once a batch. Knows the `MaskedLM` protocol,
nothing of texts and nothing of transformers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.errors import NumericsError
from unmask.logspace import row_blocks
from unmask.model.batch_size import resolve_batch_size
from unmask.model.batches import in_batches
from unmask.model.masked_lm import MaskedLM
from unmask.settings import Settings
from unmask.text.support import Support

Supports = tuple[Support, Support]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one length with two blanks each, and the token to read there, as a place."""

    ids: Int[Tensor, "rows length"]
    positions: Int[Tensor, "rows 2"]
    places: Int[Tensor, "rows 2"]
    read: Bool[Tensor, "rows 2"]

    def __len__(self) -> int:
        """How many rows."""
        return len(self.ids)

    def given(self, blank: int, tokens: Int[Tensor, "rows k"]) -> "Rows":
        """Each token written into one blank of its row, the other blank read: k times the rows."""
        ids, positions, places = (
            part.repeat_interleave(tokens.shape[1], dim=0)
            for part in (self.ids, self.positions, self.places)
        )
        ids.scatter_(1, positions[:, blank, None], tokens.reshape(-1, 1))
        read = torch.tensor([blank == 1, blank == 0]).expand(len(ids), 2)
        return Rows(ids, positions, places, read)


def joined(*several: Rows) -> Rows:
    """One after the other."""
    return Rows(
        torch.cat([rows.ids for rows in several]),
        torch.cat([rows.positions for rows in several]),
        torch.cat([rows.places for rows in several]),
        torch.cat([rows.read for rows in several]),
    )


@dataclass(frozen=True, eq=False)
class Contexts:
    """The likeliest tokens of one blank, as places, and their weights among each other."""

    places: Int[Tensor, "rows k"]
    log_weights: Float[Tensor, "rows k"]


@dataclass(frozen=True, eq=False)
class Readings:
    """What was read at both blanks; where a row was not to be read, zeros."""

    log_probs: Float[Tensor, "rows 2"]
    contexts: tuple[Contexts, Contexts]


class Batches:
    """Rows of many lengths in batches that suit the model; remembers how large they may be."""

    def __init__(
        self, model: MaskedLM, settings: Settings, answered: Callable[[int], object]
    ) -> None:
        self._model, self._settings, self._answered = model, settings, answered
        self._tokens_that_fit: int | None = None

    def run(self, rows: int, length: int, read: Callable[[slice], None]) -> None:
        """Read slices of rows of one length, and say how many are done."""

        def run(batch: slice) -> None:
            read(batch)
            self._answered(batch.stop - batch.start)

        size = min(rows, self._rows_per_batch(length))
        ended = in_batches(rows, size, run)
        if ended < size:
            self._tokens_that_fit = ended * length

    def _rows_per_batch(self, length: int) -> int:
        # lengths are many and rows of each few, so that no size is tried out
        rows = resolve_batch_size(self._model, length, self._settings, rows=0)
        if self._tokens_that_fit is None:
            return rows
        return max(1, min(rows, self._tokens_that_fit // length))


class Reader:
    """Reads both blanks of rows, or one of them."""

    def __init__(
        self,
        model: MaskedLM,
        supports: Supports,
        settings: Settings,
        answered: Callable[[int], object] = lambda rows: None,
    ) -> None:
        self.supports = supports
        self._model = model
        self._batches = Batches(model, settings, answered)
        self._outcomes = _outcomes_by_blank(model, supports)

    def read(self, rows: Rows, contexts: int = 0) -> Readings:
        """Log-probabilities of the given tokens in float64, and so many likeliest ones."""
        a, b = (torch.zeros(len(rows), min(contexts, len(axis))) for axis in self.supports)
        kept = Readings(
            torch.zeros(len(rows), 2, dtype=torch.float64),
            (Contexts(a.long(), a.double()), Contexts(b.long(), b.double())),
        )

        def run(batch: slice) -> None:
            self._read_batch(rows, batch, contexts, kept)

        self._batches.run(len(rows), rows.ids.shape[1], run)
        return kept

    def _read_batch(self, rows: Rows, batch: slice, contexts: int, kept: Readings) -> None:
        device = self._model.device
        readouts = self._readouts(
            rows.ids[batch].to(device), rows.positions[batch], rows.read[batch]
        )
        require_finite(torch.isfinite(readouts).all())
        for blanks, outcomes in self._outcomes:
            row, blank = (rows.read[batch] & blanks).nonzero(as_tuple=True)
            if not len(row):
                continue
            log_probs, likeliest = folded(
                readouts[row.to(device), blank.to(device)],
                outcomes,
                rows.places[batch][row, blank, None],
                contexts,
            )
            kept.log_probs[batch][row, blank] = log_probs[:, 0].cpu()
            log_weights = torch.log_softmax(likeliest.logits.double(), dim=1).cpu()
            for which in blanks.nonzero()[:, 0].tolist():
                mine, found = blank == which, kept.contexts[which]
                found.places[batch][row[mine]] = likeliest.places.cpu()[mine]
                found.log_weights[batch][row[mine]] = log_weights[mine]

    def _readouts(self, ids: Tensor, positions: Tensor, read: Tensor) -> Float[Tensor, "rows 2 _"]:
        """Readouts at both blanks; a model trims its work where one blank of each row is read."""
        if not bool((read.sum(dim=1) == 1).all()):
            return self._model.readouts(ids, positions)
        one = positions.gather(1, read.long().argmax(dim=1, keepdim=True))
        readouts = self._model.readouts(ids, one)
        # at the blank that is not read it stands for nothing
        return readouts.expand(-1, 2, -1)


# --- logits, some columns at a time ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The tokens that a place may take: readouts in, some of their logits out."""

    size: int
    weight: Float[Tensor, "size width"] | None
    bias: Float[Tensor, " size"] | None
    ids: Int[Tensor, " size"] | None

    def logits(
        self, readouts: Float[Tensor, "rows width"], columns: slice
    ) -> Float[Tensor, "rows columns"]:
        """Logits of consecutive tokens, where float64 exists."""
        if self.weight is None:
            logits = readouts[:, columns if self.ids is None else self.ids[columns]]
        elif self.bias is None:
            logits = readouts @ self.weight[columns].T
        else:
            logits = torch.addmm(self.bias[columns], readouts, self.weight[columns].T)
        return logits if logits.device.type in ("cpu", "cuda") else logits.cpu()


def _outcomes_by_blank(
    model: MaskedLM, supports: Supports
) -> list[tuple[Bool[Tensor, " 2"], Outcomes]]:
    """One for both blanks if they share a support, so that the weights are read once."""
    a, b = supports
    if a is b or torch.equal(a.ids, b.ids):
        return [(torch.tensor([True, True]), _outcomes_of(model, a))]
    return [
        (torch.tensor([True, False]), _outcomes_of(model, a)),
        (torch.tensor([False, True]), _outcomes_of(model, b)),
    ]


def _outcomes_of(model: MaskedLM, support: Support) -> Outcomes:
    whole = every_outcome(model)
    if support.is_whole(model.vocabulary_size):
        return whole
    ids = support.ids.to(model.device)
    if whole.weight is None:
        return Outcomes(len(support), None, None, ids)
    bias = None if whole.bias is None else whole.bias[ids]
    return Outcomes(len(support), whole.weight[ids], bias, None)


def every_outcome(model: MaskedLM) -> Outcomes:
    """All outputs of a model, in the order of their ids."""
    layer, size = model.output_embedding, model.vocabulary_size
    if layer is None:
        return Outcomes(size, None, None, None)
    return Outcomes(size, layer.weight, layer.bias, None)


@dataclass(frozen=True, eq=False)
class Likeliest:
    """The likeliest tokens so far, in the order of their places."""

    logits: Float[Tensor, "rows k"]
    places: Int[Tensor, "rows k"]

    def with_more(self, logits: Float[Tensor, "rows more"], start: int, k: int) -> "Likeliest":
        """The k likeliest of these and of the tokens that follow them; of equals, the first."""
        more = torch.arange(start, start + logits.shape[1], device=logits.device)
        values = torch.cat([self.logits, logits], dim=1)
        places = torch.cat([self.places, more.expand(len(logits), -1)], dim=1)
        # which of equals topk takes is not defined, but the least value that it takes is
        best = values.topk(min(k, values.shape[1]), dim=1).values
        above, level = values > best[:, -1:], values == best[:, -1:]
        room = best.shape[1] - above.sum(dim=1, keepdim=True)
        chosen = above | (level & (level.cumsum(dim=1) <= room))
        return Likeliest(values[chosen].view(best.shape), places[chosen].view(best.shape))


def likeliest(logits: Float[Tensor, "rows size"], k: int) -> Likeliest:
    """The k likeliest of each row, in the order of their places; of equals, the first."""
    nothing = logits.new_empty(len(logits), 0)
    return Likeliest(nothing, nothing.long()).with_more(logits, 0, k)


def folded(
    readouts: Float[Tensor, "rows width"],
    outcomes: Outcomes,
    places: Int[Tensor, "rows given"],
    contexts: int = 0,
) -> tuple[Float[Tensor, "rows given"], Likeliest]:
    """Logits of the given tokens minus the log-sum-exp of all, and so many likeliest tokens."""
    device = readouts.device if readouts.device.type == "cuda" else torch.device("cpu")
    places, none = places.to(device), torch.empty(len(places), 0, device=device)
    peak = torch.full(places.shape[:1], -torch.inf, device=device)
    total = torch.zeros_like(peak, dtype=torch.float64)
    given = torch.zeros(places.shape, device=device)
    likeliest = Likeliest(none, none.long())
    for columns in row_blocks(outcomes.size, len(places)):
        tile = outcomes.logits(readouts, columns)
        highest = torch.maximum(peak, tile.amax(dim=1))
        # the lowest too: minus infinity leaves no trace in a sum of exponentials
        require_finite(torch.isfinite(highest - tile.amin(dim=1)).all())
        inside = (places >= columns.start) & (places < columns.stop)
        at = (places - columns.start).clamp(0, tile.shape[1] - 1)
        given = torch.where(inside, tile.gather(1, at), given)
        if contexts:
            likeliest = likeliest.with_more(tile, columns.start, contexts)
        # Exponentials in float32: to round a difference d of logits costs a part 2**-24 d of its
        # term, over all terms at most 2**-24 log V of the sum, and exp itself costs 2**-23; that
        # is below 1e-6 up to V = 10**6, and measured below 1e-7. The sum is taken in float64.
        rest = tile.sub_(highest[:, None]).exp_().sum(dim=1, dtype=torch.float64)
        total = total * (peak.double() - highest).exp() + rest
        peak = highest
    return given.double() - (peak + total.log())[:, None], likeliest


def require_finite(finite: Tensor) -> None:
    """Refuse what a model returned if it is not all numbers."""
    if not bool(finite):
        raise NumericsError(
            "the model returned values that are not finite; float16 overflows in some models, "
            "so try float32, and check the weights"
        )
