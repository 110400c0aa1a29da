"""Masked pairs of SNLI sentences, under the names that the runs published so far have used.

All of it is `unmask.evaluation`; here an example goes by its sentence's id, as in published rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import unmask
from unmask.evaluation.masks import MASKS, examples
from unmask.records.corpora import CorpusSpec, read_corpus

__all__ = ["MASKS", "MaskedPair", "masked_pairs", "sentences"]


@dataclass(frozen=True)
class MaskedPair:
    """A sentence by its id, with the two tokens that are masked."""

    id: str
    mask: str
    cloze: unmask.Cloze


def sentences(path: Path) -> dict[str, str]:
    """Distinct sentences by the id of their first occurrence.

    The file is SNLI's JSON lines, or lines of label, premise and hypothesis between tabs.
    """
    return {one.id: one.text for one in read_corpus(CorpusSpec(str(path))).sentences}


def masked_pairs(
    lm: unmask.LanguageModel, path: Path, mask: str, limit: int, seed: int = 0
) -> Iterator[MaskedPair]:
    """The first `limit` sentences in hashed order that this model can take, masked."""
    corpus = read_corpus(CorpusSpec(str(path)))
    for one in examples(lm, corpus.sentences, mask=mask, limit=limit, seed=seed).pairs:
        yield MaskedPair(one.sentence_id, mask, one.cloze)
