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
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from unmask.durable import make_folder, remove_unfinished
from unmask.errors import StoreError
from unmask.jobs.canonical import sha256
from unmask.jobs.parts import decoded, encoded
from unmask.jobs.plan import JobPlan, check_same, read_plan
from unmask.jobs.shards import Shard
from unmask.printable import quoted
from unmask.records import places

if TYPE_CHECKING:
    import pyarrow

PLAN = "_plan.json"
_RECEIPT = re.compile(r"_part-(\d{6,})-([0-9a-f]{12})\.json")
_BEGUN = re.compile(r"_begun-(\d{6,})-[0-9a-f]{12}")
# a unit that was begun so often without a receipt takes its worker along
MOST_DEATHS = 3

Receipt = Mapping[str, Any]


@dataclass(frozen=True)
class Folder:
    """The parts of a plan: where workers write."""

    place: str
    digest: str

    def part(self, number: int) -> str:
        """The place of a part."""
        return self._place(f"part-{number:06d}-{self.digest[:12]}.parquet")

    def _receipt(self, number: int) -> str:
        return self._place(f"_part-{number:06d}-{self.digest[:12]}.json")

    def _begun(self, number: int) -> str:
        return self._place(f"_begun-{number:06d}-{self.digest[:12]}")

    def _place(self, name: str) -> str:
        return places.inside(self.place, name)

    def begin(self, number: int) -> bool:
        """Note that a unit is begun; False if it took its worker along so often that it is not."""
        place = self._begun(number)
        times = int(places.read_bytes(place) or 0)
        if times < MOST_DEATHS:
            places.write_whole(place, str(times + 1).encode(), durably=False)
        return times < MOST_DEATHS

    def end(self, number: int) -> None:
        """Forget that a unit was begun: it is done, or this process lives to say why not."""
        places.remove(self._begun(number))

    def end_all(self, done: Collection[int]) -> None:
        """Forget that units were begun whose process wrote a receipt and ended before it could."""
        for begun in map(_BEGUN.fullmatch, places.names_in(self.place)):
            if begun and int(begun[1]) in done:
                self.end(int(begun[1]))

    def write(self, number: int, table: "pyarrow.Table", facts: Mapping[str, Any]) -> None:
        """Write a part, and then its receipt.

        Neither waits for the disk: a part that a power cut damages does not match its receipt.
        """
        content = encoded(table)
        receipt = {
            "plan": self.digest,
            "unit": number,
            "sha256": hashlib.sha256(content).hexdigest(),
            "rows": table.num_rows,
            **facts,
        }
        # of the receipt itself: its counters are added to those of others
        receipt["check"] = sha256([receipt])
        places.write_whole(self.part(number), content, durably=False)
        places.write_whole(self._receipt(number), json.dumps(receipt).encode(), durably=False)

    def forget(self, number: int) -> None:
        """Remove a receipt: its unit is computed again."""
        places.remove(self._receipt(number))

    def receipt(self, number: int) -> Receipt | None:
        """The receipt of a unit, if it is done; its part is not looked at."""
        try:
            receipt = dict(json.loads(places.read_bytes(self._receipt(number)) or b"{}"))
        except (ValueError, TypeError):
            return None
        is_whole = receipt.pop("check", None) == sha256([receipt])
        named = receipt.get("plan"), receipt.get("unit")
        return receipt if is_whole and named == (self.digest, number) else None

    def table(self, number: int, receipt: Receipt) -> "pyarrow.Table":
        """The rows of a part; one that does not match its receipt is a `StoreError`."""
        content = self.content(number, receipt)
        if content is None:
            raise StoreError(
                f"{places.shown(self.part(number))} is damaged: it is not what was written; repeat "
                "the command that made it, which computes it again"
            )
        return decoded(content)

    def content(self, number: int, receipt: Receipt) -> bytes | None:
        """The bytes of a part; None where they are not those of its receipt."""
        content = places.read_bytes(self.part(number)) or b""
        return content if hashlib.sha256(content).hexdigest() == receipt["sha256"] else None

    def receipts(self, shard: Shard | None = None) -> dict[int, Receipt | None]:
        """The receipts of all units or those of a shard; None where the part does not match."""
        share = shard or Shard()
        # of another plan too: its parts do not match this one
        matches = map(_RECEIPT.fullmatch, places.names_in(self.place))
        every = sorted({int(one[1]) for one in matches if one})
        numbers = [number for number in every if number % share.count == share.index]

        def checked(number: int) -> Receipt | None:
            receipt = self.receipt(number)
            return None if receipt is None or self.content(number, receipt) is None else receipt

        return dict(zip(numbers, places.in_parallel(checked, numbers), strict=True))


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


@contextmanager
def held(folder: str, shard: Shard) -> Iterator[None]:
    """Lock a shard of the job in `folder`, which is created if it does not exist."""
    names = [name for name in places.names_in(folder) if not name.startswith((".", "_lock-"))]
    if names and PLAN not in names:
        raise StoreError(
            f"{places.shown(folder)} holds {quoted(sorted(names)[0])} and no job; give a new or an "
            "empty folder"
        )
    if places.is_url(folder):
        yield
        return
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise StoreError(f"{places.shown(folder)} is a file; give a folder")
    make_folder(Path(folder))
    lock = FileLock(os.path.join(folder, f"_lock-{shard.folder}"), timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise StoreError(
            f"another process is writing shard {shard} of {places.shown(folder)}; let it finish, "
            "or share the work as shard 0/2 and shard 1/2"
        ) from None
    except (OSError, NotImplementedError) as error:
        raise StoreError(
            f"cannot lock {places.shown(folder)}: {quoted(str(error))}; put the output on a file "
            "system with locks (flock)"
        ) from None
    try:
        if shard.count == 1:
            # of several processes that share a folder another may be writing
            remove_unfinished(Path(folder))
        yield
    finally:
        lock.release()


def holds_parts(folder: str) -> bool:
    """Whether a unit is done."""
    return any(map(_RECEIPT.fullmatch, places.names_in(folder)))


def agree(folder: str, plan: JobPlan, shard: Shard) -> Folder:
    """The folder of a plan, which is written if there is none; another one is refused."""
    stored = stored_plan(folder)
    # one that was interrupted before its first part holds nothing
    if stored is None or (shard.count == 1 and not holds_parts(folder)):
        write_plan(folder, plan)
    else:
        check_same(stored, plan, places.shown(folder))
        plan = stored
    return Folder(folder, plan.digest)
