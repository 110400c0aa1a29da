"""Constructions measured on many masked examples.

    corpus -> masks:    sentences in hashed order, two tokens of each masked: an example
           -> kind:     an example -> a result row per construction: tables once, all metrics
           -> run:      a folder of parts, as of every job; its plan and rows are read back
           -> summary:  rows -> means with errors, and paired differences; by distance too
           -> tables:   summaries -> columns and cells, with what explains them
           -> rendering, figures: text, Markdown, LaTeX and CSV; pictures

`reporting` combines several runs, and rejects those that are not comparable. From rows on, no model
is needed. What a program needs is here by name, imported when first used.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

if TYPE_CHECKING:
    from unmask.evaluation.request import EvaluationRequest as EvaluationRequest
    from unmask.evaluation.request import evaluate as evaluate
    from unmask.evaluation.run import read_run as read_run
    from unmask.jobs.folder import Shard as Shard
    from unmask.jobs.model_source import ModelSource as ModelSource

_HOMES = {
    "unmask.evaluation.request": ("EvaluationRequest", "evaluate"),
    "unmask.evaluation.run": ("read_run",),
    "unmask.jobs.folder": ("Shard",),
    "unmask.jobs.model_source": ("ModelSource",),
}
__all__, __getattr__ = lazy_names(__name__, _HOMES)
