"""A construction: a function from tables to a joint, and its properties."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature

from unmask.constructions.needs import Needs, every_table
from unmask.joints.forms import Form
from unmask.joints.joint import Joint
from unmask.lazy import computed_once
from unmask.printable import quoted
from unmask.text.support import Support

Given = Mapping[str, object]
NeedsOf = Callable[[tuple[int, ...], Given], Needs]

# arguments of the functions that pass options on: a misspelt argument ends up among the options
_ARGUMENTS = ("method", "blanks", "support", "settings", "targets", "piece_prior")

# what newcomers try in place of an argument
_MEANT = {
    **dict.fromkeys(
        ("k", "n", "top_k", "topk", "top_n"), "top=... to lm.fill, or ask joint.top(n)"
    ),
    **dict.fromkeys(("candidates", "words"), "support=[...], or targets=[...] to lm.fill"),
    **dict.fromkeys(("batch_size", "memory_limit"), "it as settings=unmask.Settings(...)"),
    **dict.fromkeys(("device", "dtype"), "it to unmask.load"),
}


def only_conditionals(shape: tuple[int, ...], _: Given) -> Needs:
    """Every table, and no blank with all of them masked."""
    return every_table(len(shape), masked=False)


@dataclass(frozen=True)
class Construction:
    """One way to a joint: `build(tables, **options)`, and what others must know of it.

    `needs` is what it reads of tables of a shape, with its options; `meaning` is one line for help
    and pages. `without_tables` says whether any fill can be scored by a few rows, whatever the
    supports. `sketched` is the form of two blanks whose law and masked distributions are given,
    by the blank that is read, as a sketch does: with its weightings as a first axis; `unsketched`
    says why a sketch of the vocabulary does not do, empty where it does.
    `check` raises for options that do not fit each other or the number of blanks, and `check_axes`
    for tokens among them that are not on the axes.
    """

    build: Callable[..., Joint]
    meaning: str
    needs: NeedsOf = lambda shape, _: Needs(masked=True, whole=tuple(range(len(shape))))
    without_tables: Callable[[Given], bool] = lambda _: False
    sketched: Callable[..., Form] | None = None
    unsketched: str = "it has not been shown to work with one"
    check: Callable[[Given, int], None] = lambda *_: None
    check_axes: Callable[[Given, tuple[Support, ...]], None] = lambda *_: None

    @computed_once
    def options(self) -> dict[str, object]:
        """The options that it takes, with their defaults."""
        return {
            name: parameter.default
            for name, parameter in signature(self.build).parameters.items()
            if parameter.kind is Parameter.KEYWORD_ONLY
        }


def unknown_option(option: str, allowed: Iterable[str]) -> str:
    """The option with what it may have been meant to be, and what there is."""
    names = list(allowed)
    if option == "exact":
        return "option 'exact'; give support='vocabulary'"
    if option in ("precision", "max_passes", "seed"):
        return f"option {quoted(option)}; give it as support=unmask.Sketch({option}=...)"
    if option in _MEANT:
        return f"option {quoted(option)}; give {_MEANT[option]}"
    if option in _ARGUMENTS:
        return f"option {quoted(option)}; it is an argument of lm.fill and others, not of this call"
    near = difflib.get_close_matches(option, [*names, *_ARGUMENTS], n=1, cutoff=0.7)
    advice = f"did you mean {near[0]}?" if near else f"it takes {', '.join(names) or 'none'}"
    return f"option {quoted(option)}; {advice}"
