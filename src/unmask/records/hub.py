"""Columns of Hugging Face datasets, from the hub or a folder.

The only module that imports the `datasets` library, and only when it is called. From its version
4 on no dataset runs code of its own.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from unmask.errors import CorpusError
from unmask.printable import describe, quoted
from unmask.records.tables import listed

# files that `Dataset.save_to_disk` and `DatasetDict.save_to_disk` leave behind
_SAVED = ("state.json", "dataset_dict.json")
_ROWS_AT_ONCE = 1000


class HubTable(NamedTuple):
    """The place of a dataset: a hub name or a folder, with what chooses a part of it."""

    place: str
    split: str | None = None
    config: str | None = None
    revision: str | None = None


def dataset_rows(table: HubTable, columns: Sequence[str]) -> tuple[str, Iterator[dict[str, Any]]]:
    """The split that is read, and the named columns of its rows."""
    library, where = datasets_library(), quoted(table.place, limit=150)
    with _quiet(library, os.path.isdir(table.place)):
        try:
            split, rows = _opened(library, table, where)
        except CorpusError:
            raise
        except Exception as error:  # it fails in many ways; all mean the same to the caller
            raise CorpusError(
                f"cannot load the dataset {where}: {describe(error)}; "
                "check its name, split and config, or give a file"
            ) from None
    names = rows.column_names
    if not columns:
        raise CorpusError(f"{where} has the columns {listed(names)}; name the columns to read")
    for column in columns:
        if column not in names:
            raise CorpusError(f"{where} has no column {quoted(column)}; it has {listed(names)}")
    return split, _read(rows.select_columns(list(columns)), where)


def _read(rows: Any, where: str) -> Iterator[dict[str, Any]]:
    try:
        for batch in rows.iter(batch_size=_ROWS_AT_ONCE):
            for values in zip(*batch.values(), strict=True):
                yield dict(zip(batch, values, strict=True))
    except Exception as error:  # files are mapped, and damage shows only when it is read
        raise CorpusError(f"cannot read the dataset {where}: {describe(error)}") from None


def datasets_library() -> Any:
    """The `datasets` library, or an error of one line that explains how to install it."""
    try:
        return import_module("datasets")
    except ImportError:
        raise CorpusError(
            "Hugging Face datasets need the datasets library; "
            "pip install 'unmask[datasets]', or give a file"
        ) from None


def _opened(library: Any, table: HubTable, where: str) -> tuple[str, Any]:
    """The split that is named or the only one, and its rows."""
    place, split, config, revision = table
    if any((Path(place) / name).is_file() for name in _SAVED):
        if config is not None or revision is not None:
            raise CorpusError(
                f"{where} was saved to disk and has no configs or revisions; leave them out"
            )
        saved = library.load_from_disk(place)
        if not isinstance(saved, library.DatasetDict):
            saved = {str(saved.split or Path(place).name): saved}
        split = _split(split, list(saved), where)
        return split, saved[split]
    if split is None:
        names = library.get_dataset_split_names(place, config, revision=revision)
        split = _split(None, names, where)
    return split, library.load_dataset(place, config, split=split, revision=revision)


def _split(split: str | None, names: Sequence[str], where: str) -> str:
    if split is None and len(names) != 1:
        raise CorpusError(f"{where} has the splits {listed(names)}; name the split to read")
    if split is not None and split not in names:
        raise CorpusError(f"{where} has no split {quoted(split)}; it has {listed(names)}")
    return split or names[0]


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
