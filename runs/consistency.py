"""Write docs/results/consistency.md from the rows of `unmask consistency`, models side by side.

    python runs/consistency.py                         # the page and a picture per model
    python runs/consistency.py keep FOLDER NAME        # keep the rows of a run, without texts
    python runs/consistency.py check MODEL NAME        # 20 texts by plain passes of transformers

Rows are those of `unmask consistency -m MODEL --limit N -o FOLDER/`. Intervals of rank correlations
are of a bootstrap over texts, both pairs of blanks of a text together.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import spearmanr

from unmask.plots.saving import save_figure
from unmask.sequences.consistency.measuring import PAIRS
from unmask.sequences.consistency.result import Consistency
from unmask.sequences.consistency.statistics import TextAnswers

FOLDER = Path(__file__).parent.parent / "docs" / "results"
ROWS = FOLDER / "consistency"
MODELS = ("tiny-english", "caption-bert", "english-distil", "any-rate")
TEXTS = ("text", "contrast", "first_token", "second_token", "model", "reason")
DRAWS, SEED = 500, 0

Row = dict[str, Any]
Number = Callable[[Row], float]

NUMBERS: dict[str, Number] = {
    "J": lambda row: row["incompatibility"],
    "size of the difference of both orders": lambda row: abs(
        row["first_then_second"] - row["second_then_first"]
    ),
    "divergence of conditionals": lambda row: row["marginal_divergence"],
    "mutual information": lambda row: row["mutual_information"],
    "distance, negated": lambda row: -row["distance"],
}
TARGETS: dict[str, Number] = {
    "how far log-pool and pseudo-gibbs differ on the true pair": lambda row: abs(
        row["log_pool"] - row["pseudo_gibbs"]
    ),
    "how far log-pool and the ensemble differ on it": lambda row: abs(
        row["log_pool"] - row["ensemble"]
    ),
    "what filling in parallel loses on it: log-pool less the product": lambda row: (
        row["log_pool"] - row["independent"]
    ),
}


def keep(folder: str, name: str) -> None:
    """The rows of a run as one file, with ids in place of texts."""
    parts = sorted(Path(folder).glob("part-*.parquet"))
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    table = table.drop_columns([one for one in TEXTS if one in table.column_names])
    ROWS.mkdir(exist_ok=True)
    pq.write_table(table.replace_schema_metadata(None), ROWS / f"{name}.parquet")


def read(name: str, folder: Path = ROWS) -> Consistency:
    """What a model answered."""
    rows = [row | {"reason": None} for row in pq.read_table(folder / f"{name}.parquet").to_pylist()]
    return Consistency(rows, {"model": name, "corpus": "sentences.csv"})


# --- the page ------------------------------------------------------------------------------------


def page(folder: Path = ROWS) -> Iterator[str]:
    """The lines of the page."""
    names = [name for name in MODELS if (folder / f"{name}.parquet").exists()]
    every = {name: read(name, folder) for name in names}
    yield "<!-- written by `python runs/consistency.py` -->"
    yield "# How far the models contradict themselves\n"
    yield (
        "Cards of [our models](models.md) side by side: `unmask consistency` on the English "
        "sentences that come with the package. [What each number is](../how-to/consistency.md)."
    )
    yield (
        "Measured: "
        + ", ".join(f"{name} on {len(one.answers)} texts" for name, one in every.items())
        + " (machine time, not choice, decided how many). english-distil and the models of other "
        "languages were not measured. Joints are estimated from 401 forward passes per pair of "
        "blanks; brackets are 95% bootstrap intervals over texts. Bold differences exclude zero.\n"
    )
    first, *others = every.values()
    yield first.compare(*others)
    for name, one in every.items():
        yield f"## {name}\n"
        yield "\n".join(f"- {line}" for line in one.table().split("\n\n")[-1].splitlines()) + "\n"
        yield f"![J by distance, and the spread of orders](consistency/{name}.png)\n"
    yield "## Do they say the same?\n"
    yield (
        "Spearman's rank correlations over pairs of blanks, adjacent and random together, with 95% "
        "intervals.\n"
    )
    yield from _table(
        "J against", {k: v for k, v in NUMBERS.items() if k != "J"}, NUMBERS["J"], every
    )
    for title, target in TARGETS.items():
        yield f"### What predicts {title}\n"
        yield from _table("by", NUMBERS, target, every)
    yield "## Do models agree on where they contradict themselves?\n"
    yield from _between(every)
    yield "## Which statistics rank models alike\n"
    yield from _rankings(every)


def _table(
    head: str, numbers: dict[str, Number], target: Number, every: dict[str, Consistency]
) -> Iterator[str]:
    yield f"| {head} | {' | '.join(every)} |\n|:---|{'---:|' * len(every)}"
    for title, number in numbers.items():
        cells = [_correlation(_pairs(one), number, target) for one in every.values()]
        yield f"| {title} | {' | '.join(cells)} |"
    yield ""


def _pairs(answers: Consistency) -> dict[str, list[Row]]:
    """The pairs of blanks of each text that have a J."""
    return {
        one.id: [dict(row) for row in one.pairs.values() if row["incompatibility"] is not None]
        for one in answers.answers
    }


def _correlation(texts: dict[str, list[Row]], first: Number, second: Number) -> str:
    groups = [[(first(row), second(row)) for row in rows] for rows in texts.values()]
    return interval([group for group in groups if group])


def interval(groups: Sequence[Sequence[tuple[float, float]]]) -> str:
    """Spearman's correlation of the pairs of all groups, which are resampled whole."""

    def value(chosen: Sequence[Sequence[tuple[float, float]]]) -> float:
        points = np.array([point for group in chosen for point in group])
        return float(spearmanr(points[:, 0], points[:, 1]).statistic)

    rng = np.random.default_rng(SEED)
    drawn = [
        value([groups[n] for n in rng.integers(len(groups), size=len(groups))])
        for _ in range(DRAWS)
    ]
    low, high = np.nanpercentile(drawn, (2.5, 97.5))
    return f"{value(groups):.2f} [{low:.2f}, {high:.2f}]"


