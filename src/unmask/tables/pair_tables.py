"""Both conditional tables of a pair of blanks, `[a, b]`: rows are the token at the first blank.

Constructions read parts (one table, one row, the doubly masked distributions), and each is
elicited when it is first read, one row of ids per context: nothing runs that is not used.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import MemoryLimitError, UnmaskError
from unmask.lazy import computed_once
from unmask.logspace import row_blocks
from unmask.model.devices import for_float64
from unmask.model.row_reader import Outcomes
from unmask.printable import quoted, readable_bytes
from unmask.settings import DEFAULT_MEMORY_LIMIT, Settings
from unmask.tables.blank_reader import BlankReader
from unmask.tables.conditional import ConditionalTable, DenseLogits, FactoredLogits, Logits
from unmask.tables.contexts import EMPTY, MASKED, Contexts
from unmask.tables.law import Law
from unmask.tables.marginals import MaskedMarginals
from unmask.tables.protocol import EVERY_ROW, Tables
from unmask.tables.storage import Storage, choose_storage
from unmask.text.support import Support


class PairTables(Tables):
    """Both conditional tables of a pair of blanks, elicited as they are needed.

    Examples:
        >>> lm.tables("Two [MASK] are [MASK].", support=20).shape
        (20, 20)
    """

    def __init__(
        self, source: BlankReader | Sequence[Support], settings: Settings | None = None
    ) -> None:
        """Tables of what reads both blanks; with supports in its place, tables yet to be given."""
        self.source = source if isinstance(source, BlankReader) else None
        first, second = source.supports if isinstance(source, BlankReader) else source
        self.supports: tuple[Support, Support] = first, second
        # rows and columns
        self.shape = len(first), len(second)
        if settings is None:
            settings = Settings() if self.source is None else self.source.reader.settings
        self.settings = settings
        self._storage: Storage | None = None
        self._read_contexts = False
        # the last rows that were read, by the blank that is read
        self._last: tuple[slice | None, dict[int, Tensor]] = (None, {})
        self._elicited: dict[int, ConditionalTable] = {}
        self._remembered: dict[str, Any] = {}
        # solved when it is first needed, unless a sketch has estimated it
        self.law: Law | None = None

    @classmethod
    def from_logits(
        cls,
        logits_a_given_b: Logits,
        logits_b_given_a: Logits,
        *,
        supports: tuple[Support, Support] | None = None,
        marginals: MaskedMarginals | None = None,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
    ) -> "PairTables":
        """Tables from raw logits, both laid out [a, b]."""
        if logits_a_given_b.shape != logits_b_given_a.shape:
            raise UnmaskError(
                f"both tables are laid out [a, b], but their shapes are "
                f"{logits_a_given_b.shape} and {logits_b_given_a.shape}"
            )
        rows, columns = logits_a_given_b.shape
        axes = supports or (Support.of(map(str, range(rows))), Support.of(map(str, range(columns))))
        if (len(axes[0]), len(axes[1])) != (rows, columns):
            raise UnmaskError(
                f"supports of {len(axes[0])} and {len(axes[1])} tokens do not fit tables of "
                f"{rows} x {columns}"
            )
        tables = cls(axes, Settings(memory_limit=memory_limit))
        tables._elicited = {
            0: ConditionalTable.from_logits(logits_a_given_b, given="b"),
            1: ConditionalTable.from_logits(logits_b_given_a, given="a"),
        }
        if marginals is not None:
            tables.masked = marginals.normalised_for((rows, columns), logits_a_given_b.device)
        return tables

    def __getstate__(self) -> dict[str, object]:
        """The pickled state: all except the last rows, which are soon computed."""
        return {**self.__dict__, "_last": (None, {})}

    def __repr__(self) -> str:
        """Shape, storage, model and text, as far as they are known: nothing is elicited."""
        facts = self.diagnostics()
        parts = [f"{key} {quoted(facts[key])}" for key in ("model", "text") if facts.get(key)]
        storage = str(facts.get("tables", "not elicited yet"))
        return f"PairTables({', '.join([f'{self.shape[0]} x {self.shape[1]}', storage, *parts])})"

    @property
    def memory_limit(self) -> int:
        """The bytes that anything of size V x V may take."""
        return self.settings.memory_limit

    @property
    def a_given_b(self) -> ConditionalTable:
        """The table q(a | b): columns sum to one."""
        return self.table(0)

    @property
    def b_given_a(self) -> ConditionalTable:
        """The table q(b | a): rows sum to one."""
        return self.table(1)

    @computed_once
    def masked(self) -> MaskedMarginals:
        """The model's own distributions with both blanks masked."""
        if self.source is None:
            raise UnmaskError(
                "these tables hold no doubly masked distributions, which this construction needs; "
                "give marginals= when making them, or use log-pool or ag"
            )
        (log_a, mass_a), (log_b, mass_b) = self.source.all_masked()
        return MaskedMarginals(log_a, log_b, (mass_a, mass_b))

    def both(self) -> tuple[ConditionalTable, ConditionalTable]:
        """q(a | b) and q(b | a), computed now if they are not there."""
        return self.a_given_b, self.b_given_a

    def has_masked(self) -> bool:
        """True if the masked distributions are there, or can be computed."""
        return self.source is not None or "masked" in self.__dict__

    def holds_all(self) -> bool:
        """True if both tables are there, so reading them does not run the model."""
        return len(self._elicited) == 2

    def elicit(self, whole: Iterable[int], *, masked: bool) -> None:
        """Run the model for the whole tables of some blanks, and with both blanks masked."""
        for outcome in whole:
            self.table(outcome)
        if masked and self.has_masked():
            self.masked  # noqa: B018

    def log_given_others(self, outcome: int, rows: slice = EVERY_ROW) -> Float[Tensor, "block b"]:
        """log q(a | b) or log q(b | a), for some rows; the same twice in a row are computed once.

        That is what lets one pass over the tables serve every construction and metric.
        """
        # by a name of its own: another thread may replace what is kept meanwhile
        last = self._last
        if last[0] != rows:
            last = self._last = (rows, {})
        if outcome not in last[1]:
            last[1][outcome] = self.table(outcome).log_prob(rows)
        return last[1][outcome]

    def log_prob_of(self, outcome: int, place: int) -> Float[Tensor, "_ _"]:
        """The same for one token of the blank, in every context."""
        return _laid(self.table(outcome).log_prob_of(place), 1 - outcome)

    def log_normalizer(self, outcome: int) -> Float[Tensor, "_ _"]:
        """The normaliser that was taken from the model's logits in each context."""
        return _laid(self.table(outcome).log_normalizer, 1 - outcome)

    def log_given(self, contexts: Contexts, outcome: int) -> Float[Tensor, "_ _"]:
        """log q(x_t | one token of the other blank), or with that masked too."""
        token = contexts.contents[1 - outcome]
        if token == MASKED:
            return self.log_masked(outcome)
        if not isinstance(token, int):
            raise UnmaskError("a whole table of two blanks is read by rows: log_given_others")
        rows_of = self.log_b_given if outcome else self.log_a_given
        return _laid(rows_of([token])[0], outcome)

    def log_masked(self, outcome: int) -> Float[Tensor, "_ _"]:
        """log m_t: the model's distribution of a blank with both masked."""
        return _laid((self.masked.log_a, self.masked.log_b)[outcome], outcome)

    def table(self, outcome: int) -> ConditionalTable:
        """q(a | b) or q(b | a), elicited now if it is not there."""
        if outcome not in self._elicited:
            assert self.source is not None
            self._elicited[outcome] = self._elicit(outcome, self.source)
        return self._elicited[outcome]

    def _elicit(self, outcome: int, source: BlankReader) -> ConditionalTable:
        """One blank read under every token of the other."""
        contexts = self.supports[1 - outcome].ids
        outcomes = Outcomes.of(source.model, self.supports[outcome])
        device, width = for_float64(source.model.device), None
        if outcomes.weight is None:
            if (needed := 8 * math.prod(self.shape)) > self.memory_limit:
                raise MemoryLimitError(
                    f"this model's tables must be kept dense, {readable_bytes(needed)}, "
                    f"above the limit of {readable_bytes(self.memory_limit)}; "
                    "raise the memory limit or give a smaller support"
                )
            values = torch.empty(self.shape, device=device)
            by_context = values.T if outcome == 0 else values
        else:
            width = outcomes.weight.shape[1]
            by_context = torch.empty(len(contexts), width, device=device)

        def keep(batch: slice, readouts: Tensor) -> None:
            read = readouts[:, 0]
            by_context[batch] = read if outcomes.ids is None else read[:, outcomes.ids]

        # half the memory of what the model reads: as many rows as there are tokens
        ids, positions = source.cloze.ids, source.cloze.positions
        rows = torch.tensor([ids], dtype=torch.int32).repeat(len(contexts), 1)
        rows[:, positions[1 - outcome]] = contexts.int()

        self._read_contexts = True
        what = f"blank {outcome} given blank {1 - outcome}"
        source.reader.each_batch(rows, [positions[outcome]], keep, what=what)
        self._storage = choose_storage(self.shape, width=width, settings=self.settings)
        logits: Logits
        if outcomes.weight is None:
            logits = DenseLogits(values)
        else:
            weight = outcomes.weight.to(device)
            bias = None if outcomes.bias is None else outcomes.bias.to(device)
            if outcome == 0:
                logits = FactoredLogits(weight, by_context, bias_a=bias)
            else:
                logits = FactoredLogits(by_context, weight, bias_b=bias)
            if self._storage.dense:
                logits = logits.dense()
        return ConditionalTable.from_logits(logits, given="b" if outcome == 0 else "a")

    def log_a_given(self, contexts: Sequence[int]) -> Float[Tensor, "contexts a"]:
        """log q(a | b) for some b, one row each; as many forward passes without the table."""
        return self.log_rows((contexts, ()))[0]

    def log_b_given(self, contexts: Sequence[int]) -> Float[Tensor, "contexts b"]:
        """log q(b | a) for some a, one row each; as many forward passes without the table."""
        return self.log_rows(((), contexts))[1]

    def log_rows(
        self, contexts: Sequence[Sequence[int]], *, dtype: torch.dtype = torch.float64
    ) -> list[Float[Tensor, "contexts size"]]:
        """Both at once, by the blank that is read; all that run are in the same batches.

        They are computed in float64, and kept as numbers of a type.
        """
        unread = [() if t in self._elicited else places for t, places in enumerate(contexts)]
        device = (
            torch.device("cpu") if self.source is None else for_float64(self.source.model.device)
        )
        rows = [
            torch.empty(len(tokens), size, dtype=dtype, device=device)
            for tokens, size in zip(unread, self.shape, strict=True)
        ]

        def use(which: Tensor, blank: int, log_probs: Tensor) -> None:
            # consecutive, since those of a blank are
            start = int(which[0]) - blank * len(unread[0])
            rows[blank][start : start + len(which)] = log_probs

        if any(unread):
            assert self.source is not None
            places = torch.full((sum(map(len, unread)), 2), EMPTY)
            places[: len(unread[0]), 1] = torch.tensor(unread[0], dtype=torch.long)
            places[len(unread[0]) :, 0] = torch.tensor(unread[1], dtype=torch.long)
            self._read_contexts = True
            self.source.read(places, use, what="some contexts of both blanks")
        for t, table in self._elicited.items():
            if contexts[t]:
                rows[t] = torch.stack([table.log_prob_at(place).to(dtype) for place in contexts[t]])
        return rows

    def memory_left(self) -> int:
        """Bytes of the limit that dense tables do not take already."""
        cells = 4 * self.shape[0] * self.shape[1]
        elicited = self._elicited.values()
        dense = sum(cells for table in elicited if isinstance(table.logits, DenseLogits))
        copied = sum(getattr(value, "nbytes", 0) for value in self._remembered.values())
        return self.memory_limit - dense - copied

    def blocks(self) -> list[slice]:
        """The row blocks of a streaming pass."""
        return row_blocks(*self.shape)

    def diagnostics(self) -> dict[str, object]:
        """Facts of the model and the text, of how tables are stored, and of what they have cost.

        With the same `batch_size`, device and threads the same run gives the same bits.
        """
        table = self._elicited.get(0) or self._elicited.get(1)
        masked = self.__dict__.get("masked")
        facts = {} if self.source is None else self.source.diagnostics()
        if self.source is not None and self._read_contexts and self.source.reader.batch_size:
            facts["batch_size"] = self.source.reader.batch_size
        if self._storage is not None:
            facts["tables_because"] = self._storage.why
        if table is not None:
            facts["tables"] = "dense" if isinstance(table.logits, DenseLogits) else "factored"
        if masked is not None:
            facts["captured_mass"] = list(masked.captured)
        return facts


def _laid(vector: Float[Tensor, " size"], axis: int) -> Float[Tensor, "_ _"]:
    """A vector along one of two axes."""
    return vector[None] if axis else vector[:, None]
