"""A Ray cluster of two nodes on this machine, for tests, and workers that only play.

Nodes are ended process by process: `ray stop` would end every Ray of this user. Each node is
therefore a session of its own, by which its processes are found; workers have groups of their own.
"""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from unmask.jobs.executors.ray_pool import Answered, Died, Event, Placed
from unmask.jobs.executors.task import Failure

SOURCES = Path(__file__).parents[2] / "src"
# as much as it takes: nothing large is ever put there
OBJECT_STORE = 80_000_000
SECONDS_TO_START = 90.0


@dataclass
class Node:
    process: "subprocess.Popen[bytes]"

    def pids(self, title: str) -> list[int]:
        """Its processes whose command line holds that."""
        return [pid for pid, said in _processes(session=self.process.pid) if title in said]

    def kill(self, title: str) -> int:
        """End one process by SIGKILL; how many there were."""
        found = self.pids(title)
        for pid in found[:1]:
            os.kill(pid, signal.SIGKILL)
        return len(found)

    def end(self) -> None:
        while found := self.pids(""):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            # what has ended is a process until somebody has asked for its code
            self.process.poll()
            time.sleep(0.05)


@dataclass
class TwoNodes:
    address: str
    head: Node
    other: Node


# one per process: Ray reads it once, and two files of tests may run in the same process
_TOKEN = secrets.token_hex(16)


def private() -> dict[str, str]:
    """Settings of nodes and drivers: a cluster listens on every interface, so it has a token."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": _TOKEN,
        "RAY_USAGE_STATS_ENABLED": "0",
        # of one machine that two nodes share, neither should think that memory runs out
        "RAY_memory_monitor_refresh_ms": "0",
    }


@contextmanager
def two_nodes(folder: Path, settings: dict[str, str]) -> Iterator[TwoNodes]:
    """A head and another node, with a CPU each."""
    port = _free_port()
    address = f"127.0.0.1:{port}"
    log = folder / "log"
    common = ["--num-cpus=1", f"--object-store-memory={OBJECT_STORE}", f"--temp-dir={folder}"]
    nodes = []
    try:
        for options in (
            ["--head", f"--port={port}", "--include-dashboard=false", "--disable-usage-stats"],
            [f"--address={address}"],
        ):
            nodes.append(_start([*options, *common], settings, log))
            _wait_for(nodes[-1], log, count=len(nodes))
        yield TwoNodes(address, *nodes)
    finally:
        for node in nodes[::-1]:
            node.end()


@contextmanager
def private_nodes(folder: Path) -> Iterator[TwoNodes]:
    """Two nodes, and this process with what it takes to be their driver."""
    settings = private()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        patch.delenv("RAY_ADDRESS", raising=False)
        with two_nodes(folder, settings) as nodes:
            yield nodes


class Workers:
    """Workers that do a job a step, the first of their queue, and die of the jobs in `deadly`.

    Only the first `room` of them get a place; `late` repeats what the dead had been asked.
    """

    needs = None

    def __init__(
        self,
        *,
        deadly: Sequence[Any] = (),
        raising: Sequence[str] = (),
        room: int = 10**6,
        late: bool = False,
        killed: Sequence[int] = (),
        why: str = "out of memory",
    ) -> None:
        self.deadly, self.raising, self.room, self.late = deadly, raising, room, late
        self.killed, self.why = set(killed), why
        self.queues: dict[int, list[tuple[int, Any]]] = {}
        self.fresh: list[int] = []
        self.started = 0
        self.most_waiting = 0
        self.did: list[str] = []
        self.steps = 0

    def start(self) -> int:
        self.started += 1
        number = self.started - 1
        self.queues[number] = []
        if number < self.room:
            self.fresh.append(number)
        return number

    def give(self, worker: int, job: int, content: Any) -> None:
        self.queues[worker].append((job, content))
        self.most_waiting = max(self.most_waiting, len(self.queues[worker]))

    def stop(self, worker: int) -> None:
        self.queues.pop(worker, None)

    def wait(self, seconds: float) -> list[Event]:
        self.steps += 1
        events: list[Event] = []
        for number in self.fresh:
            events += [Placed(number), Placed(number, ready=True)]
        self.fresh = []
        for number, queue in list(self.queues.items()):
            if number in self.killed:
                self.killed.remove(number)
                events.append(Died(number, "killed"))
            elif queue:
                events += self.step(number, queue)
        return events

    def step(self, number: int, queue: list[tuple[int, Any]]) -> Iterator[Event]:
        if queue[0][1] in self.deadly:
            yield Died(number, self.why)
            if self.late:
                yield from [Answered(number, job, f"late {content}") for job, content in queue]
            return
        job, content = queue.pop(0)
        self.did.append(content)
        if content in self.raising:
            yield Answered(number, job, Failure("KeyError: 'x'"))
        else:
            yield Answered(number, job, f"did {content}")


def _start(options: list[str], settings: dict[str, str], log: Path) -> Node:
    environment = {**os.environ, **settings, "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
    ray = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
    with log.open("ab") as file:
        return Node(
            subprocess.Popen(
                [*ray, "start", "--node-ip-address=127.0.0.1", "--block", *options],
                env=environment,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        )


def _wait_for(node: Node, log: Path, count: int) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while log.read_text(errors="replace").count("Ray runtime started") < count:
        if node.process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"a node did not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _processes(session: int) -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if os.getsid(int(entry.name)) == session:
                    said = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    yield int(entry.name), said
