"""Rows of token ids in, numbers at some of their positions out: the one caller of `model.readouts`.

Batches and their size, smaller ones when memory runs out, the check that numbers are finite, the
count of forward passes, progress and cancelling, and the part of the output layer that is needed,
are here and nowhere else. Rows of one length are batched by their tokens, so that results do not
change with the clock. Logits exist some at a time and are folded at once, so that memory does
not grow with the vocabulary. Knows the `MaskedLM` protocol, nothing of texts and nothing of
transformers.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import linear

from unmask.errors import MemoryLimitError, ModelError, NumericsError
from unmask.logspace import row_blocks
from unmask.model.devices import for_float64, is_gpu, release_cached_memory
from unmask.model.inside import Inside
from unmask.model.masked_lm import MaskedLM
from unmask.model.output_layer import Positions
from unmask.progress import Bar, bar
from unmask.settings import Settings
from unmask.text.support import Support

# rows x tokens that one forward pass takes when the caller names no batch size
_TOKENS_ON_CPU, _TOKENS_ON_GPU, _TOKENS_ELSEWHERE = 2048, 65_536, 16_384
# where logits of every position must be kept (no output embedding), cells of one batch
_CELLS_PER_BATCH = 2**26
# cells of a tile of distributions over a vocabulary that exist at once
_CELLS = 2**22
# of a sum in float64, so many are added in float32
_TERMS = 16


# of some rows, by their numbers: which blank was read, and its distribution over its outcomes
UseDistributions = Callable[[Int[Tensor, " some"], int, Float[Tensor, "some size"]], None]


@dataclass(frozen=True, eq=False)
class TokenLogProbs:
    """Log-probabilities of tokens, in float64, and whether no token is likelier in their place."""

    log_probs: Float[Tensor, "*shape"]
    are_likeliest: Bool[Tensor, "*shape"]


class RowReader:
    """Reads a model over rows, in batches, and counts the forward passes.

    `batch_size` is that of the last rows.
    """

    def __init__(self, model: MaskedLM, settings: Settings, *, forward_passes: int = 0) -> None:
        self.model, self.settings = model, settings
        self.forward_passes = forward_passes
        self.batch_size: int | None = None
        # called once with the seconds per row of the first batch
        self.after_first_batch: Callable[[float], None] | None = None
        self._tokens_that_fit: int | None = None
        self._bar: Bar | None = None
        self._total_is_known = False

    @contextmanager
    def counted(self, what: str, total: int = 0) -> Iterator[Bar]:
        """One bar for everything that is read inside, instead of one for each call.

        Without a total it counts up to what is expected (`expect`).
        """
        self._total_is_known = total > 0
        with bar(what, unit="row", total=total, shown=self.settings.progress) as self._bar:
            try:
                yield self._bar
            finally:
                self._bar = None

    def expect(self, rows: int) -> None:
        """Add to what the bar counts up to, unless its total is known."""
        if self._bar is not None and not self._total_is_known:
            self._bar.total = (self._bar.total or 0) + rows

    def each_batch(
        self,
        rows: Int[Tensor, "rows length"],
        positions: Positions,
        use: Callable[[slice, Any], None],
        *,
        what: str = "forward passes",
        read: Callable[..., Tensor | Inside] | None = None,
    ) -> None:
        """Show `use` the readouts of every batch, where the model runs, or what `read` has instead.

        An accelerator is not waited for between batches.
        """
        count, length = rows.shape
        size = rows_per_batch(self.model, length, self.settings)
        if self._tokens_that_fit is not None:
            size = max(1, min(size, self._tokens_that_fit // length))
        finite = torch.ones((), dtype=torch.bool, device=self.model.device)
        new_bar = bar(what, unit="row", total=count, shown=self.settings.progress)
        start = 0
        with new_bar if self._bar is None else nullcontext(self._bar) as counted:
            while start < count:
                batch = slice(start, min(start + size, count))
                at = positions[batch] if isinstance(positions, Tensor) else positions
                began = time.perf_counter()
                try:
                    finite = finite & self._run(rows[batch], at, batch, use, read)
                except (RuntimeError, MemoryError) as error:
                    if not is_out_of_memory(error):
                        raise
                    if size == 1:
                        raise MemoryLimitError(
                            "one forward pass of this text does not fit into memory"
                        ) from None
                    size //= 2
                    self._tokens_that_fit = size * length
                else:
                    start = batch.stop
                    counted.update(batch.stop - batch.start)
                    if start < count and self.after_first_batch is not None:
                        tell, self.after_first_batch = self.after_first_batch, None
                        tell((time.perf_counter() - began) / (batch.stop - batch.start))
                    continue
                # here, not above: while the exception is held, so are the tensors it failed on
                release_cached_memory()
        require_finite(finite)
        self.batch_size = size

    def _run(
        self,
        rows: Tensor,
        positions: Positions,
        batch: slice,
        use: Callable[[slice, Any], None],
        read: Callable[..., Tensor | Inside] | None,
    ) -> Tensor:
        """Run a batch and show it to `use`; True if its numbers are finite."""
        output = (read or self.model.readouts)(rows.to(self.model.device).long(), positions)
        readouts = output.readouts if isinstance(output, Inside) else output
        self.forward_passes += len(readouts)
        finite = torch.isfinite(readouts).all()
        if readouts.device.type == "cpu":
            require_finite(finite)
        use(batch, output)
        return finite

    def distributions(
        self,
        rows: Int[Tensor, "rows length"],
        positions: Int[Tensor, "rows blanks"],
        wanted: Bool[Tensor, "rows blanks"],
        outcomes: Sequence["Outcomes"],
        use: UseDistributions,
        *,
        what: str = "forward passes",
    ) -> None:
        """Show `use` log-probabilities over the outcomes of wanted blanks, in float64, in tiles."""
        # one position per row: fewer readouts to keep
        is_single = bool((wanted.sum(dim=1) == 1).all())
        at = (
            positions.gather(1, wanted.long().argmax(dim=1, keepdim=True))
            if is_single
            else positions
        )

        def tiles(batch: slice, readouts: Tensor) -> None:
            by_blank = readouts.expand(-1, positions.shape[1], -1)
            for blank in torch.nonzero(wanted[batch].any(dim=0))[:, 0].tolist():
                rows = torch.nonzero(wanted[batch, blank])[:, 0]
                for tile in row_blocks(len(rows), outcomes[blank].size, _CELLS):
                    of_blank = by_blank[rows[tile].to(readouts.device), blank]
                    use(rows[tile] + batch.start, blank, outcomes[blank].log_probs(of_blank))

        self.each_batch(rows, at, tiles, what=what)

    def token_log_probs(
        self,
        ids: Int[Tensor, "rows length"],
        positions: Int[Tensor, "rows read"],
        tokens: Int[Tensor, "rows read given"],
        *,
        wanted: Bool[Tensor, "rows read"] | None = None,
    ) -> TokenLogProbs:
        """The ids at the positions, on the CPU: zeros where they are not `wanted`."""
        values = torch.zeros(tokens.shape, dtype=torch.float64)
        are_likeliest = torch.zeros(tokens.shape, dtype=torch.bool)
        every = Outcomes.of(self.model)
        read = torch.ones(positions.shape, dtype=torch.bool) if wanted is None else wanted

        def fold(batch: slice, readouts: Tensor) -> None:
            row, column = read[batch].nonzero(as_tuple=True)
            picked = readouts[row.to(readouts.device), column.to(readouts.device)]
            log_probs, highest = folded(picked, every, tokens[batch][row, column])
            values[batch][row, column] = log_probs.cpu()
            are_likeliest[batch][row, column] = (log_probs >= highest[:, None]).cpu()

        self.each_batch(ids, positions, fold)
        return TokenLogProbs(values, are_likeliest)

    def each_inside(
        self,
        ids: Int[Tensor, "rows length"],
        positions: Int[Tensor, "rows read"],
        use: Callable[[slice, Inside], None],
        *,
        attention: bool = True,
    ) -> None:
        """Show `use` what the model computes inside at the positions of every batch."""
        read = getattr(self.model, "inside", None)
        if read is None:
            raise ModelError(
                "this model shows neither attention nor hidden states; take a rule that reads "
                "predictions alone"
            )
        read = partial(read, attention=attention)
        self.each_batch(ids, positions, use, read=read)

    def one(
        self, ids: Sequence[int], positions: Sequence[int], *, what: str = "forward pass"
    ) -> Float[Tensor, "positions width"]:
        """Readouts of a single row."""
        batches: list[Tensor] = []
        row = torch.tensor([list(ids)])
        self.each_batch(row, positions, lambda _, readouts: batches.append(readouts[0]), what=what)
        return batches[0]


# --- the size of a batch -----------------------------------------------------------------------


def rows_per_batch(model: MaskedLM, length: int, settings: Settings) -> int:
    """The caller's batch size, or a fixed one that suits the device."""
    if settings.batch_size is not None:
        return settings.batch_size
    if model.device.type == "cpu":
        rows = _TOKENS_ON_CPU // length
    else:
        rows = (_TOKENS_ON_GPU if is_gpu(model.device) else _TOKENS_ELSEWHERE) // length
    if model.output_embedding is None:
        rows = min(rows, _CELLS_PER_BATCH // (length * model.vocabulary_size))
    return max(1, rows)


def is_out_of_memory(error: BaseException) -> bool:
    """True if an error of any device means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return any(s in text for s in ("out of memory", "not enough memory", "can't allocate memory"))


# --- logits, some columns at a time ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The tokens that a blank may take: readouts in, some of their logits out."""

    size: int
    weight: Float[Tensor, "size width"] | None
    bias: Float[Tensor, " size"] | None
    ids: Int[Tensor, " size"] | None

    @classmethod
    def of(cls, model: MaskedLM, support: Support | None = None) -> "Outcomes":
        """The tokens of a support, in its order; all outputs of a model, by their ids, without."""
        layer, size = model.output_embedding, model.vocabulary_size
        weight, bias = (None, None) if layer is None else (layer.weight, layer.bias)
        if support is None or support.is_whole(size):
            return cls(size, weight, bias, None)
        ids = support.ids.to(model.device)
        if weight is None:
            return cls(len(support), None, None, ids)
        return cls(len(support), weight[ids], None if bias is None else bias[ids], None)

    def logits(
        self, readouts: Float[Tensor, "rows width"], columns: slice = slice(None)
    ) -> Float[Tensor, "rows columns"]:
        """Logits of consecutive tokens, where float64 exists."""
        if self.weight is None:
            logits = readouts[:, columns if self.ids is None else self.ids[columns]]
        else:
            bias = None if self.bias is None else self.bias[columns]
            logits = linear(readouts, self.weight[columns], bias)
        return logits.to(for_float64(logits.device))

    def log_probs(self, readouts: Float[Tensor, "rows width"]) -> Float[Tensor, "rows size"]:
        """The distribution given that the token is one of these, in float64."""
        logits = self.logits(readouts)
        # what is not finite leaves no sum finite
        require_finite(torch.isfinite(logits.sum()))
        return torch.log_softmax(logits.double(), dim=-1)


def log_mass(
    readouts: Float[Tensor, "rows width"], outcomes: Outcomes, every: Outcomes
) -> Float[Tensor, " rows"]:
    """The logarithm of the part of the whole vocabulary's mass that some outcomes hold."""
    part, whole = (torch.logsumexp(o.logits(readouts).double(), dim=-1) for o in (outcomes, every))
    return (part - whole).clamp(max=0.0)


def folded(
    readouts: Float[Tensor, "rows width"], outcomes: Outcomes, places: Int[Tensor, "rows given"]
) -> tuple[Float[Tensor, "rows given"], Float[Tensor, " rows"]]:
    """Logits of the given tokens minus the log-sum-exp of all, and the largest of all so."""
    device = for_float64(readouts.device)
    places = places.to(device)
    peak = torch.full(places.shape[:1], -torch.inf, device=device)
    total = torch.zeros_like(peak, dtype=torch.float64)
    true_logits = torch.zeros(places.shape, device=device)
    for columns in row_blocks(outcomes.size, len(places)):
        tile = outcomes.logits(readouts, columns)
        if outcomes.weight is None:
            # part of the readouts, which are not to be overwritten
            tile = tile.clone()
        highest = torch.maximum(peak, tile.amax(dim=1))
        # the lowest too: minus infinity leaves no trace in a sum of exponentials
        require_finite(torch.isfinite(highest - tile.amin(dim=1)).all())
        inside = (places >= columns.start) & (places < columns.stop)
        at = (places - columns.start).clamp(0, tile.shape[1] - 1)
        true_logits = torch.where(inside, tile.gather(1, at), true_logits)
        # Exponentials in float32: to round a difference d of logits costs a part 2**-24 d of its
        # term, over all terms at most 2**-24 log V of the sum, and exp itself costs 2**-23; that
        # is below 1e-6 up to V = 10**6, and measured below 1e-7.
        # Sums in float64, where every few positive terms are first added in float32: to convert
        # every term would take as long as the output layer. The sum of sixteen is off by a part
        # 15 x 2**-24 at most; sums over a vocabulary, measured, by 1e-7.
        terms = tile.sub_(highest[:, None]).exp_()
        whole = terms.shape[1] // _TERMS * _TERMS
        few = terms[:, :whole].unflatten(1, (-1, _TERMS)).sum(dim=2, dtype=torch.float32)
        rest = few.sum(dim=1, dtype=torch.float64) + terms[:, whole:].sum(1, dtype=torch.float64)
        total = total * (peak.double() - highest).exp() + rest
        peak = highest
    normaliser = peak + total.log()
    return true_logits.double() - normaliser[:, None], peak - normaliser


def require_finite(finite: Tensor) -> None:
    """Raise unless all that a model returned is numbers."""
    if not bool(finite):
        raise NumericsError(
            "the model returned values that are not finite; float16 overflows in some models, "
            "so try float32, and check the weights"
        )
