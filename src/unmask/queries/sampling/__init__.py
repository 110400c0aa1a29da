"""Samples of any number of blanks: block Gibbs over pairs, and how far its chains have mixed.

What a program needs is here by name, imported when first used. Nothing here knows a tokenizer.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

if TYPE_CHECKING:
    from unmask.queries.sampling.convergence import bulk_ess, r_hat
    from unmask.queries.sampling.gibbs import sample_blanks
    from unmask.queries.sampling.samples import Draw, Frequency, Samples

_HOME = {
    "Draw": "samples",
    "Frequency": "samples",
    "Samples": "samples",
    "bulk_ess": "convergence",
    "r_hat": "convergence",
    "sample_blanks": "gibbs",
}

__all__ = ["Draw", "Frequency", "Samples", "bulk_ess", "r_hat", "sample_blanks"]


__getattr__ = lazy_names(__name__, _HOME)
