"""What the errors of workers mean: which are transient, which are permanent, and what to report.

Knows errors by name and text alone, neither Ray nor the pool.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from unmask.errors import UnmaskError
from unmask.printable import describe, printable

_LONGEST_REASON = 300
# by name: which libraries there are, and which of their errors, differs from node to node
_PASSING = {
    *("OutOfMemoryError", "MemoryError", "AcceleratorError"),
    *("ConnectionError", "TimeoutError", "Timeout", "TransportError"),
}
# the network is switched off: trying again does not bring it
_LASTING = "OfflineModeIsEnabled"
_ACCELERATOR = re.compile(r"\b(AcceleratorError|CUDA error|HIP error)\b")
# another version, or none: every worker of that node would fail in the same way
_MISSING = re.compile(r"(ModuleNotFound|Import|Attribute)Error\b")
_MEMORY = re.compile(r"out of memory|ALLOC_FAILED", re.IGNORECASE)


class Problem(NamedTuple):
    """Why a model could not be loaded; one that `lasts` would be the same for another worker."""

    why: str
    lasts: bool


def problem(error: Exception) -> Problem:
    """What an error while loading means: only what `unmask` itself rejects lasts.

    It also words errors of libraries, of which some pass: those are known by what they came from.
    """
    if not isinstance(error, UnmaskError):
        return Problem(describe(error), lasts=False)
    names = {kind.__name__ for one in _causes(error) for kind in type(one).__mro__}
    sick = any(_ACCELERATOR.search(describe(one)) for one in _causes(error))
    return Problem(str(error), lasts=_LASTING in names or not (sick or names & _PASSING))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def is_of_accelerator(description: object) -> bool:
    """Whether a described error is the accelerator's own: a process does not recover from it.

    Lack of memory is not: CUDA recovers from that.
    """
    if not isinstance(description, str):
        return False
    return _ACCELERATOR.search(description) is not None and not _MEMORY.search(description)


def lacks_software(error: Exception) -> bool:
    """Whether a process could not even begin for lack of a module, or of something in one."""
    return _MISSING.match(brief(error)) is not None


def address_in(traceback: str) -> str:
    """The node of a worker that never reported its address."""
    match = re.search(r"\bip=([\w.:]+)", traceback)
    return match[1] if match else "not known"


def brief(error: Exception) -> str:
    """The last line of Ray's message, which has the reason; before it are ids and a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return printable(lines[-1] if lines else type(error).__name__)[:_LONGEST_REASON]
