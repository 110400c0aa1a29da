"""Columns of Hugging Face datasets, from the hub or a folder.

The only module that imports the `datasets` library, and only when it is called. From its version
4 on no dataset runs code of its own.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from unmask.errors import CorpusError
from unmask.printable import describe, quoted
from unmask.records.rows import columns_reason, listed


def dataset_rows(
    place: str,
    columns: Sequence[str],
    split: str | None = None,
    config: str | None = None,
    revision: str | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The named columns of the rows of a split, each with the name of the split."""
    where = quoted(place, limit=150)
    with datasets_library(place, "check its name, split and config, or give a file") as library:
        if split is None:
            splits = library.get_dataset_split_names(place, config, revision=revision)
            if len(splits) != 1:
                raise CorpusError(
                    f"{where} has the splits {listed(splits)}; name the split to read"
                )
            (split,) = splits
        rows = library.load_dataset(place, config, split=split, revision=revision)
        if not columns:
            names = listed(rows.column_names)
            raise CorpusError(f"{where} has the columns {names}; name the columns to read")
        if (why := columns_reason(columns, rows.column_names, where)) is not None:
            raise CorpusError(why)
        for row in rows.select_columns(list(columns)):
            yield str(split), row


@contextmanager
def datasets_library(place: str, remedy: str) -> Iterator[Any]:
    """The `datasets` library, whose errors with a dataset become one line with a remedy."""
    try:
        library = import_module("datasets")
    except ImportError:
        raise CorpusError(
            "Hugging Face datasets need the datasets library; "
            "pip install 'unmask[datasets]', or give a file"
        ) from None
    # bars are of downloads alone
    has_bars = os.path.isdir(place) and not library.are_progress_bars_disabled()
    if has_bars:
        library.disable_progress_bars()
    try:
        yield library
    except CorpusError:
        raise
    except Exception as error:  # it fails in many ways; all mean the same to the caller
        why = describe(error)
        raise CorpusError(
            f"cannot load the dataset {quoted(place, limit=150)}: {why}; {remedy}"
        ) from None
    finally:
        if has_bars:
            library.enable_progress_bars()
