"""Syntactic distances: on parses made by hand, then with spaCy's own model."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from evaluation_rows import a_row
from hypothesis import given
from hypothesis import strategies as st
from plans import DIGEST, a_plan, a_run

from unmask import UnmaskError
from unmask.evaluation.rows import ResultRow

sys.path.insert(0, str(Path(__file__).parents[2] / "runs"))

from syntactic_distances import (
    NO_CHARACTERS,
    NO_OFFSETS,
    NO_WORD,
    TWO_SENTENCES,
    Parse,
    ParsedWord,
    Parser,
    spacy_parser,
    syntactic,
    syntactic_distances,
    tree_distance,
    word_of,
)

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
    ("one", "other", "distance"),
    [
        ("bar", "ked", 0),
        ("d", "g", 0),
        ("dog", "barked", 1),
        ("The", "small", 2),
        ("The", "loud", 3),
        ("small", ".", 3),
    ],
)
def test_blanks_within_a_word_and_between_words(one: str, other: str, distance: int) -> None:
    assert distances(a_row(spans=spans(one, other))) == ({"s0000/random": distance}, {})


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


def test_a_blank_belongs_to_the_word_that_has_most_of_it() -> None:
    assert word_of((12, 20), PARSE) == 3  # 1 character of "dog", 6 of "barked"
    assert word_of((8, 11), PARSE) == 1  # 1 of "small", 1 of "dog": the first
    assert word_of((26, 28), PARSE) == 4  # "y" and "."
    assert word_of((0, 35), PARSE) == 3
    assert word_of((13, 14), PARSE) is None
    assert word_of((0, 3), []) is None


def test_an_example_counts_once_and_a_text_is_parsed_once() -> None:
    seen: list[str] = []

    def parse(texts: Iterable[str]) -> Iterator[Parse]:
        for one in texts:
            seen.append(one)
            yield PARSE

    rows = [
        a_row(place, construction=name, spans=spans("The", "dog"), sentence_id="same")
        for name in ("mlm", "ag")
        for place in range(3)
    ]
    rows.append(a_row(3, spans=None, sentence_id="same"))
    rows.append(a_row(3, spans=None, sentence_id="same", construction="ag", reason="broken"))
    found, apart = distances(*rows, parse=parse)
    assert found == {f"s{place:04}/random": 1 for place in range(3)}
    assert apart == {NO_OFFSETS: 1}
    assert seen == [TEXT]


def test_texts_must_be_those_that_were_masked() -> None:
    row = a_row(spans=((0, 3), (4, 9)))
    with pytest.raises(UnmaskError, match=r"no text of the sentence 's0000'.*corpus 'snli'"):
        syntactic_distances([row], {"s0001": TEXT}, by_hand)
    with pytest.raises(UnmaskError, match="up to character 9, but the text of 's0000' has 8"):
        syntactic_distances([row], {"s0000": TEXT[:8]}, by_hand)


def test_models_with_other_blanks_are_not_mixed() -> None:
    rows = [
        a_row(spans=spans("The", "dog")),
        a_row(spans=spans("The", "loud"), model="roberta-base"),
    ]
    runs = [a_run(a_plan(), [row]) for row in rows]
    corpora = {DIGEST: {"s0000": TEXT}}
    in_edges, _ = syntactic(runs, corpora, by_hand)
    assert [row.token_distance for run in in_edges for row in run.rows] == [1, 3]
    with pytest.raises(UnmaskError, match="none of the corpora is 'c' as it was measured"):
        syntactic(runs, {}, by_hand)


def test_examples_without_a_distance_are_noted() -> None:
    run = a_run(a_plan(), [a_row(spans=None)])
    (without,), note = syntactic([run], {DIGEST: {"s0000": TEXT}}, by_hand)
    assert without.rows == ()
    assert note.endswith(" Examples left out: 1 the tokenizer keeps no offsets.")


@pytest.fixture(scope="module")
def parse() -> Parser:
    return spacy_parser()


@pytest.mark.slow
def test_spacy_parses_a_sentence(parse: Parser) -> None:
    (words,) = parse([TEXT])
    assert [word[:2] for word in words] == ENDS
    assert tree_distance(words, 0, 2) == tree_distance(words, 2, 3) == 1
    assert tree_distance(words, 3, 7) is None


@pytest.mark.slow
def test_white_space_is_no_word(parse: Parser) -> None:
    # characters beyond the first plane count once
    given = "A  dog \n\n 🎲 runs"
    (words,) = parse([given])
    found = {given[word.start : word.end] for word in words}
    assert found == {"A", "dog", "🎲", "runs", ""}
    assert word_of((1, 3), words) is None
    assert words[word_of((0, 6), words) or 0][:2] == (3, 6)


@pytest.mark.parametrize("model", ["xx_none", "", "no/such; folder"])
def test_a_model_that_is_not_there_is_one_sentence(model: str) -> None:
    with pytest.raises(UnmaskError, match=r"spacy download en_core_web_sm$") as caught:
        spacy_parser(model)
    assert "\n" not in str(caught.value)
