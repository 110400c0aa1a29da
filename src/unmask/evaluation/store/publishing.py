"""A run copied into few files, to be kept beside a paper or in a repository.

The copy is the folder of a run like any other: plan, rows in one part, manifest. It holds ids of
examples and no text.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from unmask.errors import StoreError
from unmask.evaluation.plan import Batch
from unmask.evaluation.rows import Row
from unmask.evaluation.store.run_folder import LOCKS, Run
from unmask.evaluation.store.run_writer import writing
from unmask.evaluation.store.shards import Shard
from unmask.printable import quoted


def copy_run(run: Run, folder: Path) -> None:
    """Write the plan and all result rows of a run into a new folder."""
    if os.path.exists(folder) and any(os.scandir(folder)):
        raise StoreError(
            f"{quoted(str(folder), limit=150)} is not empty; a run is copied into a new folder"
        )
    with writing(folder, run.plan, Shard(), _no_batch) as writer:
        writer.save([without_detail(row) for row in run.rows])
    # nothing will be written here again
    shutil.rmtree(folder / LOCKS)


def without_detail(row: Row) -> Row:
    """An error may name machines, folders and text: its kind is what others need."""
    return row if row.error is None else replace(row, error=row.error.split(":")[0] or "an error")


def _no_batch() -> Batch:
    raise AssertionError("the plan of a run that was begun has its batch size")
