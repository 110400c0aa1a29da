"""Whole texts scored by a masked language model: pseudo-log-likelihoods, log-ratios, log-pools.

Names are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unmask.sentences.blimp import read_blimp
    from unmask.sentences.lengths import LengthPrior, read_length_prior
    from unmask.sentences.minimal_pairs import accuracies, accuracy
    from unmask.sentences.order_pool import Normaliser, normaliser
    from unmask.sentences.outputs import to_dicts, to_pandas
    from unmask.sentences.scores import LogRatio, TextScore, WordScore
    from unmask.sentences.scoring import PAIR_METHODS, TEXT_METHODS, log_ratios, score_texts

_HOME = {
    "LengthPrior": "lengths",
    "LogRatio": "scores",
    "Normaliser": "order_pool",
    "PAIR_METHODS": "scoring",
    "TEXT_METHODS": "scoring",
    "TextScore": "scores",
    "WordScore": "scores",
    "accuracies": "minimal_pairs",
    "accuracy": "minimal_pairs",
    "log_ratios": "scoring",
    "normaliser": "order_pool",
    "read_blimp": "blimp",
    "read_length_prior": "lengths",
    "score_texts": "scoring",
    "to_dicts": "outputs",
    "to_pandas": "outputs",
}

__all__ = [
    "PAIR_METHODS",
    "TEXT_METHODS",
    "LengthPrior",
    "LogRatio",
    "Normaliser",
    "TextScore",
    "WordScore",
    "accuracies",
    "accuracy",
    "log_ratios",
    "normaliser",
    "read_blimp",
    "read_length_prior",
    "score_texts",
    "to_dicts",
    "to_pandas",
]


def __getattr__(name: str) -> object:
    """Import a name's module when the name is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'unmask.sentences' has no attribute {name!r}")
    return getattr(import_module(f"unmask.sentences.{_HOME[name]}"), name)
