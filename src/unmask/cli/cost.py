"""`unmask cost`: what joints would cost, before they are computed, as text or as JSON."""

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask.cli import options
from unmask.cli.command import argument, group, option
from unmask.errors import MethodError, UnmaskError
from unmask.names import DRAWS, TEXT_METHODS
from unmask.printable import columns, printable, readable_bytes, readable_number, readable_seconds

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.queries.costs.accelerators import Accelerator
    from unmask.queries.costs.cost import Cost
    from unmask.settings import Settings
    from unmask.text.cloze import Cloze


# tokens of a text when the caller names none, and of one for a model that knows no limit
_LENGTH, _LONGEST = 32, 2**16


@dataclass(frozen=True, kw_only=True)
class CostCommand:
    """What joints, or scores of whole texts, would cost."""

    SUMMARY = "estimate what joints cost: forward passes, FLOP, memory and time"
    DESCRIPTION = (
        "Estimate what joints over two blanks would cost with a model, before you compute any: "
        "forward passes, FLOP, memory, and time on this machine, from a measurement of about a "
        "second. The joints are estimated, as by fill, pairs and evaluate; with --exact they are "
        "computed over the whole vocabulary. With --method pll, pll-word-l2r, unmasking or elbo, "
        "estimate what it costs to score whole texts instead (unmask score). With "
        "--accelerator, also estimate the time on an accelerator that this machine does not have."
    )
    EXAMPLE = "unmask cost -m bert-base-cased --length 20 --examples 1000 --accelerator A100"

    text: str | None = argument("a text, whose length is taken", "TEXT", default=None)
    model: str = options.MODEL()
    length: int | None = option(
        "tokens per text, including special ones (default: 32, or as many as the model accepts)",
        "T",
    )
    examples: int = option("number of texts (default: {default})", "N", default=1)
    accelerator: str | None = option("also estimate for A100, H100, L4, T4, V100, RTX4090", "NAME")
    utilisation: float | None = option(
        "share of the accelerator's peak speed that is reached (default: 0.4)", "X"
    )
    machines: int = option(
        "number of machines or accelerators that share the texts (default: {default})",
        "N",
        default=1,
    )
    draws: int | None = options.DRAWS()
    json: bool = options.JSON()
    methods: options.Methods = group(options.Methods())
    support: str | None = option(options.SUPPORT, "NAME|TOKENS", group="construction")
    estimation: options.Estimation = group(options.Estimation(), without=("seed",))
    running: options.Running = group(options.Running())

    def run(self) -> int:
        """Load the model, time it, print the cost."""
        self._check()
        whole_texts = self._text_methods()
        methods = whole_texts or self.methods.names(every=["all"])
        by_method = {} if whole_texts else self.methods.given(methods)
        support = self.estimation.support(() if self.support is None else (self.support,))
        settings = self.running.settings()

        from unmask.queries.costs.accelerators import UTILISATION, accelerator
        from unmask.queries.joints import default_methods
        from unmask.tables.proposals import resolved

        where = None if self.accelerator is None else accelerator(self.accelerator)
        if where is not None:
            # raises on a dtype that it does not have, before a model is loaded
            where.peak(self.running.dtype)
        lm = self.running.load(self.model)
        length = self.length
        if self.text is not None:
            length = len(lm.tokenizer(self.text)["input_ids"])
        cloze = _cloze(lm, length)
        if whole_texts:
            draws = DRAWS if self.draws is None else self.draws
            cost = _cost_of_scores(lm, cloze, whole_texts, draws, settings, self.examples)
        else:
            axes = resolved(support, len(cloze.positions), lm.model.vocabulary_size)
            methods = self.methods.names(every=default_methods(len(cloze.positions), axes))
            cost = lm.cost(
                cloze,
                methods=methods,
                support=support,
                settings=settings,
                options=by_method,
                examples=self.examples,
            )
        bill = Bill(
            lm.name,
            methods,
            cost,
            examples=self.examples,
            machines=self.machines,
            memory_limit=settings.memory_limit,
            accelerator=where,
            dtype=self.running.dtype,
            utilisation=UTILISATION if self.utilisation is None else self.utilisation,
        )
        print(json.dumps(bill.to_dict(), indent=2, allow_nan=False) if self.json else as_text(bill))
        return 0

    def _check(self) -> None:
        """Reject numbers that mean nothing before a model is loaded."""
        for name in ("examples", "machines", "draws"):
            number = getattr(self, name)
            if number is not None and not 1 <= number <= 10**15:
                raise UnmaskError(f"--{name} takes a number from 1, not {number}")
        if self.text is not None and self.length is not None:
            raise UnmaskError("TEXT and --length exclude each other; give one of them")
        if self.draws is not None and "elbo" not in self._text_methods():
            raise UnmaskError("--draws is for --method elbo; leave it out, or name elbo")
        if self.utilisation is not None and self.accelerator is None:
            raise UnmaskError("--utilisation is that of an accelerator; give --accelerator too")

    def _text_methods(self) -> list[str]:
        """Methods of `unmask score`, if those are what was named; none if it is constructions."""
        named = [name.lower().replace("_", "-") for name in options.listed(self.methods.method)]
        whole = [name for name in dict.fromkeys(named) if name in TEXT_METHODS]
        others = [name for name in named if name not in TEXT_METHODS]
        if whole and others:
            raise MethodError(
                f"--method names scores of whole texts ({', '.join(whole)}) and constructions "
                f"({', '.join(others)}); give one kind at a time"
            )
        return whole


