"""The folder that a job writes: a Parquet part per unit, under the unit's number.

    _plan.json               the plan
    part-000000.parquet      the rows of unit 0, written by its worker, whole or not at all
    _manifest-0-of-1.json    what a shard has done so far, for people and other programs
    _locks/0-of-1.lock       held by the one driver of this shard; not in a bucket

Parts are the truth: a unit is done when its part is there, whole, and of this plan. A part is read
whole once, when a job goes on after it was written or changed; after that its footer is enough. The
manifest has the time of the last change that was checked in this way. Names that begin with an
underscore are skipped by whatever reads a folder of Parquet files. In a bucket there are no locks:
two drivers there do the same work twice, and leave the same parts.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.durable import make_folder, remove_unfinished
from unmask.errors import StoreError
from unmask.jobs.kinds import Kind
from unmask.jobs.locks import lock, lock_shard, reject_other_counts
from unmask.jobs.parts import encoded, facts_of, part_tables
from unmask.jobs.plan import JobPlan, check_same, read_plan
from unmask.jobs.shards import Shard
from unmask.jobs.tally import Tally
from unmask.printable import quoted
from unmask.records import places

if TYPE_CHECKING:
    from unmask.jobs.work import UnitRows

PLAN, LOCKS = "_plan.json", "_locks"
_PART = re.compile(r"part-(\d{6,})\.parquet")


@dataclass(frozen=True)
class Parts:
    """Where workers write: the store of a job's units."""

    folder: str
    kind: Kind
    plan: str
    software: str

    def write(self, number: int, rows: "UnitRows") -> None:
        """The part of a unit."""
        kind = self.kind
        tables = part_tables(rows.batch, rows.rows, kind.output_columns, kind.dropped_columns)
        facts = {
            "plan": self.plan,
            "unit": number,
            "seconds": round(rows.seconds, 3),
            "software": self.software,
            "tally": rows.tally.to_dict(),
        }
        places.write_whole(place_of(self.folder, number), encoded(tables, facts))


def place_of(folder: str, number: int) -> str:
    """Where the part of a unit is."""
    return places.inside(folder, f"part-{number:06d}.parquet")


@dataclass
class FolderProgress:
    """Which units are done, as a byte each; what they hold; and which parts are damaged.

    `failed` are units whose part holds rows that ended in an unexpected error; they are not done.
    `software` are the versions that computed the parts. `checked` is the time of the last change
    among parts that are done, in nanoseconds.
    """

    done: bytearray
    tally: Tally = field(default_factory=Tally)
    damaged: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    software: set[str] = field(default_factory=set)
    checked: int = 0

    @property
    def count(self) -> int:
        """How many are done."""
        return sum(self.done)

    @property
    def stored(self) -> list[int]:
        """The units that have a part: those that are done, and those that failed."""
        done = (number for number, is_done in enumerate(self.done) if is_done)
        return sorted([*done, *self.failed])


def read_progress(
    folder: str, plan: JobPlan, shard: Shard | None = None, *, checked: int = 0
) -> FolderProgress:
    """The state of the parts of a folder, for all units or those of a shard.

    Only the footer of parts that changed before `checked` is read.
    """
    share = shard or Shard()
    progress = FolderProgress(bytearray(plan.units or 0))
    digest = plan.digest
    changes = {
        number: changed
        for number, changed in sorted(_changes_of_parts(folder).items())
        if number % share.count == share.index and number < len(progress.done)
    }

    def contents(number: int) -> tuple[Tally, str] | None:
        place = place_of(folder, number)
        try:
            with places.open_file(place) as file:
                facts = facts_of(file, whole=changes[number] >= checked)
        except OSError as error:
            why = error.strerror or str(error)
            raise StoreError(f"cannot read {places.shown(place)}: {why}; try again") from None
        if facts is None or facts.get("plan") != digest or facts.get("unit") != number:
            return None
        try:
            return Tally.from_dict(facts["tally"]), str(facts["software"])
        except (KeyError, TypeError, ValueError):
            return None

    for number, some in zip(changes, places.in_parallel(contents, changes), strict=True):
        if some is None:
            progress.damaged.append(number)
            continue
        tally, software = some
        progress.software.add(software)
        if tally.failed:
            progress.failed.append(number)
        else:
            progress.done[number] = 1
            progress.tally.add(tally)
            progress.checked = max(progress.checked, changes[number])
    return progress


