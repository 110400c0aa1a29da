"""Files and folders wherever they are: paths of this machine, and URLs that pyarrow takes.

A place is a text. A path is used as it is; a URL (s3://, gs://, and hf:// for data sets of the Hub)
goes through `pyarrow.fs`. What is written is there whole or not at all: a file is renamed into its
place, and an object of a store is one put.
"""

import glob
import io
import os
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast

from unmask.durable import explained, replacing
from unmask.errors import CorpusError, StoreError
from unmask.printable import describe, quoted

# endings of compressed files, and what pyarrow calls them
COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
# requests to a store that wait for their answers at the same time
_REQUESTS = 32
# what makes a place a pattern
_MARKS = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class FoundFile:
    """An existing file: its place, its name below the requested place, its size and its change.

    `changed` is when an object of a store was written, None for a file of this machine; the
    `format` is that of its rows, once it is known.
    """

    place: str
    name: str
    size: int
    changed: int | None = None
    format: str = ""


def is_url(place: str) -> bool:
    """True if a place is not of this machine."""
    return "://" in place


def inside(folder: str, name: str) -> str:
    """A place in a folder."""
    return posixpath.join(folder, name)


def is_pattern(place: str) -> bool:
    """True if a place is a glob, not an existing file."""
    return bool(_MARKS.search(place)) and not os.path.exists(os.path.expanduser(place))


def shown(place: str) -> str:
    """A place for an error message; one below the working folder is shown relative to it."""
    if place == "-":
        return "standard input"
    if not is_url(place) and os.path.isabs(place):
        below = os.path.relpath(place)
        place = place if below.startswith("..") else below
    return quoted(place, limit=150)


# --- reading -----------------------------------------------------------------------------------


def open_file(place: str) -> AbstractContextManager[BinaryIO]:
    """A file that can be read from any byte on; a compressed one as it was before, in order."""
    if place == "-":
        if sys.stdin is None:
            raise CorpusError("there is no standard input to read from; give a file")
        # it is not ours to close
        return nullcontext(sys.stdin.buffer)
    packed = without_compression(place)[1]
    if not is_url(place) and packed is None:
        return open(place, "rb")
    import pyarrow

    system, path = _system(place)
    file = system.open_input_file(path)
    if packed is not None:
        file = pyarrow.CompressedInputStream(file, COMPRESSED[packed])
    return cast(BinaryIO, io.BufferedReader(file, 2**20))


@contextmanager
def reading(place: str, *errors: type[Exception]) -> Iterator[None]:
    """Errors of a file that cannot be read, and others that mean so, in one sentence."""
    every: tuple[type[Exception], ...] = (OSError, *errors)
    try:
        yield
    except every as error:
        why = getattr(error, "strerror", None) or describe(error)
        raise CorpusError(f"cannot read {shown(place)}: {why}") from None


def without_compression(place: str) -> tuple[str, str | None]:
    """A place without the ending of a compressed file, and that ending."""
    ending = next(filter(place.lower().endswith, COMPRESSED), None)
    return place[: len(place) - len(ending or "")], ending


def read_bytes(place: str) -> bytes | None:
    """A whole file; None if there is none."""
    try:
        with open_file(place) as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"cannot read {shown(place)}: {describe(error)}; try again") from None


def find(places: Iterable[str], endings: Iterable[str]) -> list[FoundFile]:
    """The files of places: files, globs, and all files of folders with one of the endings.

    Every file once, however many links lead to it. Files of a glob or a folder are sorted by name;
    among them, hidden ones and those whose names begin with an underscore are left out.
    """
    files: dict[str, FoundFile] = {}
    for place in places:
        there = _in_store(place) if is_url(place) else _on_disk(os.path.expanduser(place))
        # a single file is taken with any name: its format may be given
        if len(there) != 1:
            there = [file for file in there if file.name.lower().endswith(tuple(endings))]
        if not there:
            raise CorpusError(
                f"{shown(place)} holds no file that ends in {', '.join(endings)}"
                if is_url(place) or os.path.exists(place)
                else f"there is no file {shown(place)}"
            )
        for file in there:
            real = file.place if is_url(file.place) else os.path.realpath(file.place)
            files.setdefault(real, file)
    return list(files.values())


def _on_disk(place: str) -> list[FoundFile]:
    base = place
    paths: Iterable[str] = ()
    if os.path.isfile(place):
        base, paths = os.path.dirname(place), [place]
    elif os.path.isdir(place):
        paths = _walk(place)
    elif is_pattern(place):
        base = _fixed_part(place)
        # as in a shell, `**` is any number of folders, and enters none of them by a link
        deep = Path(base).glob(os.path.relpath(place, base or "."))
        paths = map(str, deep) if "**" in Path(place).parts else glob.glob(place)
    files = [(path, os.path.relpath(path, base or ".")) for path in sorted(paths)]
    return [
        FoundFile(os.path.abspath(path), name, os.path.getsize(path))
        for path, name in files
        if path == place or (os.path.isfile(path) and _is_data(name))
    ]


