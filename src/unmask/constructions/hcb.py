"""The Hammersley-Clifford-Besag joint: a walk from a pivot fill to every other."""

import math
from collections.abc import Sequence

from unmask.arguments import whole_number
from unmask.constructions.construction import Construction, Given
from unmask.constructions.needs import Needs
from unmask.errors import MethodError
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Product
from unmask.joints.joint import Joint
from unmask.printable import quoted
from unmask.tables.contexts import FREE, MASKED, Content, Contexts
from unmask.tables.protocol import Tables
from unmask.text.support import Support, Token


def hcb(
    tables: Tables, *, pivot: Token | Sequence[Token] | None = None, pivot_axis: int = 0
) -> Joint:
    """Walk from a pivot fill to every other, one blank at a time (Besag 1974).

    log p(x) / p(pivot) is the sum over the blanks of log q(x_t | c) - log q(pivot_t | c), where c
    holds x in the blanks walked before and the pivot in those to come. For compatible conditionals
    this is the right joint, whatever the path. Otherwise the conditionals of the last blank of the
    path are the model's own, and the others take all the error. The path goes from the last blank
    to the first; the default pivot is the mode of each fully masked distribution.

    With two blanks it is the paper's: log q(a | b) + log q(b | a') - log q(a' | b) with one pivot
    a', since that of the other blank cancels; `pivot_axis=1` swaps the blanks.
    """
    steps = _path(len(tables.shape), pivot_axis)
    if pivot is None:
        places = {t: int(tables.log_masked(t).argmax()) for t in _with_pivot(steps)}
    else:
        places = _named(tables.supports, pivot, steps)
    *before, last = steps
    factors = [-tables.log_prob_of(last, places[last])]
    for k, outcome in enumerate(before):
        contents: list[Content] = [places.get(t, 0) for t in range(len(steps))]
        contents[outcome] = MASKED
        for walked in steps[:k]:
            contents[walked] = FREE
        log_given = tables.log_given(Contexts(tuple(contents)), outcome)
        # the pivot of the first blank cancels: what it takes off is a constant
        factors.append(log_given)
        if k:
            factors.append(-log_given.narrow(outcome, places[outcome], 1))
    powers = tuple(float(t == last) for t in range(len(steps)))
    names = [tables.supports[t].names[places[t]] for t in sorted(places)]
    facts: dict[str, object] = {"pivot": names, "path": list(steps)}
    if len(steps) == 2:
        facts = {"pivot": names[0], "pivot_axis": last}
    return form_joint(Product(powers, tuple(factors)), tables, method="hcb", diagnostics=facts)


def _path(blanks: int, pivot_axis: object) -> tuple[int, ...]:
    """The blanks in the order that they are walked."""
    return (0, 1) if blanks == 2 and pivot_axis else tuple(reversed(range(blanks)))


def _with_pivot(steps: Sequence[int]) -> Sequence[int]:
    """The blanks whose pivots matter: of two only the last of the path."""
    return steps[-1:] if len(steps) == 2 else steps


def _named(axes: Sequence[Support], pivot: object, steps: Sequence[int]) -> dict[int, int]:
    """The place of a named pivot, by blank."""
    tokens = pivot if isinstance(pivot, Sequence) and len(steps) > 2 else [pivot] * len(steps)
    return {t: axes[t].index(tokens[t]) for t in _with_pivot(steps)}


def _check(options: Given, blanks: int) -> None:
    """Raise for a pivot that so many blanks do not take."""
    pivot, axis = options.get("pivot"), options.get("pivot_axis", 0)
    if blanks > 2 and "pivot_axis" in options:
        raise MethodError("pivot_axis is an option of two blanks; give pivot a token per blank")
    if whole_number(axis) not in (0, 1):
        raise MethodError(f"pivot_axis is 0 or 1, not {quoted(axis)}")
    single = isinstance(pivot, str) or whole_number(pivot) is not None
    if pivot is not None and blanks == 2 and not single:
        raise MethodError(
            "pivot takes one token of two blanks, a name or an id, with pivot_axis=1 one of the "
            f"second blank, not {quoted(pivot)}"
        )
    listed = isinstance(pivot, Sequence) and not single and len(pivot) == blanks
    if pivot is not None and blanks > 2 and not listed:
        raise MethodError(
            f"the pivot of {blanks} blanks is a list of as many tokens, not {quoted(pivot)}"
        )


def _check_pivot(options: Given, axes: tuple[Support, ...]) -> None:
    """Raise for an unknown pivot before anything is elicited."""
    if options.get("pivot") is not None:
        _named(axes, options["pivot"], _path(len(axes), options.get("pivot_axis", 0)))


def _needs(shape: tuple[int, ...], options: Given) -> Needs:
    steps = _path(len(shape), options.get("pivot_axis", 0))
    contexts = [0] * len(shape)
    for k, outcome in enumerate(steps[:-1]):
        contexts[outcome] = math.prod(shape[t] for t in steps[:k])
    return Needs(options.get("pivot") is None, (steps[-1],), tuple(contexts))


HCB = Construction(
    hcb,
    "a walk from a pivot fill to every other (Hammersley, Clifford, Besag)",
    _needs,
    unsketched="absurd contexts count in its normaliser, and a sketch misses them",
    check=_check,
    check_axes=_check_pivot,
)
