"""BLiMP, the benchmark of linguistic minimal pairs (Warstadt et al. 2020), as pairs to score.

A folder with one `.jsonl` file per paradigm, as published, or a hub dataset with one configuration
per paradigm. Ids are `paradigm/pairID`.
"""

import difflib
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from unmask.errors import CorpusError
from unmask.printable import quoted
from unmask.records.files import open_input
from unmask.records.hub import dataset_rows, datasets_library
from unmask.records.rows import Row, listed

# the columns of the sentence that should win and of the other; what else is kept of a pair
PAIR = ("sentence_good", "sentence_bad")
PARADIGM = "UID"
GROUPS = ("linguistics_term", "field")
_COLUMNS = (*GROUPS, *PAIR)
# published twice, under two names
_IDS = ("pairID", "pair_id")
_SPLIT = "train"


def read_blimp(place: str, *, paradigms: Sequence[str] = (), limit: int | None = None) -> list[Row]:
    """BLiMP's pairs as rows: both sentences, the paradigm, its groups and an id.

    `place` is a folder of `*.jsonl`, or a hub dataset with a paradigm per config; without names all
    paradigms are read, by name. Of each at most `limit` pairs, the first in the hashed order of
    their ids: any such part is a random sample, and a larger one begins with a smaller one.
    """
    folder = Path(os.path.expanduser(place))
    local = os.path.isdir(folder)
    if not local and (place.startswith((".", "~", "/")) or os.path.exists(folder)):
        raise CorpusError(
            f"{quoted(place, limit=150)} is not a folder; give a folder of .jsonl files, or a hub "
            "dataset"
        )
    if local:
        available = sorted(path.stem for path in folder.glob("*.jsonl"))
        if not available:
            why = "has no .jsonl file; BLiMP has one per paradigm"
            raise CorpusError(f"the folder {quoted(place, limit=150)} {why}")
    elif paradigms:
        available = list(paradigms)
    else:
        with datasets_library(place, "check its name, or give a folder of .jsonl files") as library:
            available = sorted(library.get_dataset_config_names(place))
    names = list(dict.fromkeys(paradigms)) or available
    for name in (name for name in names if name not in available):
        near = difflib.get_close_matches(name, available, n=3, cutoff=0.5) or available
        raise CorpusError(
            f"{quoted(place, limit=150)} has no paradigm {quoted(name)}; did you mean "
            f"{listed(near, most=5)}?"
        )
    pairs: list[Row] = []
    for name in names:
        if local:
            records = open_input([os.path.join(place, f"{name}.jsonl")], PAIR).rows_or_raise()
            rows: Iterable[Mapping[str, object]] = (record.row for record in records)
        else:
            rows = (row for _, row in dataset_rows(place, (*_COLUMNS, _IDS[1]), _SPLIT, name))
        of_name = [_pair(name, number, row) for number, row in enumerate(rows)]
        if limit is not None:
            of_name = sorted(of_name, key=lambda row: hashed(str(row["id"])))[:limit]
        pairs += of_name
    return pairs


def hashed(item_id: str) -> bytes:
    """A key to sort pairs by: the same on every machine, and unrelated to their words."""
    return hashlib.sha256(f"blimp\x00{item_id}".encode()).digest()


def _pair(paradigm: str, row: int, values: Mapping[str, object]) -> Row:
    number = next((values[name] for name in _IDS if name in values), row)
    columns = {
        "id": f"{paradigm}/{number}",
        PARADIGM: paradigm,
        **{name: values.get(name, "") for name in _COLUMNS},
    }
    for name in PAIR:
        if not isinstance(columns[name], str):
            raise CorpusError(
                f"{columns['id']} of BLiMP has {quoted(columns[name])} under {quoted(name)}, where "
                "a text should be"
            )
    return columns
