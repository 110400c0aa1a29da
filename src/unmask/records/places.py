"""Files and folders wherever they are: paths of this machine, and URLs that pyarrow takes.

A place is a text. A path is used as it is; a URL (s3://, gs://, and hf:// for data sets of the Hub)
goes through `pyarrow.fs`. What is written is there whole or not at all: a file is renamed into its
place, and an object of a store is one put.
"""

import glob
import io
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from unmask.durable import write_file
from unmask.errors import CorpusError, StoreError
from unmask.printable import describe, quoted

# what files may be packed with, by the end of their names, and what pyarrow calls it
COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
# requests to a store that wait for their answers at the same time
_REQUESTS = 32
_PATTERN = frozenset("*?[")
# pyarrow reads the Hub through the library that Hugging Face made for it
_ADDED = {"hf": "fsspec+hf"}


@dataclass(frozen=True)
class FoundFile:
    """An existing file: its place, its name below the requested place, its size and its change.

    `changed` is when an object of a store was written, None for a file of this machine.
    """

    place: str
    name: str
    size: int
    changed: int | None = None


def is_url(place: str) -> bool:
    """Whether a place is not of this machine."""
    return "://" in place


def inside(folder: str, name: str) -> str:
    """A place in a folder."""
    return f"{folder.rstrip('/')}/{name}" if is_url(folder) else os.path.join(folder, name)


def is_pattern(place: str) -> bool:
    """Whether a place is a glob, not an existing file."""
    return bool(_PATTERN & set(place)) and not os.path.exists(os.path.expanduser(place))


def shown(place: str) -> str:
    """A place for an error message; one below the working folder is shown relative to it."""
    if not is_url(place) and os.path.isabs(place):
        below = os.path.relpath(place)
        place = place if below.startswith("..") else below
    return quoted(place, limit=150)


def stamp(place: str) -> object:
    """What changes with a file of this machine, so that nothing stale is remembered of it."""
    if is_url(place):
        return None
    status = os.stat(place)
    return status.st_mtime_ns, status.st_size


# --- reading -----------------------------------------------------------------------------------


def open_file(place: str) -> BinaryIO:
    """A file that can be read from any byte on; a compressed one as it was before."""
    _, compression = without_compression(place)
    if compression is not None:
        try:
            import pyarrow
        except ImportError:
            raise CorpusError(
                f"{shown(place)} is compressed, which needs pyarrow: pip install 'unmask[evaluate]'"
            ) from None
    file: Any
    if not is_url(place):
        file = open(place, "rb")  # noqa: SIM115
    else:
        system, path = _system(place)
        with _explained(place):
            file = io.BufferedReader(system.open_input_file(path), 2**20)
    if compression is not None:
        file = io.BufferedReader(pyarrow.CompressedInputStream(file, compression), 2**20)
    opened: BinaryIO = file
    return opened


def without_compression(place: str) -> tuple[str, str | None]:
    """A place without the ending of a compressed file, and what that was compressed with."""
    for ending, compression in COMPRESSED.items():
        if place.lower().endswith(ending):
            return place[: -len(ending)], compression
    return place, None


def skip_to(file: BinaryIO, start: int) -> None:
    """Go to a byte of a file that was just opened; a compressed one is read up to there."""
    if file.seekable():
        file.seek(start)
        return
    while start > 0 and (some := file.read(min(start, 2**20))):
        start -= len(some)


def read_text(place: str) -> str | None:
    """A whole file; None if there is none."""
    try:
        with open_file(place) as file:
            return file.read().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read {shown(place)}: {describe(error)}") from None


def find(places: Iterable[str], endings: Iterable[str]) -> list[FoundFile]:
    """The files of places: files, globs, and all files of folders with one of the endings.

    Files of a glob or a folder are sorted by name; among them, hidden ones and those
    whose names begin with an underscore are left out.
    """
    files: list[FoundFile] = []
    for place in places:
        some = _find_urls(place) if is_url(place) else _find_paths(os.path.expanduser(place))
        many = [one for one in some if one.name.lower().endswith(tuple(endings))]
        # a single file is taken with any name: its format may be given
        some = many if many or len(some) != 1 else some
        if not some:
            raise CorpusError(
                f"{shown(place)} holds no file that ends in {', '.join(endings)}"
                if is_url(place) or os.path.exists(place)
                else f"there is no file {shown(place)}"
            )
        files += some
    return files


