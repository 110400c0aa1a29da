"""The exceptions a caller can meet, each a single sentence that names the value and the fix.

Bad input raises one of these in Python; the command line prints the same sentence and exits with 2.
"""


class UnmaskError(ValueError):
    """Base of every error that `unmask` raises on purpose."""


class ClozeError(UnmaskError):
    """The text or its blanks cannot be used."""


class SupportError(UnmaskError):
    """A token, id or candidate set does not fit the blank it was given for."""


class MethodError(UnmaskError):
    """No such construction, or an option that it does not take."""


class ModelError(UnmaskError):
    """The model or tokenizer cannot be loaded or is not a masked language model."""


class MemoryLimitError(UnmaskError):
    """The work does not fit into the memory that the caller allows."""


class NumericsError(UnmaskError):
    """A number that had to be finite is not."""


class TablesFileError(UnmaskError):
    """A file does not hold tables that this version can read."""


class CorpusError(UnmaskError):
    """A corpus cannot be read, or its sentences not masked as asked."""


class StoreError(UnmaskError):
    """The folder of an evaluation cannot be used: another plan, another process, or its disk."""
