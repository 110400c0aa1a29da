"""All combinations of some mutations of a sequence: one joint over wild type and mutant at each.

With k mutations there are 2^k combinations, and all constructions but `orders` read the same
k 2^(k-1) forward passes: every position masked, with the others at wild type or mutant.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions import (
    DEFAULT_METHOD,
    METHOD_WITHOUT_TABLES,
    construct,
    construction,
    constructions_of,
    method_name,
)
from unmask.constructions.incompatibility import agreement
from unmask.constructions.needs import Needs, every_table, together
from unmask.errors import ClozeError, MethodError, NumericsError, SupportError
from unmask.language_model import LanguageModel
from unmask.model.row_reader import RowReader
from unmask.printable import quoted
from unmask.sequences.residues import Mutation, parse_mutations, residue_cloze, residue_tokens
from unmask.sequences.variants.joints import wild_type_options
from unmask.settings import Settings
from unmask.tables.candidate_tables import CandidateTables
from unmask.text.cloze import Cloze
from unmask.text.residues import check_sequence
from unmask.text.support import Support

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unmask.tables.protocol import Tables

# 12 x 2^11 forward passes are 24,576
MOST_MUTATIONS = 12
# 3^k - 2^k forward passes: 6,305 of 8 mutations, 19,171 of 9
MOST_BY_ORDERS = 8
# the mean over the paths of hcb: of a landscape and of variants alike
HCB_PATH = "hcb-path"
WILD_TYPE = "wt"
_LEAST_MUTATIONS = 2
_FEWEST = "a landscape is of at least two mutations"


class Epistasis(NamedTuple):
    """What two mutations do together beyond what they do alone, in nats.

    `mean` is over all backgrounds: the other mutations made or not, in every combination.
    `wildtype` is with none of them made.
    """

    mutations: tuple[Mutation, Mutation]
    mean: float
    wildtype: float


@dataclass(frozen=True, eq=False)
class Landscape:
    """The log-odds of every combination of mutations against the wild type, by method, in nats.

    `log_odds[method]` has an axis per mutation, in the order of their positions: 0 is the wild
    type's residue, 1 the mutant's. `incompatibility` is J in bits, None if no method needed all
    conditionals. `captured_mass` is what the model gives to the two residues of each position, with
    all of them masked.
    """

    sequence: str
    mutations: tuple[Mutation, ...]
    log_odds: Mapping[str, Float[Tensor, "..."]]
    incompatibility: float | None
    converged: Mapping[str, bool]
    captured_mass: tuple[float, ...]
    forward_passes: int
    model: str = "masked LM"

    def __repr__(self) -> str:
        """How many combinations, by which methods."""
        k = len(self.mutations)
        return f"<Landscape of {k} mutations, {2**k:,} combinations, by {', '.join(self.methods)}>"

    @property
    def methods(self) -> list[str]:
        """The methods, in the order that they were named."""
        return list(self.log_odds)

    def of(self, method: str | None = None) -> Float[Tensor, "..."]:
        """The log-odds by one method, the first unless named."""
        name = self.methods[0] if method is None else method_of_landscapes(method)
        if name not in self.log_odds:
            raise MethodError(
                f"this landscape is by {', '.join(self.methods)}, not by {quoted(name)}"
            )
        return self.log_odds[name]

    def single(self, method: str | None = None) -> list[float]:
        """The log-odds of each mutation alone."""
        values, k = self.of(method), len(self.mutations)
        return [float(values[tuple(int(t == one) for t in range(k))]) for one in range(k)]

    def epistasis(self, method: str | None = None) -> list[Epistasis]:
        """Every two mutations, in their order: s(both) - s(one) - s(other) + s(none)."""
        values, found = self.of(method), []
        for one, other in combinations(range(len(self.mutations)), 2):
            pair = values.movedim((one, other), (0, 1))
            change = pair[1, 1] - pair[1, 0] - pair[0, 1] + pair[0, 0]
            both = self.mutations[one], self.mutations[other]
            found.append(Epistasis(both, float(change.mean()), float(change.flatten()[0])))
        return found

    def to_rows(self) -> list[dict[str, object]]:
        """A row per combination, fewer mutations first; the wild type is `wt`.

        `mutant` joins mutations by colons, as ProteinGym writes it.
        """
        every = sorted(product((0, 1), repeat=len(self.mutations)), key=_number_then_order)
        return [
            {
                "mutant": self.name(cell),
                "mutations": sum(cell),
                **{name: float(values[cell]) for name, values in self.log_odds.items()},
            }
            for cell in every
        ]

    def best(self, n: int = 10, method: str | None = None) -> list[dict[str, object]]:
        """The rows of the likeliest combinations, best first; of equals, fewer mutations first."""
        self.of(method)
        name = self.methods[0] if method is None else method_of_landscapes(method)
        return sorted(self.to_rows(), key=lambda row: -float(str(row[name])))[:n]

    def name(self, cell: Sequence[int]) -> str:
        """A combination as ProteinGym writes it."""
        made = [str(one) for one, bit in zip(self.mutations, cell, strict=True) if bit]
        return ":".join(made) or WILD_TYPE

    def plot(self, method: str | None = None) -> "Figure":
        """Pairwise epistasis as a heat map, beside log-odds by the number of mutations."""
        from unmask.plots.landscape import plot_landscape

        return plot_landscape(self, method)


def _number_then_order(cell: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    return sum(cell), tuple(-bit for bit in cell)


# --- one model, some mutations -----------------------------------------------------------------


def landscape(
    lm: LanguageModel,
    sequence: str,
    mutations: str | Sequence[str],
    *,
    methods: Sequence[str] = (DEFAULT_METHOD,),
    settings: Settings | None = None,
) -> Landscape:
    """All combinations of mutations such as "T28P:S30R:A58T" of a sequence, by one or more methods.

    Methods are the constructions that take more than two blanks, and `hcb-path`: the mean over all
    orders in which the mutations can be made, one after another. `hcb` starts at the wild type.
    `orders` takes eight mutations at most, all others twelve.
    """
    residues = check_sequence(sequence)
    parsed = parse_landscape(mutations, residues)
    names = check_landscape_methods(methods, len(parsed))
    cloze = residue_cloze(lm, residues, [one.position for one in parsed])
    supports = _supports(lm, parsed, cloze)
    tables = CandidateTables(RowReader(lm.model, settings or Settings()), cloze, supports)
    with tables.reader.counted("forward passes", landscape_passes(len(parsed), names)):
        needed = _needs(len(parsed), names)
        tables.elicit(needed.whole, masked=needed.masked)
        found = {name: _solved(name, tables) for name in names}
        captured = tables.masked_mass()
    return Landscape(
        sequence=residues,
        mutations=parsed,
        log_odds={name: values for name, (values, _) in found.items()},
        incompatibility=agreement(tables).bits if tables.holds_all() else None,
        converged={name: converged for name, (_, converged) in found.items()},
        captured_mass=tuple(captured),
        forward_passes=tables.reader.forward_passes,
        model=lm.name,
    )


def parse_landscape(mutations: str | Sequence[str], residues: str) -> tuple[Mutation, ...]:
    """Mutations of a checked sequence, in the order of their positions; raises if too many."""
    joined = mutations if isinstance(mutations, str) else ":".join(map(str, mutations))
    parsed = parse_mutations(joined, residues)
    if len(parsed) < _LEAST_MUTATIONS:
        raise ClozeError(f"{_FEWEST}, not of {parsed[0]} alone")
    if len(parsed) > MOST_MUTATIONS:
        raise ClozeError(
            f"a landscape is of {MOST_MUTATIONS} mutations at most, "
            f"{_rows(MOST_MUTATIONS):,} forward passes; {len(parsed)} would take "
            f"{_rows(len(parsed)):,}"
        )
    return parsed


def _rows(k: int) -> int:
    return (k << (k - 1)) + 1


def method_of_landscapes(name: object) -> str:
    """The name of a method, from that or an alias of a construction."""
    if isinstance(name, str) and name.strip().lower().replace("_", "-") == HCB_PATH:
        return HCB_PATH
    found = method_name(name)
    if found not in constructions_of(3):
        there = ", ".join(landscape_methods(_LEAST_MUTATIONS))
        raise MethodError(f"{quoted(found)} is no method of landscapes; there are {there}")
    return found


def landscape_methods(mutations: int) -> list[str]:
    """Every method that takes so many mutations."""
    names = [*constructions_of(3), HCB_PATH]
    return [n for n in names if n != METHOD_WITHOUT_TABLES or mutations <= MOST_BY_ORDERS]


def check_landscape_methods(methods: object, mutations: int) -> list[str]:
    """Names of methods, each once; raises for one that so many mutations cannot have."""
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not methods:
        raise MethodError(f"methods is a list of names, not {quoted(methods)}")
    names = list(dict.fromkeys(map(method_of_landscapes, methods)))
    if METHOD_WITHOUT_TABLES in names and mutations > MOST_BY_ORDERS:
        raise MethodError(
            f"orders of {mutations} mutations would take {3**mutations - 2**mutations:,} forward "
            f"passes; it takes {MOST_BY_ORDERS} mutations at most"
        )
    return names


def landscape_passes(mutations: int, methods: Sequence[str]) -> int:
    """How many forward passes a landscape takes, before it runs."""
    return _needs(mutations, methods).rows((2,) * mutations)


def _needs(mutations: int, methods: Sequence[str]) -> Needs:
    """What the methods read together; all masked too, for what the residues capture."""
    shape = (2,) * mutations
    each = [
        every_table(mutations)
        if name == HCB_PATH or mutations == 2
        else construction(name).needs(shape, {})
        for name in methods
        if name != "mlm"
    ]
    return together([Needs(masked=True), *each])


def _supports(lm: LanguageModel, parsed: Sequence[Mutation], cloze: Cloze) -> tuple[Support, ...]:
    """Wild type and mutant at each position, in this order."""
    every = lm.support("vocabulary")
    ids = []
    for kind in ("wildtype", "mutant"):
        letters = [getattr(one, kind) for one in parsed]
        try:
            ids.append(residue_tokens(lm, letters, cloze, every))
        except SupportError as error:
            raise SupportError(f"this model has no token for it: {error}") from None
    return tuple(lm.support(list(both)) for both in zip(*ids, strict=True))


# --- methods -----------------------------------------------------------------------------------


def _solved(name: str, tables: CandidateTables) -> tuple[Float[Tensor, "..."], bool]:
    """Log-odds against the wild type, and whether a solver converged."""
    if name == HCB_PATH:
        return mean_over_paths(tables), True
    joint = construct(name, tables, **wild_type_options(name, tables.supports))
    log_p = joint.log_rows(slice(None))
    found = log_p - log_p.flatten()[0]
    if not bool(torch.isfinite(found).all()):
        raise NumericsError(
            f"{name}: some combinations have probability zero, so their log-odds are undefined"
        )
    return found, joint.diagnostics.get("converged") is not False


def mean_over_paths(tables: "Tables") -> Float[Tensor, "..."]:
    """Log-odds along a path from the wild type that makes one mutation at a time: the mean of all.

    Of a set of mutations, each is the last of its share of the paths: the mean is over the last one
    of the mean to the set before it and what the last one adds to that.
    """
    k = len(tables.shape)
    odds = [_odds_given_others(tables, t) for t in range(k)]
    found = torch.zeros((2,) * k, dtype=torch.float64)
    for cell in sorted(product((0, 1), repeat=k), key=sum):
        made = [t for t in range(k) if cell[t]]
        if made:
            before = [(*cell[:t], 0, *cell[t + 1 :]) for t in made]
            each = [found[b] + odds[t][b] for t, b in zip(made, before, strict=True)]
            found[cell] = math.fsum(map(float, each)) / len(made)
    return found


def _odds_given_others(tables: "Tables", t: int) -> Float[Tensor, "..."]:
    log_q = tables.log_given_others(t)
    return log_q.narrow(t, 1, 1) - log_q.narrow(t, 0, 1)