def _walk(folder: str) -> Iterator[str]:
    """All files below a folder; a folder that several links lead to is read once."""
    seen = {os.path.realpath(folder)}
    for path, folders, names in os.walk(folder, followlinks=True):
        real = {os.path.realpath(os.path.join(path, name)): name for name in sorted(folders)}
        folders[:] = [name for place, name in real.items() if place not in seen]
        seen.update(real)
        yield from (os.path.join(path, name) for name in names)


def _in_store(place: str) -> list[FoundFile]:
    base = _fixed_part(place) if _MARKS.search(place) else place
    root, files = _system(base)[1].strip("/"), []
    for info in sorted(_infos(base, recursive=True), key=lambda info: info.path):
        name = info.path.strip("/")[len(root) + 1 :]
        url = inside(base, name) if name else base
        # a file that is named itself is taken with any name
        is_wanted = not name or (_is_data(name) and (base == place or fnmatch(url, place)))
        if is_wanted and info.is_file:
            files.append(FoundFile(url, name or info.base_name, info.size, info.mtime_ns or 0))
    return files


def _fixed_part(place: str) -> str:
    """The folder that a pattern begins with."""
    folder, root, _ = _MARKS.split(place)[0].rpartition("/")
    return folder or root


def _is_data(name: str) -> bool:
    # Spark and pyarrow skip such files too
    return not any(part.startswith((".", "_")) for part in Path(name).parts)


# --- writing -----------------------------------------------------------------------------------


def write_whole(place: str, content: bytes, *, durably: bool = True) -> None:
    """A file with this content: there when this returns, or else not at all.

    Unless `durably`, a power cut may leave another content: whoever reads it looks at its hash.
    """
    if not is_url(place):
        path = Path(place)
        with explained(path), replacing(path, durably=durably) as unfinished:
            unfinished.write_bytes(content)
        return
    system, path_there = _system(place)
    try:
        # at once: a stream that fails half-way would be closed, and so be there
        with system.open_output_stream(path_there) as stream:
            stream.write(content)
    except OSError as error:
        raise StoreError(f"cannot write {shown(place)}: {describe(error)}") from None


def remove(place: str) -> None:
    """Remove a file, if it is there."""
    system, path = _system(place)
    try:
        with suppress(FileNotFoundError):
            system.delete_file(path)
    except OSError as error:
        raise StoreError(f"cannot remove {shown(place)}: {describe(error)}") from None


def names_in(folder: str) -> list[str]:
    """The names of what a folder holds; none if there is no such folder."""
    if not is_url(folder):
        return os.listdir(folder) if os.path.isdir(folder) else []
    return [info.base_name for info in _infos(folder, recursive=False)]


def in_parallel(function: Any, items: Iterable[Any]) -> Iterator[Any]:
    """A function of each, in their order, while others wait for a disk or a store."""
    with ThreadPoolExecutor(_REQUESTS) as threads:
        yield from threads.map(function, items)


# --- stores ------------------------------------------------------------------------------------


def _system(place: str) -> tuple[Any, str]:
    """The file system of a place, and the path that it has there."""
    import pyarrow.fs as pafs

    if not is_url(place):
        return pafs.LocalFileSystem(), place
    scheme, _, rest = place.partition("://")
    bucket, _, path = rest.partition("/")
    # pyarrow reads the Hub through the library that Hugging Face made for it
    scheme = "fsspec+hf" if scheme == "hf" else scheme
    try:
        system, base = _connected(f"{scheme}://{bucket}")
    except (ImportError, ValueError, OSError) as error:
        raise CorpusError(f"cannot use {shown(place)}: {describe(error)}") from None
    return system, f"{base}/{path}".rstrip("/")


@lru_cache
def _connected(root: str) -> tuple[Any, str]:
    import pyarrow.fs as pafs

    system, base = pafs.FileSystem.from_uri(root)
    return system, base


def _infos(place: str, *, recursive: bool) -> list[Any]:
    """The entries of a store's folder, or the file that the place is."""
    import pyarrow.fs as pafs

    system, path = _system(place)
    with reading(place):
        info = system.get_file_info(path)
        if info.is_file:
            return [info]
        below = pafs.FileSelector(path, recursive=recursive, allow_not_found=True)
        return list(system.get_file_info(below))
