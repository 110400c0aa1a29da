"""BLiMP, the benchmark of linguistic minimal pairs (Warstadt et al. 2020), as pairs to score.

A folder with one `.jsonl` file per paradigm, as published, or a hub dataset with one configuration
per paradigm. Ids are `paradigm/pairID`.
"""

import difflib
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from unmask.errors import CorpusError
from unmask.printable import describe, quoted
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

    Args:
        place: A folder of `*.jsonl`, or a hub dataset with a paradigm per config.
        paradigms: Which paradigms, in which order. Default: all, by name.
        limit: At most so many pairs of each, the first in the hashed order of their ids: any such
            part is a random sample, and a larger one begins with a smaller one.
    Returns:
        A dictionary per pair.
    Raises:
        CorpusError: There is no such folder or paradigm, or a row is not of BLiMP.
    Examples:
        >>> import json
        >>> from unmask.sequences.blimp import read_blimp
        >>> from pathlib import Path
        >>> Path("blimp").mkdir()
        >>> pair = {"sentence_good": "Dogs bark.", "sentence_bad": "Dogs barks.", "pair_id": 0}
        >>> pair |= {"UID": "agreement", "field": "syntax", "linguistics_term": "agreement"}
        >>> _ = Path("blimp/agreement.jsonl").write_text(json.dumps(pair))
        >>> read_blimp("blimp")[0]["sentence_good"]
        'Dogs bark.'
    """
    folder = Path(os.path.expanduser(place))
    local = os.path.isdir(folder)
    if not local and (place.startswith((".", "~", "/")) or os.path.exists(folder)):
        raise CorpusError(
            f"{quoted(place, limit=150)} is not a folder; give a folder of .jsonl files, or a hub "
            "dataset"
        )
    available = _paradigms_in(folder, place) if local else _paradigms_on_the_hub(place, paradigms)
    names = list(dict.fromkeys(paradigms)) or available
    for name in names:
        _check_paradigm(name, available, place)
    read = _paradigm_file if local else _paradigm_on_the_hub
    return [row for name in names for row in _first(read(place, name), limit)]


def hashed(item_id: str) -> bytes:
    """A key to sort pairs by: the same on every machine, and unrelated to their words."""
    return hashlib.sha256(f"blimp\x00{item_id}".encode()).digest()


def _first(rows: list[Row], limit: int | None) -> list[Row]:
    if limit is None:
        return rows
    return sorted(rows, key=lambda row: hashed(str(row["id"])))[:limit]


def _paradigms_in(folder: Path, place: str) -> list[str]:
    names = sorted(path.stem for path in folder.glob("*.jsonl"))
    if not names:
        raise CorpusError(
            f"the folder {quoted(place, limit=150)} has no .jsonl file; BLiMP has one per paradigm"
        )
    return names


def _paradigms_on_the_hub(place: str, requested: Sequence[str]) -> list[str]:
    if requested:
        return list(requested)
    try:
        return sorted(datasets_library().get_dataset_config_names(place))
    except CorpusError:
        raise
    except Exception as error:  # the library fails in many ways; all mean the same to the caller
        raise CorpusError(
            f"cannot load the dataset {quoted(place, limit=150)}: {describe(error)}; "
            "check its name, or give a folder of .jsonl files"
        ) from None


def _check_paradigm(name: str, available: Sequence[str], place: str) -> None:
    if name not in available:
        near = difflib.get_close_matches(name, available, n=3, cutoff=0.5) or available
        raise CorpusError(
            f"{quoted(place, limit=150)} has no paradigm {quoted(name)}; did you mean "
            f"{listed(near, most=5)}?"
        )


def _paradigm_file(place: str, paradigm: str) -> list[Row]:
    rows = open_input([os.path.join(place, f"{paradigm}.jsonl")], PAIR).rows_or_raise()
    return [_pair(paradigm, number, record.row) for number, record in enumerate(rows)]


def _paradigm_on_the_hub(place: str, paradigm: str) -> list[Row]:
    rows = dataset_rows(place, (*_COLUMNS, _IDS[1]), _SPLIT, paradigm)
    return [_pair(paradigm, number, row) for number, (_, row) in enumerate(rows)]


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
