"""A model that has been read from a folder is not read again while its files are the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import unmask.loading

# models of this many bytes at most are kept, and so many of them
LARGEST, KEPT = 20_000_000, 16


@contextmanager
def reading_once() -> Iterator[None]:
    """`unmask.load` of a small folder gives the network and the tokenizer of the last time."""
    load, kept = unmask.loading.load_pretrained, dict[object, Any]()

    def load_once(place: Any, **options: Any) -> Any:
        key = (_files(Path(place)), *map(str, options.items()))
        if not key[0]:
            return load(place, **options)
        if key not in kept:
            kept[key] = load(place, **options)
            if len(kept) > KEPT:
                del kept[next(iter(kept))]
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unmask.loading, "load_pretrained", load_once)
        yield


def _files(folder: Path) -> tuple[object, ...]:
    """What tells one state of a folder from another; nothing for what is not kept."""
    if not folder.is_dir():
        return ()
    stats = {path: path.stat() for path in sorted(folder.resolve().iterdir()) if path.exists()}
    if sum(stat.st_size for stat in stats.values()) > LARGEST:
        return ()
    return tuple((str(path), s.st_ino, s.st_size, s.st_mtime_ns) for path, s in stats.items())
