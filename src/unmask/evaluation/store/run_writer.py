"""The one process that writes a shard of a run: it holds the lock, knows what is done, saves rows.

A save is one new part, whole or not at all; what a crash interrupts was not saved, and is done
again. Several processes with different shards of the same count share a folder.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from unmask.errors import StoreError
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.plan import Batch, Plan, canonical, check_same, settled
from unmask.evaluation.rows import Row
from unmask.evaluation.store.durable import make_folder, remove_unfinished, write_file
from unmask.evaluation.store.parts import SUFFIX, write_part
from unmask.evaluation.store.run_folder import (
    LOCKS,
    MANIFEST,
    PLAN,
    ROWS,
    Damaged,
    read_plan,
    read_rows,
)
from unmask.evaluation.store.shards import Shard
from unmask.printable import quoted

_DAMAGED = ".damaged"
_PLAN_LOCK = "plan"


class RunWriter:
    """A shard of a run that is held for writing; made by `writing`."""

    def __init__(self, folder: Path, plan: Plan, shard: Shard) -> None:
        self.plan, self.shard = plan, shard
        self._folder = folder / ROWS / shard.folder
        found, damaged = read_rows(folder, plan)
        self.set_aside = [_set_aside(one) for one in damaged if _is_free(one.path, shard)]
        self._done = {row.example_id for row in found if not row.failed}
        self._failed = {row.example_id for row in found if row.failed}
        self._share: set[str] = set()
        self._parts = {path.name: _contents(path) for path in self._folder.glob(f"*{SUFFIX}")}

    @property
    def done(self) -> set[str]:
        """The examples of this share that have metrics."""
        return self._share & self._done

    @property
    def failed(self) -> set[str]:
        """The examples of this share that have an error in their place."""
        return self._share & self._failed

    def to_do(self, pairs: Sequence[MaskedPair]) -> list[MaskedPair]:
        """The share of a plan's examples that is not done: new ones, and those that failed."""
        share = self.shard.of(pairs)
        self._share = {one.id for one in share}
        return [one for one in share if one.id not in self._done]

    def save(self, rows: Sequence[Row]) -> None:
        """Write the rows of whole examples as one new part."""
        if not rows:
            return
        path = self._folder / f"part-{self._next_number():06d}{SUFFIX}"
        write_part(path, rows, self.plan.digest)
        self._parts[path.name] = _contents(path)
        for row in rows:
            (self._failed if row.failed else self._done).add(row.example_id)
        self._failed -= self._done
        self._write_manifest()

    def _next_number(self) -> int:
        numbers = [re.fullmatch(r"part-(\d+)", Path(name).stem) for name in self._parts]
        return 1 + max((int(found[1]) for found in numbers if found), default=0)

    def _write_manifest(self) -> None:
        manifest = {
            "plan": self.plan.digest,
            "shard": str(self.shard),
            "examples": len(self._share),
            "done": len(self.done),
            "failed": len(self.failed),
            "parts": [{"name": name, **self._parts[name]} for name in sorted(self._parts)],
            "updated": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        text = json.dumps(manifest, indent=1).encode()
        write_file(self._folder / MANIFEST, lambda file: file.write(text))


@contextmanager
def writing(
    folder: Path, draft: Plan, shard: Shard, resolve: Callable[[], Batch]
) -> Iterator[RunWriter]:
    """Hold a shard of the run in `folder`, which is begun if there is none.

    A draft's batch size is found by `resolve`, by whichever process begins the run; a run that
    was begun with another plan is refused.
    """
    with ExitStack() as held:
        # before anything is made: a wrong folder must not be littered
        _refuse_other(folder)
        make_folder(folder / LOCKS)
        held.enter_context(_lock_shard(folder, shard))
        _refuse_other_counts(folder, shard)
        make_folder(folder / ROWS / shard.folder)
        remove_unfinished(folder / ROWS / shard.folder)
        yield RunWriter(folder, _agreed(folder, draft, resolve), shard)


def _agreed(folder: Path, draft: Plan, resolve: Callable[[], Batch]) -> Plan:
    """The plan of the folder, after one was written if there was none."""
    # shards that are started together wait for the first of them, and take its batch size
    with _lock(folder, _PLAN_LOCK, timeout=-1):
        stored = read_plan(folder)
        if stored is None:
            stored = settled(draft, resolve)
            text = canonical(stored.to_dict()).encode()
            write_file(folder / PLAN, lambda file: file.write(text))
    check_same(stored, draft)
    return stored


def _lock(folder: Path, name: str, timeout: float = 0) -> FileLock:
    """A lock that is held, and ends with the process; `Timeout` if another has it."""
    lock = FileLock(folder / LOCKS / f"{name}.lock", timeout=timeout)
    try:
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        # a timeout is an OSError too, but it has a meaning
        if isinstance(error, Timeout):
            raise
        raise StoreError(
            f"cannot lock {quoted(str(folder), limit=150)}: {quoted(str(error))}; put the output on"
            " a file system with locks (flock)"
        ) from None
    return lock


def _lock_shard(folder: Path, shard: Shard) -> FileLock:
    try:
        return _lock(folder, shard.folder)
    except Timeout:
        raise StoreError(
            f"another process is writing shard {shard} of {quoted(str(folder), limit=150)}; let it"
            " finish, or share the work: --shard 0/2 for one process and 1/2 for the other"
        ) from None


def _refuse_other(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{quoted(str(folder), limit=150)} is a file; give a folder")
    if folder.is_dir() and not (folder / PLAN).exists():
        others = [one.name for one in folder.iterdir() if one.name not in (LOCKS, ROWS, PLAN)]
        others = [name for name in others if not name.startswith(".")]
        if others:
            raise StoreError(
                f"{quoted(str(folder), limit=150)} holds {quoted(sorted(others)[0])} and no"
                " evaluation; give a new or an empty folder"
            )


def _refuse_other_counts(folder: Path, shard: Shard) -> None:
    """Shards of different counts overlap, so they must not be written at the same time."""
    for path in (folder / LOCKS).glob("*-of-*.lock"):
        if path.stem.endswith(f"-of-{shard.count}"):
            continue
        try:
            _lock(folder, path.stem).release()
        except Timeout:
            shown = path.stem.replace("-of-", "/")
            raise StoreError(
                f"another process is writing shard {shown} of {quoted(str(folder), limit=150)},"
                f" which overlaps with {shard}; let it finish, or divide by the same number"
            ) from None


def _is_free(path: Path, shard: Shard) -> bool:
    """Whether no other process can be writing where this part lies."""
    folder = path.parent.name
    return folder == shard.folder or not folder.endswith(f"-of-{shard.count}")


def _set_aside(part: Damaged) -> str:
    """Keep it for whoever wants to look, out of the way of the parts that can be read."""
    part.path.rename(part.path.with_name(part.path.name + _DAMAGED))
    return part.why


def _contents(path: Path) -> dict[str, object]:
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
