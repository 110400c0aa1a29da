"""What counts as a whole number: Python's integers and numpy's, but no truth values."""

import operator


def whole_number(value: object) -> int | None:
    """The value as an `int`, or None if it is not a whole number."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return operator.index(value)
    except TypeError:  # arrays and tensors of several numbers have the method, but no answer
        return None
