"""Options of commands that can run on a Ray cluster."""

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from unmask.errors import UnmaskError

if TYPE_CHECKING:
    from unmask.evaluation.executors import Executor
    from unmask.evaluation.request import Request


def add_ray(parser: argparse.ArgumentParser) -> None:
    """Which cluster, and how much of it."""
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="measure on a Ray cluster: auto (RAY_ADDRESS, or the one on this machine), local "
        "(started for this run), or an address such as 10.0.0.5:6379 (default: in this process)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes on the cluster, one model each (default: one a GPU, without GPUs as many "
        "as there are CPUs for)",
    )
    parser.add_argument(
        "--cpus-per-worker",
        type=int,
        metavar="N",
        help="CPUs and threads of each of them (default: 1)",
    )
    parser.add_argument(
        "--patience",
        type=float,
        metavar="SECONDS",
        help="how long to wait while no worker has a place, as where nodes are started on demand "
        "(default: 120, with --workers 900)",
    )


def check(chosen: argparse.Namespace) -> None:
    """Refuse numbers that are wrong, or of no effect."""
    counts = {"--workers": chosen.workers, "--cpus-per-worker": chosen.cpus_per_worker}
    for option, value in {**counts, "--patience": chosen.patience}.items():
        if value is not None and chosen.ray is None:
            raise UnmaskError(f"{option} is about a cluster; give --ray auto, local or an address")
    for option, value in counts.items():
        if value is not None and value < 1:
            raise UnmaskError(f"{option} takes a whole number from 1, not {value}")
    if chosen.patience is not None and not 0 < chosen.patience < math.inf:
        raise UnmaskError(f"--patience takes seconds, a number above 0, not {chosen.patience:g}")
    if chosen.ray is not None and not chosen.ray.strip():
        raise UnmaskError("--ray takes auto, local or an address such as 10.0.0.5:6379, not ''")


def planned(request: "Request", chosen: argparse.Namespace) -> "Request":
    """The request as this process needs it: beside a cluster, it only plans, and needs no GPU."""
    if chosen.ray is None:
        return request
    return replace(request, model=replace(request.model, device="cpu"))


@contextmanager
def executor(request: "Request", chosen: argparse.Namespace) -> "Iterator[Executor | None]":
    """The cluster, if there is to be one."""
    if chosen.ray is None or chosen.dry_run:
        yield None
        return

    from unmask.evaluation.executors.ray_cluster import Cluster, RayExecutor
    from unmask.evaluation.executors.ray_pool import Limits

    cluster = Cluster(
        address=chosen.ray, workers=chosen.workers, cpus_per_worker=chosen.cpus_per_worker or 1
    )
    limits = None if chosen.patience is None else Limits(patience=chosen.patience)
    with RayExecutor(request.model, cluster, limits=limits) as found:
        yield found
