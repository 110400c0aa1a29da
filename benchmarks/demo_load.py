"""Many visitors of the demo at once: what they are told, how long they wait, what memory does.

    python benchmarks/demo_load.py --model FOLDER [--users 50] [--seconds 60] [--check]

Starts `unmask demo` on 127.0.0.1 in a process of its own, and talks to it as its page does: every
visitor joins the queue, waits for the answer, thinks, and asks again; one in five leaves in the
middle. Writes JSON to stdout.
"""

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

_TEXTS = (
    ("Two men are playing football on the beach.", "2,8"),
    ("A woman in a red dress is sitting on a bench.", "2,8"),
    ("The dog is running in the snow.", "2,6"),
    ("<script>alert(1)</script> & \u202e a man ____ a [MASK].", ""),
)
_BUSY = "Too many people"


@dataclass
class Seen:
    """What the visitors met."""

    told: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    answer_seconds: list[float] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)


class Visitor:
    """A person who opens the page, asks, looks, and opens it again."""

    def __init__(self, client: httpx.AsyncClient, config: dict[str, Any], seed: int) -> None:
        self._client, self._random = client, random.Random(seed)
        self._session = ""
        named = {one["api_name"]: one["id"] for one in reversed(config["dependencies"])}
        self._function = next(i for name, i in named.items() if str(name).startswith("answer"))

    async def visit(self, seen: Seen, until: float) -> None:
        await asyncio.sleep(self._random.uniform(0, 2))
        while time.monotonic() < until:
            try:
                await self._ask(seen)
            except (httpx.HTTPError, OSError) as error:
                seen.errors.append(f"{type(error).__name__}: {error}")
            await asyncio.sleep(self._random.uniform(0.5, 3))

    async def _ask(self, seen: Seen) -> None:
        # a page that is opened anew: who left does not come back to the stream that was closed
        self._session = f"{self._random.getrandbits(64):x}"
        text, blanks = self._random.choice(_TEXTS)
        began = time.monotonic()
        if await self._answer([text, blanks, ["mlm", "log-pool"]], seen):
            seen.answer_seconds.append(time.monotonic() - began)

    async def _answer(self, asked: list[Any], seen: Seen) -> bool:
        """Whether there was a whole answer; what else there was is counted."""
        leaves = self._random.random() < 0.2
        body = {"data": asked, "fn_index": self._function, "session_hash": self._session}
        joined = await self._client.post("/gradio_api/queue/join", json=body)
        if joined.status_code == 503:
            seen.told["queue full"] += 1
            return False
        joined.raise_for_status()
        async for message in self._messages():
            if message["msg"] == "process_generating" and leaves:
                seen.told["left"] += 1
                return False
            if message["msg"] == "unexpected_error":
                seen.errors.append(str(message.get("message")))
                return False
            if message["msg"] == "process_completed":
                return _completed(message, seen)
        seen.errors.append("the stream ended")
        return False

    async def _messages(self) -> AsyncIterator[dict[str, Any]]:
        where = "/gradio_api/queue/data"
        given = {"session_hash": self._session}
        async with self._client.stream("GET", where, params=given) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data:"):
                    yield json.loads(line[5:])


def _completed(message: dict[str, Any], seen: Seen) -> bool:
    if not message.get("success"):
        seen.errors.append(str(message.get("output")))
        return False
    if _BUSY in json.dumps(message.get("output", {})):
        seen.told["busy"] += 1
        return False
    seen.told["answered"] += 1
    return True


def resident(process: int) -> int:
    """Bytes that a process holds in memory."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"process {process} has ended")


async def load(address: str, process: int, *, users: int, seconds: float) -> Seen:
    """Let so many visitors in for so long."""
    seen, began = Seen(), time.monotonic()
    limits = httpx.Limits(max_connections=2 * users + 10)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        config = (await client.get("/config")).json()
        visitors = [Visitor(client, config, seed) for seed in range(users)]
        visits = [asyncio.create_task(one.visit(seen, began + seconds)) for one in visitors]
        while time.monotonic() < began + seconds:
            seen.memory.append((time.monotonic() - began, resident(process)))
            await asyncio.sleep(1)
        await asyncio.gather(*visits)
        seen.memory.append((time.monotonic() - began, resident(process)))
    return seen


def summary(seen: Seen, users: int, seconds: float) -> dict[str, Any]:
    """What is worth telling of it."""
    # the first quarter fills caches of every kind
    settled = [size for at, size in seen.memory if at >= seconds / 4]
    half = len(settled) // 2
    before, after = (statistics.median(part) for part in (settled[:half], settled[half:]))
    return {
        "users": users,
        "seconds": seconds,
        "told": dict(sorted(seen.told.items())),
        "errors": seen.errors[:10],
        "error_count": len(seen.errors),
        "answer_seconds": _quantiles(seen.answer_seconds),
        "memory_second_quarter_mb": round(before / 1e6, 1),
        "memory_end_mb": round(after / 1e6, 1),
        "memory_growth": round(after / before - 1, 4),
        "memory_mb": [round(size / 1e6) for _, size in seen.memory[::10]],
    }


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    if len(values) < 2:
        return {}
    tenths = statistics.quantiles(values, n=10)
    return {"median": round(tenths[4], 2), "90%": round(tenths[8], 2), "max": round(max(values), 2)}


def check(found: dict[str, Any]) -> list[str]:
    """What is not as it should be."""
    wrong = []
    if found["error_count"]:
        wrong.append(f"{found['error_count']} errors, first {found['errors'][0]}")
    if not found["told"].get("answered"):
        wrong.append("nobody was answered")
    if found["memory_growth"] > 0.05:
        wrong.append(f"memory grew by {found['memory_growth']:.1%}")
    return wrong


def started(model: str, *options: str) -> tuple["subprocess.Popen[str]", str]:
    """The demo in a process of its own, and its address."""
    command = [sys.executable, "-m", "unmask", "demo", "-m", model, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if "http://" not in line:
        process.kill()
        raise SystemExit(f"the demo did not start: {line}")
    return process, "http://" + line.split("http://")[1].split()[0].rstrip("/")


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the demo, load it, tell what happened."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--check", action="store_true", help="fail on errors and growing memory")
    chosen = parser.parse_args(arguments)
    process, address = started(chosen.model)
    try:
        seen = asyncio.run(load(address, process.pid, users=chosen.users, seconds=chosen.seconds))
    finally:
        process.terminate()
        process.wait(timeout=20)
    about = {"model": Path(chosen.model).name}
    found = about | summary(seen, chosen.users, chosen.seconds)
    print(json.dumps(found, indent=2))
    wrong = check(found) if chosen.check else []
    for one in wrong:
        print(f"demo_load: {one}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
