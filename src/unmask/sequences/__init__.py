"""Whole texts scored by a masked language model: by themselves, or in pairs.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

if TYPE_CHECKING:
    from unmask.names import PAIR_METHODS as PAIR_METHODS
    from unmask.names import TEXT_METHODS as TEXT_METHODS
    from unmask.sequences.blimp import read_blimp as read_blimp
    from unmask.sequences.minimal_pairs import accuracies as accuracies
    from unmask.sequences.minimal_pairs import accuracy as accuracy
    from unmask.sequences.outputs import to_dicts as to_dicts
    from unmask.sequences.outputs import to_pandas as to_pandas
    from unmask.sequences.scores import LogRatio as LogRatio
    from unmask.sequences.scores import TextScore as TextScore
    from unmask.sequences.scores import WordScore as WordScore
    from unmask.sequences.scoring import log_ratios as log_ratios
    from unmask.sequences.scoring import score_texts as score_texts
    from unmask.sequences.unmasking import ORDERS as ORDERS
    from unmask.sequences.word_pairs import PairScore as PairScore
    from unmask.sequences.word_pairs import score_pairs as score_pairs

__all__, __getattr__ = lazy_names(__name__)
