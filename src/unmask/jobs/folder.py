"""The folder that a job writes: a Parquet part per unit, and a receipt for each.

    _plan.json                     the plan
    part-000000-3f2a….parquet      the rows of unit 0, under the digest of the plan
    _part-000000-3f2a….json        its receipt: plan, SHA-256 of the part, counters, seconds
    _begun-000001-3f2a…            how often unit 1 was begun; gone when it has a receipt
    _lock-0-of-1                   held by the one driver of this shard; not in a bucket

A unit is done when its receipt is there and its part has that SHA-256. Names that begin with an
underscore are skipped by whatever reads a folder of Parquet files. A bucket has no locks: two
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
from unmask.jobs.plan import JobPlan, check_same, read_plan, sha256
from unmask.printable import quoted
from unmask.records import places

if TYPE_CHECKING:
    import pyarrow

PLAN = "_plan.json"
_PART, _RECEIPT = "part-{:06d}-{}.parquet", "_part-{:06d}-{}.json"
_BEGUN = "_begun-{:06d}-{}"
_NUMBERED = re.compile(r"_(part|begun)-(\d{6,})-[0-9a-f]{12}(?:\.json)?")
# a unit that was begun so often without a receipt takes its worker along
MOST_DEATHS = 3

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

    def __contains__(self, number: int) -> bool:
        """True if a unit is in this share."""
        return number % self.count == self.index

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
    """The parts of a plan: where workers write."""

    place: str
    digest: str

    def part(self, number: int, name: str = _PART) -> str:
        """The place of a part."""
        return places.inside(self.place, name.format(number, self.digest[:12]))

    def begin(self, number: int) -> bool:
        """Note that a unit is begun; False if it took its worker along so often that it is not."""
        place = self.part(number, _BEGUN)
        times = int(places.read_bytes(place) or 0)
        if times < MOST_DEATHS:
            places.write_whole(place, str(times + 1).encode(), durably=False)
        return times < MOST_DEATHS

    def end(self, number: int) -> None:
        """Forget that a unit was begun: it is done, or this process lives to say why not."""
        places.remove(self.part(number, _BEGUN))

    def numbers(self, what: str) -> set[int]:
        """The units that have a receipt of a `part`, or a note that they are `begun`."""
        # of another plan too: its parts do not match this one
        names = filter(None, map(_NUMBERED.fullmatch, places.names_in(self.place)))
        return {int(name[2]) for name in names if name[1] == what}

    def write(self, number: int, table: "pyarrow.Table", facts: Mapping[str, Any]) -> None:
        """Write a part, and then its receipt.

        Neither waits for the disk: a part that a power cut damages does not match its receipt.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        digest = hashlib.sha256(content).hexdigest()
        named = {"plan": self.digest, "unit": number, "sha256": digest, "rows": table.num_rows}
        receipt = {**named, **facts}
        # of the receipt itself: its counters are added to those of others
        receipt["check"] = sha256([receipt])
        places.write_whole(self.part(number), content, durably=False)
        place = self.part(number, _RECEIPT)
        places.write_whole(place, json.dumps(receipt).encode(), durably=False)

    def forget(self, number: int) -> None:
        """Remove a receipt: its unit is computed again."""
        places.remove(self.part(number, _RECEIPT))

    def receipt(self, number: int) -> Receipt | None:
        """The receipt of a unit, if it is done; its part is not looked at."""
        try:
            content = places.read_bytes(self.part(number, _RECEIPT)) or b"{}"
            receipt = dict(json.loads(content))
        except (ValueError, TypeError):
            return None
        is_whole = receipt.pop("check", None) == sha256([receipt])
        named = receipt.get("plan"), receipt.get("unit")
        return receipt if is_whole and named == (self.digest, number) else None

    def receipts(self, shard: Shard | None = None) -> dict[int, Receipt | None]:
        """The receipts of all units or those of a shard; None where the part does not match."""
        numbers = [n for n in sorted(self.numbers("part")) if shard is None or n in shard]

        def checked(number: int) -> Receipt | None:
            receipt = self.receipt(number)
            return receipt if receipt and self._content(number, receipt) is not None else None

        return dict(zip(numbers, places.in_parallel(checked, numbers), strict=True))

    def _content(self, number: int, receipt: Receipt) -> bytes | None:
        """The bytes of a part; None where they are not those of its receipt."""
        content = places.read_bytes(self.part(number)) or b""
        return content if hashlib.sha256(content).hexdigest() == receipt["sha256"] else None

    def table(self, number: int, receipt: Receipt) -> "pyarrow.Table":
        """The rows of a part; one that does not match its receipt is a `StoreError`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        content = self._content(number, receipt)
        if content is None:
            raise StoreError(
                f"{places.shown(self.part(number))} is damaged: it is not what was written; repeat "
                "the command that made the folder, which computes it again"
            )
        return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)


def stored_plan(folder: str) -> JobPlan | None:
    """The plan of a folder; None if there is none."""
    place = places.inside(folder, PLAN)
    content = places.read_bytes(place)
    if content is None:
        return None
    return read_plan(content.decode("utf-8", "replace"), places.shown(place))


def write_plan(folder: str, plan: JobPlan) -> None:
    """Begin a folder."""
    places.write_whole(places.inside(folder, PLAN), plan.to_json().encode())


def holds_parts(folder: str) -> bool:
    """True if a unit is done."""
    return any(name.startswith("_part-") for name in places.names_in(folder))


def agree(folder: str, plan: JobPlan, shard: Shard) -> Folder:
    """The folder of a plan, which is written if there is none; another one is refused."""
    stored = stored_plan(folder)
    # one that was interrupted before its first part holds nothing
    if stored is None or (shard.count == 1 and not holds_parts(folder)):
        write_plan(folder, plan)
        return Folder(folder, plan.digest)
    check_same(stored, plan, places.shown(folder))
    return Folder(folder, stored.digest)


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
