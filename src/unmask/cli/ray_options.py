"""The options of `unmask evaluate` for a Ray cluster."""

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from unmask.errors import UnmaskError

if TYPE_CHECKING:
    from unmask.evaluation.executors.local import Executor
    from unmask.evaluation.request import Request


def add_ray(parser: argparse.ArgumentParser) -> None:
    """Which cluster, and how much of it."""
    add = parser.add_argument_group("Ray").add_argument
    add(
        "--ray",
        metavar="ADDRESS",
        help="run on a Ray cluster: auto (RAY_ADDRESS, or the one on this machine), local (started "
        "for this run), or an address such as 10.0.0.5:6379 (default: run in this process)",
    )
    add(
        "--workers",
        type=int,
        metavar="N",
        help="number of processes on the cluster, each with its own model (default: one per GPU; "
        "without GPUs as many as the CPUs allow)",
    )
    add(
        "--cpus-per-worker",
        type=int,
        metavar="N",
        help="CPUs and threads per process (default: 1)",
    )
    add(
        "--patience",
        type=float,
        metavar="SECONDS",
        help="how long to wait while the cluster has no room for a worker, for example while nodes "
        "start (default: 120; 900 with --workers)",
    )


def check(chosen: argparse.Namespace) -> None:
    """Reject options that have no effect, and a wait that never ends."""
    for name in ("workers", "cpus_per_worker", "patience"):
        if getattr(chosen, name) is not None and chosen.ray is None:
            option = f"--{name.replace('_', '-')}"
            raise UnmaskError(f"{option} is for a cluster; give --ray auto, local or an address")
    if chosen.patience is not None and not 0 < chosen.patience < math.inf:
        raise UnmaskError(f"--patience takes seconds, a number above 0, not {chosen.patience:g}")


def planned(request: "Request", chosen: argparse.Namespace) -> "Request":
    """The request for this process: with a cluster it only plans, and needs no GPU."""
    if chosen.ray is None:
        return request
    return replace(request, model=replace(request.model, device="cpu"))


@contextmanager
def executor(request: "Request", chosen: argparse.Namespace) -> "Iterator[Executor | None]":
    """The cluster, if one is requested."""
    if chosen.ray is None or chosen.dry_run:
        yield None
        return

    from unmask.evaluation.executors.ray_cluster import Cluster, RayExecutor

    cpus = 1 if chosen.cpus_per_worker is None else chosen.cpus_per_worker
    cluster = Cluster(
        address=chosen.ray,
        workers=chosen.workers,
        cpus_per_worker=cpus,
        patience=chosen.patience,
    )
    with RayExecutor(request.model, cluster) as found:
        yield found
