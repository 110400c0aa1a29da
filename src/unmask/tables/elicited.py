"""From a model, a cloze and supports to conditional tables: one row of ids per context.

Each part of the tables is elicited when a construction first asks for it. Knows the `MaskedLM`
protocol and nothing of transformers.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import MemoryLimitError
from unmask.model.batch_size import resolve_batch_size
from unmask.model.batches import in_batches
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import require_finite
from unmask.printable import readable_bytes
from unmask.progress import bar
from unmask.settings import Settings
from unmask.tables.conditional import ConditionalTable, DenseLogits, FactoredLogits, Logits
from unmask.tables.source import MaskedMarginals
from unmask.tables.storage import choose_storage
from unmask.text.cloze import Cloze
from unmask.text.support import Support


class ElicitedSource:
    """A table source that asks the model, and counts what it asked."""

    def __init__(
        self,
        model: MaskedLM,
        cloze: Cloze,
        supports: tuple[Support, Support],
        settings: Settings,
        *,
        provenance: Mapping[str, object] | None = None,
    ) -> None:
        self.supports = supports
        self.forward_passes = 0
        self._provenance = dict(provenance or {})
        self._model, self._cloze, self._settings = model, cloze, settings
        self._batch_size: int | None = None
        self._made_tables = False
        embedding = model.output_embedding
        self._storage = choose_storage(
            [len(axis) for axis in supports],
            width=None if embedding is None else embedding.weight.shape[1],
            memory_limit=settings.memory_limit,
            half=settings.half_tables,
        )
        self._row = torch.tensor([cloze.ids], device=model.device)

    def a_given_b(self) -> ConditionalTable:
        """Read blank 0 under every token of blank 1."""
        return self._table(outcome=0)

    def b_given_a(self) -> ConditionalTable:
        """Read blank 1 under every token of blank 0."""
        return self._table(outcome=1)

    def masked(self) -> MaskedMarginals:
        """Both distributions with both blanks masked: one row."""
        readouts = self._read_one(self._row, self._cloze.positions)
        log_p = _log_probabilities(readouts, self._model)
        log_a, captured_a = _restricted(log_p[0], self.supports[0])
        log_b, captured_b = _restricted(log_p[1], self.supports[1])
        return MaskedMarginals(log_a, log_b, (captured_a, captured_b))

    def log_a_given(self, contexts: Sequence[int]) -> Float[Tensor, "contexts a"]:
        """Blank 0 under some tokens of blank 1: one row each."""
        return self._some_contexts(outcome=0, contexts=contexts)

    def log_b_given(self, contexts: Sequence[int]) -> Float[Tensor, "contexts b"]:
        """Blank 1 under some tokens of blank 0: one row each."""
        return self._some_contexts(outcome=1, contexts=contexts)

    def diagnostics(self) -> dict[str, object]:
        """Whose tables these are, and what has been paid for them so far.

        With the same `batch_size`, device and threads the same run gives the same bits.
        """
        size = {} if self._batch_size is None else {"batch_size": self._batch_size}
        return {
            **self._provenance,
            "forward_passes": self.forward_passes,
            "length": len(self._cloze),
            **size,
            **({"tables_because": self._storage.why} if self._made_tables else {}),
        }

    def _table(self, *, outcome: int) -> ConditionalTable:
        self._check_fits()
        self._made_tables = True
        contexts = self.supports[1 - outcome].ids
        embedding = self._model.output_embedding
        if embedding is None:
            logits: Logits = self._dense(outcome, contexts)
        else:
            readouts = self._all_readouts(outcome, contexts, embedding.weight.shape[1])
            logits = self._factored(outcome, readouts)
        kept = logits.dense() if self._storage.dense else logits
        return ConditionalTable.from_logits(kept, given="b" if outcome == 0 else "a")

    def _all_readouts(self, outcome: int, contexts: Tensor, width: int) -> Tensor:
        kept = torch.empty(len(contexts), width, device=self._tables_device())

        def keep(batch: slice, readouts: Tensor) -> None:
            kept[batch] = readouts

        self._each_context(outcome, contexts, keep)
        return kept

    def _dense(self, outcome: int, contexts: Tensor) -> DenseLogits:
        sizes = [len(axis) for axis in self.supports]
        values = torch.empty(sizes, device=self._tables_device())
        outcomes = self.supports[outcome].ids.to(self._model.device)

        def keep(batch: slice, logits: Tensor) -> None:
            chosen = logits[:, outcomes]
            if outcome == 0:
                values[:, batch] = chosen.T
            else:
                values[batch] = chosen

        self._each_context(outcome, contexts, keep)
        return DenseLogits(values)

    def _factored(self, outcome: int, readouts: Tensor) -> Logits:
        embedding = self._model.output_embedding
        assert embedding is not None
        weight, bias = embedding.weight, embedding.bias
        if not self.supports[outcome].is_whole(self._model.vocabulary_size):
            ids = self.supports[outcome].ids.to(weight.device)
            weight, bias = weight[ids], None if bias is None else bias[ids]
        weight = weight.to(readouts.device)
        bias = None if bias is None else bias.to(readouts.device)
        if outcome == 0:
            return FactoredLogits(weight, readouts, bias_a=bias)
        return FactoredLogits(readouts, weight, bias_b=bias)

    def _each_context(
        self, outcome: int, contexts: Tensor, keep: Callable[[slice, Tensor], None]
    ) -> None:
        """Run one row a context in micro-batches; halve them when memory runs out.

        Rows are made where the model runs, and nothing in the loop waits for it.
        """
        whole = len(contexts) == len(self.supports[1 - outcome])
        # both tables in batches of one size, also where their supports differ
        rows = max(map(len, self.supports)) if whole else len(contexts)
        position = self._cloze.positions[outcome]
        tokens = contexts.to(self._model.device)
        counted = bar(
            f"blank {outcome} given blank {1 - outcome}",
            unit="row",
            total=len(contexts),
            shown=self._settings.progress,
        )
        finite = torch.ones((), dtype=torch.bool, device=self._model.device)
        with counted:

            def run(batch: slice) -> None:
                nonlocal finite
                readouts = self._read(self._rows(1 - outcome, tokens[batch]), [position])[:, 0]
                finite = finite & torch.isfinite(readouts).all()
                keep(batch, readouts)
                counted.update(batch.stop - batch.start)

            self._batch_size = in_batches(len(contexts), self._rows_per_batch(rows), run)
        require_finite(finite)

    def _rows_per_batch(self, rows: int) -> int:
        return resolve_batch_size(self._model, len(self._cloze), self._settings, rows)

    def _rows(self, blank: int, tokens: Int[Tensor, " rows"]) -> Int[Tensor, "rows length"]:
        """The cloze once a token, that token written into one blank."""
        rows = self._row.repeat(len(tokens), 1)
        rows[:, self._cloze.positions[blank]] = tokens
        return rows

    def _read(
        self, rows: Int[Tensor, "rows length"], positions: list[int] | tuple[int, ...]
    ) -> Float[Tensor, "rows positions width"]:
        readouts = self._model.readouts(rows, positions)
        self.forward_passes += len(rows)
        return readouts

    def _read_one(
        self, row: Int[Tensor, "1 length"], positions: list[int] | tuple[int, ...]
    ) -> Float[Tensor, "positions width"]:
        self.forward_passes += 1
        return read_one(self._model, row, positions)

    def _some_contexts(self, *, outcome: int, contexts: Sequence[int]) -> Tensor:
        places = torch.tensor(list(contexts), dtype=torch.long)
        tokens = self.supports[1 - outcome].ids[places]
        shape = (len(places), len(self.supports[outcome]))
        kept = torch.empty(shape, dtype=torch.float64, device=self._tables_device())

        def keep(batch: slice, readouts: Tensor) -> None:
            for row, log_p in enumerate(_log_probabilities(readouts, self._model)):
                kept[batch.start + row] = _restricted(log_p, self.supports[outcome])[0]

        self._each_context(outcome, tokens, keep)
        return kept

    def _tables_device(self) -> torch.device:
        # float64 arithmetic exists on CPUs and CUDA; other accelerators only run the model
        return self._model.device if self._model.device.type == "cuda" else torch.device("cpu")

    def _dense_bytes(self) -> int:
        return 8 * len(self.supports[0]) * len(self.supports[1])

    def _check_fits(self) -> None:
        if (
            self._model.output_embedding is None
            and self._dense_bytes() > self._settings.memory_limit
        ):
            raise MemoryLimitError(
                f"this model's tables must be kept dense, {readable_bytes(self._dense_bytes())}, "
                f"above the limit of {readable_bytes(self._settings.memory_limit)}; "
                "raise the memory limit or give a smaller support"
            )


def one_blank(
    model: MaskedLM, cloze: Cloze, support: Support
) -> tuple[Float[Tensor, " size"], float]:
    """The model's own distribution at a single blank, and the mass the support captures."""
    readout = read_one(model, torch.tensor([cloze.ids]), cloze.positions)
    return _restricted(_log_probabilities(readout, model)[0], support)


def read_one(
    model: MaskedLM, row: Int[Tensor, "1 length"], positions: Sequence[int]
) -> Float[Tensor, "positions width"]:
    """Readouts of a single sequence."""
    found: list[Tensor] = []
    in_batches(1, 1, lambda _: found.append(model.readouts(row.to(model.device), positions)[0]))
    return found[0]


def _log_probabilities(readouts: Tensor, model: MaskedLM) -> Float[Tensor, "rows vocabulary"]:
    embedding = model.output_embedding
    logits = readouts if embedding is None else embedding.logits(readouts)
    require_finite(torch.isfinite(logits).all())
    kept = logits if logits.device.type in ("cpu", "cuda") else logits.cpu()
    return torch.log_softmax(kept.double(), dim=-1)


def _restricted(log_p: Float[Tensor, " v"], support: Support) -> tuple[Tensor, float]:
    """The distribution given that the token lies in the support, and how likely that is."""
    chosen = log_p[support.ids.to(log_p.device)]
    log_mass = torch.logsumexp(chosen, dim=0)
    return chosen - log_mass, min(1.0, float(log_mass.exp()))
