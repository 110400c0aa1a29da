"""Columns of Hugging Face datasets, from the hub or a folder.

The only module that imports the `datasets` library, and only when it is called. From its version
4 on no dataset runs code of its own.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
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
    library, where = datasets_library(), quoted(place, limit=150)
    has_bars = not library.are_progress_bars_disabled()
    if Path(place).is_dir():
        # of downloads alone
        library.disable_progress_bars()
    try:
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
    except CorpusError:
        raise
    except Exception as error:  # it fails in many ways; all mean the same to the caller
        raise CorpusError(
            f"cannot load the dataset {where}: {describe(error)}; check its name, split and "
            "config, or give a file"
        ) from None
    finally:
        if has_bars:
            library.enable_progress_bars()


def datasets_library() -> Any:
    """The `datasets` library, or an error of one line that explains how to install it."""
    try:
        return import_module("datasets")
    except ImportError:
        raise CorpusError(
            "Hugging Face datasets need the datasets library; "
            "pip install 'unmask[datasets]', or give a file"
        ) from None
