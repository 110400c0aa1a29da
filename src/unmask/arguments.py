"""Numbers and lists that callers pass (also of numpy and pandas; no truth values), and options."""

import operator
from collections.abc import Mapping
from numbers import Real
from typing import Any

from unmask.errors import UnmaskError
from unmask.printable import quoted

# the options of each construction, by its name
Options = Mapping[str, Mapping[str, object]]

# more than the largest is a slip of the hand; of samples, a head and a tail of two each are the
# fewest whose spread can be estimated
_LIMITS = {
    "draws": (1, 1_000_000),
    "orders": (1, 10_000),
    "samples": (4, 100_000),
    "seed": (0, 2**31 - 1),
    "window": (1, 2**31 - 1),
}


def whole_number(value: object) -> int | None:
    """The value as an `int`, or None if it is not a whole number."""
    # an array of one number has an index too, but is a list of one
    is_list = bool(getattr(value, "ndim", False))
    if isinstance(value, bool) or not hasattr(value, "__index__") or is_list:
        return None
    try:
        return operator.index(value)
    except TypeError:  # arrays and tensors of several numbers have the method, but no answer
        return None


def check_numbers(**numbers: object) -> None:
    """Reject `draws`, `orders`, `samples`, a `seed` or a `window` that cannot be used."""
    for name, value in numbers.items():
        (least, most), number = _LIMITS[name], whole_number(value)
        if number is None or not least <= number <= most:
            raise UnmaskError(
                f"{name} is a whole number from {least} to {most:,}, not {quoted(value)}"
            )


def check_flags(**flags: object) -> None:
    """Reject what is neither True nor False: any other value would count as one of them."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise UnmaskError(f"{name} is True or False, not {quoted(value)}")


def real_number(value: object) -> float | None:
    """The value as a `float`, or None if it is not a number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # Python's whole numbers go further than its floats
        return None


def as_list(values: Any) -> Any:
    """A column of a data frame, an array or a tensor as a list; any other value as it is."""
    return values.tolist() if hasattr(values, "tolist") else values
