"""Options that commands with much to do share: a Ray cluster, and an orderly end."""

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

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

    def __post_init__(self) -> None:
        """Reject values that no cluster takes, and options that have no effect."""
        if self.ray is None:
            why = "is for a cluster; give --ray auto, local or an address"
            options.reject(self, ("workers", "cpus_per_worker"), why)
        elif not self.ray.strip():
            raise UnmaskError(
                f"a cluster is auto, local or an address such as 10.0.0.5:6379, not "
                f"{quoted(self.ray)}"
            )
        if self.cpus_per_worker is not None and self.cpus_per_worker < 1:
            raise UnmaskError(f"cpus_per_worker is a number from 1, not {self.cpus_per_worker}")
        if self.workers is not None:
            self._count(self.workers)

    def _count(self, text: str) -> tuple[int, int]:
        """The least and the most workers."""
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", text)
        least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= least <= most:
            raise UnmaskError(f"workers is a number from 1, or two as 4-64, not {quoted(text)}")
        return least, most

    @contextmanager
    def joined(self, source: "ModelSource") -> "Iterator[RayWorkers | None]":
        """The workers of the cluster, if one is requested; it is joined at once."""
        if self.ray is None:
            yield None
            return

        from unmask.jobs.ray_workers import RayWorkers, joined

        count, cpus = self.workers and self._count(self.workers), self.cpus_per_worker or 1
        with joined(self.ray):
            yield RayWorkers(source=source, count=count or None, cpus_per_worker=cpus)


@contextmanager
def leaving_in_order() -> Iterator[None]:
    """End with everything saved on SIGTERM, which batch systems send before they kill."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
