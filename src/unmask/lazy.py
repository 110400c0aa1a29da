"""What is put off until it is needed: attributes and public names."""

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


def lazy_names(package: str, home: Mapping[str, str]) -> Callable[[str], object]:
    """A package's `__getattr__`: each name from the module of the package that `home` says."""

    def resolve(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home[name]}"), name)

    return resolve
