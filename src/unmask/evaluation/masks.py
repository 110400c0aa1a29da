"""The two tokens of a sentence that are masked: the same for every construction and machine.

Which sentences come first, and which of their tokens are masked, follows from a hash of the seed,
the kind of mask and the sentence's id. So a longer list begins with the shorter one, and a
sentence keeps its blanks whatever else is in the corpus.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from unmask.arguments import whole_number
from unmask.errors import CorpusError
from unmask.language_model import LanguageModel
from unmask.model.masked_lm import first_blank
from unmask.printable import quoted
from unmask.queries.joint_model import read_cloze
from unmask.records.corpora import Sentence
from unmask.text.candidates import Candidates
from unmask.text.cloze import Cloze, unknown_parts
from unmask.text.spans import Span, span_of_place, trimmed

# neighbours, or any two tokens
MASKS = ("contiguous", "random")


@dataclass(frozen=True)
class MaskedPair:
    """A sentence with two of its tokens masked; `cloze.gold` holds those tokens.

    `spans` are the characters that the two tokens stand for, without white space; None if the
    tokenizer keeps no offsets. `gold_bytes` counts those characters' bytes in UTF-8.
    """

    id: str
    sentence_id: str
    mask: str
    cloze: Cloze
    spans: tuple[Span, Span] | None
    gold_bytes: int


@dataclass(frozen=True)
class Examples:
    """Masked pairs in hashed order, and the sentences rejected before the last, by reason."""

    pairs: tuple[MaskedPair, ...]
    refused: Mapping[str, int]


def examples(
    lm: LanguageModel,
    sentences: Iterable[Sentence],
    *,
    mask: str,
    limit: int,
    seed: int = 0,
    support: Candidates = "vocabulary",
) -> Examples:
    """The first `limit` examples that this model can take; fewer if there are no more.

    A pair whose tokens are not both in the `support` has no probability there, and is rejected.
    """
    if mask not in MASKS:
        raise CorpusError(f"a mask is {' or '.join(map(quoted, MASKS))}, not {quoted(mask)}")
    if (whole_number(limit) or 0) < 1:
        raise CorpusError(f"limit is a whole number from 1, not {quoted(limit)}")
    if whole_number(seed) is None:
        raise CorpusError(f"seed is a whole number, not {quoted(seed)}")
    allowed = frozenset(lm.support(support).ids.tolist())
    # a word that the vocabulary does not know is an ordinary word of the text
    special = frozenset(lm.tokenizer.all_special_ids) - {lm.tokenizer.unk_token_id}
    pairs: list[MaskedPair] = []
    refused: Counter[str] = Counter()
    for sentence in sorted(sentences, key=lambda sentence: _hash(seed, mask, sentence.id)):
        masked = _masked(lm, sentence, mask, seed, special)
        if isinstance(masked, str):
            refused[masked] += 1
        elif not allowed >= set(masked.cloze.gold or ()):
            refused["a masked token is outside the support"] += 1
        else:
            pairs.append(masked)
        if len(pairs) == limit:
            break
    return Examples(tuple(pairs), refused)


def _masked(
    lm: LanguageModel, sentence: Sentence, mask: str, seed: int, special: Set[int]
) -> MaskedPair | str:
    """The sentence with two blanks, or why it cannot be an example for this model."""
    tokenizer, text = lm.tokenizer, sentence.text
    try:
        encoding = tokenizer(text, verbose=False, return_offsets_mapping=tokenizer.is_fast)
    except Exception:  # a vocabulary without an unknown token fails on an unknown word
        return "not tokenizable"
    ids, first = list(encoding["input_ids"]), first_blank(lm.model)
    if tokenizer.mask_token_id in ids:
        return "holds a mask token"
    # the limit of `lm.cloze`
    if lm.max_length is not None and len(ids) > lm.max_length:
        return "too long"
    places = [p for p, token in enumerate(ids) if p >= first and token not in special]
    blanks = _blanks(places, mask, _hash(seed, mask, sentence.id, "blanks"))
    if blanks is None:
        return "too short"
    offsets, spans, gold = encoding.get("offset_mapping"), None, [ids[place] for place in blanks]
    blank_spans: tuple[Span | None, ...] = (None,)
    if offsets is None:
        parts = [tokenizer.decode([token]).strip() for token in gold]
    else:
        left, right = (trimmed(text, tuple(offsets[place])) for place in blanks)
        spans, blank_spans = (left, right), tuple(span_of_place(p, text, offsets) for p in blanks)
        # a character that both tokens share counts once
        parts = [text[place] for place in sorted({*range(*left), *range(*right)})]
    for place in blanks:
        ids[place] = tokenizer.mask_token_id
    blanked = Cloze(
        text,
        tuple(ids),
        tuple(blanks),
        tuple(gold),
        spans=None if None in blank_spans else tuple(filter(None, blank_spans)),
        # counted where examples are drawn: one warning per sentence of a corpus would be too many
        unknown=unknown_parts(text, ids, tokenizer),
    )
    cloze, covered = read_cloze(lm, blanked), sum(len(part.encode()) for part in parts)
    return MaskedPair(f"{sentence.id}/{mask}", sentence.id, mask, cloze, spans, covered)


def _blanks(places: Sequence[int], mask: str, number: int) -> list[int] | None:
    """Two places, uniform over neighbours or over unordered pairs, as the number falls.

    None if there are too few. The remainder of a 64-bit number by n favours some outcomes by less
    than n / 2^64, which no experiment could notice. Published results depend on this derivation:
    it must not change.
    """
    if mask == "contiguous":
        # a special token may be between two places
        starts = [low for low, high in pairwise(places) if high == low + 1]
        return [starts[number % len(starts)] + step for step in (0, 1)] if starts else None
    if len(places) < 2:
        return None
    first, second = number % len(places), (number // len(places)) % (len(places) - 1)
    second += second >= first
    return [places[i] for i in sorted((first, second))]


def _hash(*parts: object) -> int:
    # a hash and not a random generator: it is the same in every library, version and order
    hashed = "\x00".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(hashed).digest()[:8], "big")
