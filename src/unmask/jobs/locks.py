"""Locks in a folder of their own: one process per shard, and no shards that overlap."""

from contextlib import AbstractContextManager
from pathlib import Path

from filelock import FileLock, Timeout

from unmask.errors import StoreError
from unmask.jobs.shards import Shard
from unmask.printable import quoted


def lock(locks: Path, name: str, timeout: float = 0) -> AbstractContextManager[object]:
    """A lock that is held until its block or the process ends; `Timeout` if another has it."""
    try:
        return FileLock(locks / f"{name}.lock", timeout=timeout).acquire()
    except (OSError, NotImplementedError) as error:
        # a timeout is an OSError too, but it has a meaning
        if isinstance(error, Timeout):
            raise
        raise StoreError(
            f"cannot lock {_shown(locks)}: {quoted(str(error))}; put the output on"
            " a file system with locks (flock)"
        ) from None


def lock_shard(locks: Path, shard: Shard) -> AbstractContextManager[object]:
    """The lock of a shard; that another process has it is an error."""
    try:
        return lock(locks, shard.folder)
    except Timeout:
        raise StoreError(
            f"another process is writing shard {shard} of {_shown(locks)}; let it finish, or share"
            " the work as shard 0/2 and shard 1/2"
        ) from None


def reject_other_counts(locks: Path, shard: Shard) -> None:
    """Shards of different counts overlap, so they must not be written at the same time."""
    for path in locks.glob("*-of-*.lock"):
        if path.stem.endswith(f"-of-{shard.count}"):
            continue
        try:
            with lock(locks, path.stem):
                pass
        except Timeout:
            shown = path.stem.replace("-of-", "/")
            raise StoreError(
                f"another process is writing shard {shown} of {_shown(locks)},"
                f" which overlaps with {shard}; let it finish, or divide by the same number"
            ) from None


def _shown(locks: Path) -> str:
    return quoted(str(locks.parent), limit=150)
