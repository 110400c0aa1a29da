"""Units done by the workers of a Ray cluster, which Ray Data starts, restarts and feeds.

A cluster is joined, never configured: nodes, network and access are its owner's business. Ray Data
knows blocks of units and retries a block as a whole; a worker skips the units of it that have a
receipt. A unit that always ends its worker is skipped after three deaths, as its note tells.
"""

import logging
import os
import pickle
import signal
import socket
import threading
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from unmask.errors import UnmaskError
from unmask.jobs.counts import counted
from unmask.jobs.folder import Folder
from unmask.jobs.kinds import Kind
from unmask.jobs.model_source import SOFTWARE, ModelSource, check_model
from unmask.jobs.plan import JobPlan
from unmask.jobs.worker import Outcome, Worker, is_of_accelerator
from unmask.model.devices import GPU
from unmask.printable import describe, quoted
from unmask.records.files import Unit

AUTO, LOCAL = "auto", "local"
_BLOCKS_PER_WORKER = 20
# deaths of one worker, and attempts at one block: a bad unit takes three, a cluster has other ones
_RESTARTS, _RETRIES = 30, 30


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster, and how many workers of it: by default as many as there is room for.

    `address` is "auto" (that of RAY_ADDRESS, or the one that runs on this machine), "local" (one on
    this machine, for as long as the run takes) or where a head node listens. `workers` are at least
    and at most so many, each with `cpus_per_worker`.
    """

    address: str = AUTO
    workers: tuple[int, int] | None = None
    cpus_per_worker: int = 1


class RayWorker:
    """A process of the cluster with the model."""

    def __init__(self, source: ModelSource, kind: Kind, folder: Folder, plan: JobPlan) -> None:
        self._folder, self._error = folder, None
        try:
            if plan.software != SOFTWARE:
                why = f"{plan.software} made the plan, and {SOFTWARE} is installed there"
                raise UnmaskError(why)
            self._worker = Worker(source, kind)
            check_model(self._worker.lm, plan.model)
        except Exception as error:  # an actor that does not start is started again, for ever
            self._error = f"{describe(error)} (on node {socket.gethostname()})"

    def __call__(self, row: dict[str, Any]) -> dict[str, bytes]:
        """The outcome of a unit; `ends` the run if no worker could do better."""
        unit, ends = pickle.loads(row["unit"]), self._error is not None
        outcome = Outcome(unit.number, counted(), self._error)
        if not ends:
            try:
                outcome = self._outcome(unit)
            except Exception as error:  # it cannot be written
                if is_of_accelerator(why := describe(error)):
                    os._exit(1)
                outcome, ends = outcome._replace(error=why), True
        return {"outcome": pickle.dumps((outcome, ends))}

    def _outcome(self, unit: Unit) -> Outcome:
        receipt = self._folder.receipt(unit.number)
        if receipt is not None:
            return Outcome(unit.number, receipt["counts"])
        return self._worker.do(self._worker.read(unit), self._folder)


class RayExecutor:
    """A Ray cluster, joined for as long as the context lasts."""

    def __init__(self, source: ModelSource, cluster: Cluster | None = None) -> None:
        folder = os.path.expanduser(source.place)
        # processes of a cluster have another working directory
        place = os.path.abspath(folder) if os.path.isdir(folder) else source.place
        self._source, self._cluster = replace(source, place=place), cluster or Cluster()

    def __enter__(self) -> "RayExecutor":
        """Join the cluster, or start one."""
        self._ray, self._joined = connect(self._cluster.address)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave; a cluster that was started for this ends."""
        if self._joined:
            self._ray.shutdown()

    def run(
        self, kind: Kind, plan: JobPlan, folder: Folder, units: Sequence[Unit]
    ) -> Generator[Outcome, None, None]:
        """The outcome of every unit, as blocks of them come back."""
        import ray.data

        if not units:
            return
        source, (least, most) = self._source_and_workers()
        # Ray's types know functions alone, not classes of actors
        worker: Any = RayWorker
        with _quiet():
            items = [{"unit": pickle.dumps(unit)} for unit in units]
            blocks = min(len(units), most * _BLOCKS_PER_WORKER)
            results = ray.data.from_items(items, override_num_blocks=blocks).map(
                worker,
                fn_constructor_args=(source, kind, folder, plan),
                compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
                num_cpus=self._cluster.cpus_per_worker,
                num_gpus=int(source.device == GPU),
                ray_remote_args_fn=partial(dict, max_restarts=_RESTARTS, max_task_retries=_RETRIES),
            )
            try:
                for row in results.iter_rows():
                    outcome, ends = pickle.loads(row["outcome"])
                    if ends:
                        raise UnmaskError(f"a worker cannot go on: {outcome.error}")
                    yield outcome
            except ray.exceptions.RayError as error:
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                raise UnmaskError(
                    f"the cluster ended the run: {lines[-1] if lines else describe(error)}; what "
                    "is finished is kept: repeat the command to go on"
                ) from None

    def _source_and_workers(self) -> tuple[ModelSource, tuple[int, int]]:
        """The source for a worker, which sees its own GPU alone, and the least and most workers."""
        there, cpus = self._ray.cluster_resources(), self._cluster.cpus_per_worker
        device = self._source.device or (GPU if there.get("GPU") else "cpu")
        is_gpu = device.startswith(GPU)
        room = int(there.get("GPU", 0) if is_gpu else there.get("CPU", 0) // cpus)
        if not room and self._cluster.workers is None:
            what = "GPU" if is_gpu else f"room for a worker of {cpus} CPUs"
            raise UnmaskError(
                f"no node of the cluster has a {what}; give another device, fewer cpus_per_worker, "
                "or workers if the cluster grows on demand"
            )
        source = replace(self._source, device=GPU if is_gpu else device)
        return source, self._cluster.workers or (room, room)


def connect(address: str) -> tuple[Any, bool]:
    """Ray itself, and whether it was connected here; any failure is one line.

    A program that is connected already stays so, whatever the address.
    """
    # before Ray is imported, which is when it reads them
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # whatever `log_to_driver` says, Ray reports dead workers on stdout, which is for data
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
    except ImportError:
        raise UnmaskError("a cluster needs Ray: pip install 'unmask[ray]'") from None
    if ray.is_initialized():
        return ray, False
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical"}
    if address == LOCAL:
        options["include_dashboard"] = False
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address, **options)
    except Exception as error:  # Ray raises whatever its parts raise
        fix = "start one with `ray start --head`, give the address of one, or choose local"
        why = describe(error)
        raise UnmaskError(f"cannot use Ray at {quoted(address)}: {why}; {fix}") from None
    finally:
        # Ray takes SIGTERM for itself; only the main thread may take it back
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
    return ray, True


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray Data without its own bars and logs, and as it was afterwards."""
    from ray.data import DataContext

    context, logger = DataContext.get_current(), logging.getLogger("ray.data")
    names = ("enable_progress_bars", "enable_operator_progress_bars", "print_on_execution_start")
    before, level = {name: getattr(context, name) for name in names}, logger.level
    for name in names:
        setattr(context, name, False)
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            # it deprecates its own names, and those of limits that have no other name
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        for name, value in before.items():
            setattr(context, name, value)
