"""Columns of Hugging Face datasets, from the hub or a folder.

The only module that imports the `datasets` library, and only when it is called. From its version
4 on no dataset runs code of its own.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from unmask.errors import CorpusError
from unmask.printable import printable, quoted
from unmask.records.tables import listed

# files that `Dataset.save_to_disk` and `DatasetDict.save_to_disk` leave behind
_SAVED = ("state.json", "dataset_dict.json")
_ROWS_AT_ONCE = 1000


@dataclass(frozen=True)
class HubTable:
    """Where a dataset is: a hub name or a folder, with what chooses a part of it."""

    place: str
    split: str | None = None
    config: str | None = None
    revision: str | None = None


def dataset_rows(table: HubTable, columns: Sequence[str]) -> tuple[str, Iterator[dict[str, Any]]]:
    """The split that is read, and the named columns of its rows."""
    library = datasets_library()
    shown = quoted(table.place, limit=150)
    with _quiet(library, os.path.isdir(table.place)):
        split, rows = _opened(library, table, shown)
    _check_columns(rows.column_names, columns, shown)
    batches = _batches(rows.select_columns(list(columns)), shown)
    return split, (
        dict(zip(columns, values, strict=True))
        for batch in batches
        for values in zip(*(batch[column] for column in columns), strict=True)
    )


def _batches(rows: Any, shown: str) -> Iterator[Any]:
    try:
        yield from rows.iter(batch_size=_ROWS_AT_ONCE)
    except Exception as error:  # files are mapped, and damage shows only when it is read
        raise CorpusError(f"cannot read the dataset {shown}: {reason_of(error)}") from None


def datasets_library() -> Any:
    """The `datasets` library, or an error of one line that explains how to install it."""
    try:
        return import_module("datasets")
    except ImportError:
        raise CorpusError(
            "Hugging Face datasets need the datasets library; "
            "pip install 'unmask[datasets]', or give a file"
        ) from None


def _opened(library: Any, table: HubTable, shown: str) -> tuple[str, Any]:
    try:
        if any((Path(table.place) / name).is_file() for name in _SAVED):
            return _saved(library, table, shown)
        split = table.split
        if split is None:
            names = library.get_dataset_split_names(
                table.place, table.config, revision=table.revision
            )
            split = _chosen(None, names, shown)
        return split, library.load_dataset(
            table.place, table.config, split=split, revision=table.revision
        )
    except CorpusError:
        raise
    except Exception as error:  # the library fails in many ways; all mean the same to the caller
        raise CorpusError(
            f"cannot load the dataset {shown}: {reason_of(error)}; "
            "check its name, split and config, or give a file"
        ) from None


def _saved(library: Any, table: HubTable, shown: str) -> tuple[str, Any]:
    """What `save_to_disk` wrote: one split, or several by name."""
    if table.config is not None or table.revision is not None:
        raise CorpusError(
            f"{shown} was saved to disk and has no configs or revisions; leave them out"
        )
    loaded = library.load_from_disk(table.place)
    if isinstance(loaded, library.DatasetDict):
        split = _chosen(table.split, list(loaded), shown)
        return split, loaded[split]
    own = str(loaded.split) if loaded.split is not None else Path(table.place).name
    if table.split not in (None, own):
        raise CorpusError(f"{shown} has no split {quoted(table.split)}; it has only {quoted(own)}")
    return own, loaded


def _chosen(split: str | None, names: Sequence[str], shown: str) -> str:
    if split is None and len(names) == 1:
        return names[0]
    if split is None:
        raise CorpusError(f"{shown} has the splits {listed(names)}; name the split to read")
    if split not in names:
        raise CorpusError(f"{shown} has no split {quoted(split)}; it has {listed(names)}")
    return split


def _check_columns(names: Sequence[str], columns: Sequence[str], shown: str) -> None:
    if not columns:
        raise CorpusError(f"{shown} has the columns {listed(names)}; name the columns to read")
    for column in columns:
        if column not in names:
            raise CorpusError(f"{shown} has no column {quoted(column)}; it has {listed(names)}")


def reason_of(error: BaseException) -> str:
    """The first line of the error of the library, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = printable(lines[0]).rstrip(".") if lines else type(error).__name__
    return first if len(first) <= 200 else first[:197] + "..."


@contextmanager
def _quiet(library: Any, local: bool) -> Iterator[None]:
    """Reports off: what matters of them is raised as an error instead. Bars only for downloads."""
    level = library.logging.get_verbosity()
    bars = not library.are_progress_bars_disabled()
    library.logging.set_verbosity(library.logging.CRITICAL)
    if local:
        library.disable_progress_bars()
    try:
        yield
    finally:
        library.logging.set_verbosity(level)
        if bars:
            library.enable_progress_bars()
