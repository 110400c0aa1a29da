"""What is put off until it is needed: attributes, public names, and pandas."""

import ast
import pkgutil
from collections.abc import Callable, Iterable
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    computed_once = cached_property
else:

    class computed_once(cached_property):  # noqa: N801 (a decorator)
        """`functools.cached_property` without the lock that Python 3.11 has per class.

        While that lock is held, no other object of the class can compute the attribute: a progress
        function that waits for another thread's answer would wait for ever.
        """

        def __get__(self, instance, owner=None):
            """The value, computed by the first who asks."""
            if instance is None:
                return self
            held = vars(instance)
            if self.attrname not in held:
                held[self.attrname] = self.func(instance)
            return held[self.attrname]


def lazy_names(package: str) -> tuple[list[str], Callable[[str], object]]:
    """A package's `__all__` and `__getattr__`: what its `__init__` imports under TYPE_CHECKING.

    So public names are listed once: for type checkers, and to be imported when first used.
    """
    source = pkgutil.get_data(package, "__init__.py") or b""
    blocks = [one.body for one in ast.parse(source).body if isinstance(one, ast.If)]
    imports = [one for body in blocks for one in body if isinstance(one, ast.ImportFrom)]
    home = {name.name: str(one.module) for one in imports for name in one.names}

    def resolve(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return sorted(home), resolve


def to_pandas(results: Iterable[Any]) -> "pd.DataFrame":
    """Results as a data frame: a row per result, with the keys of its `to_dict` as columns."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(
            "to_pandas needs pandas: pip install 'unmask[pandas]', or use to_dict"
        ) from None
    return pd.DataFrame([one if isinstance(one, dict) else one.to_dict() for one in results])
