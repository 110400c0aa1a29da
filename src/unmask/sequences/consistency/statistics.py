"""Statistics of how far a model contradicts itself, over texts, with bootstrap intervals.

Knows no model: it reads the rows of `measuring`. Every mean is over texts, which are resampled.
They are written as a table for a terminal, a card in Markdown, or models side by side.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from shlex import quote
from statistics import fmean, stdev
from typing import Any

from scipy.stats import wilcoxon

from unmask.joints.agreement import Agreement
from unmask.markup import markdown
from unmask.printable import columns, printable
from unmask.resampling import FEWEST, Estimate, Resampling, means, ratios
from unmask.results import ModelResult
from unmask.sequences.consistency.measuring import ORDER, PAIRS

Row = Mapping[str, Any]
# by text, what is measured of it, by key
Numbers = Mapping[str, Mapping[str, float]]
# log-probabilities that differ by less, in nats, are equal: float32 rounds by as much
ROUNDING = 1e-3
# four ways to one number, if the conditionals came from one joint
_WAYS = ("log_pool", "pseudo_gibbs", "first_then_second", "second_then_first")

# of every statistic its title, unit and meaning
_OF_PAIRS = {
    "incompatibility": (
        "J",
        "bits",
        "how far the two conditionals are from having one joint: 0 if they have one, at most 1",
    ),
    "incompatibility_share": (
        "J over mutual information",
        "share",
        "how much of what the two blanks say about each other is contradiction",
    ),
    "construction_spread": (
        "spread of constructions",
        "nats per token",
        "largest minus smallest log-probability of the true words, over four ways to compute it "
        "that agree where conditionals have one joint",
    ),
    "order_difference": (
        "first word first minus second word first",
        "nats",
        "how much likelier both true words are if the first is filled in first (ConTestS): near 0 "
        "also where large differences cancel; p tests that neither order is favoured",
    ),
    "order_difference_size": (
        "size of the difference of both orders",
        "nats",
        "the same without its sign: how much the answer depends on which word is filled in first",
    ),
    "marginal_divergence": (
        "divergence of conditionals",
        "bits",
        "how far what the model says of a blank is from the mean of what it says once the other is "
        "filled (Ensemble of Conditionals)",
    ),
    "ensemble_gain": (
        "gain of the ensemble",
        "nats per token",
        "what the true words gain if all conditionals are averaged: above 0 the mean is better "
        "than one order",
    ),
    "ensemble_minus_log_pool": (
        "the ensemble minus log-pool",
        "nats per token",
        "the same against the joint that unmask builds by default: above 0 the mean is better",
    ),
}
_OF_TEXTS = {
    "order_deviation": (
        "spread of random orders",
        "nats per token",
        "standard deviation of a text's log-probability over the orders in which its words are "
        "filled in: by the chain rule it is the same in every order",
    ),
    "verdict_flips": (
        "verdicts that flip",
        "share",
        "how often two random orders disagree on which text of a minimal pair is likelier",
    ),
}
STATISTICS = {
    f"{key}_{part}": (f"{title}, {part} blanks", unit, meaning)
    for part in PAIRS
    for key, (title, unit, meaning) in _OF_PAIRS.items()
} | _OF_TEXTS
# a ratio of means, and what it is over
_WEIGHTS = {f"incompatibility_share_{part}": f"mutual_information_{part}" for part in PAIRS}


def numbers_of(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """The numbers of each text, by its id and by key; rows without numbers are left out."""
    texts: dict[str, list[Row]] = {}
    for row in rows:
        if not row.get("reason"):
            texts.setdefault(row["text_id"], []).append(row)
    return {
        name: {key: x for key, x in _of_text(of_name) if x is not None}
        for name, of_name in texts.items()
    }


def _of_text(rows: Sequence[Row]) -> Iterator[tuple[str, float | None]]:
    for row in (row for row in rows if row["part"] in PAIRS):
        yield from ((f"{key}_{row['part']}", x) for key, x in _of_pair(row).items())
    orders = [row for row in rows if row["part"] == ORDER]
    if len(orders) > 1:
        yield "order_deviation", stdev(row["text_log_p"] / row["tokens"] for row in orders)
    pairs = [(row["text_log_p"], row["contrast_log_p"]) for row in orders]
    verdicts = [text > other for text, other in pairs if other is not None]
    if (count := len(verdicts)) > 1:
        yield "verdict_flips", 2 * sum(verdicts) * verdicts.count(False) / (count * (count - 1))


def _of_pair(row: Row) -> dict[str, float | None]:
    logs = [row[name] for name in _WAYS]
    first, second = row["first_then_second"], row["second_then_first"]
    copied = ("incompatibility", "mutual_information", "marginal_divergence")
    return {
        **{key: row[key] for key in copied},
        "incompatibility_share": row["incompatibility"],
        "construction_spread": (max(logs) - min(logs)) / 2,
        "order_difference": first - second,
        "order_difference_size": abs(first - second),
        "ensemble_gain": (row["ensemble"] - fmean((first, second))) / 2,
        "ensemble_minus_log_pool": (row["ensemble"] - row["log_pool"]) / 2,
    }


@dataclass(frozen=True)
class Statistic(ModelResult):
    """A mean over texts with its interval; `p_value` only where its median is tested against 0.

    Examples:
        >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
        >>> one = answers.statistics[0]
        >>> one.key, one.unit, one.texts
        ('incompatibility_adjacent', 'bits', 1)
    """

    key: str
    title: str
    unit: str
    meaning: str
    estimate: Estimate
    texts: int
    p_value: float | None = None

    def to_dict(self) -> dict[str, object]:
        """JSON-ready: without an interval where there is one text."""
        values = asdict(self)
        numbers = {k: None if math.isnan(x) else x for k, x in values.pop("estimate").items()}
        return {**values, **numbers}


def statistics(numbers: Numbers, resampling: Resampling) -> list[Statistic]:
    """Every statistic that some text has a number for."""
    made = []
    for key, about in STATISTICS.items():
        names = [name for name, of_text in numbers.items() if key in of_text]
        values = [numbers[name][key] for name in names]
        over = _WEIGHTS.get(key)
        weights = [1.0 if over is None else numbers[name][over] for name in names]
        if sum(weights) > 0:
            (estimate,) = ratios([values], weights, names, resampling)
            is_tested = key.startswith("order_difference") and "size" not in key
            p_value = median_test(values) if is_tested else None
            made.append(Statistic(key, *about, estimate, len(names), p_value))
    return made


def median_test(differences: Sequence[float]) -> float:
    """The p-value of a Wilcoxon signed-rank test that differences are symmetric about 0.

    Those that rounding explains say nothing; where none is left, 1.
    """
    nonzero = [difference for difference in differences if abs(difference) > ROUNDING]
    return float(wilcoxon(nonzero).pvalue) if nonzero else 1.0


def differences(ours: Numbers, theirs: Numbers, resampling: Resampling) -> dict[str, Statistic]:
    """The mean of ours minus theirs by key, over the texts that both have; of ratios none."""
    made = {}
    for key in STATISTICS.keys() - _WEIGHTS.keys():
        both = [name for name in ours if key in ours[name] and key in theirs.get(name, {})]
        if both:
            gaps = [ours[name][key] - theirs[name][key] for name in both]
            (gap,) = means([gaps], both, resampling)
            made[key] = Statistic(key, *STATISTICS[key], gap, len(both))
    return made


# --- written out -------------------------------------------------------------------------------

# the corpus that comes with the package
SENTENCES = "sentences.csv"
# a p-value below which a direction is stated
_LEVEL = 0.05
_ARGUMENTS = ("low", "high", "texts", "p_value")
HEAD = ("statistic", "value", "95% interval", "unit", "texts")
# facts that are options of the command, by their names there
_OPTIONS = {"limit": "limit", "orders": "random-orders", "max_passes": "max-passes", "seed": "seed"}


def table(statistics: Sequence[Statistic]) -> str:
    """Aligned columns, and the same in words."""
    return "\n".join([columns([list(HEAD), *map(cells, statistics)]), "", *words(statistics)])


def words(statistics: Sequence[Statistic]) -> Iterator[str]:
    """The numbers in words, a sentence each."""
    by_key = {statistic.key: statistic for statistic in statistics}
    for part in ("adjacent", "random"):
        if j := by_key.get(f"incompatibility_{part}"):
            yield f"{part.capitalize()} blanks: {Agreement(j.estimate.value)}."
    if size := by_key.get("order_difference_size_adjacent"):
        order = by_key["order_difference_adjacent"]
        ahead = "first" if order.estimate.value > 0 else "second"
        is_even = (order.p_value or 0) > _LEVEL
        favoured = "neither is favoured" if is_even else f"the {ahead} word first is favoured"
        yield (
            "Which of two neighbouring words is filled in first changes the probability of both by "
            f"{_factor(size.estimate.value)} on average; {favoured} (p = {order.p_value:.2g})."
        )
    if spread := by_key.get("order_deviation"):
        yield (
            "Another random order of filling in a text of ten tokens changes its probability by "
            f"{_factor(10 * spread.estimate.value)} (one standard deviation)."
        )
    if flips := by_key.get("verdict_flips"):
        yield (
            "Two random orders disagree on which text of a minimal pair is likelier in "
            f"{_value(flips)[0]} of cases (minimal pairs: {flips.texts})."
        )


def _factor(nats: float) -> str:
    factor = math.exp(min(nats, 50.0))
    return f"a factor of {factor:.2f}" if factor < 100 else f"a factor of {factor:.1e}"


def cells(statistic: Statistic) -> list[str]:
    """The line of a statistic in a table, under `HEAD`."""
    p_value = "" if statistic.p_value is None else f" (p = {statistic.p_value:.2g})"
    value, interval = _value(statistic)
    return [statistic.title, f"{value}{p_value}", interval, statistic.unit, str(statistic.texts)]


def _value(statistic: Statistic) -> tuple[str, str]:
    """A value and its interval, without the minus sign of a number that rounds to zero."""
    numbers = (statistic.estimate.value, statistic.estimate.low, statistic.estimate.high)
    value, low, high = (f"{x:z.1%}" if statistic.unit == "share" else f"{x:z.3f}" for x in numbers)
    return value, "" if math.isnan(statistic.estimate.low) else f"[{low}, {high}]"


def _rows(lines: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table in Markdown whose columns of these numbers are aligned on the right."""
    head, *rest = lines
    rule = ["---:" if number in right else ":---" for number in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rest))


