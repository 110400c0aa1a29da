"""Write the tables of docs/concepts/cost.md, between their marks.

    python runs/cost_table.py

Formulas and published shapes only: nothing is measured or downloaded. The counts are those that
`unmask cost` makes; its FLOP are counted at the model, these follow from its shape.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from unmask.printable import readable_bytes, readable_seconds
from unmask.queries.costs.accelerators import ACCELERATORS, UTILISATION, Accelerator, seconds_on
from unmask.queries.costs.cost import Cost, predicted, readable_flop
from unmask.settings import Settings

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "cost.md"
MARK, END = "<!-- {}: runs/cost_table.py -->", "<!-- end of {} -->"

LENGTH = 32
DTYPE = "bfloat16"
WHERE = ACCELERATORS["A100"]
# what is left of an A100's 80 GB beside model and batches
MEMORY_LIMIT = 64 * 10**9
# the constructions of the paper, which its authors ran together
PAPER = ["mlm", "mrf", "mrf-logit", "hcb", "ag-paper"]
SCALE = ["log-pool", "ag", "ag-paper", "mrf", "hcb", "sweep", "orders", "mlm"]


@dataclass(frozen=True)
class Shape:
    """What the arithmetic of an encoder follows from; `gated` has three products a feed-forward."""

    vocabulary: int
    layers: int
    width: int
    inner: int
    gated: bool = False

    def row_flop(self, length: int) -> int:
        """A row of so many tokens: projections, attention, feed-forward, and the head's product.

        All positions of all layers; what elicitation leaves out of the last one is not deducted.
        """
        d, products = self.width, 3 if self.gated else 2
        layer = 8 * d * d * length + 4 * d * length**2 + 2 * products * d * self.inner * length
        return self.layers * layer + 2 * d * d * length

    def weight_bytes(self, each: int) -> int:
        """Embeddings and matrices; positions, biases and norms, under 1% of BERT, left out."""
        d, products = self.width, 3 if self.gated else 2
        matrices = self.layers * (4 * d * d + products * d * self.inner) + d * d
        return each * (self.vocabulary * d + matrices)

    def cost(
        self, methods: list[str], length: int = LENGTH, memory_limit: int = MEMORY_LIMIT
    ) -> Cost:
        """What a pair of blanks over the whole vocabulary costs."""
        cost = predicted(
            {name: {} for name in methods},
            (self.vocabulary, self.vocabulary),
            length=length,
            width=self.width,
            settings=Settings(memory_limit=memory_limit),
            row_flop=self.row_flop(length),
            model_bytes=self.weight_bytes(4),
        )
        # the product of two guesses is scored as it stands: no table is summed or ranked
        return replace(cost, table_traffic=0) if methods == ["mlm"] else cost


# the config.json of each model on the hub; caption-bert is this project's own
SHAPES = {
    "caption-bert": Shape(4096, 4, 256, 1024),
    "bert-base-cased": Shape(28_996, 12, 768, 3072),
    "bert-large-cased": Shape(28_996, 24, 1024, 4096),
    "roberta-base": Shape(50_265, 12, 768, 3072),
    "ModernBERT-base": Shape(50_368, 22, 768, 1152, gated=True),
    "ESM-2 650M": Shape(33, 33, 1280, 5120),
}


def said(seconds: float) -> str:
    """A duration from milliseconds to centuries."""
    if seconds < 1:
        return f"{1e3 * seconds:.0f} ms" if seconds >= 0.01 else f"{1e3 * seconds:.2g} ms"
    years = seconds / 86_400 / 365
    if years >= 2:
        return f"{years:,.0f} years"
    return readable_seconds(seconds)


def there(cost: Cost, where: Accelerator = WHERE, dtype: str = DTYPE) -> float:
    seconds = seconds_on(where, cost, dtype=dtype)
    assert seconds is not None
    return seconds


def models() -> Iterator[str]:
    yield (
        "| model | V | layers x d | forward passes | FLOP of them | tables, dense "
        f"| one pair, {WHERE.name} |"
    )
    yield "|---|---|---|---|---|---|---|"
    for name, shape in SHAPES.items():
        cost = shape.cost(["log-pool"])
        assert cost.flop is not None
        yield (
            f"| {name} | {shape.vocabulary:,} | {shape.layers} x {shape.width} "
            f"| {cost.forward_passes:,} | {readable_flop(cost.flop)} "
            f"| {readable_bytes(cost.table_bytes)} | {said(there(cost))} |"
        )


def parts() -> Iterator[str]:
    yield "| model | forward passes | output layer | passes over the tables |"
    yield "|---|---|---|---|"
    for name, shape in SHAPES.items():
        cost = shape.cost(["log-pool"])
        forward = there(replace(cost, table_flop=0, table_traffic=0))
        layer = there(replace(cost, flop=0, table_traffic=0))
        tables = there(replace(cost, flop=0, table_flop=0))
        yield f"| {name} | {said(forward)} | {said(layer)} | {said(tables)} |"


def scale() -> Iterator[str]:
    shape = SHAPES["bert-base-cased"]
    yield (
        f"| method | forward passes | 1,000, one {WHERE.name} | a million, one | a billion, one "
        "| a million, 100 | a billion, 100 |"
    )
    yield "|---|---|---|---|---|---|---|"
    for method in SCALE:
        cost = shape.cost([method])
        one = there(cost)
        times = [one * 1e3, one * 1e6, one * 1e9, one * 1e4, one * 1e7]
        yield f"| `{method}` | {cost.forward_passes:,} | {' | '.join(map(said, times))} |"


def paper() -> Iterator[str]:
    yield "| model | V100, float32 | V100, float16 | A100, float32 | A100, bfloat16 |"
    yield "|---|---|---|---|---|"
    for name in ("bert-base-cased", "bert-large-cased"):
        cost = SHAPES[name].cost(PAPER)
        kinds = [("V100", "float32"), ("V100", "float16"), ("A100", "float32"), ("A100", DTYPE)]
        times = [said(1000 * there(cost, ACCELERATORS[where], dtype)) for where, dtype in kinds]
        yield f"| {name} | {' | '.join(times)} |"


def accelerators() -> Iterator[str]:
    yield "| name | float32, TFLOP/s | half precision, TFLOP/s | memory, GB | GB/s | source |"
    yield "|---|---|---|---|---|---|"
    for one in ACCELERATORS.values():
        half = f"{one.half / 1e12:g}" + ("" if one.bfloat16 else " (float16 only)")
        yield (
            f"| {one.name} | {one.float32 / 1e12:g} | {half} | {one.memory / 1e9:g} "
            f"| {one.bandwidth / 1e9:,g} | {one.source} |"
        )


def assumptions() -> Iterator[str]:
    yield (
        f"Texts of {LENGTH} tokens; {WHERE.name} at {UTILISATION:.0%} of its peaks "
        f"({WHERE.half / 1e12:g} TFLOP/s in {DTYPE} for the model, {WHERE.float32 / 1e12:g} in "
        f"float32"
    )
    yield (
        f"for the output layer, {WHERE.bandwidth / 1e9:,g} GB/s); tables dense up to a "
        f"memory limit of {readable_bytes(MEMORY_LIMIT)}."
    )


TABLES = {
    "assumptions": assumptions,
    "models": models,
    "parts": parts,
    "scale": scale,
    "paper": paper,
    "accelerators": accelerators,
}


def with_tables(page: str) -> str:
    """The page with what stands between its marks made anew."""
    for name, lines in TABLES.items():
        mark, end = MARK.format(name), END.format(name)
        before, rest = page.split(mark)
        page = before + "\n".join([mark, *lines(), end]) + rest.split(end)[1]
    return page


def main() -> None:
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
