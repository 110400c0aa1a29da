"""One construction a file, each a function from tables to a joint; here they get their names.

To add one here: write the function, give it a line in `CONSTRUCTIONS`, and add its laws to
`tests/laws/`. To add one from outside: `register`.
"""

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from unmask.constructions.arnold_gokhale import (
    arnold_gokhale,
    check_pseudo_counts,
    check_towards,
    weighted_arnold_gokhale,
)
from unmask.constructions.besag import besag, check_pivot_axis, check_pivot_token
from unmask.constructions.incompatibility import agreement
from unmask.constructions.independent import independent
from unmask.constructions.markov_field import markov_field, markov_field_of_logits
from unmask.constructions.options import unknown_option
from unmask.constructions.orders import check_mean, orders
from unmask.constructions.own import (
    OWN,
    Construction,
    check_own_options,
    checked,
    own_joint,
)
from unmask.constructions.paper_steps import arnold_gokhale_steps, check_steps
from unmask.constructions.pseudo_gibbs import log_pool, pseudo_gibbs
from unmask.constructions.sweep import check_contexts, check_floor, sweep
from unmask.errors import MethodError
from unmask.joints.agreement import Agreement
from unmask.joints.joint import Joint
from unmask.printable import quoted
from unmask.tables.pair_tables import PairTables

if TYPE_CHECKING:
    from unmask.constructions.needs import Needs

Function = TypeVar("Function", bound=Construction)

CONSTRUCTIONS: dict[str, Callable[..., Joint]] = {
    "mlm": independent,
    "mrf": markov_field,
    "mrf-logit": markov_field_of_logits,
    "hcb": besag,
    "ag-paper": arnold_gokhale_steps,
    "ag": arnold_gokhale,
    "weighted-ag": weighted_arnold_gokhale,
    "pseudo-gibbs": pseudo_gibbs,
    "log-pool": log_pool,
    "orders": orders,
    "sweep": sweep,
}

ALIASES = {
    "independent": "mlm",
    "markov-field": "mrf",
    "markov-field-logit": "mrf-logit",
    "besag": "hcb",
    "hammersley-clifford-besag": "hcb",
    "arnold-gokhale": "ag",
    "weighted-arnold-gokhale": "weighted-ag",
}

DEFAULT_METHOD = "log-pool"

# what an option's value must be, as far as that can be told without tables
_CHECKS: dict[str, Callable[[object], None]] = {
    "pivot": check_pivot_token,
    "pivot_axis": check_pivot_axis,
    "steps": check_steps,
    "pseudo_counts": check_pseudo_counts,
    "towards": check_towards,
    "mean": check_mean,
    "contexts": check_contexts,
    "floor": check_floor,
}


def method_name(name: object) -> str:
    """The short name of a construction, from that or an alias, in any case."""
    if not isinstance(name, str):
        hint = "; give a function a name with unmask.register" if callable(name) else ""
        raise MethodError(f"a method is one of {', '.join(_names())}, not {quoted(name)}{hint}")
    plain = name.strip().lower().replace("_", "-")
    plain = ALIASES.get(plain, plain)
    if plain in _names():
        return plain
    near = difflib.get_close_matches(plain, [*_names(), *ALIASES], n=1, cutoff=0.5)
    hint = f"; did you mean {quoted(near[0])}? Methods" if near else "; methods"
    raise MethodError(f"no method {quoted(name)}{hint}: {', '.join(_names())}")


def _names() -> list[str]:
    return [*CONSTRUCTIONS, *OWN]


def register(name: str, *, needs: "Needs | None" = None) -> Callable[[Function], Function]:
    """Make a function of tables a construction of this process, under a name: a decorator.

    The function takes `PairTables`, and options by keyword with a default each. It returns a
    `Product` or `Sum` (of `unmask.joints.forms`) of the two tables, or a `Joint`. `needs` says
    which parts of the tables it asks for, both and the doubly masked distributions unless said
    otherwise: that is what `lm.cost` counts. A name that is taken is
    refused; the same function may come again.
    """

    def add(function: Function) -> Function:
        own = checked(name, function, needs)
        known = OWN.get(own.name)
        foreign = known is not None and not known.is_redefined_by(function)
        if foreign or own.name in {*CONSTRUCTIONS, *ALIASES}:
            raise MethodError(f"there is a construction {quoted(name)} already; take another name")
        OWN[own.name] = own
        return function

    return add


def check_options(method: str, options: dict[str, object]) -> None:
    """Refuse options that a construction does not take, or not so, before anything is paid."""
    if method in OWN:
        check_own_options(OWN[method], options)
        return
    parameters = inspect.signature(CONSTRUCTIONS[method]).parameters
    allowed = [n for n, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for option in options:
        if option not in allowed:
            raise MethodError(f"{method} has no {unknown_option(option, allowed)}")
        _CHECKS[option](options[option])


def check_methods(
    methods: object,
    options: Mapping[str, Mapping[str, object]] | None,
    *,
    check: Callable[[str, dict[str, object]], None] = check_options,
) -> tuple[list[str], dict[str, dict[str, object]]]:
    """Short names, each once, and the options of each; refuses what does not go together."""
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not methods:
        raise MethodError(f"methods is a list of names, not {quoted(methods)}")
    names = list(dict.fromkeys(method_name(method) for method in methods))
    chosen = {method_name(m): dict(o) for m, o in (options or {}).items()}
    for name, given in chosen.items():
        if given and name not in names:
            raise MethodError(f"options are given for {name}, which is not among the methods")
    for name in names:
        check(name, chosen.get(name, {}))
    return names, chosen


def construct(method: object, tables: PairTables, **options: object) -> Joint:
    """Build a joint from tables by the name of its construction."""
    name = method_name(method)
    check_options(name, options)
    own = OWN.get(name)
    joint = own_joint(own, tables, options) if own else CONSTRUCTIONS[name](tables, **options)
    # asked for later, and only where both tables are there by then: it costs a solver's passes
    joint.measure_agreement = partial(_agreement_if_held, tables)
    return joint


def _agreement_if_held(tables: PairTables) -> Agreement | None:
    return agreement(tables) if tables.holds_both() else None
