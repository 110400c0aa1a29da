"""Continued masked-LM training on one's own text, with a penalty on answers that contradict.

A `Tuning` says how; `tune` trains a copy of a model, survives kills, and leaves an ordinary Hugging
Face folder. Names are imported when first used.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

if TYPE_CHECKING:
    from unmask.training.penalties import compatibility_penalty as compatibility_penalty
    from unmask.training.penalties import marginal_divergence as marginal_divergence
    from unmask.training.record import Evaluation as Evaluation
    from unmask.training.tuning import Tuning as Tuning
    from unmask.training.work import Tuned as Tuned
    from unmask.training.work import tune as tune

__all__, __getattr__ = lazy_names(__name__)
