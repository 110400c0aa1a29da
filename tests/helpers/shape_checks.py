"""How annotations are checked under pytest: shapes by jaxtyping, with beartype for the rest."""

from typing import Any

from beartype import BeartypeConf, beartype

# an int may stand where a float is asked for, as everywhere else in Python
_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(what: Any) -> Any:
    """Check a function that names shapes: mypy has checked all others.

    A function inside another is made, and would be compiled, anew at each call of that one, several
    times slower than all that it does.
    """
    inside = "<locals>" in getattr(what, "__qualname__", "")
    with_shapes = "jaxtyping." in repr(getattr(what, "__annotations__", {}))
    return _checked(what) if with_shapes and not inside else what