def _find_paths(place: str) -> list[FoundFile]:
    if os.path.isfile(place):
        name = os.path.basename(place)
        return [FoundFile(os.path.abspath(place), name, os.path.getsize(place))]
    if os.path.isdir(place):
        paths, base = glob.glob(os.path.join(glob.escape(place), "**"), recursive=True), place
    elif not _PATTERN & set(place):
        return []
    else:
        paths, base = glob.glob(place, recursive=True), _fixed_part(place)
    files = sorted(path for path in paths if os.path.isfile(path))
    named = [(path, os.path.relpath(path, base or ".")) for path in files]
    return [
        FoundFile(os.path.abspath(path), name, os.path.getsize(path))
        for path, name in named
        if _is_data(name)
    ]


def _find_urls(place: str) -> list[FoundFile]:
    import pyarrow.fs as pafs

    base = _fixed_part(place) if _PATTERN & set(place) else place
    system, root = _system(base)
    with _explained(place):
        info = system.get_file_info(root)
        infos = [info]
        if info.type != pafs.FileType.File:
            below = pafs.FileSelector(root, recursive=True, allow_not_found=True)
            infos = system.get_file_info(below)
    files = []
    for one in sorted(infos, key=lambda one: one.path):
        itself = one.path.strip("/") == root.strip("/")
        name = one.base_name if itself else one.path.strip("/")[len(root.strip("/")) + 1 :]
        url = base if itself else inside(base, name)
        chosen = base == place or fnmatch(url, place)
        # a file that is named itself is taken with any name
        if one.type == pafs.FileType.File and chosen and (itself or _is_data(name)):
            files.append(FoundFile(url, name, one.size, one.mtime_ns or 0))
    return files


def _fixed_part(place: str) -> str:
    """The folder that a pattern begins with."""
    first = min(place.index(mark) for mark in _PATTERN if mark in place)
    folder, root, _ = place[:first].rpartition("/")
    return folder or root


def _is_data(name: str) -> bool:
    # as Spark and pyarrow leave them out
    return not any(part.startswith((".", "_")) for part in Path(name).parts)


# --- writing -----------------------------------------------------------------------------------


def write_whole(place: str, content: bytes) -> None:
    """A file with this content: there when this returns, or else not at all."""
    if not is_url(place):
        write_file(Path(place), lambda file: file.write(content))
        return
    system, path = _system(place)
    try:
        # at once: a stream that fails half-way would be closed, and so be there
        with system.open_output_stream(path) as stream:
            stream.write(content)
    except OSError as error:
        raise StoreError(
            f"cannot write {shown(place)}: {describe(error)}; what was saved before is safe: "
            "repeat the command"
        ) from None


def changes_in(folder: str) -> dict[str, int]:
    """The files of a folder, and when each changed; none if there is no such folder.

    In nanoseconds, by the clock of the disk or the store; 0 if it is not known.
    """
    if not is_url(folder):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return {name: _changed(os.path.join(folder, name)) for name in names}
    import pyarrow.fs as pafs

    system, path = _system(folder)
    with _explained(folder):
        infos = system.get_file_info(pafs.FileSelector(path, allow_not_found=True))
    return {one.base_name: one.mtime_ns or 0 for one in infos}


def _changed(path: str) -> int:
    try:
        status = os.stat(path)
    except OSError:
        # renamed since the folder was listed
        return 0
    # a copy may keep the time of modification, but not that of the change
    return max(status.st_ctime_ns, status.st_mtime_ns)


def in_parallel(function: Any, items: Iterable[Any]) -> Iterator[Any]:
    """A function of each, in their order, while others wait for a disk or a store."""
    with ThreadPoolExecutor(_REQUESTS) as threads:
        yield from threads.map(function, items)


# --- stores ------------------------------------------------------------------------------------


def _system(place: str) -> tuple[Any, str]:
    """What reads a URL, and the path that it has there."""
    scheme, _, rest = place.partition("://")
    bucket, _, path = rest.partition("/")
    try:
        system, base = _connected(f"{_ADDED.get(scheme, scheme)}://{bucket}")
    except ImportError as error:
        raise CorpusError(
            f"{shown(place)} is a URL, which needs pyarrow: pip install 'unmask[evaluate]' "
            f"({describe(error)})"
        ) from None
    except (ValueError, OSError) as error:
        raise CorpusError(f"cannot use {shown(place)}: {describe(error)}") from None
    return system, f"{base}/{path}".rstrip("/")


@lru_cache
def _connected(root: str) -> tuple[Any, str]:
    import pyarrow.fs as pafs

    system, base = pafs.FileSystem.from_uri(root)
    return system, base


@contextmanager
def _explained(place: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorpusError(f"cannot read {shown(place)}: {describe(error)}") from None
