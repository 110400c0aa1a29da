"""The folder that a job writes: a Parquet part per unit, and a receipt for each.

    _plan.json                     the plan
    part-000000-3f2a….parquet      the rows of unit 0, under the digest of the plan
    _part-000000-3f2a….json        its receipt: plan, SHA-256 of the part, counters, seconds; of a
                                   unit that is not done, how often it was begun
    _lock-0-of-1                   held by the one driver of this shard; not in a bucket

A unit is done when its receipt has counters and its part has that SHA-256. Names that begin with
an underscore are skipped by whatever reads a folder of Parquet files. A bucket has no locks: two
drivers there do the same work twice, and leave the same parts.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from unmask.durable import make_folder, remove_unfinished
from unmask.errors import StoreError
from unmask.jobs.plan import JobPlan, sha256
from unmask.printable import quoted
from unmask.records import places

if TYPE_CHECKING:
    import pyarrow

PLAN = "_plan.json"
_RECEIPT = re.compile(r"_part-(\d{6,})-[0-9a-f]{12}\.json")
# a unit that was begun this often without a receipt is taken to kill its worker
MOST_DEATHS = 3
# numbers of missing parts in a message
_MOST_NUMBERS = 5

Receipt = Mapping[str, Any]


@dataclass(frozen=True)
class Shard:
    """A share of the units: every `count`-th from `index` on, so that processes share a folder."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        """Reject a share that does not exist."""
        if not 0 <= self.index < self.count:
            raise StoreError(f"a shard is i/n with i from 0 to n - 1, not {self}")

    def __str__(self) -> str:
        """As it is given."""
        return f"{self.index}/{self.count}"

    @classmethod
    def parse(cls, text: str | None) -> "Shard":
        """Read what `str` wrote; None is all of them."""
        parts = re.fullmatch("([0-9]{1,6})/([0-9]{1,6})", "0/1" if text is None else text)
        if parts is None:
            raise StoreError(
                f"a shard is i/n with i from 0 to n - 1, such as 0/4, not {quoted(text)}"
            )
        return cls(int(parts[1]), int(parts[2]))


@dataclass(frozen=True)
class Folder:
    """A plan and its parts: where workers write."""

    place: str
    plan: JobPlan

    def path(self, number: int, name: str = "part-{}.parquet") -> str:
        """The place of a part, or of its receipt."""
        return places.inside(self.place, name.format(f"{number:06d}-{self.plan.digest[:12]}"))

    def note(self, number: int, facts: Receipt) -> None:
        """Write the receipt of a unit, which has a hash of its own: counters are added up.

        Neither it nor a part waits for the disk: what a power cut damages does not match its hash.
        """
        receipt = {"plan": self.plan.digest, "unit": number, **facts}
        content = json.dumps({**receipt, "check": sha256([receipt])}).encode()
        places.write_whole(self.path(number, "_part-{}.json"), content, durably=False)

    def write(self, number: int, table: "pyarrow.Table", facts: Receipt) -> None:
        """Write a part, and then its receipt."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        places.write_whole(self.path(number), content, durably=False)
        digest = hashlib.sha256(content).hexdigest()
        self.note(number, {"sha256": digest, "rows": table.num_rows, **facts})

    def forget(self, number: int) -> None:
        """Remove a receipt: its unit is computed again."""
        places.remove(self.path(number, "_part-{}.json"))

    def receipt(self, number: int) -> Receipt:
        """The receipt of a unit; empty if there is none, or not a whole one of this plan."""
        content = places.read_bytes(self.path(number, "_part-{}.json"))
        try:
            receipt = dict(json.loads(content or b"{}"))
        except (ValueError, TypeError):
            return {}
        is_whole = receipt.pop("check", None) == sha256([receipt])
        identity = receipt.get("plan"), receipt.get("unit")
        return receipt if is_whole and identity == (self.plan.digest, number) else {}

    def receipts(self) -> dict[int, Receipt]:
        """The receipts of units that are done, by unit; their parts are not looked at.

        One that is not whole, or of another plan, is empty: its part does not match it.
        """
        names = map(_RECEIPT.fullmatch, places.names_in(self.place))
        numbers = sorted(int(name[1]) for name in names if name)
        each = zip(numbers, places.in_parallel(self.receipt, numbers), strict=True)
        return {number: receipt for number, receipt in each if "begun" not in receipt}

    def missing(self, receipts: Mapping[int, Receipt]) -> str:
        """The numbers of units that have no receipt, as a sentence; empty if all have one."""
        every = [number for number in range(self.plan.units) if number not in receipts]
        numbers = ", ".join(map(str, every[:_MOST_NUMBERS]))
        more = f" and {len(every) - _MOST_NUMBERS:,} more" if len(every) > _MOST_NUMBERS else ""
        parts = "1 part is" if len(every) == 1 else f"{len(every):,} parts are"
        return f"{parts} missing: {numbers}{more}" if every else ""

    def content(self, number: int, receipt: Receipt) -> bytes | None:
        """The bytes of a part; None where they are not those of its receipt."""
        content = places.read_bytes(self.path(number)) or b""
        return content if hashlib.sha256(content).hexdigest() == receipt.get("sha256") else None

    def table(self, number: int, receipt: Receipt) -> "pyarrow.Table":
        """The rows of a part; one that does not match its receipt is a `StoreError`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if (content := self.content(number, receipt)) is None:
            raise StoreError(
                f"{places.shown(self.path(number))} is damaged: it is not what was written; repeat "
                "the command that made the folder, which computes it again"
            )
        return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)


def stored_plan(folder: str) -> JobPlan | None:
    """The plan of a folder; None if there is none."""
    place = places.inside(folder, PLAN)
    content = places.read_bytes(place)
    if content is None:
        return None
    return JobPlan.of_json(content.decode("utf-8", "replace"), places.shown(place))


def folder_at(place: str) -> Folder:
    """The folder of a job, of which no part is read yet."""
    plan = stored_plan(place)
    if plan is None:
        if not places.names_in(place):
            raise StoreError(f"there is no folder {places.shown(place)}, or it is empty")
        raise StoreError(f"{places.shown(place)} is not the folder of a job: it has no plan")
    return Folder(place, plan)


def holds_parts(folder: str) -> bool:
    """True if a unit is done."""
    return any(name.startswith("part-") for name in places.names_in(folder))


def agree(place: str, plan: JobPlan, shard: Shard) -> Folder:
    """The folder of a plan, which is written if there is none; another one is refused."""
    stored = stored_plan(place)
    # one that was interrupted before its first part holds nothing
    if stored is None or (shard.count == 1 and not holds_parts(place)):
        for name in places.names_in(place):
            if name.startswith("_part-"):
                places.remove(places.inside(place, name))
        places.write_whole(places.inside(place, PLAN), plan.to_json().encode())
        return Folder(place, plan)
    stored.check(plan, places.shown(place))
    return Folder(place, stored)


@contextmanager
def held(folder: str, shard: Shard) -> Iterator[None]:
    """Lock a shard of the job in `folder`, which is created if it does not exist."""
    where = places.shown(folder)
    names = [name for name in places.names_in(folder) if not name.startswith((".", "_lock-"))]
    if names and PLAN not in names:
        raise StoreError(
            f"{where} holds {quoted(min(names))} and no job; give a new or an empty folder"
        )
    if places.is_url(folder):
        yield
        return
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise StoreError(f"{where} is a file; give a folder")
    make_folder(Path(folder))
    try:
        name = f"_lock-{shard.index}-of-{shard.count}"
        lock = FileLock(os.path.join(folder, name), timeout=0).acquire()
    except Timeout:
        raise StoreError(
            f"another process is writing shard {shard} of {where}; let it finish, or share the "
            "work as shard 0/2 and shard 1/2"
        ) from None
    except (OSError, NotImplementedError) as error:
        raise StoreError(
            f"cannot lock {where}: {quoted(str(error))}; put the output on a file system with "
            "locks (flock)"
        ) from None
    with lock:
        if shard.count == 1:
            # of several processes that share a folder another may be writing
            remove_unfinished(Path(folder))
        yield
