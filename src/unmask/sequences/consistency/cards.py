"""Statistics written out: a table for a terminal, a card in Markdown, models side by side."""

import math
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from unmask.joints.agreement import Agreement
from unmask.markup import markdown
from unmask.names import CONSISTENCY_PASSES, ORDERS_DRAWN
from unmask.printable import columns, printable
from unmask.resampling import Estimate
from unmask.sequences.consistency.statistics import Row, Statistic

COMMAND = "unmask consistency"
_OPTIONS = {"orders": "random-orders", "max_passes": "max-passes"}
# the corpus that comes with the package
SENTENCES = "sentences.csv"
# a p-value below which a direction is stated
_LEVEL = 0.05


def table(statistics: Sequence[Statistic]) -> str:
    """Aligned columns, and the same in words."""
    head = ["", "value", "95% interval", "unit", "texts"]
    rows = [[one.title, *_cells(one), one.unit, str(one.texts)] for one in statistics]
    return "\n".join([columns([head, *rows]), "", *words(statistics)])


def words(statistics: Sequence[Statistic]) -> list[str]:
    """What the numbers say, a sentence each."""
    by_key = {one.key: one for one in statistics}
    sentences = []
    for part in ("adjacent", "random"):
        if (j := by_key.get(f"incompatibility_{part}")) is not None:
            agreed = Agreement(j.estimate.value)
            sentences.append(f"{part.capitalize()} blanks: {agreed}.")
    if (order := by_key.get("order_difference_adjacent")) is not None:
        sentences.append(_first_or_second(order, by_key["order_difference_size_adjacent"]))
    if (spread := by_key.get("order_deviation")) is not None:
        nats = spread.estimate.value
        sentences.append(
            "Another random order of unmasking changes the log-probability of a text by "
            f"{nats:.3f} nats per token (one standard deviation): a factor of "
            f"{_factor(10 * nats)} for ten tokens."
        )
    if (flips := by_key.get("verdict_flips")) is not None:
        sentences.append(
            f"Two random orders disagree on {flips.estimate.value:.1%} of {flips.texts} minimal "
            "pairs."
        )
    return sentences


def _first_or_second(order: Statistic, size: Statistic) -> str:
    value, p_value = order.estimate.value, order.p_value
    assert p_value is not None
    apart = f"the two ways to fill adjacent blanks differ by {size.estimate.value:.3f} nats"
    if p_value > _LEVEL:
        return f"On average {apart}, in neither direction more often (p = {p_value:.2g})."
    ahead = "first" if value > 0 else "second"
    return f"On average {apart}, mostly in favour of the {ahead} blank first (p = {p_value:.2g})."


def _factor(nats: float) -> str:
    factor = math.exp(min(nats, 50.0))
    return f"{factor:.1f}" if factor < 100 else f"{factor:.1e}"


def _cells(one: Statistic) -> tuple[str, str]:
    """A value and its interval."""
    number = one.estimate
    value = _shown(number.value, one.unit)
    if math.isnan(number.low):
        return value, ""
    return value, f"[{_shown(number.low, one.unit)}, {_shown(number.high, one.unit)}]"


def _shown(value: float, unit: str) -> str:
    # without the minus sign of a number that rounds to zero
    return f"{value:z.1%}" if unit == "share" else f"{value:z.3f}"


# --- the card ----------------------------------------------------------------------------------


def card(
    statistics: Sequence[Statistic],
    worst: Sequence[Row],
    facts: Mapping[str, Any],
    picture: str | None,
) -> str:
    """Markdown with the YAML of evaluation results in front."""
    lines = [
        "| statistic | value | 95% interval | unit | texts | what it means |",
        "|---|---:|---|---|---:|---|",
    ]
    for one in statistics:
        p_value = "" if one.p_value is None else f" (p = {one.p_value:.2g})"
        value, interval = _cells(one)
        cells = (one.title, value + p_value, interval, one.unit, one.texts, one.meaning)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    model = markdown(printable(str(facts.get("model"))))
    shown = [f"![J by distance, and the spread of orders]({picture})"] if picture else []
    parts = [
        f"---\n{_front_matter(statistics, facts)}---",
        f"# How far {model} contradicts itself",
        "A model that describes one joint distribution answers a question the same way however it "
        "is asked. All of these numbers are 0 for such a model.",
        "\n".join(f"- {markdown(one)}" for one in words(statistics)),
        *shown,
        "\n".join(lines),
        "Intervals are 95% bootstrap intervals over texts. Logarithms are natural.",
        *_examples(worst),
        "## How it was made",
        _provenance(facts),
    ]
    return "\n\n".join(parts) + "\n"


