"""Lazy attributes and public names, and errors for names that do not exist."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    computed_once = cached_property
else:

    class computed_once(cached_property):  # noqa: N801 (a decorator)
        """`functools.cached_property` without the lock that Python 3.11 has per class.

        While that lock is held, no other object of the class can compute the attribute: a progress
        function that waits for another thread's answer would wait for ever.
        """

        def __get__(self, instance, owner=None):
            """The value, computed on first access."""
            if instance is None:
                return self
            held = vars(instance)
            if self.attrname not in held:
                held[self.attrname] = self.func(instance)
            return held[self.attrname]


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> tuple[list[str], Callable[[str], object]]:
    """A package's `__all__`, and a `__getattr__` that imports a name when it is first used.

    Args:
        package: Name of the package, for errors.
        homes: Public names by the module that defines them. Type checkers read imports under
            TYPE_CHECKING beside it; `tests/docs/test_reference.py` holds both to each other.
        modules: Public modules of the package.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def resolve(name: str) -> object:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home:
            advice = f"; use {_USE[name]}" if name in _USE else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{advice}")
        return getattr(import_module(home[name]), name)

    return sorted(home), resolve


# names that newcomers try, and what there is; the advice follows "use"
_FRAME = "to_pandas(), or unmask.to_pandas(results) for a list of results"
_OF_A_MODEL = ("cloze", "decode", "dependence", "fill", "joint", "joints", "pairs", "score")
_USE = {
    "J": "incompatibility()",
    "as_dict": "to_dict()",
    **dict.fromkeys(("as_dataframe", "to_dataframe", "to_df", "to_frame"), _FRAME),
    "estimate_cost": "cost(text)",
    **dict.fromkeys(("fill_mask", "predict"), "fill(text)"),
    **{name: f"lm = unmask.load(model), then lm.{name}" for name in _OF_A_MODEL},
    "from_pretrained": "unmask.load(model)",
    "joint_distribution": "joint(text)",
    "log_prob": "score, in the unit of its method",
    "mi": "mutual_information()",
    **dict.fromkeys(("most_likely", "top_k", "topk"), "top(n)"),
    **dict.fromkeys(("prob", "probability"), "log_prob(...), a natural logarithm"),
    "save": "to_dict(), and json.dump, or to_pandas().to_csv(file)",
    "savefig": "plot().savefig(file)",
    "score_pairs": "pairs(items)",
    "score_text": "score(text)",
    "score_texts": "score(texts)",
    **dict.fromkeys(
        ("surprisal", "surprisals"), "score(text).words, where a surprisal is -log_prob"
    ),
    "to_json": "to_dict(), and json.dumps",
}


class Guessable:
    """A class that answers some names that it does not have with the right one.

    `HINTS` are those of one class, before those of all.
    """

    HINTS: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Called where there is no such attribute, or where computing it raised."""
            try:
                return object.__getattribute__(self, name)
            except AttributeError as error:
                hints = {**_USE, **type(self).HINTS}
                if name not in hints:
                    raise
                raise AttributeError(f"{error}; use {hints[name]}") from None
