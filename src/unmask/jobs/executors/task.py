"""What workers do, as a value that is sent to each once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from unmask.language_model import LanguageModel


class Failure(NamedTuple):
    """Why a job cannot be done: `message` names no machine, `details` may."""

    message: str
    details: str = ""


class OverlappedIO(NamedTuple):
    """Reads the next job and writes the last one while the model runs."""

    read: Callable[[LanguageModel, Any], Any]
    write: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Task:
    """A job from its beginning to its outcome.

    `check` rejects another model than the job was planned for. `run` makes the outcome; where reads
    and writes are `overlapped`, it makes what is written from what was read. `give_up` makes the
    outcome of a job that could not be done.
    """

    check: Callable[[LanguageModel], None]
    run: Callable[[LanguageModel, Any], Any]
    give_up: Callable[[Any, Failure], Any]
    overlapped: OverlappedIO | None = None
