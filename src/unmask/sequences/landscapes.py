"""All combinations of some mutations of a sequence: one joint over wild type and mutant at each.

A view of `sequences/variants`: one block of mutations, of which every combination is told. With k
mutations there are 2^k of them, and all constructions but `orders` read the same k 2^(k-1) forward
passes: every position masked, with the others at wild type or mutant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions import DEFAULT_METHOD, METHOD_WITHOUT_TABLES
from unmask.constructions.incompatibility import agreement
from unmask.errors import ClozeError, MethodError, NumericsError
from unmask.lazy import Guessable, to_pandas
from unmask.model.row_reader import RowReader
from unmask.printable import quoted
from unmask.queries.joint_model import JointModel
from unmask.sequences.residues import Mutation, parse_mutations
from unmask.sequences.variants.cubes import Block, by_mutation, path_moments
from unmask.sequences.variants.joints import BlockTables, block_tables, joint_of, rows_of_tables
from unmask.sequences.variants.methods import HCB_PATH, JOINTS, method_of_variants
from unmask.sequences.variants.reading import Variant, VariantReader
from unmask.sequences.variants.rows import Answers, Requests, Row, run_rows
from unmask.settings import Settings
from unmask.text.residues import check_sequence

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# 12 x 2^11 forward passes are 24,576
MOST_MUTATIONS = 12
# 3^k - 2^k forward passes: 6,305 of 8 mutations, 19,171 of 9
MOST_BY_ORDERS = 8
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

    def to_dict(self) -> dict[str, object]:
        """JSON-ready; mutations are written as A42G."""
        return {**self._asdict(), "mutations": list(map(str, self.mutations))}


@dataclass(frozen=True, eq=False)
class Landscape(Guessable):
    """The log-odds of every combination of mutations against the wild type, by method, in nats.

    `log_odds[method]` has an axis per mutation, in the order of their positions: 0 is the wild
    type's residue, 1 the mutant's. `incompatibility` is J in bits, None if no method needed all
    conditionals. `captured_mass` is what the model gives to the two residues of each position, with
    all of them masked. `window` is the first and last position that the model read, None if it read
    all.

    Examples:
        >>> lm.landscape("MKTAYIAKQR", "K2R:A4G:I6L")
        <Landscape of 3 mutations, 8 combinations, by log-pool>
    """

    sequence: str
    mutations: tuple[Mutation, ...]
    log_odds: Mapping[str, Float[Tensor, "..."]]
    incompatibility: float | None
    converged: Mapping[str, bool]
    captured_mass: tuple[float, ...]
    forward_passes: int
    model: str = "masked LM"
    window: tuple[int, int] | None = None

    def __repr__(self) -> str:
        """How many combinations, by which methods."""
        k = len(self.mutations)
        return f"<Landscape of {k} mutations, {2**k:,} combinations, by {', '.join(self.methods)}>"

    @property
    def methods(self) -> list[str]:
        """The methods, in the order that they were named."""
        return list(self.log_odds)

    def of(self, method: str | None = None) -> Float[Tensor, "..."]:
        """The log-odds by one method.

        Args:
            method: Name of a method of this landscape. Default: the first.
        Returns:
            A tensor with an axis of two per mutation.
        Examples:
            >>> lm.landscape("MKTAYIAKQR", "K2R:A4G").of().shape
            torch.Size([2, 2])
        """
        return self.log_odds[self._named(method)]

    def _named(self, method: str | None) -> str:
        name = self.methods[0] if method is None else method_of_landscapes(method)
        if name not in self.log_odds:
            raise MethodError(
                f"this landscape is by {', '.join(self.methods)}, not by {quoted(name)}"
            )
        return name

    def single(self, method: str | None = None) -> list[float]:
        """The log-odds of each mutation alone, in nats.

        Args:
            method: Name of a method of this landscape. Default: the first.
        Returns:
            A number per mutation.
        Examples:
            >>> [round(one, 2) for one in lm.landscape("MKTAYIAKQR", "K2R:A4G").single()]
            [1.54, -2.63]
        """
        values, k = self.of(method), len(self.mutations)
        return [float(values[tuple(int(t == one) for t in range(k))]) for one in range(k)]

    def epistasis(self, method: str | None = None) -> list[Epistasis]:
        """Every two mutations, in their order: s(both) - s(one) - s(other) + s(none).

        Args:
            method: Name of a method of this landscape. Default: the first.
        Returns:
            Means over backgrounds, and the number in the wild type, in nats.
        Examples:
            >>> (pair,) = lm.landscape("MKTAYIAKQR", "K2R:A4G").epistasis()
            >>> [str(one) for one in pair.mutations]
            ['K2R', 'A4G']
        """
        values, every = self.of(method), []
        for one, other in combinations(range(len(self.mutations)), 2):
            pair = values.movedim((one, other), (0, 1))
            change = pair[1, 1] - pair[1, 0] - pair[0, 1] + pair[0, 0]
            both = self.mutations[one], self.mutations[other]
            every.append(Epistasis(both, float(change.mean()), float(change.flatten()[0])))
        return every

    def to_rows(self) -> list[dict[str, object]]:
        """A row per combination, fewer mutations first; the wild type is `wt`.

        `mutant` joins mutations by colons, as ProteinGym writes it.
        """
        every = sorted(product((0, 1), repeat=len(self.mutations)), key=_number_then_order)
        return [
            {
                "mutant": self.name(cell),
                "mutation_count": sum(cell),
                **{name: float(values[cell]) for name, values in self.log_odds.items()},
            }
            for cell in every
        ]

    def to_dict(self) -> dict[str, object]:
        """Everything with its units, ready for JSON: epistasis by method, and all combinations."""
        return {
            "sequence": self.sequence,
            "mutations": list(map(str, self.mutations)),
            "units": {"log_odds": "nats", "epistasis": "nats", "incompatibility": "bits"},
            "incompatibility": self.incompatibility,
            "converged": dict(self.converged),
            "captured_mass": list(self.captured_mass),
            "window": None if self.window is None else list(self.window),
            "forward_passes": self.forward_passes,
            "epistasis": {
                name: [one.to_dict() for one in self.epistasis(name)] for name in self.methods
            },
            "combinations": self.to_rows(),
        }

    def to_pandas(self) -> "pd.DataFrame":
        """The rows of `to_rows` as a data frame."""
        return to_pandas(self.to_rows())

    def best(self, n: int = 10, method: str | None = None) -> list[dict[str, object]]:
        """The rows of the likeliest combinations, best first; of equals, fewer mutations first.

        Args:
            n: How many rows.
            method: Name of a method of this landscape. Default: the first.
        Returns:
            Rows of `to_rows`.
        Examples:
            >>> [row["mutant"] for row in lm.landscape("MKTAYIAKQR", "K2R:A4G").best(2)]
            ['K2R', 'wt']
        """
        name = self._named(method)
        return sorted(self.to_rows(), key=lambda row: -float(str(row[name])))[:n]

    def name(self, cell: Sequence[int]) -> str:
        """A combination as ProteinGym writes it."""
        made = [str(one) for one, bit in zip(self.mutations, cell, strict=True) if bit]
        return ":".join(made) or WILD_TYPE

    def plot(self, method: str | None = None) -> "Figure":
        """Pairwise epistasis as a heat map, beside log-odds by the number of mutations.

        Args:
            method: Name of a method of this landscape. Default: the first.
        Returns:
            A figure of matplotlib, which notebooks show.
        Examples:
            >>> figure = lm.landscape("MKTAYIAKQR", "K2R:A4G").plot()
        """
        from unmask.plots.landscape import plot_landscape

        return plot_landscape(self, method)


def _number_then_order(cell: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    return sum(cell), tuple(-bit for bit in cell)


# --- one model, some mutations -----------------------------------------------------------------


def landscape(
    lm: JointModel,
    sequence: str,
    mutations: str | Sequence[str],
    *,
    methods: Sequence[str] = (DEFAULT_METHOD,),
    settings: Settings | None = None,
) -> Landscape:
    """`LanguageModel.landscape`."""
    residues = check_sequence(sequence)
    parsed = parse_landscape(mutations, residues)
    names = check_landscape_methods(methods, len(parsed))
    variant = landscape_variant(lm, residues, parsed)
    block = Block(variant.frame, variant.changes)
    reader = RowReader(lm.model, settings or Settings())
    with reader.counted("forward passes"):
        answers = run_rows(reader, landscape_requests(variant, names))
    tables = block_tables(block, answers, masked=True)
    solved = {name: _solved(name, block, answers, tables) for name in names}
    return Landscape(
        sequence=residues,
        mutations=parsed,
        log_odds={name: values for name, (values, _) in solved.items()},
        # all others read every position under all combinations
        incompatibility=None if names == ["mlm"] else agreement(tables).bits,
        converged={name: converged for name, (_, converged) in solved.items()},
        captured_mass=_captured_mass(block, answers),
        forward_passes=reader.forward_passes,
        model=lm.name,
        window=variant.window,
    )


def landscape_variant(lm: JointModel, residues: str, mutations: Sequence[Mutation]) -> Variant:
    """The variant that has all mutations, with any letters that the model has."""
    return VariantReader(lm, residues, None).read(":".join(map(str, mutations)))


def landscape_requests(variant: Variant, methods: Sequence[str]) -> Requests:
    """The rows of all methods together; all masked too, for what the residues capture."""
    block, requests = Block(variant.frame, variant.changes), Requests()
    requests.add([_all_masked(block)])
    for name in methods:
        edges = (row for _, _, row in block.edges())
        requests.add(edges if name == HCB_PATH else rows_of_tables(name, block))
    return requests


def _all_masked(block: Block) -> Row:
    return block.row(0, range(len(block.changes)))


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
    return method_of_variants(name, landscape_methods(_LEAST_MUTATIONS), "landscapes")


def landscape_methods(mutations: int) -> list[str]:
    """Every method that takes so many mutations."""
    return [
        n for n in (*JOINTS, HCB_PATH) if n != METHOD_WITHOUT_TABLES or mutations <= MOST_BY_ORDERS
    ]


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


# --- methods -----------------------------------------------------------------------------------


def _solved(
    name: str, block: Block, answers: Answers, tables: BlockTables
) -> tuple[Float[Tensor, "..."], bool]:
    """Log-odds against the wild type, and whether a solver converged."""
    if name == HCB_PATH:
        return by_mutation(path_moments(block.log_odds(answers))[0]), True
    joint = joint_of(name, tables)
    log_p = joint.log_rows(slice(None))
    log_odds = log_p - log_p.flatten()[0]
    if not bool(torch.isfinite(log_odds).all()):
        raise NumericsError(
            f"{name}: some combinations have probability zero, so their log-odds are undefined"
        )
    return log_odds, joint.diagnostics.get("converged") is not False


def _captured_mass(block: Block, answers: Answers) -> tuple[float, ...]:
    """What wild type and mutant have of the model's distribution, with all positions masked."""
    row = _all_masked(block)
    return tuple(
        float(np.exp(answers.at(row, one.place)[[one.wildtype, one.mutant]]).sum())
        for one in block.changes
    )
