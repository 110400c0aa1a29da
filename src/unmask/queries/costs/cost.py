"""What joints will cost: forward passes, FLOP, memory, time."""

from dataclasses import asdict, dataclass

from unmask.arguments import Options
from unmask.constructions.needs import Needs
from unmask.printable import readable_bytes, readable_number, readable_seconds
from unmask.queries.costs.passes import (
    all_needs,
    compiled_traffic,
    forward_passes,
    passes_to_rank,
    table_bytes,
    table_flop,
    table_passes,
    traffic,
)
from unmask.settings import Settings
from unmask.tables.storage import choose_storage


@dataclass(frozen=True)
class Cost:
    """What one text costs: exact forward passes, approximate FLOP and memory, rough time.

    This includes showing the joints: their sums, the likeliest pairs and, if both tables are there,
    J. With `for_a_pair`, the forward passes are those for the probability of one pair, by
    constructions that need no more; `passes_to_rank` is then the most that ranking, sampling or
    sums may take. `storage` is "dense" if tables are stored cell by cell, "streamed" if they are
    recomputed in every sweep, and `storage_why` the reason; None if there are no tables. `flop` is
    that of the forward passes, `table_flop` that of the output layer; a multiply-add counts as two.
    `table_traffic` is the memory traffic of sweeps over the tables that are not compiled, and of
    the replicates of a sketch, `compiled_traffic` what compiled sweeps could read in their time, 0
    where they are not. `seconds` are those of forward passes, the output layer, sweeps and
    replicates on this machine. `at_most` is True for a sketch, which stops sooner if its precision
    is reached.

    Examples:
        >>> print(lm.cost("Two [MASK] are [MASK].", methods=["mlm"], timed=False))
        1 forward pass of 7 tokens
    """

    forward_passes: int
    length: int
    table_bytes: int
    seconds: float | None = None
    for_a_pair: bool = False
    passes_to_rank: int = 0
    table_passes: int = 0
    storage: str | None = None
    storage_why: str | None = None
    model_bytes: int | None = None
    flop: int | None = None
    table_flop: int = 0
    table_traffic: int = 0
    compiled_traffic: int = 0
    at_most: bool = False

    def __str__(self) -> str:
        """One line; what takes less than a second is not worth more than its rows."""
        passes = f"{self.forward_passes:,} forward pass{'es' * (self.forward_passes != 1)}"
        if self.at_most:
            passes = f"at most {passes}"
        text = f"{passes} of {self.length} tokens"
        long = self.seconds is not None and self.seconds >= 1
        if long and self.flop is not None:
            text += f" ({readable_flop(self.flop)})"
        if self.for_a_pair:
            text += f" for a pair, up to {self.passes_to_rank:,} to rank or sum"
        elif long and self.table_passes:
            text += f", {self.table_passes} passes over the tables"
        if long and self.seconds is not None:
            most = "up to " if self.at_most else ""
            text += f", {most}about {readable_seconds(self.seconds)}"
        if self.for_a_pair or not self.table_bytes:
            return text
        return f"{text}, {readable_bytes(self.table_bytes)} of tables"

    def to_dict(self) -> dict[str, float | int | bool | str | None]:
        """Plain values, ready for JSON."""
        return asdict(self)


def predicted(
    methods: Options,
    shape: tuple[int, ...],
    *,
    length: int,
    width: int | None,
    settings: Settings,
    row_flop: int | None = None,
    model_bytes: int | None = None,
    whole_vocabulary: bool = True,
) -> Cost:
    """The parts of a cost that need no time measurement.

    `methods` are constructions with their options. `width` is that of the model's readouts, None
    where there are none; `row_flop` the FLOP of a row of this length.
    """
    rows = forward_passes(methods, shape, whole_vocabulary=whole_vocabulary)
    parts = all_needs(methods, shape) if len(shape) > 1 else Needs(masked=True)
    passes = table_passes(methods, shape)
    kept = choose_storage(shape, width=width, settings=settings)
    return Cost(
        rows,
        length,
        table_bytes(parts, shape, width, kept),
        for_a_pair=parts.only_contexts(),
        passes_to_rank=passes_to_rank(methods, shape) if parts.only_contexts() else rows,
        table_passes=sum(passes.values()),
        storage=kept.name if parts.whole else None,
        storage_why=kept.why if parts.whole else None,
        model_bytes=model_bytes,
        flop=None if row_flop is None else rows * row_flop,
        table_flop=table_flop(passes, parts, shape, width, kept),
        table_traffic=traffic(passes, shape, kept),
        compiled_traffic=compiled_traffic(passes, shape, kept),
    )


def readable_flop(count: float) -> str:
    """A number of floating-point operations, readable: 1.2 TFLOP."""
    for unit in ("", "k", "M", "G", "T", "P"):
        if count < 999.5:
            return f"{readable_number(count)} {unit}FLOP"
        count /= 1000
    return f"{readable_number(count)} EFLOP"
