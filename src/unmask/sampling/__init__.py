"""Samples of any number of blanks: block Gibbs over pairs, and how far its chains have mixed.

What a program needs is here by name, imported when first used. Nothing here knows a tokenizer.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unmask.sampling.convergence import bulk_ess, r_hat
    from unmask.sampling.gibbs import sample_blanks
    from unmask.sampling.samples import Draw, Frequency, Samples

_HOME = {
    "Draw": "samples",
    "Frequency": "samples",
    "Samples": "samples",
    "bulk_ess": "convergence",
    "r_hat": "convergence",
    "sample_blanks": "gibbs",
}

__all__ = ["Draw", "Frequency", "Samples", "bulk_ess", "r_hat", "sample_blanks"]


def __getattr__(name: str) -> object:
    """Import a name's module when the name is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'unmask.sampling' has no attribute {name!r}")
    return getattr(import_module(f"unmask.sampling.{_HOME[name]}"), name)
