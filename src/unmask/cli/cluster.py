"""Options that commands with much to do share: a Ray cluster, and an orderly end."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from unmask.cli import options
from unmask.cli.command import option
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.jobs.model_source import ModelSource
    from unmask.jobs.ray_workers import RayWorkers


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """A cluster that the work runs on."""

    GROUP = "Ray"

    ray: str | None = option(
        "run on a Ray cluster: auto (RAY_ADDRESS, or the one on this machine), local (started for "
        "this run), or an address such as 10.0.0.5:6379 (default: run in this process)",
        "ADDRESS",
    )
    workers: str | None = option(
        "number of processes on the cluster, each with its own model, or the least and the most, "
        "as 4-64 (default: one per GPU; without GPUs, as many as the CPUs allow)",
        "N|MIN-MAX",
    )
    cpus_per_worker: int | None = option("CPUs and threads per process (default: 1)", "N")


def check(chosen: RayOptions) -> None:
    """Reject options that have no effect."""
    if chosen.ray is None:
        why = "is for a cluster; give --ray auto, local or an address"
        options.reject(chosen, ("workers", "cpus_per_worker"), why)
    elif not chosen.ray.strip():
        raise UnmaskError(
            f"a cluster is auto, local or an address such as 10.0.0.5:6379, not "
            f"{quoted(chosen.ray)}"
        )
    if chosen.cpus_per_worker is not None and chosen.cpus_per_worker < 1:
        raise UnmaskError(f"cpus_per_worker is a number from 1, not {chosen.cpus_per_worker}")
    _count(chosen.workers)


def _count(text: str | None) -> tuple[int, int] | None:
    """The least and the most workers."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", text)
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= least <= most:
        raise UnmaskError(f"workers is a number from 1, or two as 4-64, not {quoted(text)}")
    return least, most


@contextmanager
def workers(chosen: RayOptions, source: "ModelSource") -> "Iterator[RayWorkers | None]":
    """The workers of the cluster, if one is requested; it is joined at once."""
    if chosen.ray is None:
        yield None
        return

    from unmask.jobs.ray_workers import RayWorkers, joined

    cpus = chosen.cpus_per_worker or 1
    with joined(chosen.ray):
        yield RayWorkers(source=source, count=_count(chosen.workers), cpus_per_worker=cpus)


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
