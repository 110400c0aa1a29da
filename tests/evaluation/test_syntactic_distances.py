"""Syntactic distances: on parses made by hand, then with spaCy's own model."""

from collections.abc import Iterable, Iterator

import pytest
from evaluation_rows import a_row
from hypothesis import given
from hypothesis import strategies as st
from syntactic_distances import (
    NO_CHARACTERS,
    NO_OFFSETS,
    NO_WORD,
    TWO_SENTENCES,
    Parse,
    ParsedWord,
    Parser,
    syntactic_distances,
    tree_distance,
)

from unmask.evaluation.rows import ResultRow

# "The small dog barked loudly. It ran", heads by hand: two trees
TEXT = "The small dog barked loudly. It ran"
ENDS = [(0, 3), (4, 9), (10, 13), (14, 20), (21, 27), (27, 28), (29, 31), (32, 35)]
HEADS = [2, 2, 3, 3, 3, 3, 7, 7]
PARSE = [ParsedWord(*ends, head) for ends, head in zip(ENDS, HEADS, strict=True)]


def by_hand(texts: Iterable[str]) -> Iterator[Parse]:
    return (PARSE for _ in texts)


def spans(one: str, other: str) -> tuple[tuple[int, int], tuple[int, int]]:
    first, second = ((TEXT.index(part), TEXT.index(part) + len(part)) for part in (one, other))
    return first, second


def distances(*rows: ResultRow, parse: Parser = by_hand) -> tuple[dict[str, int], dict[str, int]]:
    by_key, apart = syntactic_distances(rows, {row.sentence_id: TEXT for row in rows}, parse)
    return {key[-1]: distance for key, distance in by_key.items()}, dict(apart)


@st.composite
def forests(draw: st.DrawFn) -> list[ParsedWord]:
    """Words of one to three characters with a space between, under heads that make trees."""
    count = draw(st.integers(1, 12))
    order = draw(st.permutations(range(count)))
    heads = list(range(count))
    for place in range(1, count):
        # itself, or a word that came before it in a random order: never a circle
        heads[order[place]] = order[draw(st.integers(0, place))]
    words, start = [], 0
    for head in heads:
        length = draw(st.integers(1, 3))
        words.append(ParsedWord(start, start + length, head))
        start += length + 1
    return words


def edges_by_search(words: Parse, one: int, other: int) -> int | None:
    """Breadth first over undirected edges, knowing nothing of heads and ancestors."""
    near: dict[int, set[int]] = {place: set() for place in range(len(words))}
    for place, word in enumerate(words):
        near[place].add(word.head)
        near[word.head].add(place)
    seen, front, steps = {one}, {one}, 0
    while front:
        if other in front:
            return steps
        front = {place for at in front for place in near[at]} - seen
        seen, steps = seen | front, steps + 1
    return None


@pytest.mark.slow
@given(forests(), st.data())
def test_a_distance_counts_edges(words: list[ParsedWord], data: st.DataObject) -> None:
    places = st.integers(0, len(words) - 1)
    one, other = data.draw(places), data.draw(places)
    distance = tree_distance(words, one, other)
    assert distance == edges_by_search(words, one, other)
    assert distance == tree_distance(words, other, one)
    assert (distance == 0) == (one == other)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (spans("dog", "ran"), TWO_SENTENCES),
        (None, NO_OFFSETS),
        (((3, 3), (4, 9)), NO_CHARACTERS),
        (((0, 3), (4, 4)), NO_CHARACTERS),
        (((3, 4), (4, 9)), NO_WORD),
        (((0, 3), (28, 29)), NO_WORD),
    ],
)
def test_what_has_no_distance_is_counted_apart(given: object, why: str) -> None:
    assert distances(a_row(spans=given)) == ({}, {why: 1})
