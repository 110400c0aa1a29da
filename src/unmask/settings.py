"""Settings of a run over many inputs, as far as the caller decides."""

from dataclasses import dataclass

from unmask.arguments import check_flags, real_number, whole_number
from unmask.errors import SupportError, UnmaskError
from unmask.printable import quoted
from unmask.progress import Shown

# bytes of arrays of size V x V, by default
DEFAULT_MEMORY_LIMIT = 4 * 10**9
# the first sweep of a sketch, and as many again
_FEWEST_PASSES = 101


@dataclass(frozen=True)
class Settings:
    """Settings of a run over many inputs.

    Args:
        batch_size: How many inputs the model runs at once. Default: what suits the device.
        memory_limit: Bytes for everything of size V x V: tables that fit, with room to work, are
            stored dense, larger ones factored.
        half_tables: Whether the copies that `ag` and the stationary law read are bfloat16: half the
            memory, so larger vocabularies stay fast, but probabilities are rounded by up to 0.4%.
        progress: A bar on stderr (None: only on a terminal), or a function that is called with a
            `Progress` after every batch and every sweep over tables, and may raise to stop.
        announce: Whether to print what a long run will cost, if a bar would be shown.
    Examples:
        >>> quiet = unmask.Settings(batch_size=64, progress=False)
        >>> lm.score("Two dogs are running.", settings=quiet).forward_passes
        5
    """

    batch_size: int | None = None
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    half_tables: bool = False
    progress: Shown = None
    announce: bool = True

    def __post_init__(self) -> None:
        """Reject sizes that cannot be run."""
        check_flags(half_tables=self.half_tables, announce=self.announce)
        size, limit = self.batch_size, self.memory_limit
        if size is not None and not 1 <= (whole_number(size) or 0) < 2**31:
            raise UnmaskError(
                f"a batch size is a number of inputs from 1, or None, not {quoted(size)}"
            )
        if whole_number(limit) is None or limit < 0:
            raise UnmaskError(f"a memory limit is a number of bytes from 0, not {quoted(limit)}")
        if not (isinstance(self.progress, bool | None) or callable(self.progress)):
            raise UnmaskError(
                f"progress is True, False, None or a function, not {quoted(self.progress)}"
            )

    @classmethod
    def of(cls, settings: "Settings | None") -> "Settings":
        """The settings of a call: a caller's, or by default those of the class."""
        if not (settings is None or isinstance(settings, cls)):
            raise UnmaskError(
                f"settings are an unmask.Settings, such as unmask.Settings(batch_size=8), not "
                f"{quoted(settings)}"
            )
        return settings or cls()


@dataclass(frozen=True)
class Sketch:
    """An estimate of the joint of two blanks over a vocabulary, from some of its contexts.

    Contexts are added until the log-probabilities of the likeliest fills have a standard error
    below `precision`, in nats, or `max_passes` forward passes have run; with a precision of
    None just so many run. The same `seed` gives the same answer.

    Examples:
        >>> rough = unmask.Sketch(precision=None, max_passes=200)
        >>> lm.joint("Two [MASK] are [MASK].", support=rough).is_sketched()
        True
    """

    precision: float | None = 0.05
    max_passes: int = 2_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject what cannot be aimed at."""
        if self.precision is not None and not 0 < (real_number(self.precision) or 0) < float("inf"):
            raise SupportError(
                f"a precision is a number of nats above 0, or None, not {quoted(self.precision)}"
            )
        if (whole_number(self.max_passes) or 0) < _FEWEST_PASSES:
            raise SupportError(
                f"a sketch takes at least {_FEWEST_PASSES} forward passes, not "
                f"max_passes={quoted(self.max_passes)}"
            )
        if not 0 <= (-1 if whole_number(self.seed) is None else self.seed) < 2**63:
            raise SupportError(f"a seed is a whole number from 0, not {quoted(self.seed)}")
