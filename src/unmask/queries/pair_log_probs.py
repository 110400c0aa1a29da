"""The log-probability of one pair per text, for many texts, by the joints that need few rows.

No table is elicited: rows of all texts run together, in batches of equal length, so that none is
padded.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.constructions import construction
from unmask.constructions.construction import unknown_option
from unmask.errors import ClozeError, MethodError, SupportError, UnmaskError
from unmask.joints.lazy_orders import Set, log_mean_over_orders, sets_before
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import RowReader
from unmask.model.shapes import Shape, run_by_shape
from unmask.printable import quoted
from unmask.queries.filled_sets import read_steps
from unmask.settings import Settings
from unmask.text.cloze import Cloze, Tokenizer
from unmask.text.support import Support, Token
from unmask.text.unknown_tokens import check_known, warn_of_texts

# texts that are sorted by length together: so many that most batches are full
_TEXTS_PER_WINDOW = 2**16
_FOR_ONE = "; for one, give lm.log_prob([text], [pair])"

# the joints that need no tables
METHODS = ("mlm", "orders")

Supports = tuple[Support, Support]


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
    reader, texts = RowReader(model, settings), enumerate(clozes)

    def score(some: list[tuple[int, Cloze]]) -> list[float]:
        mine = places[[number for number, _ in some]]
        alone = method == "mlm"
        sets: list[Set] = [()] if alone else sets_before((0, 1))
        steps = read_steps(reader, [cloze for _, cloze in some], mine, sets, supports)
        log_p = steps[()].sum(dim=1) if alone else log_mean_over_orders(steps, (0, 1))
        log_probs: list[float] = log_p.tolist()
        return log_probs

    every: list[float] = []
    with reader.counted(method, total=rows * len(pairs)):
        while window := list(islice(texts, _TEXTS_PER_WINDOW)):
            every += run_by_shape(
                reader, window, lambda text: Shape(len(text[1]), rows=rows), score
            )
    return torch.tensor(every, dtype=torch.float64)


def rows_per_text(
    method: object, supports: Supports, options: Mapping[str, object] | None = None
) -> int:
    """How many rows of the model one text takes; raises for what cannot be scored."""
    if not isinstance(method, str) or method not in METHODS:
        raise MethodError(
            f"many texts have no method {quoted(method)}; methods: {', '.join(METHODS)}; "
            "lm.joint(text, method=...).log_prob(...) gives the others"
        )
    for option in options or {}:
        raise MethodError(f"{method} of many texts has no {unknown_option(option, [])}")
    shape = tuple(len(axis) for axis in supports)
    return construction(method).needs(shape, {}).rows(shape)


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
