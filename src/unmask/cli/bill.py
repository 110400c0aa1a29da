"""How `unmask cost` shows a cost: as text, or as JSON for programs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask.printable import columns, printable, readable_bytes, readable_seconds

if TYPE_CHECKING:
    from unmask.queries.costs.accelerators import Accelerator
    from unmask.queries.costs.cost import Cost


@dataclass(frozen=True)
class Bill:
    """The cost of one text, the number of texts, and the machines that run them."""

    model: str
    methods: list[str]
    cost: "Cost"
    examples: int
    machines: int
    memory_limit: int
    accelerator: "Accelerator | None"
    dtype: str
    utilisation: float

    def total(self, seconds: float | None) -> float | None:
        """The time of all texts, shared by the machines; each runs at least one text."""
        if seconds is None:
            return None
        return seconds * max(1.0, self.examples / self.machines)

    def on_accelerator(self) -> float | None:
        """The time of one text there."""
        from unmask.queries.costs.accelerators import seconds_on

        if self.accelerator is None:
            return None
        return seconds_on(
            self.accelerator, self.cost, dtype=self.dtype, utilisation=self.utilisation
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON: the cost of one text, and of all."""
        cost = self.cost
        shown: dict[str, object] = {
            "model": self.model,
            "methods": self.methods,
            "dtype": self.dtype,
            "memory_limit": self.memory_limit,
            "examples": self.examples,
            "machines": self.machines,
            "one_text": cost.to_dict(),
            "all_texts": {
                "forward_passes": cost.forward_passes * self.examples,
                "flop": None if cost.flop is None else cost.flop * self.examples,
                "seconds": self.total(cost.seconds),
            },
            "accelerator": None,
        }
        if self.accelerator is not None:
            shown["accelerator"] = {
                "name": self.accelerator.name,
                "peak_flop_per_second": self.accelerator.peak(self.dtype),
                "memory": self.accelerator.memory,
                "source": self.accelerator.source,
                "utilisation": self.utilisation,
                "seconds_one_text": self.on_accelerator(),
                "seconds_all_texts": self.total(self.on_accelerator()),
            }
        return shown


def as_text(bill: Bill) -> str:
    """One line per number, with what it rests on."""
    cost = bill.cost
    title = (
        f"{printable(bill.model)}, {', '.join(bill.methods)}, {bill.dtype}: one text of "
        f"{cost.length} tokens"
    )
    rows = [
        ["forward passes", _passes(cost)],
        ["arithmetic", _arithmetic(cost)],
        ["model", "not known" if cost.model_bytes is None else readable_bytes(cost.model_bytes)],
        ["tables", _tables(cost, bill.memory_limit)],
        ["time here", _time(cost)],
    ]
    if bill.accelerator is not None:
        rows.append([f"on {bill.accelerator.name}", _elsewhere(bill, bill.accelerator)])
    several = bill.examples > 1 or bill.machines > 1
    return "\n\n".join([_block(title, rows), *([_all_texts(bill)] if several else [])])


def _block(title: str, rows: list[list[str]]) -> str:
    return "\n".join([title, *(f"  {line}" for line in columns(rows).splitlines())])


def _passes(cost: "Cost") -> str:
    if cost.for_a_pair:
        return f"{cost.forward_passes:,} for a pair; up to {cost.passes_to_rank:,} to rank or sum"
    return f"{cost.forward_passes:,}"


def _arithmetic(cost: "Cost") -> str:
    from unmask.queries.costs.cost import readable_flop

    known = "not counted" if cost.flop is None else readable_flop(cost.flop)
    said = f"{known} in forward passes, {readable_flop(cost.table_flop)} in the output layer"
    return f"{said}, {cost.table_passes} sweeps over the tables" if cost.table_passes else said


def _tables(cost: "Cost", limit: int) -> str:
    if cost.storage is None:
        return "none"
    said = f"{readable_bytes(cost.table_bytes)}, {cost.storage}: {cost.storage_why}"
    if cost.storage == "dense" and cost.table_bytes > limit:
        said += f"; rejected unless --memory-limit is raised above {readable_bytes(limit)}"
    return said


def _time(cost: "Cost") -> str:
    if cost.seconds is None:
        return "not measured"
    return f"about {_seconds(cost.seconds)} of forward passes (loading the model not counted)"


def _elsewhere(bill: Bill, where: "Accelerator") -> str:
    seconds = bill.on_accelerator()
    if seconds is None:
        return "not known: the FLOP were not counted"
    peak = f"{where.peak(bill.dtype) / 1e12:g} TFLOP/s in {bill.dtype}"
    said = (
        f"about {_seconds(seconds)} at {bill.utilisation:.0%} of its peak ({peak}, {where.source})"
    )
    needed = bill.cost.table_bytes + (bill.cost.model_bytes or 0)
    if needed > where.memory:
        needs, has = readable_bytes(needed), readable_bytes(where.memory)
        said += f"; {needs} do not fit its {has}: lower --memory-limit"
    return said


def _all_texts(bill: Bill) -> str:
    from unmask.queries.costs.cost import readable_flop

    cost = bill.cost
    machines = f" on {bill.machines:,} machines" if bill.machines > 1 else ""
    rows = [["forward passes", f"{cost.forward_passes * bill.examples:,}"]]
    if cost.flop is not None:
        rows.append(["arithmetic", readable_flop(cost.flop * bill.examples)])
    here, there = bill.total(cost.seconds), bill.total(bill.on_accelerator())
    if here is not None:
        alike = " if each is like this one" if machines else ""
        rows.append(["time", f"about {_seconds(here)}{alike}"])
    if there is not None and bill.accelerator is not None:
        rows.append([f"on {bill.accelerator.name}", f"about {_seconds(there)}"])
    return _block(f"{bill.examples:,} text{'s' * (bill.examples != 1)}{machines}", rows)


def _seconds(seconds: float) -> str:
    """A duration, with units below a second too: there may be many texts."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.2g} µs"
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    return f"{seconds:.1f} s" if seconds < 10 else readable_seconds(seconds)
