"""Files that are there whole or not at all, whenever the machine stops or the disk is full."""

import errno
import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unmask.errors import StoreError
from unmask.printable import quoted

_UNFINISHED = ".unfinished"


@contextmanager
def replacing(path: Path, *, durably: bool = True) -> Iterator[Path]:
    """A place to write to, beside `path` and renamed onto it at the end; gone if that fails.

    Unless `durably`, its content may be lost in a power cut.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{_UNFINISHED}")
    try:
        yield unfinished
        if durably:
            with unfinished.open("rb+") as file:
                os.fsync(file.fileno())
        os.replace(unfinished, path)
        # the new name, too, must survive a power cut; Windows has no call for it
        if durably and os.name != "nt":
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    finally:
        unfinished.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """A folder and those above it."""
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)


def remove_unfinished(folder: Path, name: str = "*") -> None:
    """Remove what a process left that was stopped while it wrote a file; none may write one now.

    Of one file alone if it has a `name`.
    """
    pattern = name if name == "*" else f"{glob.escape(name)}.*"
    with explained(folder):
        for left in folder.glob(f".{pattern}{_UNFINISHED}"):
            left.unlink(missing_ok=True)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Errors of the disk in one sentence, with the remedy."""
    try:
        yield
    except BrokenPipeError:
        # whoever read it has enough
        raise
    except OSError as error:
        why = error.strerror or str(error)
        remedy = "make room or choose another place"
        if error.errno == errno.EFBIG:
            remedy = "allow larger files (ulimit -f) or choose another place"
        raise StoreError(
            f"cannot write {quoted(str(path), limit=200)}: {why}; what was saved before is safe:"
            f" {remedy}, and repeat the command"
        ) from None