def _between(every: dict[str, Consistency]) -> Iterator[str]:
    yield (
        "Rank correlations between two models: of J over the pairs of blanks that have the same "
        "places in both, and of the standard deviation over random orders, per token, over texts.\n"
    )
    yield "| models | J | pairs | standard deviation over orders | texts |"
    yield "|:---|---:|---:|---:|---:|"
    names = list(every)
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            yield _two(one, every[one], other, every[other])
    yield ""


def _two(one: str, first: Consistency, other: str, second: Consistency) -> str:
    ours, theirs = ({text.id: text for text in x.answers} for x in (first, second))
    both = [name for name in ours if name in theirs]
    j = [
        [
            (a["incompatibility"], b["incompatibility"])
            for part in PAIRS
            if (a := ours[name].pairs[part])["first"] == (b := theirs[name].pairs[part])["first"]
            and a["second"] == b["second"]
            and None not in (a["incompatibility"], b["incompatibility"])
        ]
        for name in both
    ]
    j = [group for group in j if group]
    spread = [[(_deviation(ours[name]), _deviation(theirs[name]))] for name in both]
    cells = (f"{one}, {other}", interval(j), sum(map(len, j)), interval(spread), len(both))
    return f"| {' | '.join(map(str, cells))} |"


def _deviation(text: TextAnswers) -> float:
    return float(np.std(text.random_orders(), ddof=1)) / text.tokens


def _rankings(every: dict[str, Consistency]) -> Iterator[str]:
    yield "Models by each statistic, the smallest first, over the texts that all have:\n"
    shared = set.intersection(*({text.id for text in one.answers} for one in every.values()))
    yield f"| statistic, {len(shared)} texts | models |\n|:---|:---|"
    values: dict[str, list[tuple[float, str]]] = {}
    for name, one in every.items():
        rows = [row for row in one.rows if row["text_id"] in shared]
        for statistic in Consistency(rows, one.facts).statistics():
            if any(
                word in statistic.key
                for word in ("incompat", "size", "marginal", "deviation", "flips")
            ):
                values.setdefault(statistic.title, []).append((statistic.estimate.value, name))
    for title, models in values.items():
        shown = ", ".join(f"{name} ({value:.3f})" for value, name in sorted(models))
        yield f"| {title} | {shown} |"


# --- against plain passes -------------------------------------------------------------------------


def check(place: str, name: str) -> None:
    """How far the rows of 20 texts are from passes of transformers, in float64."""
    import csv
    import hashlib
    from importlib.resources import files

    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model = AutoModelForMaskedLM.from_pretrained(place).eval()
    tokenizer = AutoTokenizer.from_pretrained(place)
    source = files("unmask.sequences.consistency") / "sentences.csv"
    texts = [row["text"] for row in csv.DictReader(source.read_text().splitlines())][:20]
    answers = {one.id: one for one in read(name).answers}

    def log_p(ids: list[int], hidden: Sequence[int], place: int) -> float:
        row = torch.tensor(
            [[tokenizer.mask_token_id if p in hidden else t for p, t in enumerate(ids)]]
        )
        with torch.no_grad():
            logits = model(input_ids=row).logits[0, place].double()
        return float(torch.log_softmax(logits, dim=0)[ids[place]])

    errors: dict[str, list[float]] = {"both orders of a pair": [], "left to right": []}
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        one = answers[hashlib.sha256(text.encode()).hexdigest()[:16]]
        for row in one.pairs.values():
            a, b = 1 + row["first"], 1 + row["second"]
            first = log_p(ids, [a, b], a) + log_p(ids, [b], b)
            second = log_p(ids, [a, b], b) + log_p(ids, [a], a)
            errors["both orders of a pair"] += [
                abs(first - row["first_then_second"]),
                abs(second - row["second_then_first"]),
            ]
        places = range(1, len(ids) - 1)
        total = sum(log_p(ids, places[rank:], place) for rank, place in enumerate(places))
        errors["left to right"].append(abs(total - one.log_p["left-to-right"]))
    for what, some in errors.items():
        print(f"{what}: {len(some)} numbers, largest error {max(some):.2e} nats")


def main(arguments: Sequence[str]) -> None:
    """Keep, check, or write the page."""
    if arguments[:1] == ["keep"]:
        keep(*arguments[1:])
    elif arguments[:1] == ["check"]:
        check(*arguments[1:])
    else:
        (FOLDER / "consistency.md").write_text("\n".join(page()) + "\n", encoding="utf-8")
        for name in MODELS:
            if os.path.exists(ROWS / f"{name}.parquet"):
                save_figure(read(name).plot(), ROWS / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
