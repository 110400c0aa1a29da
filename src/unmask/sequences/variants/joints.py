"""Joints over {wild type, mutant} at every mutation of a block, by the library's constructions.

Which contexts a construction reads is found by building it once on tables that note them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions import METHOD_WITHOUT_TABLES, construct
from unmask.constructions.solvers.fits import STATIONARY_LAW, Fit
from unmask.constructions.solvers.solution import Solution
from unmask.joints.joint import Joint
from unmask.progress import Bar, bar
from unmask.sequences.variants.cubes import Block, Vector, by_mutation, log_mean_over_orders
from unmask.sequences.variants.rows import Answers, Row
from unmask.tables.contexts import FREE, Contexts, given, given_all_others
from unmask.tables.protocol import EVERY_ROW
from unmask.text.support import Support, Token

_AXIS = Support.of(("wild type", "mutant"))
# logits of wild type and mutant at a masked mutation, for every assignment of the others
Read = Callable[[Contexts, int], Tensor]


class BlockTables:
    """What the model says of every mutation of a block, wild type or mutant, given the others."""

    def __init__(self, k: int, read: Read, *, masked: bool = False) -> None:
        self.supports = (_AXIS,) * k
        self._masked = masked
        self.shape = (2,) * k
        self.known: dict[tuple[Contexts, int], Tensor] = {}
        self._read, self._remembered = read, dict[str, object]()

    def elicit(self, whole: Iterable[int], *, masked: bool) -> None:
        """Nothing: everything has run."""

    def has_masked(self) -> bool:
        """Whether that row has run; solvers that can do without start from anywhere else."""
        return self._masked

    def log_given_others(self, outcome: int, rows: slice = EVERY_ROW) -> Float[Tensor, "..."]:
        """log q(x_t | all others)."""
        whole = given_all_others(len(self.shape), outcome)
        return torch.log_softmax(self._logits(whole, outcome), dim=outcome)[rows]

    def log_prob_of(self, outcome: int, place: int) -> Float[Tensor, "..."]:
        """The same for one of the two: size 1 along the mutation."""
        return self.log_given_others(outcome).narrow(outcome, place, 1)

    def log_normalizer(self, outcome: int) -> Float[Tensor, "..."]:
        """What was taken from the logits of both."""
        whole = given_all_others(len(self.shape), outcome)
        return torch.logsumexp(self._logits(whole, outcome), dim=outcome, keepdim=True)

    def log_masked(self, outcome: int) -> Float[Tensor, "..."]:
        """log m_t: with every mutation masked."""
        return self.log_given(given(len(self.shape), ()), outcome)

    def log_given(self, contexts: Contexts, outcome: int) -> Float[Tensor, "..."]:
        """log q(x_t | contexts)."""
        if contexts.read != (outcome,):
            return torch.log_softmax(self._logits(contexts, outcome), dim=outcome)
        # a part of a whole table
        log_probs = self.log_given_others(outcome)
        for blank, content in enumerate(contexts.contents):
            if isinstance(content, int):
                log_probs = log_probs.narrow(blank, content, 1)
        return log_probs

    def _logits(self, contexts: Contexts, outcome: int) -> Tensor:
        key = contexts, outcome
        if key not in self.known:
            self.known[key] = self._read(contexts, outcome)
        return self.known[key]

    def holds_all(self) -> bool:
        """Whether every mutation has been read under all others."""
        k = len(self.shape)
        return all((given_all_others(k, t), t) in self.known for t in range(k))

    def remember(self, name: str, compute: Callable[[], object]) -> object:
        """What was computed under this name, or is now."""
        if name not in self._remembered:
            self._remembered[name] = compute()
        return self._remembered[name]

    def bar(self, what: str, passes: int | None = None) -> Bar:
        """No bar: a block takes milliseconds."""
        return bar(what, unit="pass", total=passes, shown=False)

    def diagnostics(self) -> dict[str, object]:
        """None of its own."""
        return {}


@dataclass(frozen=True)
class MethodScore:
    """What a method says of a variant, or of a block of one; log-odds in nats."""

    score: float
    spread: float | None = None
    incompatibility: float | None = None
    blocks: int | None = None
    converged: bool = True


# --- what is read ------------------------------------------------------------------------------


@cache
def contexts_read(method: str, k: int) -> tuple[Contexts, ...]:
    """The contexts that a construction of so many mutations reads."""
    tables = BlockTables(k, _nothing)
    joint_of(method, tables)
    return tuple(dict.fromkeys(contexts for contexts, _ in tables.known))


def reads_all(method: str) -> bool:
    """Whether a construction reads every mutation under all others, however many there are."""
    if method == METHOD_WITHOUT_TABLES:
        return False
    return all(given_all_others(2, t) in contexts_read(method, 2) for t in range(2))


def _nothing(contexts: Contexts, outcome: int) -> Tensor:
    sizes = contexts.shape((2,) * len(contexts.contents))
    return torch.zeros([2 if t == outcome else n for t, n in enumerate(sizes)], dtype=torch.float64)


def rows_read(method: str, block: Block) -> Iterator[Row]:
    """The rows that a method requests for a block."""
    if method == METHOD_WITHOUT_TABLES:
        yield from (row for _, row in _fill_rows(block, mutant=True))
        yield from (row for _, row in _fill_rows(block, mutant=False))
        return
    yield from rows_of_tables(method, block)


def rows_of_tables(method: str, block: Block) -> Iterator[Row]:
    """The rows of all tables that a construction reads."""
    for contexts in contexts_read(method, len(block.changes)):
        yield from _rows_of(block, contexts)


def _rows_of(block: Block, contexts: Contexts) -> Iterator[Row]:
    """Every assignment of what is free, the last mutation varying fastest."""
    choices = [
        (0, 1) if content == FREE else (content if isinstance(content, int) else 0,)
        for content in contexts.contents
    ]
    for chosen in product(*choices):
        filled = sum(bit << t for t, bit in enumerate(chosen))
        yield block.row(filled, contexts.read)


# --- what comes of it --------------------------------------------------------------------------


def joined(method: str, block: Block, answers: Answers, law: Vector | None) -> MethodScore:
    """The joint's log-odds of mutant against wild type; `law` is the block's stationary law."""
    if len(block.changes) == 1:
        return MethodScore(float(block.log_odds(answers)[0, 0]))
    if method == METHOD_WITHOUT_TABLES:
        return MethodScore(_by_orders(block, answers, mutant=True) - _by_orders(block, answers))
    tables = block_tables(block, answers)
    if law is not None and np.isfinite(law).all():
        tables.remember(STATIONARY_LAW, lambda: _fit(law))
    joint, k = joint_of(method, tables), len(block.changes)
    log_odds = joint.log_prob(*[1] * k) - joint.log_prob(*[0] * k)
    converged = joint.diagnostics.get("converged") is not False
    return MethodScore(log_odds, incompatibility=joint.incompatibility(), converged=converged)


def block_tables(block: Block, answers: Answers, *, masked: bool = False) -> BlockTables:
    """Tables of a block from rows that have run; `masked` if one of them has all places masked."""

    def read(contexts: Contexts, outcome: int) -> Tensor:
        one = block.changes[outcome]
        rows = np.stack([answers.at(row, one.place) for row in _rows_of(block, contexts)])
        logits = rows[:, [one.wildtype, one.mutant]] + rows[:, -1:]
        free = contexts.shape((2,) * len(block.changes))
        return torch.from_numpy(logits).view(*free, 2).movedim(-1, outcome).squeeze(outcome + 1)

    return BlockTables(len(block.changes), read, masked=masked)


def joint_of(method: str, tables: BlockTables) -> Joint:
    """A construction; `hcb` walks from the wild type, as `hcb-path` does.

    Log-odds are against it. The likeliest residues, the default pivot of a joint, change from
    variant to variant and with the model, and take a forward pass to find.
    """
    wild: list[Token] = [int(axis.ids[0]) for axis in tables.supports]
    pivot = wild[0] if len(wild) == 2 else wild
    return construct(method, tables, **({"pivot": pivot} if method == "hcb" else {}))


def _fit(law: Vector) -> Fit:
    table = by_mutation(law)
    others = tuple(torch.logsumexp(table, dim=t, keepdim=True) for t in range(table.dim()))
    return Fit(others, Solution(law, 0, True, (0.0,)))


def _by_orders(block: Block, answers: Answers, *, mutant: bool = False) -> float:
    """The log-probability of all mutants, or all wild types, given that each is one of the two."""
    k = len(block.changes)
    steps = np.zeros((k, 2**k))
    for filled, row in _fill_rows(block, mutant=mutant):
        for t, one in enumerate(block.changes):
            if not filled >> t & 1:
                values = answers.at(row, one.place)
                chosen, other = (one.mutant, one.wildtype) if mutant else (one.wildtype, one.mutant)
                steps[t, filled] = -np.logaddexp(0.0, values[other] - values[chosen])
    return log_mean_over_orders(steps)


def _fill_rows(block: Block, *, mutant: bool) -> Iterator[tuple[int, Row]]:
    """Every set of places filled, with the mutants or the wild types, and the others masked."""
    k = len(block.changes)
    for filled in range(2**k - 1):
        masked = [t for t in range(k) if not filled >> t & 1]
        yield filled, block.row(filled if mutant else 0, masked)
