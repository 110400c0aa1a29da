"""A corpus: distinct sentences with ids that stay the same, and a digest to recognise it by.

Knows nothing of files and formats; readers of those hand over occurrences of sentences.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from unmask.errors import CorpusError
from unmask.printable import quoted


@dataclass(frozen=True)
class Sentence:
    """A sentence under the id of its first occurrence."""

    id: str
    text: str


@dataclass(frozen=True)
class Corpus:
    """Distinct sentences in the order of their first occurrence.

    `refused` counts the occurrences that are not among them, by reason: "empty" and "repeated".
    `digest` is the SHA-256 of all ids and texts: where it is the same, so is the corpus.
    """

    name: str
    sentences: tuple[Sentence, ...]
    refused: Mapping[str, int]
    digest: str

    def __len__(self) -> int:
        """How many distinct sentences there are."""
        return len(self.sentences)


class Occurrence(NamedTuple):
    """A value where a sentence should be, the id it would get, and how errors name its place."""

    id: str
    text: object
    where: str


def gather(name: str, shown: str, occurrences: Iterable[Occurrence]) -> Corpus:
    """Every distinct sentence once; `shown` is how errors name the whole corpus."""
    seen: set[str] = set()
    texts: dict[str, str] = {}
    refused = {"empty": 0, "repeated": 0}
    for one in occurrences:
        text = _stripped(one)
        if not text:
            refused["empty"] += 1
        elif text in seen:
            refused["repeated"] += 1
        else:
            _check_id(one, texts)
            seen.add(text)
            texts[one.id] = text
    if not texts:
        if not (empty := refused["empty"]):
            raise CorpusError(f"{shown} is empty; a corpus needs at least one sentence")
        raise CorpusError(
            f"{shown} has no sentence: all {empty} are empty; give columns that hold text"
        )
    sentences = tuple(Sentence(*pair) for pair in texts.items())
    return Corpus(name, sentences, refused, digest(sentences))


def digest(sentences: Iterable[Sentence]) -> str:
    """SHA-256 over ids and texts in their order, each ended by a NUL, which none of them holds."""
    total = hashlib.sha256()
    for sentence in sentences:
        total.update(f"{sentence.id}\x00{sentence.text}\x00".encode())
    return total.hexdigest()


def _stripped(one: Occurrence) -> str:
    if one.text is None:
        # how JSON and Arrow write that there is no text
        return ""
    if not isinstance(one.text, str):
        raise CorpusError(
            f"{one.where} has {quoted(one.text)} ({type(one.text).__name__}) where a sentence "
            "should be; give columns that hold strings"
        )
    _reject_unwritable(one.text, f"{one.where} has a sentence that")
    return one.text.strip()


def _check_id(one: Occurrence, taken: Mapping[str, str]) -> None:
    _reject_unwritable(one.id, f"{one.where} has an id that")
    if one.id in taken:
        raise CorpusError(
            f"{one.where} gives the id {quoted(one.id)} to a second sentence; ids must differ"
        )


def _reject_unwritable(text: str, what: str) -> None:
    # JSON can spell both, and neither has a place in a UTF-8 text
    if "\x00" in text:
        raise CorpusError(f"{what} holds a NUL character; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(
            f"{what} holds half of a surrogate pair at character {error.start}; remove it"
        ) from None
