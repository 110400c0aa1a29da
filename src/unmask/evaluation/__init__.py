"""Constructions measured on many masked examples: corpora, runs that resume, and their numbers.

What a program needs is here by name, imported when first used: a request is prepared, evaluated
into a folder, read back and reported.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

if TYPE_CHECKING:
    from unmask.evaluation.reports.frontier_points import frontier_points
    from unmask.evaluation.reports.reporting import report
    from unmask.evaluation.request import Request, evaluate, prepare
    from unmask.evaluation.store.publishing import copy_run
    from unmask.evaluation.store.run_folder import read_run
    from unmask.evaluation.store.shards import Shard
    from unmask.evaluation.worker import ModelSource

_HOME = {
    "ModelSource": "worker",
    "Request": "request",
    "Shard": "store.shards",
    "copy_run": "store.publishing",
    "evaluate": "request",
    "frontier_points": "reports.frontier_points",
    "prepare": "request",
    "read_run": "store.run_folder",
    "report": "reports.reporting",
}

__all__ = [
    "ModelSource",
    "Request",
    "Shard",
    "copy_run",
    "evaluate",
    "frontier_points",
    "prepare",
    "read_run",
    "report",
]


__getattr__ = lazy_names(__name__, _HOME)
