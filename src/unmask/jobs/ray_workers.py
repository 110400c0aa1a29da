"""Units done by the workers of a Ray cluster, which Ray Data starts, restarts and feeds.

A cluster is joined, never configured: nodes, network and access are its owner's business. A row of
Ray Data is a run of units, which is retried as a whole; a worker skips the units of it that have a
receipt. A unit that always ends its worker is skipped after three deaths, as its note tells.
"""

import logging
import os
import pickle
import socket
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from unmask.errors import UnmaskError
from unmask.jobs.folder import Folder
from unmask.jobs.kinds import Kind
from unmask.jobs.model_source import SOFTWARE, ModelSource, check_model
from unmask.jobs.worker import Outcome, Worker, is_of_accelerator
from unmask.model.devices import GPU
from unmask.printable import describe, quoted
from unmask.records.files import Unit

LOCAL = "local"
# runs per worker, so that none waits for another at the end; and the most units of a run, which
# are counted when all of them are done
_RUNS_PER_WORKER, _UNITS_PER_RUN = 20, 100
# deaths of a worker, and attempts at a run: a bad unit costs three, failures of machines more
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
        """The outcomes of a run of units, and the reason why no worker could go on, if any."""
        outcomes, why = list[Outcome](), self._error
        for unit in pickle.loads(row["units"]) if why is None else ():
            try:
                outcomes.append(self._worker.do(unit, self._folder))
            except Exception as error:  # it cannot be written
                if is_of_accelerator(why := describe(error)):
                    os._exit(1)
                break
        return {"outcomes": pickle.dumps((outcomes, why))}


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
        """The outcome of every unit, as runs of them come back."""
        import ray.data

        if not units:
            return
        source, room = self._source_and_room()
        least, most = self.count or (room, room)
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        # Ray's types know functions alone, not classes of actors
        worker: Any = RayWorker
        size = max(1, min(_UNITS_PER_RUN, len(units) // (most * _RUNS_PER_WORKER)))
        runs = [units[start : start + size] for start in range(0, len(units), size)]
        items = [{"units": pickle.dumps(run)} for run in runs]
        with warnings.catch_warnings():
            # Ray warns of its own deprecated names, and of limits that have no other name
            warnings.simplefilter("ignore")
            vars(ray.data.DataContext.get_current()).update(dict.fromkeys(_RAY_OUTPUT, False))
            results = ray.data.from_items(items, override_num_blocks=len(items)).map(
                worker,
                fn_constructor_args=(source, kind, folder),
                compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
                num_cpus=self.cpus_per_worker,
                num_gpus=int(source.device == GPU),
                ray_remote_args_fn=partial(dict, **_LIMITS),
            )
        try:
            for row in results.iter_rows():
                outcomes, why = pickle.loads(row["outcomes"])
                yield from outcomes
                if why is not None:
                    raise UnmaskError(f"a worker cannot go on: {why}")
        except ray.exceptions.RayError as error:
            why = (str(error).strip() or describe(error)).splitlines()[-1].strip()
            raise UnmaskError(
                f"the cluster ended the run: {why}; what is finished is kept: repeat the command "
                "to go on"
            ) from None

    def _source_and_room(self) -> tuple[ModelSource, int]:
        """The source for a worker, which sees its own GPU alone, and how many have room."""
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
        return replace(self.source, place=place, device=GPU if is_gpu else device), room


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
    connection: Any = nullcontext()
    try:
        if not ray.is_initialized():
            quiet: Any = {"log_to_driver": False, "logging_level": logging.CRITICAL}
            dashboard = False if address == LOCAL else None
            connection = ray.init(address, include_dashboard=dashboard, **quiet)
    except Exception as error:  # Ray raises whatever its parts raise
        fix = "start one with `ray start --head`, give the address of one, or choose local"
        why = f"cannot use Ray at {quoted(address)}: {describe(error)}"
        raise UnmaskError(f"{why}; {fix}") from None
    with connection:
        yield