def _examples(worst: Sequence[Row]) -> list[str]:
    lines = [_example(row) for row in worst]
    return ["## Where it contradicts itself most", "\n".join(lines)] if lines else []


def _example(row: Row) -> str:
    where = f"tokens {row['first']} and {row['second']} of `{row['text_id']}`"
    if row.get("text") and row.get("first_token"):
        tokens = " and ".join(markdown(str(row[name])) for name in ("first_token", "second_token"))
        where = f"{tokens} in: {markdown(printable(str(row['text'])))}"
    logs = row["first_then_second"], row["second_then_first"]
    return (
        f"- J = {row['incompatibility']:.3f} bits; log-probability {logs[0]:.2f} with the first "
        f"blank first, {logs[1]:.2f} with the second first: {where}"
    )


def _provenance(facts: Mapping[str, Any]) -> str:
    rows = [(name, facts[name]) for name in facts if facts[name] is not None and name != "model"]
    listed = "\n".join(f"| {name} | {markdown(_fact(value))} |" for name, value in rows)
    return f"```\n{command(facts)}\n```\n\n| | |\n|---|---|\n{listed}"


def _fact(value: object) -> str:
    if isinstance(value, list | tuple):
        return "; ".join(_fact(one) for one in value)
    return printable(str(value))


def command(facts: Mapping[str, Any]) -> str:
    """The command line that gives these rows, without the folders of model and corpus."""
    named = str(facts.get("corpus") or "")
    corpus = [] if named in ("", SENTENCES) else map(quote, named.split(", "))
    defaults = {"orders": ORDERS_DRAWN, "max_passes": CONSISTENCY_PASSES, "seed": 0, "limit": None}
    given = [
        f"--{_OPTIONS.get(name, name)} {facts[name]}"
        for name, default in defaults.items()
        if facts.get(name, default) != default
    ]
    exact = ["--exact"] if facts.get("exact") else []
    model = quote(str(facts.get("model")))
    return printable(" ".join([COMMAND, *corpus, f"-m {model}", *given, *exact]))


def _front_matter(statistics: Sequence[Statistic], facts: Mapping[str, Any]) -> str:
    """YAML that the Hugging Face Hub reads as evaluation results."""
    from huggingface_hub import EvalResult, ModelCardData

    corpus = str(facts.get("corpus") or "texts")
    results = [
        EvalResult(
            task_type="fill-mask",
            dataset_type="unmask-consistency",
            dataset_name=printable(corpus),
            metric_type=f"unmask_{one.key}",
            metric_name=f"{one.title} ({one.unit})",
            metric_value=round(one.estimate.value, 6),
            metric_args=_arguments(one),
        )
        for one in statistics
    ]
    name = printable(str(facts.get("model")))
    # evaluation results need a name; without any there is no index of them
    about = ModelCardData(tags=["unmask"], model_name=name, eval_results=results or None)
    return f"{about.to_yaml()}\n"


def _arguments(one: Statistic) -> dict[str, Any]:
    ends = {"low": one.estimate.low, "high": one.estimate.high}
    kept: dict[str, Any] = {k: round(v, 6) for k, v in ends.items() if not math.isnan(v)}
    p_value = {} if one.p_value is None else {"p_value": float(f"{one.p_value:.3g}")}
    return {**kept, "texts": one.texts, **p_value}


# --- models side by side -----------------------------------------------------------------------


def comparison(
    models: Sequence[tuple[str, Sequence[Statistic]]], gaps: Sequence[Mapping[str, Estimate]]
) -> str:
    """A Markdown table: a column per model, and for all but the first its value less the first's.

    A difference whose interval excludes zero is bold.
    """
    names = [markdown(printable(name)) for name, _ in models]
    head = ["statistic", "unit", *names, *(f"{name} less {names[0]}" for name in names[1:])]
    lines = [head, [":---", ":---", *(["---:"] * (2 * len(names) - 1))]]
    by_model = [{one.key: one for one in statistics} for _, statistics in models]
    for first in models[0][1]:
        every = [one.get(first.key) for one in by_model]
        values = ["–" if one is None else " ".join(_cells(one)).strip() for one in every]
        paired = [_gap(gap.get(first.key), first) for gap in gaps]
        lines.append([first.title, first.unit, *values, *paired])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _gap(gap: Estimate | None, first: Statistic) -> str:
    if gap is None:
        return "–"
    shown = Statistic(first.key, first.title, first.unit, first.meaning, gap, first.texts)
    value, interval = _cells(shown)
    sign = "" if value.startswith("-") else "+"
    cell = f"{sign}{value} {interval}".strip()
    return f"**{cell}**" if gap.leaves_out_zero() else cell
