"""Units done by the workers of a Ray cluster, which Ray Data starts, restarts and feeds.

A cluster is joined, never configured: nodes, network and access are its owner's business. Ray Data
knows blocks of units and retries a block as a whole; a worker skips the units of it that have a
receipt. A unit that always ends its worker is skipped after three deaths, as its note tells.
"""

import logging
import os
import pickle
import socket
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from unmask.errors import UnmaskError
from unmask.jobs.folder import Folder
from unmask.jobs.kinds import Kind, counted
from unmask.jobs.model_source import SOFTWARE, ModelSource, check_model
from unmask.jobs.worker import Outcome, Worker, is_of_accelerator
from unmask.model.devices import GPU
from unmask.printable import describe, quoted
from unmask.records.files import Unit

LOCAL = "local"
_BLOCKS_PER_WORKER = 20
# deaths of a worker, and attempts at a block: a bad unit costs three, failures of machines more
_LIMITS = {"max_restarts": 30, "max_task_retries": 30}
# output of Ray Data that is switched off; our bar counts rows
_RAY_OUTPUT = ("enable_progress_bars", "enable_operator_progress_bars", "print_on_execution_start")


class RayWorker:
    """A process of the cluster with the model."""

    def __init__(self, source: ModelSource, kind: Kind, folder: Folder) -> None:
        self._folder, self._error = folder, None
        try:
            if folder.plan.software != SOFTWARE:
                why = f"{folder.plan.software} made the plan, and {SOFTWARE} is installed there"
                raise UnmaskError(why)
            self._worker = Worker(source, kind)
            check_model(self._worker.lm, folder.plan.model)
        except Exception as error:  # an actor that does not start is started again, for ever
            self._error = f"{describe(error)} (on node {socket.gethostname()})"

    def __call__(self, row: dict[str, Any]) -> dict[str, bytes]:
        """The outcome of a unit; `ends` the run if no worker could do better."""
        unit, ends = pickle.loads(row["unit"]), self._error is not None
        outcome = Outcome(counted(), self._error)
        try:
            if not ends:
                outcome = self._worker.do(unit, partial(self._worker.read, unit), self._folder)
        except Exception as error:  # it cannot be written
            if is_of_accelerator(why := describe(error)):
                os._exit(1)
            outcome, ends = outcome._replace(error=why), True
        return {"outcome": pickle.dumps((outcome, ends))}


@dataclass(frozen=True, kw_only=True)
class RayWorkers:
    """Processes of the cluster that was joined, each with a model from `source`.

    At least and at most `count` of them, by default as many as there is room for.
    """

    source: ModelSource
    count: tuple[int, int] | None = None
    cpus_per_worker: int = 1

    def run(
        self, kind: Kind, folder: Folder, units: Sequence[Unit]
    ) -> Generator[Outcome, None, None]:
        """The outcome of every unit, as blocks of them come back."""
        import ray.data

        if not units:
            return
        source, least, most = self._source_and_count()
        context = vars(ray.data.DataContext.get_current())
        context.update(dict.fromkeys(_RAY_OUTPUT, False))
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        # Ray's types know functions alone, not classes of actors
        worker: Any = RayWorker
        items = [{"unit": pickle.dumps(unit)} for unit in units]
        blocks = min(len(units), most * _BLOCKS_PER_WORKER)
        with warnings.catch_warnings():
            # Ray warns of its own deprecated names, and of limits that have no other name
            warnings.simplefilter("ignore")
            results = ray.data.from_items(items, override_num_blocks=blocks).map(
                worker,
                fn_constructor_args=(source, kind, folder),
                compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
                num_cpus=self.cpus_per_worker,
                num_gpus=int(source.device == GPU),
                ray_remote_args_fn=partial(dict, **_LIMITS),
            )
        try:
            for row in results.iter_rows():
                outcome, ends = pickle.loads(row["outcome"])
                if ends:
                    raise UnmaskError(f"a worker cannot go on: {outcome.error}")
                yield outcome
        except ray.exceptions.RayError as error:
            why = (str(error).strip() or describe(error)).splitlines()[-1].strip()
            raise UnmaskError(
                f"the cluster ended the run: {why}; what is finished is kept: repeat the command "
                "to go on"
            ) from None

    def _source_and_count(self) -> tuple[ModelSource, int, int]:
        """The source for a worker, which sees its own GPU alone, and the least and most workers."""
        import ray

        # Ray's types do not have it
        cluster: Any = ray
        there = cluster.cluster_resources()
        device = self.source.device or (GPU if there.get("GPU") else "cpu")
        is_gpu = device.startswith(GPU)
        room = int(there.get("GPU", 0) if is_gpu else there.get("CPU", 0) // self.cpus_per_worker)
        if not room and self.count is None:
            what = "GPU" if is_gpu else f"room for a worker of {self.cpus_per_worker} CPUs"
            raise UnmaskError(
                f"no node of the cluster has a {what}; give another device, fewer cpus_per_worker, "
                "or workers if the cluster grows on demand"
            )
        # processes of a cluster have another working directory
        folder = os.path.abspath(os.path.expanduser(self.source.place))
        place = folder if os.path.isdir(folder) else self.source.place
        source = replace(self.source, place=place, device=GPU if is_gpu else device)
        return source, *(self.count or (room, room))


@contextmanager
def joined(address: str) -> Iterator[None]:
    """A cluster for as long as the context lasts; any failure is one line.

    `address` is "auto" (that of RAY_ADDRESS, or the one that runs on this machine), "local" (one on
    this machine, which ends with the context) or where a head node listens. A program that is
    connected already stays so, whatever the address.
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
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical"}
    if address == LOCAL:
        options["include_dashboard"] = False
    try:
        ray.init(address, **options)
    except Exception as error:  # Ray raises whatever its parts raise
        fix = "start one with `ray start --head`, give the address of one, or choose local"
        why = describe(error)
        raise UnmaskError(f"cannot use Ray at {quoted(address)}: {why}; {fix}") from None
    try:
        yield
    finally:
        ray.shutdown()
