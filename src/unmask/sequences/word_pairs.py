"""Two words in the two blanks of a text, for a list of items: how likely they are together.

By `mlm` and `orders`, which need no tables, the forward passes of many items run together, in
batches of equal length. Other constructions run hundreds of passes for each item. An item that
cannot be scored has a reason in place of its numbers, and the others go on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.arguments import as_list
from unmask.constructions import METHOD_WITHOUT_TABLES, method_name
from unmask.errors import ClozeError, SupportError, UnmaskError
from unmask.joints.joint import Joint
from unmask.joints.lazy_orders import log_mean_over_orders, sets_before
from unmask.model.row_reader import RowReader
from unmask.model.shapes import Shape, run_by_shape
from unmask.printable import printable, quoted
from unmask.queries.joint_model import JointModel, read_cloze
from unmask.queries.sketched import check_sketched, joints_at
from unmask.results import ModelResult
from unmask.settings import Settings, Sketch
from unmask.tables.proposals import AUTO, resolved
from unmask.text.cloze import Cloze
from unmask.text.read_ahead import ReadAhead
from unmask.text.spans import span_of_word
from unmask.text.unknown_tokens import check_known, warn_of_texts
from unmask.text.word_pieces import pieces_in_context

# constructions that need no tables: a few passes per item, for words of any number of pieces
WITHOUT_TABLES = ("mlm", METHOD_WITHOUT_TABLES)
# items that are read, and without tables run, together
ITEMS_AT_ONCE = 512
_PARTS = ("text", "first word", "second word")
Places = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PairScore(ModelResult):
    """The log-probabilities of two words together in the two blanks of a text, in nats.

    `log_p` is log p(first, second), given that each blank has as many pieces as its word.
    `pmi` is that of the joint; `orders`, which does not know its own marginals, has `association`
    instead: `log_p` against each word's log-probability while the other is masked.
    `incompatibility` is J, in bits, None if no tables were made. The errors are standard errors,
    None if nothing was estimated. If there is a `reason`, there are no numbers.

    Examples:
        >>> (score,) = lm.pairs([("Two [MASK] are [MASK].", "dogs", "running")])
        >>> round(score.log_p_1_given_2, 2), score.method, score.forward_passes
        (-1.24, 'orders', 3)
    """

    method: str
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


@dataclass(frozen=True)
class WordPair:
    """An item that was read: a cloze as wide as its words, and the pieces of both words."""

    cloze: Cloze
    pieces: tuple[int, ...]

    @property
    def widths(self) -> tuple[int, int]:
        """The number of pieces of each word."""
        first, second = self.cloze.blank_widths
        return first, second

    @property
    def places(self) -> tuple[Places, Places]:
        """The numbers of the pieces of each word."""
        first, second = self.widths
        return tuple(range(first)), tuple(range(first, first + second))

    def score(self, method: str, numbers: Mapping[str, Any], forward_passes: int) -> PairScore:
        """The numbers of a construction, with the counts of the item."""
        first, second = self.widths
        return PairScore(
            method=method,
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
) -> list[PairScore]:
    """`LanguageModel.pairs`; items are read and scored a few hundred at a time."""
    if not isinstance(items, Iterable):
        raise ClozeError(f"pairs are items of a text and two words each, not {quoted(items)}")
    source, name = iter(items), method_name(method)
    options: dict[str, Any] = {"support": support, "settings": Settings.of(settings)}
    # what cannot be done is rejected before any item is read
    scores = score_items(lm, [], method=name, **options)
    while window := list(islice(source, ITEMS_AT_ONCE)):
        read = read_items(lm, window, method=name)
        pairs = [item for item in read if isinstance(item, WordPair)]
        warn_of_texts(lm.tokenizer, [pair.cloze.unknown for pair in pairs])
        of_pairs = iter(score_items(lm, pairs, method=name, **options))
        scores += (
            PairScore(method=name, reason=item) if isinstance(item, str) else next(of_pairs)
            for item in read
        )
    return scores


def read_items(
    lm: JointModel, items: Iterable[Sequence[object]], *, method: str
) -> list[WordPair | str]:
    """The pieces of each item, or the reason why it has no score: no forward pass."""
    name, results = method_name(method), list[WordPair | str]()
    parts = [as_list(item) for item in items]
    for item in parts:
        if isinstance(item, str) or not isinstance(item, Sequence) or len(item) != len(_PARTS):
            raise ClozeError(
                f"an item is a text and two words, not {quoted(item)}; give a list of items: "
                "lm.pairs([(text, first, second)])"
            )
    ahead = ReadAhead(lm.tokenizer, _texts_to_read(parts, lm.tokenizer.mask_token))
    reader = JointModel(lm.model, ahead, name=lm.name)
    for item in parts:
        try:
            pair: WordPair | str = read_pair(reader, item)
        except UnmaskError as error:
            pair = str(error)
        if isinstance(pair, WordPair) and pair.widths != (1, 1) and name not in WITHOUT_TABLES:
            word, width = next((w, n) for w, n in zip(item[1:], pair.widths, strict=True) if n > 1)
            pair = (
                f"{quoted(word)} is {width} pieces of this tokenizer, and {name} takes words of "
                f"one; use the method {METHOD_WITHOUT_TABLES}"
            )
        results.append(pair)
    return results


def _texts_to_read(items: Iterable[Sequence[object]], mask: str) -> Iterator[str]:
    """The texts that a tokenizer will read: items with blanks, and with either word in them."""
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
    if name in WITHOUT_TABLES:
        return _without_tables(RowReader(lm.model, settings), name, pairs)
    return [_by_tables(lm, name, axes, settings, pair) for pair in pairs]


# --- what an item says -------------------------------------------------------------------------


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


# --- without tables ----------------------------------------------------------------------------


def _without_tables(reader: RowReader, method: str, pairs: Sequence[WordPair]) -> list[PairScore]:
    """Forward passes of all pairs together, in batches of equal length."""
    by_orders = method == METHOD_WITHOUT_TABLES

    def sets_of(pair: WordPair) -> list[Places]:
        return _sets(*pair.places) if by_orders else [()]

    def scores(alike: list[WordPair]) -> Iterator[PairScore]:
        (first, second), filled_sets = alike[0].places, sets_of(alike[0])
        steps = _read_steps(reader, alike, filled_sets)

        def log_p(pieces: Places, given: Places = ()) -> Tensor:
            if by_orders:
                return log_mean_over_orders(steps, pieces, given)
            # with all pieces masked: neither word says anything about the other
            return steps[()][:, pieces].sum(dim=1)

        numbers = {
            "log_p": log_p(first + second),
            "log_p_1_given_2": log_p(first, second),
            "log_p_2_given_1": log_p(second, first),
        }
        if by_orders:
            # no PMI: the words alone are the model's, and not marginals of the joint
            alone = log_p(first) + log_p(second)
            numbers["association"] = numbers["log_p"] - alone
        else:
            numbers["pmi"] = torch.zeros_like(numbers["log_p"])
        for place, pair in enumerate(alike):
            values = {name: float(column[place]) for name, column in numbers.items()}
            yield pair.score(method, values, len(filled_sets))

    def shape_of(pair: WordPair) -> Shape:
        return Shape(len(pair.cloze), rows=len(sets_of(pair)), alike=pair.widths)

    with reader.counted(method):
        return run_by_shape(reader, pairs, shape_of, scores)


def _read_steps(
    reader: RowReader, pairs: Sequence[WordPair], sets: Sequence[Places]
) -> dict[Places, Float[Tensor, "texts blanks"]]:
    """log q(x_t | x of a set) for every set, t not in it; zeros elsewhere.

    Pairs have one length.
    """
    ids = torch.tensor([pair.cloze.ids for pair in pairs])
    positions = torch.tensor([pair.cloze.positions for pair in pairs])
    tokens = torch.tensor([pair.pieces for pair in pairs])[:, None]
    filled = torch.tensor([[t in places for t in range(tokens.shape[2])] for places in sets])
    words = torch.where(filled, tokens, reader.model.mask_id)
    at = positions[:, None].expand(words.shape)
    rows = ids[:, None].repeat(1, len(sets), 1).scatter_(2, at, words)
    log_probs = reader.token_log_probs(
        rows.flatten(0, 1),
        at.flatten(0, 1),
        tokens.expand(words.shape).flatten(0, 1)[..., None],
        wanted=(~filled).expand(words.shape).flatten(0, 1),
    ).log_probs
    return dict(zip(sets, log_probs.view(words.shape).unbind(dim=1), strict=True))


@cache
def _sets(first: Places, second: Places) -> list[Places]:
    """Every set of pieces to fill in, the fewest first: that of the joint holds most others."""
    queries = [(first + second, ()), (first, second), (second, first), (first, ()), (second, ())]
    sets = {places for blanks, filled in queries for places in sets_before(blanks, filled)}
    return sorted(sets, key=lambda places: (len(places), places))


# --- by tables ---------------------------------------------------------------------------------


def _by_tables(
    lm: JointModel, method: str, axes: object, settings: Settings, pair: WordPair
) -> PairScore:
    first, second = pair.pieces
    if isinstance(axes, Sketch):
        tables = lm.tables(pair.cloze, support="vocabulary", settings=settings)
        joint = joints_at({method: {}}, tables, axes, (first, second))[0][method]
    else:
        joint = lm.joint(pair.cloze, method=method, support="vocabulary", settings=settings)
    if joint.diagnostics.get("converged") is False:
        return PairScore(method=method, reason=f"{method} has not converged")
    passes = int(str(joint.diagnostics["forward_passes"]))
    return pair.score(method, _of_joint(joint, first, second), passes)


def _of_joint(joint: Joint, first: int, second: int) -> dict[str, float | None]:
    """The numbers of a joint, and of a sketch their standard errors."""
    statistics: dict[str, Callable[[Joint], float]] = {
        "log_p": lambda p: p.log_prob(first, second),
        "log_p_1_given_2": lambda p: p.conditional(0, given={1: second}).log_prob(first),
        "log_p_2_given_1": lambda p: p.conditional(1, given={0: first}).log_prob(second),
        "pmi": lambda p: p.pmi(first, second),
    }
    if joint.agreement() is not None:
        statistics["incompatibility"] = lambda p: p.incompatibility() or 0.0
    numbers: dict[str, float | None] = {name: ask(joint) for name, ask in statistics.items()}
    if joint.is_sketched():
        numbers |= {f"{name}_error": joint.standard_error(ask) for name, ask in statistics.items()}
    return numbers
