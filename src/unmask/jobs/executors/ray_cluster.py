"""Jobs done by the workers of a Ray cluster; this process only plans and counts.

A cluster is joined, never configured: nodes, network and access are its owner's business. Nothing
is reported to Ray's makers, and nothing is shown of Ray's own messages, but what ends a run.
"""

import os
import signal
import socket
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from unmask.arguments import whole_number
from unmask.errors import UnmaskError
from unmask.jobs.executors.ray_pool import PATIENCE, Pool
from unmask.jobs.executors.ray_workers import RayTransport, WorkerResources
from unmask.jobs.executors.task import Task
from unmask.jobs.model_source import ModelSource
from unmask.model.devices import GPU
from unmask.printable import describe, quoted

AUTO, LOCAL = "auto", "local"
_SECONDS_TO_PROBE = 10.0
# a requested number of workers may need nodes that are only then started
_PATIENCE_FOR_WORKERS = 900.0
_FIX = "start one with `ray start --head`, give the address of one, or choose local"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster and a part of it: by default as many workers as there is room for.

    `address` is "auto" (that of RAY_ADDRESS, or the one that runs on this machine), "local" (one on
    this machine, for as long as the run takes) or where a head node listens. Without `wait`, in
    seconds, it waits two minutes for a place, and a quarter of an hour for `workers`.
    """

    address: str = AUTO
    workers: int | None = None
    cpus_per_worker: int = 1
    wait: float | None = None

    def __post_init__(self) -> None:
        """Reject what is not an address or a whole number."""
        if not isinstance(self.address, str) or not self.address.strip():
            raise UnmaskError(
                f"a cluster is {AUTO}, {LOCAL} or an address such as 10.0.0.5:6379, not"
                f" {quoted(self.address)}"
            )
        for name in ("workers", "cpus_per_worker"):
            value = getattr(self, name)
            if value is not None and (whole_number(value) is None or value < 1):
                raise UnmaskError(f"{name} is a whole number from 1, not {quoted(value)}")


class RayExecutor:
    """A Ray cluster, joined for as long as the context lasts."""

    def __init__(self, source: ModelSource, cluster: Cluster | None = None) -> None:
        self._source, self._cluster = with_whole_path(source), cluster or Cluster()
        waits = _PATIENCE_FOR_WORKERS if self._cluster.workers else PATIENCE
        self._patience = self._cluster.wait or waits
        self._ray: Any = None
        self._held = ExitStack()

    def __enter__(self) -> Self:
        """Join the cluster, or start one."""
        self._ray, joined = connect(self._cluster.address)
        if joined:
            self._held.callback(self._ray.shutdown)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave, with every worker ended; a cluster that was started for this ends as well."""
        self._held.close()
        self._ray = None

    def run(self, task: Task, jobs: Iterable[Any]) -> Generator[Any, None, None]:
        """The outcome of every job, as they come."""
        transport = self._transport(task)
        workers = self._workers(transport.needs)
        yield from Pool(transport, workers, task.give_up, patience=self._patience).run(jobs)

    def _workers(self, needs: WorkerResources) -> int:
        return self._cluster.workers or capacity(self._ray.nodes(), needs)

    def _transport(self, task: Task) -> RayTransport:
        if self._ray is None:
            raise UnmaskError("a RayExecutor works inside its context: with RayExecutor(...) as it")
        nodes = self._ray.nodes()
        gpus = any(one["Alive"] and one["Resources"].get("GPU", 0) >= 1 for one in nodes)
        source = on_workers(self._source, gpus=gpus)
        needs = WorkerResources(self._cluster.cpus_per_worker, gpus=int(source.device == GPU))
        transport = RayTransport(self._ray, source, task, needs)
        self._held.callback(transport.close)
        return transport


def with_whole_path(source: ModelSource) -> ModelSource:
    """The source for processes that have another working directory."""
    folder = os.path.expanduser(source.place)
    return replace(source, place=os.path.abspath(folder)) if os.path.isdir(folder) else source


def on_workers(source: ModelSource, *, gpus: bool) -> ModelSource:
    """The source for a worker, whose own GPU is the only one it sees."""
    device = source.device or (GPU if gpus else "cpu")
    if device.startswith(GPU) and not gpus:
        raise UnmaskError(f"no node of the cluster has a GPU for the device {quoted(device)}")
    return replace(source, device=GPU if device.startswith(GPU) else device)


def capacity(nodes: Sequence[dict[str, Any]], needs: WorkerResources) -> int:
    """How many workers fit on the living nodes, were there nothing else on them."""
    wanted = {name: n for name, n in (("CPU", needs.cpus), ("GPU", needs.gpus)) if n}
    workers = sum(
        min(int(node["Resources"].get(name, 0) // n) for name, n in wanted.items())
        for node in nodes
        if node["Alive"]
    )
    if not workers:
        gpu = " and a GPU" if needs.gpus else ""
        raise UnmaskError(
            f"no node of the cluster has {needs.cpus} CPUs{gpu} for a worker; give fewer"
            " cpus_per_worker=, or workers= if the cluster grows on demand"
        )
    return workers


def connect(address: str) -> tuple[Any, bool]:
    """Ray itself, and whether it was connected here; any failure is one line.

    A program that is connected already stays so, whatever the address.
    """
    # before Ray is imported, which is when it reads them
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # whatever `log_to_driver` says, Ray reports dead workers on stdout, which is for data
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")
    try:
        import ray
    except ImportError:
        raise UnmaskError("a cluster needs Ray: pip install 'unmask[ray]'") from None
    if ray.is_initialized():
        return ray, False
    _probe(os.environ.get("RAY_ADDRESS", AUTO) if address == AUTO else address)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical"}
    if address == LOCAL:
        options["include_dashboard"] = False
    with _restored_signals():
        try:
            ray.init(address=address, **options)
        except Exception as error:  # Ray raises whatever its parts raise
            if address == AUTO and isinstance(error, ConnectionError):
                raise UnmaskError(f"no Ray cluster runs on this machine; {_FIX}") from None
            why = describe(error)
            raise UnmaskError(f"cannot use Ray at {quoted(address)}: {why}") from None
    return ray, True


def _probe(address: str) -> None:
    """Where nothing listens, Ray would try for minutes, and print about it."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS_TO_PROBE).close()
    except (OSError, OverflowError) as error:
        raise UnmaskError(
            f"no Ray cluster answers at {quoted(address)} ({describe(error)}); {_FIX}"
        ) from None


@contextmanager
def _restored_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself; result rows that are not saved yet need ours."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # only the main thread may, and only there Ray takes it
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
