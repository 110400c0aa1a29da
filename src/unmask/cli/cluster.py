"""Options that commands with much to do share: a Ray cluster, and an orderly end."""

import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from unmask.cli import options
from unmask.cli.command import option
from unmask.errors import UnmaskError

if TYPE_CHECKING:
    from unmask.jobs.executors.local import Executor
    from unmask.jobs.model_source import ModelSource


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """A cluster that the work runs on."""

    GROUP = "Ray"

    ray: str | None = option(
        "run on a Ray cluster: auto (RAY_ADDRESS, or the one on this machine), local (started for "
        "this run), or an address such as 10.0.0.5:6379 (default: run in this process)",
        "ADDRESS",
    )
    workers: int | None = option(
        "number of processes on the cluster, each with its own model (default: one per GPU; "
        "without GPUs, as many as the CPUs allow)",
        "N",
    )
    cpus_per_worker: int | None = option("CPUs and threads per process (default: 1)", "N")
    wait: float | None = option(
        "how long to wait while the cluster has no room for a worker, for example while nodes "
        "start (default: 120; 900 with --workers)",
        "SECONDS",
    )


def check(chosen: RayOptions) -> None:
    """Reject options that have no effect, and a wait that never ends."""
    if chosen.ray is None:
        why = "is for a cluster; give --ray auto, local or an address"
        options.reject(chosen, ("workers", "cpus_per_worker", "wait"), why)
    if chosen.wait is not None and not 0 < chosen.wait < math.inf:
        raise UnmaskError(f"--wait takes seconds, a number above 0, not {chosen.wait:g}")


@contextmanager
def executor(chosen: RayOptions, source: "ModelSource") -> "Iterator[Executor | None]":
    """The cluster, if one is requested."""
    if chosen.ray is None:
        yield None
        return

    from unmask.jobs.executors.ray_cluster import Cluster, RayExecutor

    cpus = 1 if chosen.cpus_per_worker is None else chosen.cpus_per_worker
    cluster = Cluster(
        address=chosen.ray,
        workers=chosen.workers,
        cpus_per_worker=cpus,
        wait=chosen.wait,
    )
    with RayExecutor(source, cluster) as ray:
        yield ray


@contextmanager
def leaving_in_order() -> Iterator[None]:
    """End with everything saved on SIGTERM, which batch systems send before they kill."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
