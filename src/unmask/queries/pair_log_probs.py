"""The log-probability of one pair per text, for many texts, by the joints that need few rows.

No table is elicited: rows of all texts run together, in batches of equal length, so that none is
padded.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.constructions import construction
from unmask.constructions.construction import unknown_option
from unmask.errors import ClozeError, MethodError, SupportError, UnmaskError
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import Outcomes, RowReader, Rows, folded
from unmask.model.shapes import Shape, run_by_shape
from unmask.printable import quoted
from unmask.settings import Settings
from unmask.text.cloze import Cloze, Tokenizer
from unmask.text.support import Support, Token
from unmask.text.unknown_tokens import check_known, warn_of_texts

# texts that are sorted by length together: so many that most batches are full
_TEXTS_PER_WINDOW = 2**16
_FOR_ONE = "; for one, give lm.log_prob([text], [pair])"

Supports = tuple[Support, Support]


# --- reading both blanks ---------------------------------------------------------------------


class PairRows(NamedTuple):
    """Rows of one length with two blanks each, and the token to read there, as a place."""

    ids: Int[Tensor, "rows length"]
    positions: Int[Tensor, "rows 2"]
    places: Int[Tensor, "rows 2"]
    read: Bool[Tensor, "rows 2"]


class PairReader:
    """Reads both blanks of rows, or one of them."""

    def __init__(self, model: MaskedLM, supports: Supports, settings: Settings) -> None:
        self.supports, self.rows = supports, RowReader(model, settings)
        a, b = Outcomes.of_each(model, supports)
        both, first, second = [True, True], [True, False], [False, True]
        # one for both blanks if they share a support, so that the weights are read once
        parts = [(both, a)] if a is b else [(first, a), (second, b)]
        self._parts = [(torch.tensor(blanks), outcomes) for blanks, outcomes in parts]

    def read(self, rows: PairRows) -> Float[Tensor, "rows 2"]:
        """Log-probabilities of the given tokens in float64; zeros where none is to be read."""
        log_probs = torch.zeros(len(rows.ids), 2, dtype=torch.float64)

        def fold(batch: slice, readouts: Tensor) -> None:
            for blanks, outcomes in self._parts:
                row, blank = (rows.read[batch] & blanks).nonzero(as_tuple=True)
                if not len(row):
                    continue
                chosen = readouts[row.to(readouts.device), blank.to(readouts.device)]
                places = rows.places[batch][row, blank, None]
                log_probs[batch][row, blank] = folded(chosen, outcomes, places)[0][:, 0].cpu()

        # lengths are many and rows of each few, so that no batch size is tried out
        self.rows.at_blanks(Rows.of(rows.ids), rows.positions, rows.read, fold, batch_for=0)
        return log_probs

    def given(self, rows: PairRows, blank: int) -> PairRows:
        """The pair's own token written into one blank of every row, the other blank read."""
        tokens = self.supports[blank].ids.cpu().long()[rows.places[:, blank, None]]
        ids = rows.ids.scatter(1, rows.positions[:, blank, None], tokens)
        read = torch.tensor([blank == 1, blank == 0]).expand(len(ids), 2)
        return PairRows(ids, rows.positions, rows.places, read)


def joined(*several: PairRows) -> PairRows:
    """One after the other."""
    return PairRows(*map(torch.cat, zip(*several, strict=True)))


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

    Pairs are places on the supports (`places_of`); `method` is "mlm" or "orders". There is
    one cloze of two blanks per pair (`checked_clozes`), taken as it is needed.
    """
    rows, places = rows_per_text(method, supports, options), pairs.cpu()
    reader, texts = PairReader(model, supports, settings), enumerate(clozes)

    def score(some: list[tuple[int, Cloze]]) -> list[float]:
        both_masked = PairRows(
            torch.tensor([cloze.ids for _, cloze in some]),
            torch.tensor([cloze.positions for _, cloze in some]),
            places[[number for number, _ in some]],
            torch.ones(len(some), 2, dtype=torch.bool),
        )
        log_probs: list[float] = _SCORES[method](reader, both_masked).tolist()
        return log_probs

    every: list[float] = []
    with reader.rows.counted(method, total=rows * len(pairs)):
        while window := list(islice(texts, _TEXTS_PER_WINDOW)):
            every += run_by_shape(
                reader.rows, window, lambda text: Shape(len(text[1]), rows=rows), score
            )
    return torch.tensor(every, dtype=torch.float64)


def rows_per_text(
    method: object, supports: Supports, options: Mapping[str, object] | None = None
) -> int:
    """How many rows of the model one text takes; raises for what cannot be scored."""
    if not isinstance(method, str) or method not in _SCORES:
        raise MethodError(
            f"many texts have no method {quoted(method)}; methods: {', '.join(_SCORES)}; "
            "lm.joint(text, method=...).log_prob(...) gives the others"
        )
    for option in options or {}:
        raise MethodError(f"{method} of many texts has no {unknown_option(option, [])}")
    shape = tuple(len(axis) for axis in supports)
    return construction(method).needs(shape, {}).rows(shape)


# --- the joints --------------------------------------------------------------------------------


def _independent(reader: PairReader, texts: PairRows) -> Float[Tensor, " texts"]:
    """m_a(a) m_b(b)."""
    return reader.read(texts).sum(dim=1)


def _orders(reader: PairReader, texts: PairRows) -> Float[Tensor, " texts"]:
    """The mean of m_b(b) A(a|b) and m_a(a) B(b|a)."""
    given = [reader.given(texts, blank) for blank in (0, 1)]
    masked, given_a, given_b = reader.read(joined(texts, *given)).split(len(texts.ids))
    either = torch.logaddexp(masked[:, 1] + given_b[:, 0], masked[:, 0] + given_a[:, 1])
    return either - math.log(2)


_SCORES: dict[str, Callable[[PairReader, PairRows], Tensor]] = {
    "mlm": _independent,
    "orders": _orders,
}


# --- the texts ---------------------------------------------------------------------------------


def places_of(pairs: Sequence[Sequence[Token]], supports: Supports) -> Int[Tensor, "texts 2"]:
    """The place of each token on its axis; an unknown token is named with its text."""
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


def checked_clozes(
    texts: Sequence[str | Cloze],
    pairs: Sized,
    read: Callable[[str | Cloze], Cloze],
    tokenizer: Tokenizer,
) -> Iterator[Cloze]:
    """Clozes of texts, read anew as they are needed; all are checked now, not after hours."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise ClozeError(
            "texts is a list of texts, with a list of pairs, one per text, not "
            f"{quoted(texts)}{_FOR_ONE}"
        )
    if len(texts) != len(pairs):
        raise UnmaskError(
            f"there are {len(texts)} texts but {len(pairs)} pairs; give one pair per text"
        )
    unknown = []
    for number, cloze in enumerate(_clozes(texts, read)):
        check_known(tokenizer, cloze.unknown, cloze.ids, f"text {number}")
        unknown.append(cloze.unknown)
    warn_of_texts(tokenizer, unknown)
    return _clozes(texts, read)


def _clozes(texts: Sequence[str | Cloze], read: Callable[[str | Cloze], Cloze]) -> Iterator[Cloze]:
    for number, text in enumerate(texts):
        try:
            cloze = read(text)
        except ClozeError as error:
            raise ClozeError(f"text {number}: {error}") from None
        if len(cloze.positions) != 2:
            raise ClozeError(f"text {number} has {len(cloze.positions)} blanks; a pair takes two")
        yield cloze
