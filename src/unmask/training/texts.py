"""Texts as ids: those to learn from, those held out, and batches of them.

Every random choice has a generator of its own, seeded by a hash of what it is for; so nothing of
the past need be kept to go on from any step.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.errors import CorpusError
from unmask.language_model import LanguageModel
from unmask.model.masked_lm import first_blank

# as many texts are held out, but no more than one in twenty
_HELD_OUT, _SHARE = 1000, 20
# that a tokenizer is given at once
_CHUNK = 1000


@dataclass(frozen=True)
class Texts:
    """Token ids of the texts that fit the model; the others are counted by reason."""

    training: list[list[int]]
    held_out: list[list[int]]
    left_out: Mapping[str, int]
    digest: str


@dataclass(frozen=True, eq=False)
class Batch:
    """Texts of nearly one length, padded, with nothing masked yet."""

    ids: Int[Tensor, "rows length"]
    attention: Int[Tensor, "rows length"]

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self.ids)

    def first(self, count: int) -> "Batch":
        """The first of its texts."""
        return Batch(self.ids[:count], self.attention[:count])


def number(*parts: object) -> int:
    """A seed from a hash of its purpose; torch takes 64 bits with a sign."""
    hashed = "\x00".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(hashed).digest()[:8], "big") >> 1


def generator(*parts: object) -> torch.Generator:
    """Random numbers for one purpose."""
    return torch.Generator().manual_seed(number(*parts))


def ordinary_tokens(lm: LanguageModel) -> Bool[Tensor, " vocabulary"]:
    """Of every outcome, whether it is an ordinary token: not special, and with a name."""
    tokenizer: Any = lm.tokenizer
    special = {*tokenizer.all_special_ids, *lm.model.special_ids}
    named = set(tokenizer.get_vocab().values()) - special
    return torch.tensor([token in named for token in range(lm.model.vocabulary_size)])


def read_texts(lm: LanguageModel, texts: Iterable[str], without: Iterable[str] = ()) -> Texts:
    """Tokenise, leave out what cannot be used, and hold some out by a hash of the text."""
    excluded = {_letters(text) for text in without}
    left_out: Counter[str] = Counter()
    seen: set[str] = set()
    kept: list[str] = []
    for text in texts:
        key = text.strip()
        if not key or key in seen:
            left_out["repeated" if key else "empty"] += 1
        elif excluded and _letters(key) in excluded:
            left_out["in the corpora to be left out"] += 1
        else:
            kept.append(key)
        seen.add(key)
    sequences = sorted(
        (hashlib.sha256(text.encode()).digest(), ids) for text, ids in _fitting(lm, kept, left_out)
    )
    if len(sequences) < 2:
        why = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        raise CorpusError(
            f"{len(sequences)} of {len(seen):,} texts can be learnt from"
            f"{' (left out: ' + why + ')' if why else ''}; 2 are the least, one to be held out"
        )
    # the first in the order of a hash: which they are does not depend on the order of the corpus
    count = min(_HELD_OUT, max(1, len(sequences) // _SHARE))
    digest = hashlib.sha256(b"".join(key for key, _ in sequences)).hexdigest()
    ids = [one for _, one in sequences]
    return Texts(ids[count:], ids[:count], dict(left_out), digest)


def _letters(text: str) -> str:
    """A text without case and punctuation."""
    return "".join(ch for ch in text.casefold() if ch.isalnum())


def _fitting(
    lm: LanguageModel, texts: Sequence[str], left_out: Counter[str]
) -> Iterator[tuple[str, list[int]]]:
    ordinary = set(ordinary_tokens(lm).nonzero().flatten().tolist())
    longest = lm.model.max_length
    for start in range(0, len(texts), _CHUNK):
        some = texts[start : start + _CHUNK]
        for text, ids in zip(some, _tokenised(lm.tokenizer, some), strict=True):
            if ids is None:
                left_out["not tokenizable"] += 1
            elif longest is not None and len(ids) > longest:
                left_out["longer than the model takes"] += 1
            elif lm.model.mask_id in ids:
                left_out["with a mask token"] += 1
            elif ordinary.isdisjoint(ids[first_blank(lm.model) :]):
                left_out["without a known token"] += 1
            else:
                yield text, ids


def _tokenised(tokenizer: Any, texts: Sequence[str]) -> list[list[int] | None]:
    call: Callable[..., Mapping[str, Any]] = tokenizer
    try:
        return list(call(list(texts), verbose=False)["input_ids"])
    except Exception:  # a vocabulary without an unknown token fails on an unknown word
        if len(texts) == 1:
            return [None]
        return [_tokenised(tokenizer, [text])[0] for text in texts]


def batch_places(
    texts: Sequence[Sequence[int]], tokens: int, draw: torch.Generator, *, pad: bool
) -> list[list[int]]:
    """Every text once, in batches of at most so many padded tokens (or one text), shuffled.

    Texts of a length come in random order; lengths are cut at the same places every time, so every
    epoch has as many batches. Without padding a batch has texts of one length.
    """
    order = torch.randperm(len(texts), generator=draw).tolist()
    order.sort(key=lambda place: len(texts[place]))
    groups: list[list[int]] = []
    for place in order:
        length = len(texts[place])
        full = not groups or (len(groups[-1]) + 1) * length > tokens
        if full or not (pad or length == len(texts[groups[-1][0]])):
            groups.append([])
        groups[-1].append(place)
    return [groups[place] for place in torch.randperm(len(groups), generator=draw).tolist()]


def padded(texts: Sequence[Sequence[int]], padding: int) -> Batch:
    """Texts as one tensor, on the right of them padding that is not attended to."""
    longest = max(map(len, texts))
    ids = torch.tensor([[*one, *[padding] * (longest - len(one))] for one in texts])
    lengths = torch.tensor([len(one) for one in texts])
    return Batch(ids, (torch.arange(longest) < lengths[:, None]).long())