def part_numbers(folder: str) -> Iterator[int]:
    """The units that have a part, whole or not."""
    return iter(_changes_of_parts(folder))


def _changes_of_parts(folder: str) -> dict[int, int]:
    """When the part of each unit that has one changed."""
    matches = ((_PART.fullmatch(name), at) for name, at in places.changes_in(folder).items())
    return {int(match[1]): at for match, at in matches if match is not None}


def stored_plan(folder: str) -> JobPlan | None:
    """The plan of a folder; None if there is none."""
    place = places.inside(folder, PLAN)
    text = places.read_text(place)
    return None if text is None else read_plan(text, places.shown(place))


def write_plan(folder: str, plan: JobPlan) -> None:
    """Begin a folder."""
    places.write_whole(places.inside(folder, PLAN), plan.to_json().encode())


@contextmanager
def held(folder: str, plan: JobPlan, shard: Shard) -> Iterator[JobPlan]:
    """Lock a shard of the job in `folder`, which is created if it does not exist.

    Yields the plan of the folder, which may differ from `plan` in rounding on another machine.
    """
    _reject_other(folder)
    with ExitStack() as locks:
        if not places.is_url(folder) and not is_read_only(folder):
            local = Path(folder) / LOCKS
            make_folder(local)
            # shards that are started together go one by one
            with lock(local, "plan", timeout=-1):
                locks.enter_context(lock_shard(local, shard))
                reject_other_counts(local, shard)
                agreed = _stored_or_new(folder, plan)
            if shard.count == 1:
                # of several processes that share a folder another may be writing
                remove_unfinished(Path(folder))
        else:
            agreed = _stored_or_new(folder, plan)
        yield agreed


def is_read_only(folder: str) -> bool:
    """Whether a folder of this machine is there and cannot be written to."""
    return os.path.isdir(folder) and not os.access(folder, os.W_OK)


def _stored_or_new(folder: str, plan: JobPlan) -> JobPlan:
    """The plan of the folder, after one was written if there was none."""
    stored = stored_plan(folder)
    if stored is None:
        write_plan(folder, plan)
        return plan
    check_same(stored, plan, places.shown(folder))
    return stored


def _reject_other(folder: str) -> None:
    """Nothing is made in a folder that holds something else."""
    if not places.is_url(folder) and os.path.exists(folder) and not os.path.isdir(folder):
        raise StoreError(f"{places.shown(folder)} is a file; give a folder")
    names = [name for name in places.changes_in(folder) if not name.startswith(".")]
    others = sorted(set(names) - {LOCKS})
    if others and PLAN not in names:
        raise StoreError(
            f"{places.shown(folder)} holds {quoted(others[0])} and no job; give a new or an empty "
            "folder"
        )


def _manifest(folder: str, shard: Shard) -> str:
    return places.inside(folder, f"_manifest-{shard.folder}.json")


def last_checked(folder: str, plan: JobPlan, shard: Shard) -> int:
    """Before which time all changes of a shard's parts were checked; 0 if that is not known."""
    try:
        manifest = json.loads(places.read_text(_manifest(folder, shard)) or "")
        return int(manifest["checked"]) if manifest["plan"] == plan.digest else 0
    except (StoreError, ValueError, KeyError, TypeError):
        return 0


def write_manifest(folder: str, plan: JobPlan, shard: Shard, counts: dict[str, Any]) -> None:
    """What a shard has done so far."""
    manifest = {
        "plan": plan.digest,
        "kind": plan.kind,
        "shard": str(shard),
        **counts,
        "updated": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    places.write_whole(_manifest(folder, shard), json.dumps(manifest, indent=1).encode())
