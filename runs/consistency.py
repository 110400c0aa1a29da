"""Renew docs/results/consistency.md from the rows of `unmask consistency`, models side by side.

    python runs/consistency.py                           # the tables of the page, and pictures
    python runs/consistency.py keep FOLDER NAME          # keep the rows of a run, without texts
    python runs/consistency.py check MODEL CORPUS [N]    # N texts (20) against the definitions

Rows are those of `unmask consistency [CORPUS] -m MODEL -o FOLDER/`; the corpora of other languages
are in runs/sentences. Intervals are those of a bootstrap over texts, all pairs of a text together.
People write the sentences of the page.
"""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import marked_page
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import spearmanr

from unmask.plots.saving import save_figure
from unmask.resampling import means
from unmask.sequences.consistency.measuring import PAIRS
from unmask.sequences.consistency.result import Consistency
from unmask.sequences.paths import drawn_orders

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "results" / "consistency.md"
ROWS = PAGE.with_suffix("")
ENGLISH = ("tiny-english", "caption-bert", "english-distil")
OTHERS = ("albert-tiny-chinese", "albert-kor-base", "antiberty")
# which corpora are not our own: their words are not published either
FOREIGN = ("antiberty",)
DRAWS, SEED = 2000, 0

Row = Mapping[str, Any]
Number = Callable[[Row], float]


def _gap(one: str, other: str) -> Number:
    return lambda row: float(row[one] - row[other])


def _size(number: Number) -> Number:
    return lambda row: abs(number(row))


NUMBERS: dict[str, Number] = {
    "J": lambda row: float(row["incompatibility"]),
    "size of the difference of both orders": _size(_gap("first_then_second", "second_then_first")),
    "divergence of conditionals": lambda row: float(row["marginal_divergence"]),
    "mutual information": lambda row: float(row["mutual_information"]),
    "distance, negated": lambda row: -float(row["distance"]),
}
TARGETS: dict[str, Number] = {
    "log-pool and pseudo-gibbs differ": _size(_gap("log_pool", "pseudo_gibbs")),
    "log-pool and the ensemble differ": _size(_gap("log_pool", "ensemble")),
    "filling in parallel loses": _gap("log_pool", "independent"),
}


def keep(folder: str, name: str) -> None:
    """The rows of a run as one file, with ids in place of texts."""
    parts = sorted(Path(folder).glob("part-*.parquet"))
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    dropped = {"text", "contrast", "model"}
    dropped |= {"first_token", "second_token"} if name in FOREIGN else set()
    table = table.drop_columns([one for one in table.column_names if one in dropped])
    ROWS.mkdir(exist_ok=True)
    pq.write_table(table.replace_schema_metadata(None), ROWS / f"{name}.parquet")


def read(names: Iterable[str], folder: Path = ROWS) -> dict[str, Consistency]:
    """What models answered, of those that were measured."""
    return {
        name: Consistency(pq.read_table(folder / f"{name}.parquet").to_pylist(), {"model": name})
        for name in names
        if (folder / f"{name}.parquet").exists()
    }


# --- the tables of the page ----------------------------------------------------------------------


