"""Whole texts scored by a masked language model: by themselves, or in pairs.

What a program needs beside the methods of `LanguageModel`; names are imported when first used.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

if TYPE_CHECKING:
    from unmask.names import PAIR_METHODS as PAIR_METHODS
    from unmask.names import TEXT_METHODS as TEXT_METHODS
    from unmask.sequences.blimp import read_blimp as read_blimp
    from unmask.sequences.minimal_pairs import accuracies as accuracies
    from unmask.sequences.minimal_pairs import accuracy as accuracy
    from unmask.sequences.unmasking import ORDERS as ORDERS

_HOMES = {
    "unmask.names": ("PAIR_METHODS", "TEXT_METHODS"),
    "unmask.sequences.blimp": ("read_blimp",),
    "unmask.sequences.minimal_pairs": ("accuracies", "accuracy"),
    "unmask.sequences.unmasking": ("ORDERS",),
}
__all__, __getattr__ = lazy_names(__name__, _HOMES)