def _cost_of_scores(
    lm: "LanguageModel",
    cloze: "Cloze",
    methods: list[str],
    draws: int,
    settings: "Settings",
    examples: int,
) -> "Cost":
    """What it costs to score a text: a forward pass per token, special ones not, or per draw.

    The output layer is counted at one position per forward pass, and by `elbo` at the mean number
    of its masks; unmasking by certainty needs it at more.
    """
    from unmask.queries.costs.cost import Cost
    from unmask.queries.costs.estimate import measured
    from unmask.queries.costs.flops import weight_bytes

    special = len(lm.tokenizer("")["input_ids"])
    tokens = max(1, len(cloze) - special)
    by_token = tokens * sum(name != "elbo" for name in methods)
    by_draw = draws * ("elbo" in methods)
    read = by_token + by_draw * (tokens + 1) // 2
    layer = lm.model.output_embedding
    cost = Cost(
        by_token + by_draw,
        len(cloze),
        table_bytes=0,
        model_bytes=weight_bytes(lm.model),
        table_flop=0 if layer is None else 2 * layer.weight.numel() * read,
    )
    return measured(lm.model, cloze, cost, settings, examples)


def _cloze(lm: "LanguageModel", length: int | None) -> "Cloze":
    """A text of so many tokens with two blanks; which tokens does not matter to the cost."""
    from unmask.text.cloze import Cloze

    most = lm.model.max_length or _LONGEST
    size = min(_LENGTH, most) if length is None else length
    if not 2 <= size <= most:
        raise UnmaskError(
            f"--length takes a number of tokens from 2 to {most} with this model, not {size}"
        )
    ordinary = next(i for i in range(lm.model.vocabulary_size) if i not in lm.model.special_ids)
    ids = [ordinary] * size
    positions = (size // 3, 2 * size // 3)
    for position in positions:
        ids[position] = lm.model.mask_id
    return Cloze("", tuple(ids), positions)


# --- what is printed ---------------------------------------------------------------------------


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
        return seconds * math.ceil(self.examples / self.machines)

    def on_accelerator(self) -> float | None:
        """The time of one text there."""
        if self.accelerator is None:
            return None
        from unmask.queries.costs.accelerators import seconds_on

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
    return _at_most(cost, cost.forward_passes)


def _at_most(cost: "Cost", passes: int) -> str:
    """A sketch stops sooner where it is precise enough."""
    return f"at most {passes:,}" if cost.at_most else f"{passes:,}"


def _arithmetic(cost: "Cost") -> str:
    from unmask.queries.costs.cost import readable_flop

    flop = "not counted" if cost.flop is None else readable_flop(cost.flop)
    text = f"{flop} in forward passes"
    # of a sketch it is not counted
    if cost.table_flop or not cost.at_most:
        text += f", {readable_flop(cost.table_flop)} in the output layer"
    return f"{text}, {cost.table_passes} sweeps over the tables" if cost.table_passes else text


def _tables(cost: "Cost", limit: int) -> str:
    if cost.storage is None:
        return "none"
    text = f"{readable_bytes(cost.table_bytes)}, {cost.storage}: {cost.storage_why}"
    if cost.storage == "dense" and cost.table_bytes > limit:
        text += f"; rejected unless --memory-limit is raised above {readable_bytes(limit)}"
    return text


def _time(cost: "Cost") -> str:
    if cost.seconds is None:
        return "not measured"
    most = "up to " if cost.at_most else ""
    return f"{most}about {_seconds(cost.seconds)} (loading the model not counted)"


def _elsewhere(bill: Bill, where: "Accelerator") -> str:
    seconds = bill.on_accelerator()
    if seconds is None:
        return "not known: the FLOP were not counted"
    peak = f"{where.peak(bill.dtype) / 1e12:g} TFLOP/s in {bill.dtype}"
    text = (
        f"about {_seconds(seconds)} at {bill.utilisation:.0%} of its peak ({peak}, {where.source})"
    )
    needed = bill.cost.table_bytes + (bill.cost.model_bytes or 0)
    if needed > where.memory:
        needs, has = readable_bytes(needed), readable_bytes(where.memory)
        text += f"; {needs} do not fit its {has}: lower --memory-limit"
    return text


def _all_texts(bill: Bill) -> str:
    from unmask.queries.costs.cost import readable_flop

    cost = bill.cost
    machines = f" on {bill.machines:,} machines" if bill.machines > 1 else ""
    rows = [["forward passes", _at_most(cost, cost.forward_passes * bill.examples)]]
    if cost.flop is not None:
        rows.append(["arithmetic", readable_flop(cost.flop * bill.examples)])
    here, there = bill.total(cost.seconds), bill.total(bill.on_accelerator())
    if here is not None:
        alike = " if each is like this one" if machines else ""
        most = "up to " if cost.at_most else ""
        rows.append(["time", f"{most}about {_seconds(here)}{alike}"])
    if there is not None and bill.accelerator is not None:
        rows.append([f"on {bill.accelerator.name}", f"about {_seconds(there)}"])
    return _block(f"{bill.examples:,} text{'s' * (bill.examples != 1)}{machines}", rows)


def _seconds(seconds: float) -> str:
    """A duration, with units below a second too: there may be many texts."""
    if seconds < 0.9995e-3:
        return f"{readable_number(1e6 * seconds)} µs"
    if seconds < 0.9995:
        return f"{readable_number(1e3 * seconds)} ms"
    return f"{seconds:.1f} s" if seconds < 10 else readable_seconds(seconds)
