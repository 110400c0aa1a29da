"""The exceptions and warnings of the library, each one sentence that names the value.

Bad input raises one of these in Python; the command line prints the same sentence and exits with 2.
A warning comes with a result that may not be what the caller meant.
"""

import sys
import warnings
from types import FrameType


class UnmaskError(ValueError):
    """Base of every error that `unmask` raises on purpose."""


class ClozeError(UnmaskError):
    """The text or its blanks cannot be used."""


class SupportError(UnmaskError):
    """A token, id or candidate set does not fit the blank it was given for."""


class MethodError(UnmaskError):
    """There is no such construction, or it does not take such an option."""


class ModelError(UnmaskError):
    """The model or tokenizer cannot be loaded or is not a masked language model."""


class MemoryLimitError(UnmaskError):
    """The work does not fit into the memory that the caller allows."""


class NumericsError(UnmaskError):
    """A number that had to be finite is not."""


class CorpusError(UnmaskError):
    """A corpus cannot be read, or its sentences cannot be masked as requested."""


class StoreError(UnmaskError):
    """The folder of an evaluation cannot be used: another plan, another process, or its disk."""


class UnmaskWarning(UserWarning):
    """Base of every warning about a request."""


class UnknownTokenWarning(UnmaskWarning):
    """Parts of a text are not in the vocabulary: the model reads its unknown token instead."""


class SpecialTokenWarning(UnmaskWarning):
    """Special tokens are written in a text: the model reads them as such, not as characters."""


class UndeterminedWarning(UnmaskWarning):
    """Tables do not determine how much mass groups of tokens hold that hardly meet."""


class PiecesWarning(UnmaskWarning):
    """A word given as a blank has several pieces, but the blank holds one token."""


def warn(message: str, category: type[UnmaskWarning]) -> None:
    """Warn at the caller's own line, where Python shows the same sentence once."""
    frame: FrameType | None = sys._getframe()
    depth, ours = 1, 1
    while frame is not None:
        if str(frame.f_globals.get("__name__")).split(".")[0] == "unmask":
            ours = depth
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=ours + 1)
