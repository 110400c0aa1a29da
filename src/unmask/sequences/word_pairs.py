"""Two words in the two blanks of a text, for a list of items: how likely they are together.

By `orders` the forward passes of many items run together, in batches of equal length. Other
constructions need tables, and run hundreds of passes for each item. An item that cannot be scored
has a reason in place of its numbers, and the others go on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from unmask.constructions import METHOD_WITHOUT_TABLES, method_name
from unmask.errors import ClozeError, MethodError, SupportError, UnmaskError
from unmask.joints.joint import Joint
from unmask.joints.lazy_orders import log_mean_over_orders, sets_before
from unmask.lazy import Guessable
from unmask.model.row_reader import RowReader
from unmask.model.shapes import Shape, run_by_shape
from unmask.printable import printable, quoted
from unmask.queries.filled_sets import read_steps
from unmask.queries.joint_model import JointModel, read_cloze
from unmask.queries.sketched import check_sketched, joints_at
from unmask.settings import Settings, Sketch
from unmask.tables.proposals import AUTO, resolved
from unmask.text.cloze import Cloze
from unmask.text.read_ahead import ReadAhead
from unmask.text.spans import span_of_word
from unmask.text.unknown_tokens import check_known, warn_of_texts
from unmask.text.word_pieces import pieces_in_context

# items that are read, and by orders run, together
ITEMS_AT_ONCE = 512
_PARTS = ("text", "first word", "second word")
Places = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PairScore(Guessable):
    """How likely two words are together in the two blanks of a text; natural logarithms.

    `log_p` is log p(first, second), given that each blank has as many pieces as its word.
    `pmi` is that of the joint; `orders`, which does not know its own marginals, has `association`
    instead: `log_p` against each word's log-probability while the other is masked.
    `incompatibility` is J, in bits, None if no tables were made. The errors are standard errors,
    None if nothing was estimated. If there is a `reason`, there are no numbers.

    Examples:
        >>> (score,) = lm.pairs([("Two [MASK] are [MASK].", "dogs", "running")])
        >>> round(score.log_p_1_given_2, 2), score.forward_passes
        (-1.24, 3)
    """

    log_p: float | None = None
    log_p_1_given_2: float | None = None
    log_p_2_given_1: float | None = None
    pmi: float | None = None
    association: float | None = None
    incompatibility: float | None = None
    log_p_error: float | None = None
    log_p_1_given_2_error: float | None = None
    log_p_2_given_1_error: float | None = None
    pmi_error: float | None = None
    incompatibility_error: float | None = None
    pieces_1: int | None = None
    pieces_2: int | None = None
    unknown_tokens: int | None = None
    forward_passes: int = 0
    reason: str | None = None

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True)
class WordPair:
    """An item that was read: a cloze as wide as its words, and the pieces of both words."""

    cloze: Cloze
    pieces: tuple[int, ...]

    @property
    def widths(self) -> tuple[int, int]:
        """How many pieces each word has."""
        first, second = self.cloze.blank_widths
        return first, second

    @property
    def places(self) -> tuple[Places, Places]:
        """The numbers of the pieces of each word."""
        first, second = self.widths
        return tuple(range(first)), tuple(range(first, first + second))

    def score(self, numbers: Mapping[str, Any], forward_passes: int) -> PairScore:
        """What was found, with what is known of the item."""
        first, second = self.widths
        return PairScore(
            **numbers,
            pieces_1=first,
            pieces_2=second,
            unknown_tokens=len(self.cloze.unknown),
            forward_passes=forward_passes,
        )


def score_pairs(
    lm: JointModel,
    items: Iterable[Sequence[object]],
    *,
    method: str = METHOD_WITHOUT_TABLES,
    support: str | Sketch = AUTO,
    settings: Settings | None = None,
) -> Iterator[PairScore]:
    """`LanguageModel.pairs` of any number of items.

    Items are read a few hundred at a time, as the scores are iterated over.
    """
    how, source = settings or Settings(), iter(items)
    # what cannot be done is rejected before any item is read
    score_items(lm, [], method=method, support=support, settings=how)

    def scored() -> Iterator[PairScore]:
        while window := list(islice(source, ITEMS_AT_ONCE)):
            parsed = read_items(lm, window, method=method)
            pairs = [one for one in parsed if isinstance(one, WordPair)]
            warn_of_texts(lm.tokenizer, [pair.cloze.unknown for pair in pairs])
            scores = iter(score_items(lm, pairs, method=method, support=support, settings=how))
            yield from (
                PairScore(reason=one) if isinstance(one, str) else next(scores) for one in parsed
            )

    return scored()


def read_items(
    lm: JointModel, items: Iterable[Sequence[object]], *, method: str
) -> list[WordPair | str]:
    """What the model is run on for each item, or why it cannot be: no forward pass."""
    name, given = method_name(method), [_three_parts(item) for item in items]
    ahead = ReadAhead(lm.tokenizer, _texts_to_read(given, lm.tokenizer.mask_token))
    reader = JointModel(lm.model, ahead, name=lm.name)
    one_piece = None if name == METHOD_WITHOUT_TABLES else name
    return [_read_or_reason(reader, item, one_piece) for item in given]


def _texts_to_read(items: Iterable[Sequence[object]], mask: str) -> Iterator[str]:
    """What a tokenizer is going to read of items with blanks: each, and with either word in it."""
    for text, *words in items:
        parts = str(text).split(mask)
        if len(parts) == len(words) + 1:
            yield str(text)
            for blank, word in enumerate(words, start=1):
                yield f"{mask.join(parts[:blank])}{word}{mask.join(parts[blank:])}"


def score_items(
    lm: JointModel,
    pairs: Sequence[WordPair],
    *,
    method: str,
    support: str | Sketch,
    settings: Settings,
) -> list[PairScore]:
    """The scores of items that were read; raises for what cannot be done."""
    name, axes = method_name(method), resolved(support, 2, lm.model.vocabulary_size)
    if isinstance(axes, Sketch):
        check_sketched([name])
    elif axes not in ("tokens", "vocabulary"):
        raise SupportError(
            f"items take support 'auto', 'vocabulary' or a Sketch, not {quoted(support)}: "
            "probabilities given candidates are not comparable across items"
        )
    if name == METHOD_WITHOUT_TABLES:
        return _by_orders(RowReader(lm.model, settings), pairs)
    return [_by_tables(lm, name, axes, settings, pair) for pair in pairs]


# --- what an item says -------------------------------------------------------------------------


def _three_parts(item: Sequence[object]) -> Sequence[object]:
    if isinstance(item, str) or not isinstance(item, Sequence) or len(item) != len(_PARTS):
        raise ClozeError(f"an item is a text and two words, not {quoted(item)}")
    return item


def _read_or_reason(
    lm: JointModel, item: Sequence[object], one_piece: str | None
) -> WordPair | str:
    try:
        pair = read_pair(lm, item)
        if one_piece is not None and pair.widths != (1, 1):
            raise MethodError(_too_wide(item, pair, one_piece))
        return pair
    except UnmaskError as error:
        return str(error)


def read_pair(lm: JointModel, item: Sequence[object]) -> WordPair:
    """The pieces of both words, where they go; an item that cannot be used raises."""
    text, *words = map(_checked, item, _PARTS)
    mask = lm.tokenizer.mask_token
    cloze = (
        read_cloze(lm, text)
        if mask in text
        else read_cloze(lm, text, blanks=_spans(text, words, mask))
    )
    if (count := len(cloze.blank_widths)) != len(words):
        raise ClozeError(f"the text has {count} blank{'s' * (count != 1)}; a pair takes two")
    check_known(lm.tokenizer, cloze.unknown, cloze.ids, "the text")
    each = [
        pieces_in_context(lm.tokenizer, cloze, blank, [word])[0].ids
        for blank, word in enumerate(words)
    ]
    wide = cloze.with_widths([len(pieces) for pieces in each])
    if lm.max_length is not None and len(wide) > lm.max_length:
        raise ClozeError(
            f"the text with both words has {len(wide)} tokens; this model takes at most "
            f"{lm.max_length}"
        )
    return WordPair(wide, tuple(piece for pieces in each for piece in pieces))


def _checked(value: object, part: str) -> str:
    if value is None:
        raise ClozeError(f"there is no {part}")
    if not isinstance(value, str):
        raise ClozeError(f"the {part} is a string, not {quoted(value)}")
    if not value.strip():
        raise ClozeError(f"the {part} is empty")
    return value


def _spans(text: str, words: Sequence[str], mask: str) -> list[tuple[int, int]]:
    try:
        return [span_of_word(word, text) for word in words]
    except ClozeError as error:
        # what follows is advice for a caller who can give spans
        why = str(error).rpartition("; ")[0]
        raise ClozeError(
            f"the text has no {printable(mask)}, and {why}; write {printable(mask)} for each word"
        ) from None


def _too_wide(item: Sequence[object], pair: WordPair, method: str) -> str:
    word, width = next((w, n) for w, n in zip(item[1:], pair.widths, strict=True) if n > 1)
    return (
        f"{quoted(word)} is {width} pieces of this tokenizer, and {method} takes words of one; "
        f"use the method {METHOD_WITHOUT_TABLES}"
    )


# --- by orders ---------------------------------------------------------------------------------


def _by_orders(reader: RowReader, pairs: Sequence[WordPair]) -> list[PairScore]:
    """Forward passes of all pairs together, in batches of equal length."""

    def scores(some: list[WordPair]) -> Iterator[PairScore]:
        first, second = some[0].places
        sets = _sets(first, second)
        pieces = torch.tensor([pair.pieces for pair in some])
        steps = read_steps(reader, [pair.cloze for pair in some], pieces, sets)
        numbers = _numbers(steps, first, second)
        for place, pair in enumerate(some):
            mine = {name: float(values[place]) for name, values in numbers.items()}
            yield pair.score(mine, len(sets))

    def shape_of(pair: WordPair) -> Shape:
        return Shape(len(pair.cloze), rows=len(_sets(*pair.places)), alike=pair.widths)

    with reader.counted(METHOD_WITHOUT_TABLES):
        return run_by_shape(reader, pairs, shape_of, scores)


@cache
def _sets(first: Places, second: Places) -> list[Places]:
    """Every set of pieces to fill in, the fewest first: that of the joint holds most others."""
    asked = [(first + second, ()), (first, second), (second, first), (first, ()), (second, ())]
    every = {one for blanks, given in asked for one in sets_before(blanks, given)}
    return sorted(every, key=lambda one: (len(one), one))


def _numbers(steps: Mapping[Places, Tensor], first: Places, second: Places) -> dict[str, Tensor]:
    log_p = log_mean_over_orders(steps, first + second)
    apart = log_mean_over_orders(steps, first) + log_mean_over_orders(steps, second)
    return {
        "log_p": log_p,
        "log_p_1_given_2": log_mean_over_orders(steps, first, second),
        "log_p_2_given_1": log_mean_over_orders(steps, second, first),
        # no PMI: those are the model's, and not the marginals of the joint
        "association": log_p - apart,
    }


# --- by tables ---------------------------------------------------------------------------------


def _by_tables(
    lm: JointModel, method: str, axes: object, settings: Settings, pair: WordPair
) -> PairScore:
    first, second = pair.pieces
    if isinstance(axes, Sketch):
        whole = lm.tables(pair.cloze, support="vocabulary", settings=settings)
        joint = joints_at({method: {}}, whole, axes, (first, second))[0][method]
    else:
        joint = lm.joint(pair.cloze, method=method, support="vocabulary", settings=settings)
    if joint.diagnostics.get("converged") is False:
        return PairScore(reason=f"{method} has not converged")
    passes = int(str(joint.diagnostics["forward_passes"]))
    return pair.score(_of_joint(joint, first, second), passes)


def _of_joint(joint: Joint, first: int, second: int) -> dict[str, float | None]:
    """The numbers of a joint, and of a sketch their standard errors."""
    asked: dict[str, Callable[[Joint], float]] = {
        "log_p": lambda one: one.log_prob(first, second),
        "log_p_1_given_2": lambda one: one.conditional(0, given={1: second}).log_prob(first),
        "log_p_2_given_1": lambda one: one.conditional(1, given={0: first}).log_prob(second),
        "pmi": lambda one: one.pmi(first, second),
    }
    agreement = joint.agreement()
    if agreement is not None:
        asked["incompatibility"] = lambda one: one.incompatibility() or 0.0
    numbers: dict[str, float | None] = {name: ask(joint) for name, ask in asked.items()}
    if joint.is_sketched():
        numbers |= {f"{name}_error": joint.standard_error(ask) for name, ask in asked.items()}
    return numbers
