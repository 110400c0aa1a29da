"""From a request to a plan and its examples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from unmask.constructions import default_options
from unmask.corpora.corpus import Corpus
from unmask.errors import CorpusError
from unmask.evaluation.masks import MaskedPair, examples
from unmask.evaluation.plan import Construction, CorpusIdentity, ExampleSelection, sha256
from unmask.language_model import LanguageModel


@dataclass(frozen=True)
class Drawn:
    """Examples in the order in which they are measured, and how they came about."""

    pairs: tuple[MaskedPair, ...]
    draw: ExampleSelection


def draw_examples(
    lm: LanguageModel,
    corpus: Corpus,
    *,
    masks: Sequence[str],
    limit: int,
    seed: int,
    support: str | Sequence[str],
) -> Drawn:
    """At most `limit` examples of every mask that this model can take, masks in turn.

    In turn, so that a run that is stopped early has as many of one as of another.
    """
    found = {
        mask: examples(lm, corpus.sentences, mask=mask, limit=limit, seed=seed, support=support)
        for mask in dict.fromkeys(masks)
    }
    pairs = _in_turn([one.pairs for one in found.values()])
    refused = {mask: dict(sorted(one.refused.items())) for mask, one in found.items()}
    if not pairs:
        raise CorpusError(
            f"no sentence of {corpus.name} can be an example with this model: {_told(refused)}"
        )
    identity = sha256(
        [[one.id, one.cloze.ids, one.cloze.positions, one.cloze.gold] for one in pairs]
    )
    draw = ExampleSelection(
        masks=tuple(found),
        limit=limit,
        seed=seed,
        count=len(pairs),
        digest=identity,
        refused=refused,
    )
    return Drawn(pairs, draw)


def identify_corpus(corpus: Corpus, name: str | None = None) -> CorpusIdentity:
    """The identity of a corpus, under the name that tables will have."""
    return CorpusIdentity(
        name=name or corpus.name, digest=corpus.digest, sentences=len(corpus.sentences)
    )


def constructions(
    methods: Iterable[str], options: Mapping[str, Mapping[str, object]]
) -> tuple[Construction, ...]:
    """Methods with those of their options that are not what they are without."""
    return tuple(Construction(name, _changed(name, options.get(name, {}))) for name in methods)


def _changed(method: str, options: Mapping[str, object]) -> dict[str, object]:
    own = default_options(method)
    return {name: value for name, value in options.items() if own.get(name, ...) != value}


def _in_turn(each: Sequence[Sequence[MaskedPair]]) -> tuple[MaskedPair, ...]:
    longest = max(map(len, each), default=0)
    return tuple(pairs[place] for place in range(longest) for pairs in each if place < len(pairs))


def _told(refused: Mapping[str, Mapping[str, int]]) -> str:
    return "; ".join(
        f"{mask}: " + ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        for mask, reasons in refused.items()
    )
