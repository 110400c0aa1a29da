"""How annotations are checked under pytest: shapes by jaxtyping, the rest by beartype."""

from typing import Any

from beartype import BeartypeConf, beartype

# an int may stand where a float is asked for, as everywhere else in Python
_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(what: Any) -> Any:
    """Check a function or class; a function inside another is made, and would be compiled, anew
    at each call of that one, several times slower than all that it does."""
    inside = "<locals>" in getattr(what, "__qualname__", "")
    return what if inside else _checked(what)
