"""What is said of an option that a construction does not take."""

import difflib
from collections.abc import Iterable

from unmask.printable import quoted

# arguments of the functions that hand options on: a slip in one of these lands among the options
_ARGUMENTS = ("method", "blanks", "support", "settings", "targets", "piece_prior")


def unknown_option(option: str, allowed: Iterable[str]) -> str:
    """The option with what it may have been meant to be, and what there is."""
    names = list(allowed)
    near = difflib.get_close_matches(option, [*names, *_ARGUMENTS], n=1, cutoff=0.7)
    said = f"did you mean {near[0]}?" if near else f"it takes {', '.join(names) or 'none'}"
    return f"option {quoted(option)}; {said}"
