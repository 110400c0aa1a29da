"""The log-probability of one pair a text, for many texts, by the joints that need few rows.

No table is elicited: rows of all texts run together, in batches of equal length, so that none is
padded.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import islice

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.constructions import construction
from unmask.constructions.construction import unknown_option
from unmask.constructions.sweep import CONTEXTS, FLOOR, check_contexts, check_floor
from unmask.errors import ClozeError, MethodError, SupportError, UnmaskError
from unmask.logspace import row_blocks
from unmask.model.batches import longest_first
from unmask.model.hooks import without_gradients
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import Outcomes, RowReader, Rows, folded
from unmask.printable import quoted
from unmask.settings import Settings
from unmask.text.cloze import Cloze, Tokenizer
from unmask.text.support import Support, Token
from unmask.text.unknown_tokens import check_known, warn_of_texts

# texts that are sorted by length together: so many that most batches are full
_TEXTS_PER_WINDOW = 2**16
# ids of rows written out at a time, 8 bytes each: many batches on a CPU, sixteen on a GPU
_TOKENS_PER_CHUNK = 2**20
_FOR_ONE = "; for one, give lm.log_prob([text], [pair])"


Supports = tuple[Support, Support]


# --- reading both blanks ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairRows:
    """Rows of one length with two blanks each, and the token to read there, as a place."""

    ids: Int[Tensor, "rows length"]
    positions: Int[Tensor, "rows 2"]
    places: Int[Tensor, "rows 2"]
    read: Bool[Tensor, "rows 2"]

    def __len__(self) -> int:
        """How many rows."""
        return len(self.ids)

    def given(self, blank: int, tokens: Int[Tensor, "rows k"]) -> "PairRows":
        """Each token written into one blank of its row, the other blank read: k times the rows."""
        ids, positions, places = (
            part.repeat_interleave(tokens.shape[1], dim=0)
            for part in (self.ids, self.positions, self.places)
        )
        ids.scatter_(1, positions[:, blank, None], tokens.reshape(-1, 1))
        read = torch.tensor([blank == 1, blank == 0]).expand(len(ids), 2)
        return PairRows(ids, positions, places, read)


def joined(*several: PairRows) -> PairRows:
    """One after the other."""
    return PairRows(
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


class PairReader:
    """Reads both blanks of rows, or one of them."""

    def __init__(self, model: MaskedLM, supports: Supports, settings: Settings) -> None:
        self.supports, self.rows = supports, RowReader(model, settings)
        a, b = Outcomes.of_each(model, supports)
        both, first, second = [True, True], [True, False], [False, True]
        # one for both blanks if they share a support, so that the weights are read once
        parts = [(both, a)] if a is b else [(first, a), (second, b)]
        self._parts = [(torch.tensor(blanks), outcomes) for blanks, outcomes in parts]

    def read(self, rows: PairRows, contexts: int = 0) -> Readings:
        """Log-probabilities of the given tokens in float64, and so many likeliest ones."""
        a, b = (torch.zeros(len(rows), min(contexts, len(axis))) for axis in self.supports)
        kept = Readings(
            torch.zeros(len(rows), 2, dtype=torch.float64),
            (Contexts(a.long(), a.double()), Contexts(b.long(), b.double())),
        )

        def fold(batch: slice, readouts: Tensor) -> None:
            self._fold(rows, batch, readouts, contexts, kept)

        # lengths are many and rows of each few, so that no batch size is tried out
        ids = Rows.of(rows.ids)
        self.rows.at_blanks(ids, rows.positions, rows.read, fold, batch_for=0)
        return kept

    def _fold(
        self, rows: PairRows, batch: slice, readouts: Tensor, contexts: int, kept: Readings
    ) -> None:
        device = readouts.device
        for blanks, outcomes in self._parts:
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


@without_gradients
def pair_log_probs(
    model: MaskedLM,
    clozes: Iterable[Cloze],
    pairs: Int[Tensor, "texts 2"],
    supports: Supports,
    settings: Settings,
    *,
    method: str,
    options: Mapping[str, object] | None = None,
) -> Float[Tensor, " texts"]:
    """The log-probability of a pair of tokens in every text, in float64 on the CPU.

    Pairs are places on the supports (`Support.index`); `method` is "mlm", "orders" or "sweep".
    Clozes are taken as they are needed, so that they may come from a generator.
    """
    rows = rows_per_text(method, supports, options)
    _check_pairs(pairs, supports)
    log_probs = torch.empty(len(pairs), dtype=torch.float64)
    reader = PairReader(model, supports, settings)
    with reader.rows.counted(method, total=rows * len(pairs)):
        for where, texts in _equally_long(clozes, pairs.cpu(), rows):
            log_probs[where] = _SCORES[method](reader, texts, **(options or {}))
    return log_probs


def rows_per_text(
    method: object, supports: Supports, options: Mapping[str, object] | None = None
) -> int:
    """How many rows of the model one text takes; refuses what cannot be scored."""
    if not isinstance(method, str) or method not in _SCORES:
        raise MethodError(
            f"many texts have no method {quoted(method)}; methods: {', '.join(_SCORES)}; "
            "lm.joint(text, method=...).log_prob(...) gives the others"
        )
    parameters = inspect.signature(_SCORES[method]).parameters.values()
    chosen = {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    for option, value in (options or {}).items():
        if option not in chosen:
            raise MethodError(f"{method} of many texts has no {unknown_option(option, chosen)}")
        _CHECKS[option](value)
        chosen[option] = value
    shape = tuple(len(axis) for axis in supports)
    return construction(method).needs(shape, chosen).rows(shape)


# --- the joints --------------------------------------------------------------------------------


def _independent(reader: PairReader, texts: PairRows) -> Float[Tensor, " texts"]:
    """m_a(a) m_b(b)."""
    return reader.read(texts).log_probs.sum(dim=1)


def _orders(reader: PairReader, texts: PairRows) -> Float[Tensor, " texts"]:
    """The mean of m_b(b) A(a|b) and m_a(a) B(b|a)."""
    given = [_given(reader, texts, blank, texts.places[:, blank, None]) for blank in (0, 1)]
    masked, given_a, given_b = reader.read(joined(texts, *given)).log_probs.split(len(texts))
    return _log_mean(masked[:, 1] + given_b[:, 0], masked[:, 0] + given_a[:, 1])


def _sweep(
    reader: PairReader, texts: PairRows, *, contexts: int = CONTEXTS, floor: float = FLOOR
) -> Float[Tensor, " texts"]:
    """The mean of r_b(b) A(a|b) and r_a(a) B(b|a).

    r_b is what B makes of the likeliest a, with a floor of m_b under it; r_a likewise.
    """
    masked = reader.read(texts, int(contexts))
    rows = []
    for blank, likeliest in enumerate(masked.contexts):
        # the pair's own token in front of the contexts
        places = torch.cat([texts.places[:, blank, None], likeliest.places], dim=1)
        rows.append(_given(reader, texts, blank, places))
    given_a, given_b = reader.read(joined(*rows)).log_probs.split([len(part) for part in rows])
    log_b_given = given_a[:, 1].view(len(texts), -1)
    log_a_given = given_b[:, 0].view(len(texts), -1)
    log_r_b = _mixed(masked.contexts[0], log_b_given[:, 1:], masked.log_probs[:, 1], floor)
    log_r_a = _mixed(masked.contexts[1], log_a_given[:, 1:], masked.log_probs[:, 0], floor)
    return _log_mean(log_a_given[:, 0] + log_r_b, log_b_given[:, 0] + log_r_a)


def _mixed(
    contexts: Contexts,
    log_given: Float[Tensor, "texts k"],
    log_masked: Float[Tensor, " texts"],
    floor: float,
) -> Float[Tensor, " texts"]:
    swept = torch.logsumexp(contexts.log_weights + log_given, dim=1)
    return torch.logaddexp(math.log1p(-floor) + swept, math.log(floor) + log_masked)


_SCORES: dict[str, Callable[..., Tensor]] = {
    "mlm": _independent,
    "orders": _orders,
    "sweep": _sweep,
}

_CHECKS: dict[str, Callable[[object], None]] = {"contexts": check_contexts, "floor": check_floor}


def _given(
    reader: PairReader, texts: PairRows, blank: int, places: Int[Tensor, "texts k"]
) -> PairRows:
    return texts.given(blank, reader.supports[blank].ids.cpu().long()[places])


def _log_mean(x: Tensor, y: Tensor) -> Tensor:
    return torch.logaddexp(x, y) - math.log(2)


# --- the texts ---------------------------------------------------------------------------------


def _equally_long(
    clozes: Iterable[Cloze], pairs: Int[Tensor, "texts 2"], rows_each: int
) -> Iterator[tuple[Int[Tensor, " chunk"], PairRows]]:
    """Texts of one length, both blanks masked and read, and where they stand among all."""
    source, start = iter(clozes), 0
    while window := list(islice(source, _TEXTS_PER_WINDOW)):
        for place, cloze in enumerate(window):
            _check_cloze(cloze, start + place, len(pairs))
        for length, members in longest_first(enumerate(map(len, window))):
            for chunk in row_blocks(len(members), length * rows_each, _TOKENS_PER_CHUNK):
                chosen = [window[place] for place in members[chunk]]
                where = torch.tensor(members[chunk]) + start
                yield (
                    where,
                    PairRows(
                        torch.tensor([cloze.ids for cloze in chosen]),
                        torch.tensor([cloze.positions for cloze in chosen]),
                        pairs[where],
                        torch.ones(len(chosen), 2, dtype=torch.bool),
                    ),
                )
        start += len(window)
    if start < len(pairs):
        raise UnmaskError(f"there are {start} texts but {len(pairs)} pairs; give one pair a text")


def _check_cloze(cloze: Cloze, place: int, texts: int) -> None:
    if place >= texts:
        raise UnmaskError(f"there are more texts than the {texts} pairs; give one pair a text")
    if len(cloze.positions) != 2:
        raise ClozeError(f"text {place} has {len(cloze.positions)} blanks; a pair takes two")


def _check_pairs(pairs: Int[Tensor, "texts 2"], supports: Supports) -> None:
    for blank, axis in enumerate(supports):
        outside = ((pairs[:, blank] < 0) | (pairs[:, blank] >= len(axis))).nonzero()
        if len(outside):
            text = int(outside[0])
            raise SupportError(
                f"the pair of text {text} has place {int(pairs[text, blank])} for blank {blank}, "
                f"whose support has places 0 to {len(axis) - 1}"
            )


def places_of(
    pairs: Sequence[Sequence[Token]], supports: tuple[Support, Support]
) -> Int[Tensor, "texts 2"]:
    """Where each token stands on its axis; a token that is not there is named with its text."""
    if isinstance(pairs, str) or not isinstance(pairs, Sequence):
        raise UnmaskError(f"pairs is a list of two tokens per text, not {quoted(pairs)}{_FOR_ONE}")
    places = torch.empty(len(pairs), 2, dtype=torch.long)
    for number, pair in enumerate(pairs):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise SupportError(
                f"the pair of text {number} is two tokens, not {quoted(pair)}{_FOR_ONE}"
            )
        for blank, token in enumerate(pair):
            try:
                places[number, blank] = supports[blank].index(token)
            except SupportError as error:
                raise SupportError(f"text {number}, blank {blank}: {error}") from None
    return places


class Clozes:
    """Clozes of texts, read anew each time; all are checked first, before anything is paid for."""

    def __init__(
        self,
        texts: Sequence[str | Cloze],
        pairs: Sized,
        read: Callable[[str | Cloze], Cloze],
        tokenizer: Tokenizer,
    ) -> None:
        if isinstance(texts, str) or not isinstance(texts, Sequence):
            raise ClozeError(
                "texts is a list of texts, with a list of pairs, one per text, not "
                f"{quoted(texts)}{_FOR_ONE}"
            )
        if len(texts) != len(pairs):
            raise UnmaskError(
                f"there are {len(texts)} texts but {len(pairs)} pairs; give one pair a text"
            )
        self._texts, self._read = texts, read
        # the last of a million texts is rejected now, not after hours
        warn_of_texts(tokenizer, [_unknown(tokenizer, n, one) for n, one in enumerate(self)])

    def __iter__(self) -> Iterator[Cloze]:
        """Each in turn; a bad one is named by its number."""
        for number, text in enumerate(self._texts):
            try:
                cloze = self._read(text)
            except ClozeError as error:
                raise ClozeError(f"text {number}: {error}") from None
            if len(cloze.positions) != 2:
                raise ClozeError(
                    f"text {number} has {len(cloze.positions)} blanks; a pair takes two"
                )
            yield cloze


def _unknown(tokenizer: Tokenizer, number: int, cloze: Cloze) -> tuple[str, ...]:
    check_known(tokenizer, cloze.unknown, cloze.ids, f"text {number}")
    return cloze.unknown
