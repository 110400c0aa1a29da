"""Constructions measured on many masked examples: corpora, runs that resume, and their numbers.

What a program needs is here by name, imported when first used: a request is prepared, evaluated
into a folder, read back and reported.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

if TYPE_CHECKING:
    from unmask.evaluation.reports.figures import frontier_points as frontier_points
    from unmask.evaluation.reports.reporting import report as report
    from unmask.evaluation.request import EvaluationRequest as EvaluationRequest
    from unmask.evaluation.request import evaluate as evaluate
    from unmask.evaluation.request import prepare as prepare
    from unmask.evaluation.run import copy_run as copy_run
    from unmask.evaluation.run import read_run as read_run
    from unmask.jobs.model_source import ModelSource as ModelSource
    from unmask.jobs.shards import Shard as Shard

__all__, __getattr__ = lazy_names(__name__)
