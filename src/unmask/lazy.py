"""What is put off until it is needed: attributes, public names, work after another's import."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
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


def import_after(module: str, follower: str) -> None:
    """Import `follower` as soon as `module` is imported: now if it is, and never if it never is."""
    if module in sys.modules:
        import_module(follower)
    else:
        sys.meta_path.insert(0, _Watch(module, follower))


class _Watch(MetaPathFinder):
    """Waits for one module, and steps out of the way when it comes."""

    def __init__(self, module: str, follower: str) -> None:
        self._module, self._follower = module, follower

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The module's own spec, with a loader that has the follower imported afterwards."""
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Followed(spec.loader, self._follower)
        return spec


class _Followed(Loader):
    """A loader that imports a further module when its own is there."""

    def __init__(self, loader: Loader, follower: str) -> None:
        self._loader, self._follower = loader, follower

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the module's own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then import the follower."""
        self._loader.exec_module(module)
        import_module(self._follower)
