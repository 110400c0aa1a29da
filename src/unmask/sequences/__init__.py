"""Whole texts scored by a masked language model: by themselves, or in pairs.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

if TYPE_CHECKING:
    from unmask.names import PAIR_METHODS, TEXT_METHODS
    from unmask.sequences.blimp import read_blimp
    from unmask.sequences.minimal_pairs import accuracies, accuracy
    from unmask.sequences.outputs import to_dicts, to_pandas
    from unmask.sequences.scores import LogRatio, TextScore, WordScore
    from unmask.sequences.scoring import log_ratios, score_texts
    from unmask.sequences.unmasking import ORDERS
    from unmask.sequences.word_pairs import PairScore, score_pairs

_HOME = {
    "LogRatio": "scores",
    "ORDERS": "unmasking",
    "PAIR_METHODS": "scoring",
    "PairScore": "word_pairs",
    "TEXT_METHODS": "scoring",
    "TextScore": "scores",
    "WordScore": "scores",
    "accuracies": "minimal_pairs",
    "accuracy": "minimal_pairs",
    "log_ratios": "scoring",
    "read_blimp": "blimp",
    "score_pairs": "word_pairs",
    "score_texts": "scoring",
    "to_dicts": "outputs",
    "to_pandas": "outputs",
}

__all__ = [
    "ORDERS",
    "PAIR_METHODS",
    "TEXT_METHODS",
    "LogRatio",
    "PairScore",
    "TextScore",
    "WordScore",
    "accuracies",
    "accuracy",
    "log_ratios",
    "read_blimp",
    "score_pairs",
    "score_texts",
    "to_dicts",
    "to_pandas",
]


__getattr__ = lazy_names(__name__, _HOME)