def blocks(folder: Path = ROWS) -> dict[str, Iterable[str]]:
    """The lines of each table, by the name of its place."""
    english, others = read(ENGLISH, folder), read(OTHERS, folder)
    first, *rest = english.values()
    return {
        "english": [first.compare(*rest)],
        "others": _values(others),
        "words": _words({**english, **others}),
        "same pairs": _same_pairs(english),
        "predictions": _predictions(english),
        "agreement": _agreement(english),
    }


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|:---|{'---:|' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _values(models: Mapping[str, Consistency]) -> Iterator[str]:
    """Models that have no text in common."""
    every = [{one.key: one for one in answers.statistics} for answers in models.values()]
    rows = []
    for key, first in {key: one for some in every for key, one in some.items()}.items():
        cells = [f"{first.title}, {first.unit}"]
        for some in every:
            one = some.get(key)
            ends = one and f"[{one.estimate.low:z.3f}, {one.estimate.high:z.3f}]"
            cells.append(f"{one.estimate.value:z.3f} {ends} ({one.texts})" if one else "–")
        rows.append(cells)
    return _table(["statistic (texts)", *models], rows)


def _words(models: Mapping[str, Consistency]) -> Iterator[str]:
    for name, one in models.items():
        yield f"### {name}\n"
        yield from (f"- {line}" for line in str(one).split("\n\n")[-1].splitlines())
        yield f"\n![J by distance, and the spread of orders](consistency/{name}.png)\n"


def _pairs(answers: Consistency) -> dict[tuple[str, ...], Row]:
    """The pairs of blanks that have a J, by text and words."""
    return {
        (row["text_id"], row["part"], row["first_token"], row["second_token"]): row
        for row in answers.rows
        if row["part"] in PAIRS and row["incompatibility"] is not None
    }


def _shared(models: Iterable[Consistency]) -> list[list[Row]]:
    """The rows of the same words in the same texts, a list per model."""
    every = [_pairs(one) for one in models]
    keys = [key for key in every[0] if all(key in one for one in every)]
    return [[one[key] for key in keys] for one in every]


def _same_pairs(models: Mapping[str, Consistency]) -> Iterator[str]:
    """P-NLL of three joints on the pairs that all models have."""
    rows = []
    for name, some in zip(models, _shared(models.values()), strict=True):
        texts = [row["text_id"] for row in some]
        columns = {
            "log-pool": [-row["log_pool"] / 2 for row in some],
            "the ensemble": [-row["ensemble"] / 2 for row in some],
            "one order": [
                -(row["first_then_second"] + row["second_then_first"]) / 4 for row in some
            ],
        }
        pool, ensemble, _ = columns.values()
        gap = [b - a for a, b in zip(pool, ensemble, strict=True)]
        made = means([*columns.values(), gap], texts)
        cells = [f"{one.value:z.3f} [{one.low:z.3f}, {one.high:z.3f}]" for one in made]
        rows.append([name, f"{np.mean([row['incompatibility'] for row in some]):.3f}", *cells])
    head = [f"model ({len(gap)} pairs)", "J", *columns, "the ensemble less log-pool"]
    return _table(head, rows)


def _predictions(models: Mapping[str, Consistency]) -> Iterator[str]:
    """Rank correlations over the pairs of each model."""
    rows = []
    for title, target in {"J": NUMBERS["J"], **TARGETS}.items():
        for name, number in NUMBERS.items():
            if number is not target:
                cells = [_correlation(one, number, target) for one in models.values()]
                rows.append([title, name, *cells])
    return _table(["what", "by", *models], rows)


def _correlation(answers: Consistency, first: Number, second: Number) -> str:
    texts: dict[str, list[tuple[float, float]]] = {}
    for row in _pairs(answers).values():
        texts.setdefault(row["text_id"], []).append((first(row), second(row)))
    return interval(list(texts.values()))


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


def _agreement(models: Mapping[str, Consistency]) -> Iterator[str]:
    """Rank correlations between models: of pairs and of texts."""
    names, rows = list(models), []
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            cells = [f"{one}, {other}"]
            shared = _shared([models[one], models[other]])
            for number in list(NUMBERS.values())[:3]:
                texts: dict[str, list[tuple[float, float]]] = {}
                for a, b in zip(*shared, strict=True):
                    texts.setdefault(a["text_id"], []).append((number(a), number(b)))
                cells.append(interval(list(texts.values())))
            key, numbers = "order_deviation", (models[one].numbers, models[other].numbers)
            both = [text for text in numbers[0] if key in numbers[1].get(text, {})]
            spreads = [[(numbers[0][text][key], numbers[1][text][key])] for text in both]
            rows.append([*cells, interval(spreads), f"{len(shared[0])}, {len(both)}"])
    head = ["models", *list(NUMBERS)[:3], "spread of random orders", "pairs, texts"]
    return _table(head, rows)


# --- against the definitions ---------------------------------------------------------------------


def check(place: str, corpus: str, count: str = "20") -> None:
    """How far the rows of some texts are from the definitions, by plain passes of transformers.

    The definitions are those of the tests, in float64. Numbers of whole tables only where a
    vocabulary is small enough to write tables out.
    """
    import torch
    from transformers import AutoModelForMaskedLM

    import unmask

    sys.path.append(str(ROOT / "tests" / "helpers"))
    naive: Any = import_module("naive_consistency")

    lm = unmask.load(place)
    network = AutoModelForMaskedLM.from_pretrained(place).eval()

    class Plain:
        """What the definitions ask of a model."""

        vocabulary_size, mask_id = lm.model.vocabulary_size, lm.tokenizer.mask_token_id

        def _logits(self, row: list[int], place: int) -> Any:
            with torch.no_grad():
                return network(input_ids=torch.tensor([row])).logits[0, place].double().numpy()

    plain: Any = Plain()
    with open(corpus, encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)][: int(count)]
    answers = lm.consistency(texts, orders=2, settings=unmask.Settings(progress=False))
    errors: dict[str, list[float]] = {}
    for text in texts:
        ids = lm.tokenizer(text)["input_ids"]
        places = [n for n, one in enumerate(ids) if one not in lm.tokenizer.all_special_ids]
        rows = [row for row in answers.rows if row["text"] == text]
        for row in (row for row in rows if row["part"] in PAIRS):
            a, b = places[row["first"]], places[row["second"]]
            if plain.vocabulary_size < 500:
                tables = naive.tables(plain, ids, a, b)
                expected = naive.answers(*tables, (ids[a], ids[b]))
            else:
                expected = {
                    "first_then_second": naive.along(plain, ids, (a, b)),
                    "second_then_first": naive.along(plain, ids, (b, a)),
                }
            for name, value in expected.items():
                errors.setdefault(name, []).append(abs(value - row[name]))
        orders = drawn_orders(len(places), 2, (0, len(places))).tolist()
        logs = [row["text_log_p"] for row in rows if row["part"] == "order"]
        for order, log_p in zip(orders, logs, strict=True):
            walk = tuple(places[rank] for rank in order)
            errors.setdefault("text_log_p", []).append(abs(naive.along(plain, ids, walk) - log_p))
    for name, some in errors.items():
        print(f"{name}: {len(some)} numbers of {len(texts)} texts, largest error {max(some):.1e}")


def main(arguments: Sequence[str]) -> None:
    """Keep, check, or renew the page."""
    if arguments[:1] == ["keep"]:
        keep(*arguments[1:])
    elif arguments[:1] == ["check"]:
        check(*arguments[1:])
    else:
        marked_page.write_blocks(PAGE, blocks())
        for name, one in read([*ENGLISH, *OTHERS]).items():
            save_figure(one.plot(), ROWS / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
