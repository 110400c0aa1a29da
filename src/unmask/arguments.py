"""Whole and real numbers that callers pass (Python's and numpy's, no truth values), and options."""

import operator
from collections.abc import Mapping
from numbers import Real

# the options of each construction, by its name
Options = Mapping[str, Mapping[str, object]]


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


def real_number(value: object) -> float | None:
    """The value as a `float`, or None if it is not a number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # Python's whole numbers go further than its floats
        return None