# --- the card ----------------------------------------------------------------------------------


def card(
    statistics: Sequence[Statistic],
    worst: Sequence[Row],
    facts: Mapping[str, Any],
    picture: str | None,
) -> str:
    """Markdown with the YAML of evaluation results in front."""
    made = [(name, markdown(_fact(x))) for name, x in facts.items() if x is not None]
    # the same for both kinds of blanks
    meanings = {
        statistic.title.rpartition(", ")[0] or statistic.title: statistic.meaning
        for statistic in statistics
    }
    parts = [
        f"---\n{_front_matter(statistics, facts)}\n---",
        f"# How far {markdown(str(facts.get('model')))} contradicts itself",
        "A model that describes one joint distribution gives the same answer however it is asked. "
        "All of these numbers are 0 for such a model.",
        "\n".join(f"- {markdown(sentence)}" for sentence in words(statistics)),
        f"![J by distance, and the spread of orders]({picture})" if picture else "",
        _rows([HEAD, *map(cells, statistics)], (1, 2, 4)),
        "Intervals are 95% bootstrap intervals over texts. Logarithms are natural.",
        "## What the numbers mean",
        "\n".join(f"- **{title}**: {meaning}" for title, meaning in meanings.items()),
        "## Where it contradicts itself most" if worst else "",
        "\n".join(map(_example, worst)),
        "## How it was made",
        f"```\n{command(facts)}\n```",
        _rows([("fact", "value"), *made]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _example(row: Row) -> str:
    gap = row["first_then_second"] - row["second_then_first"]
    where = f"tokens {row['first']} and {row['second']} of `{row['text_id']}`"
    if row.get("text") and row.get("first_token"):
        names = ("first_token", "second_token", "text")
        where = "**{}** and **{}** in: {}".format(*(markdown(str(row[name])) for name in names))
    return (
        f"- {where}<br>J = {row['incompatibility']:.3f} bits; with the "
        f"{'first' if gap > 0 else 'second'} word filled in first, both are likelier by "
        f"{_factor(abs(gap))}"
    )


def _fact(value: object) -> str:
    return "; ".join(map(_fact, value)) if isinstance(value, list | tuple) else str(value)


def command(facts: Mapping[str, Any]) -> str:
    """The command line that gives these rows, without the folders of model and corpus."""
    corpus = str(facts.get("corpus") or SENTENCES)
    words = ["unmask consistency", *(map(quote, corpus.split(", ")) if corpus != SENTENCES else ())]
    words.append(f"-m {quote(str(facts.get('model')))}")
    words += [f"--{o} {facts[name]}" for name, o in _OPTIONS.items() if facts.get(name) is not None]
    return printable(" ".join([*words, "--exact"] if facts.get("exact") else words))


def _front_matter(statistics: Sequence[Statistic], facts: Mapping[str, Any]) -> str:
    """YAML that the Hugging Face Hub reads as evaluation results."""
    metrics = [
        {
            "type": f"unmask_{statistic.key}",
            "name": f"{statistic.title} ({statistic.unit})",
            "value": statistic.estimate.value,
            "args": {
                k: x for k, x in statistic.to_dict().items() if k in _ARGUMENTS and x is not None
            },
        }
        for statistic in statistics
    ]
    dataset = {"type": "unmask-consistency", "name": str(facts.get("corpus") or "texts")}
    result = {"task": {"type": "fill-mask"}, "dataset": dataset, "metrics": metrics}
    index = [{"name": str(facts.get("model")), "results": [result] if metrics else []}]
    # JSON is YAML, and quotes any name
    return f"tags: [unmask]\nmodel-index: {json.dumps(index, indent=1)}"


# --- models side by side -----------------------------------------------------------------------

_FEW = (
    f"Differences over fewer than {FEWEST} texts are not bold: bootstrap intervals of so few are "
    "too narrow."
)


def comparison(
    models: Sequence[tuple[str, Sequence[Statistic]]], gaps: Sequence[Mapping[str, Statistic]]
) -> str:
    """A Markdown table: a column per model, and for all but the first its value minus the first's.

    A difference over enough texts is bold where its interval excludes zero.
    """
    names = [markdown(name) for name, _ in models]
    lines = [["statistic", "unit", *names, *(f"{name} minus {names[0]}" for name in names[1:])]]
    by_model = [{statistic.key: statistic for statistic in statistics} for _, statistics in models]
    for key, first in by_model[0].items():
        values = [
            " ".join(_value(by_key[key])).strip() if key in by_key else "–" for by_key in by_model
        ]
        paired = [_gap(gap[key]) if key in gap else "–" for gap in gaps]
        lines.append([first.title, first.unit, *values, *paired])
    few = any(statistic.texts < FEWEST for gap in gaps for statistic in gap.values())
    return _rows(lines, range(2, len(lines[0]))) + (f"\n\n{_FEW}\n" if few else "\n")


def _gap(gap: Statistic) -> str:
    value, interval = _value(gap)
    cell = f"{'' if value.startswith('-') else '+'}{value} {interval}".strip()
    is_clear = gap.texts >= FEWEST and gap.estimate.leaves_out_zero()
    return f"**{cell}**" if is_clear else cell
