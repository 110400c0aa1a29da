"""The one process that writes a shard of a run: it holds the lock, knows what is done, saves result
rows.

A save is one new part, whole or not at all; what a crash interrupts was not saved, and is done
again. Every hundred parts of the shard are merged into one. Several processes with different shards
of the same count share a folder.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from unmask.durable import explained, make_folder, remove_unfinished, write_text
from unmask.errors import StoreError
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.plan import Batch, Plan, check_same
from unmask.evaluation.rows import Row
from unmask.evaluation.store.merging import SUFFIX, due, merged_name, part_name, replaced, saves
from unmask.evaluation.store.parts import DamagedPartError, read_part, write_part
from unmask.evaluation.store.run_folder import (
    LOCKS,
    MANIFEST,
    PLAN,
    ROWS,
    Damaged,
    Run,
    read_plan,
    read_progress,
)
from unmask.jobs.canonical import canonical
from unmask.jobs.locks import lock, lock_shard, reject_other_counts
from unmask.jobs.shards import Shard
from unmask.printable import quoted

_DAMAGED = ".damaged"
_PLAN_LOCK = "plan"


class RunWriter:
    """A shard of a run that is held for writing; made by `writing`."""

    def __init__(self, folder: Path, plan: Plan, shard: Shard) -> None:
        self.plan, self.shard = plan, shard
        self._folder = folder / ROWS / shard.folder
        progress = read_progress(folder, plan)
        self.set_aside = [_set_aside(one) for one in progress.damaged if _is_free(one.path, shard)]
        if self.set_aside:
            # what a damaged part stood for may be there still
            progress = read_progress(folder, plan)
        self._done, self._failed = set(progress.done), set(progress.failed)
        self.software = set(progress.software)
        # everything, until a share of it is taken
        self._share: set[str] | None = None
        with explained(self._folder):
            self._parts = {path.name: _contents(path) for path in self._own_parts()}
        self._number = max((saves(name)[1] for name in self._parts), default=0)
        if self._merge():
            self._write_manifest()

    def _own_parts(self) -> list[Path]:
        """This shard's parts, after those are removed that a merged one stands for."""
        found = sorted(self._folder.glob(f"*{SUFFIX}"))
        for path in (gone := replaced(found)):
            path.unlink(missing_ok=True)
        return [path for path in found if path not in gone]

    @property
    def done(self) -> set[str]:
        """The examples of this share that have metrics."""
        return self._done if self._share is None else self._share & self._done

    @property
    def failed(self) -> set[str]:
        """The examples of this share that have an error in their place."""
        return self._failed if self._share is None else self._share & self._failed

    def to_do(self, pairs: Sequence[MaskedPair]) -> list[MaskedPair]:
        """The share of a plan's examples that is not done: new ones, then those that failed.

        Those that failed come last: if they fail again, the others are measured nevertheless.
        """
        share = share_of(self.shard, pairs)
        self._share = {one.id for one in share}
        left = [one for one in share if one.id not in self._done]
        return sorted(left, key=lambda one: one.id in self._failed)

    def save(self, rows: Sequence[Row]) -> None:
        """Write the result rows of whole examples as one new part."""
        if not rows:
            return
        path = self._folder / part_name(self._number + 1)
        write_part(path, rows, self.plan.digest)
        self._number += 1
        self._parts[path.name] = _contents(path)
        self._done |= {row.example_id for row in rows if not row.failed}
        self._failed = (self._failed | {row.example_id for row in rows}) - self._done
        self.software |= {row.software for row in rows if row.software}
        self._merge()
        self._write_manifest()

    def _merge(self) -> bool:
        """Merge parts while there are enough of them; says whether there were."""
        merged = False
        while (names := due(self._parts)) and self._merge_some(names):
            merged = True
        return merged

    def _merge_some(self, names: Sequence[str]) -> bool:
        paths = [self._folder / name for name in names]
        try:
            rows = [row for path in paths for row in read_part(path, self.plan.digest)]
        except (DamagedPartError, FileNotFoundError):
            # damaged since the start: the next one sets it aside
            return False
        merged = self._folder / merged_name(names)
        write_part(merged, rows, self.plan.digest)
        self._parts[merged.name] = _contents(merged)
        with explained(self._folder):
            for path in paths:
                path.unlink(missing_ok=True)
                del self._parts[path.name]
        return True

    def _write_manifest(self) -> None:
        manifest = {
            "plan": self.plan.digest,
            "shard": str(self.shard),
            "examples": self.plan.draw.count if self._share is None else len(self._share),
            "done": len(self.done),
            "failed": len(self.failed),
            "software": sorted(self.software),
            "parts": [{"name": name, **self._parts[name]} for name in sorted(self._parts)],
            "updated": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_text(self._folder / MANIFEST, json.dumps(manifest, indent=1))


@contextmanager
def writing(
    folder: Path, draft: Plan, shard: Shard, resolve: Callable[[], Batch]
) -> Iterator[RunWriter]:
    """Hold a shard of the run in `folder`, which is begun if there is none.

    A draft's batch size is found by `resolve`, by whichever process begins the run; a run that
    was begun with another plan is rejected.
    """
    with ExitStack() as held:
        # before anything is made: a wrong folder must not be littered
        _reject_other(folder)
        make_folder(folder / LOCKS)
        # shards that are started together go one by one, and take the batch size of the first
        with lock(folder / LOCKS, _PLAN_LOCK, timeout=-1):
            held.enter_context(lock_shard(folder / LOCKS, shard))
            reject_other_counts(folder / LOCKS, shard)
            plan = _agreed(folder, draft, resolve)
        make_folder(folder / ROWS / shard.folder)
        remove_unfinished(folder / ROWS / shard.folder)
        yield RunWriter(folder, plan, shard)


def copy_run(run: Run, folder: Path) -> None:
    """A run in few files in a new folder, to be kept beside a paper or in a repository.

    The copy is the folder of a run like any other. It holds ids of examples and no text.
    """
    if os.path.exists(folder) and any(os.scandir(folder)):
        raise StoreError(f"{_shown(folder)} is not empty; a run is copied into a new folder")
    # a run that was begun has its batch size: none is to be found
    with writing(folder, run.plan, Shard(), Batch) as writer:
        writer.save([row.without_detail() for row in run.rows])
    # nothing will be written here again
    shutil.rmtree(folder / LOCKS)


def share_of(shard: Shard, pairs: Sequence[MaskedPair]) -> list[MaskedPair]:
    """A shard's examples of a plan, of every mask alike: one shard alone is a fair sample."""
    return shard.of(pairs, lambda one: one.mask)


def finished(folder: Path, draft: Plan, shard: Shard, pairs: Sequence[MaskedPair]) -> Plan | None:
    """The plan of a folder that cannot be written to, if nothing of the share is missing.

    None for a folder that can be written to, and for one that holds no run.
    """
    places = [place for place in (folder, folder / LOCKS, folder / ROWS) if place.is_dir()]
    if all(os.access(place, os.W_OK) for place in places) or (stored := read_plan(folder)) is None:
        return None
    check_same(stored, draft)
    done = read_progress(folder, stored).done
    share = share_of(shard, pairs)
    missing = [one for one in share if one.id not in done]
    if missing:
        raise StoreError(
            f"{_shown(folder)} cannot be written to, and {len(missing)} of"
            f" {len(share)} examples are not done; copy the folder to a disk that can be"
            " written to, and give the copy as --output"
        )
    return stored


def _agreed(folder: Path, draft: Plan, resolve: Callable[[], Batch]) -> Plan:
    """The plan of the folder, after one was written if there was none."""
    stored = read_plan(folder)
    if stored is None:
        stored = draft if draft.batch is not None else replace(draft, batch=resolve())
        write_text(folder / PLAN, canonical(stored.to_dict()))
    check_same(stored, draft)
    return stored


def _reject_other(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{_shown(folder)} is a file; give a folder")
    if folder.is_dir() and not (folder / PLAN).exists():
        names = {one.name for one in folder.iterdir()} - {LOCKS, ROWS, PLAN}
        if others := [name for name in names if not name.startswith(".")]:
            raise StoreError(
                f"{_shown(folder)} holds {quoted(sorted(others)[0])} and no"
                " evaluation; give a new or an empty folder"
            )


def _is_free(path: Path, shard: Shard) -> bool:
    """Whether no other process can be writing where this part lies."""
    folder = path.parent.name
    return folder == shard.folder or not folder.endswith(f"-of-{shard.count}")


def _set_aside(part: Damaged) -> str:
    """Keep it for inspection, out of the way of the parts that can be read."""
    with explained(part.path), suppress(FileNotFoundError):
        # another shard that was started at the same time may have been first
        part.path.rename(part.path.with_name(part.path.name + _DAMAGED))
    return part.why


def _contents(path: Path) -> dict[str, object]:
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _shown(folder: Path) -> str:
    return quoted(str(folder), limit=150)
