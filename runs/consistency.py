"""Renew docs/results/consistency.md from the rows of `unmask consistency`, models side by side.

    python runs/consistency.py                           # tables, CSV files and pictures
    python runs/consistency.py keep FOLDER NAME [DRAW]   # keep the rows of a run, without texts
    python runs/consistency.py antibodies DATA CSV       # segments of two antibodies as a corpus

Rows are those of `unmask consistency [CORPUS] -m MODEL -o FOLDER/`; the corpora of other languages
are in runs/sentences. DRAW 1 are other blanks of the same texts (`--seed 1`), so that models with
different tokenizers have enough pairs of the same words. Intervals are those of a bootstrap over
texts, all pairs of a text together. People write the sentences of the page.
"""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import marked_page
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unmask.plots.saving import save_figure
from unmask.resampling import Estimate, means
from unmask.sequences.consistency.measuring import PAIRS
from unmask.sequences.consistency.result import Consistency

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "results" / "consistency.md"
ROWS = PAGE.with_suffix("")
# measured on pairs of the same words; and one of which machine time allowed fewer texts
SMALL = ("tiny-english", "caption-bert", "any-rate")
ENGLISH = (*SMALL, "english-distil")
OTHERS = ("albert-tiny-chinese", "albert-kor-base", "antiberty")
# a model, and the rows of some of its texts with the whole vocabulary
EXACT = ("tiny-english", "tiny-english-exact")
# whose corpora are not our own: their words are not published either
FOREIGN = ("antiberty",)
DRAWS, SEED = 1000, 0
# the statistics of the page, with their heads; all are in the CSV files
SHOWN = {
    "incompatibility_adjacent": "J, bits",
    "incompatibility_share_adjacent": "J over mutual information",
    "order_difference_size_adjacent": "difference of both orders, nats",
    "order_deviation": "spread of random orders, nats per token",
}

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


def keep(folder: str, name: str, draw: str = "0") -> None:
    """The rows of a run as one file, with ids in place of texts."""
    parts = sorted(Path(folder).glob("part-*.parquet"))
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    dropped = {"text", "contrast", "model"}
    dropped |= {"first_token", "second_token"} if name in FOREIGN else set()
    table = table.drop_columns([one for one in table.column_names if one in dropped])
    ROWS.mkdir(exist_ok=True)
    pq.write_table(table.replace_schema_metadata(None), _place(name, draw, ROWS))


def _place(name: str, draw: str, folder: Path) -> Path:
    return folder / (f"{name}.parquet" if draw == "0" else f"{name}-draw-{draw}.parquet")


def read(names: Iterable[str], folder: Path = ROWS, draw: str = "0") -> dict[str, Consistency]:
    """What models answered, of those that were measured."""
    places = {name: _place(name, draw, folder) for name in names}
    return {
        name: Consistency(pq.read_table(place).to_pylist(), {"model": name})
        for name, place in places.items()
        if place.exists()
    }


# --- the tables of the page ----------------------------------------------------------------------

Lines = Iterable[str]


def made(folder: Path = ROWS) -> tuple[dict[str, Lines], dict[str, Lines]]:
    """The lines of the table of the page, and of those that are CSV files."""
    english, others = read(ENGLISH, folder), read(OTHERS, folder)
    first, *rest = english.values()
    names, pairs = list(SMALL), _shared_pairs(folder)
    everyone = {**english, **others}
    tables = {
        "english": [first.compare(*rest)],
        "values": _values(everyone),
        "predictions": _predictions(dict(zip(names, pairs, strict=True))),
        "same-pairs": _same_pairs(names, pairs),
        "agreement": _agreement(english, names, pairs),
        "estimates": _estimates(*(read([name], folder)[name] for name in EXACT)),
    }
    return {"models": _shown(everyone)}, tables


def _shown(models: Mapping[str, Consistency]) -> Iterator[str]:
    """A few statistics across, models down."""
    rows = []
    for name, answers in models.items():
        by = {one.key: one.estimate for one in answers.statistics}
        texts = str(len(answers.numbers))
        rows.append([name, texts, *(_cell(by[key]) for key in SHOWN)])
    return _table(["model", "texts", *SHOWN.values()], rows)


def files() -> dict[Path, str]:
    """The page and the CSV files, by their paths."""
    return marked_page.made(PAGE, *made())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|:---|{'---:|' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _values(models: Mapping[str, Consistency]) -> Iterator[str]:
    """Each statistic of each model, with its interval, on the texts of that model."""
    every = [{one.key: one for one in answers.statistics} for answers in models.values()]
    rows = []
    for key, first in {key: one for some in every for key, one in some.items()}.items():
        cells = [_cell(some[key].estimate) if key in some else "–" for some in every]
        rows.append([f"{first.title}, {first.unit}", *cells])
    counts = [str(len(answers.numbers)) for answers in models.values()]
    return _table(["statistic", *models], [["texts", *counts], *rows])


def _cell(one: Estimate) -> str:
    return f"{one.value:z.3f} [{one.low:z.3f}, {one.high:z.3f}]"


def _pairs(answers: Iterable[Consistency]) -> dict[tuple[str, ...], Row]:
    """The pairs of blanks that have a J, by text and words, each once."""
    return {
        (row["text_id"], row["part"], row["first_token"], row["second_token"]): row
        for one in answers
        for row in one.rows
        if row["part"] in PAIRS and row["incompatibility"] is not None
    }


def _shared_pairs(folder: Path = ROWS) -> list[list[Row]]:
    """The rows of the same words in the same texts, a list per model."""
    draws = [read(SMALL, folder, draw) for draw in ("0", "1")]
    every = [_pairs(some[name] for some in draws if name in some) for name in SMALL]
    keys = [key for key in every[0] if all(key in one for one in every)]
    return [[one[key] for key in keys] for one in every]


def _same_pairs(names: Sequence[str], pairs: Sequence[Sequence[Row]]) -> Iterator[str]:
    """P-NLL of joints on the pairs that all models have."""
    rows = []
    for name, some in zip(names, pairs, strict=True):
        columns = {
            "J, bits": [row["incompatibility"] for row in some],
            "log-pool": [-row["log_pool"] / 2 for row in some],
            "the ensemble": [-row["ensemble"] / 2 for row in some],
            "one order": [
                -(row["first_then_second"] + row["second_then_first"]) / 4 for row in some
            ],
            "in parallel": [-row["independent"] / 2 for row in some],
            "the ensemble minus log-pool": [
                (row["log_pool"] - row["ensemble"]) / 2 for row in some
            ],
        }
        estimates = means(list(columns.values()), [row["text_id"] for row in some])
        rows.append([name, *map(_cell, estimates)])
    return _table(["model", *columns], rows)


def _predictions(models: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Rank correlations over the same pairs of each model."""
    rows = []
    for title, target in {"J": NUMBERS["J"], **TARGETS}.items():
        for name, number in NUMBERS.items():
            if number is not target:
                cells = [_correlation(some, some, number, target) for some in models.values()]
                rows.append([title, name, *cells])
    return _table(["what", "by", *models], rows)


def _correlation(ours: Sequence[Row], theirs: Sequence[Row], first: Number, second: Number) -> str:
    texts: dict[str, list[tuple[float, float]]] = {}
    for one, other in zip(ours, theirs, strict=True):
        texts.setdefault(one["text_id"], []).append((first(one), second(other)))
    return interval(list(texts.values()))


def interval(groups: Sequence[Sequence[tuple[float, float]]]) -> str:
    """Spearman's correlation of the pairs of all groups, which are resampled whole."""
    points = np.array([point for group in groups for point in group])
    owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    rng = np.random.default_rng(SEED)
    picks = (rng.integers(len(groups), size=len(groups)) for _ in range(DRAWS))
    counts = np.array([np.bincount(pick, minlength=len(groups)) for pick in picks])
    low, high = np.nanpercentile(_spearman(points, counts[:, owners]), (2.5, 97.5))
    (value,) = _spearman(points, np.ones((1, len(points))))
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _spearman(points: NDArray[Any], counts: NDArray[Any]) -> NDArray[Any]:
    """The rank correlation of points that occur so many times, a line of counts per resample."""
    first, second = (_centred_ranks(column, counts) for column in points.T)
    with np.errstate(invalid="ignore"):
        correlations: NDArray[Any] = (counts * first * second).sum(axis=1) / np.sqrt(
            (counts * first**2).sum(axis=1) * (counts * second**2).sum(axis=1)
        )
    return correlations


def _centred_ranks(column: NDArray[Any], counts: NDArray[Any]) -> NDArray[Any]:
    """Ranks of a column's values minus their mean; equal values share the mean of their ranks."""
    values, places = np.unique(column, return_inverse=True)
    same = np.eye(len(values))[places]
    times = counts @ same
    ranks: NDArray[Any] = (np.cumsum(times, axis=1) - (times - 1) / 2)[:, places]
    ranks -= (counts * ranks).sum(axis=1, keepdims=True) / counts.sum(axis=1, keepdims=True)
    return ranks


def _estimates(sampled: Consistency, exact: Consistency) -> Iterator[str]:
    """How far estimates of single pairs are from the numbers of the whole vocabulary."""
    every, rows = _pairs([sampled]), []
    same = [(every[key], row) for key, row in _pairs([exact]).items() if key in every]
    for name, number in NUMBERS.items():
        gaps = [number(one) - number(other) for one, other in same]
        if any(gaps):
            (estimate,) = means([gaps], [row["text_id"] for _, row in same])
            mean = np.mean([number(row) for _, row in same])
            rows.append([name, f"{mean:z.3f}", _cell(estimate), f"{max(map(abs, gaps)):.3f}"])
    return _table([f"{len(same)} pairs", "exact", "estimate minus exact", "largest"], rows)


def _agreement(
    models: Mapping[str, Consistency], names: Sequence[str], pairs: Sequence[Sequence[Row]]
) -> Iterator[str]:
    """Rank correlations between models: of the same pairs, and of the texts that both have."""
    rows, key = [], "order_deviation"
    for place, other in ((m, n) for n in range(len(names)) for m in range(n)):
        cells = [
            _correlation(pairs[place], pairs[other], number, number)
            for number in list(NUMBERS.values())[:3]
        ]
        first, second = models[names[place]].numbers, models[names[other]].numbers
        both = [text for text in first if key in first[text] and key in second.get(text, {})]
        spreads = [[(first[text][key], second[text][key])] for text in both]
        title = f"{names[place]}, {names[other]}"
        rows.append([title, *cells, interval(spreads), f"{len(pairs[place])}, {len(both)}"])
    head = ["models", *list(NUMBERS)[:3], "spread of random orders", "pairs, texts"]
    return _table(head, rows)


# --- a corpus of antibodies ----------------------------------------------------------------------


def antibodies(data: str, output: str, count: str = "20", residues: str = "32") -> None:
    """Segments of variants between germline and mature, those with the smallest hashes, spaced."""
    chains = json.loads((Path(data) / "sequences.json").read_text("utf-8"))
    segments: list[str] = []
    for path in sorted(Path(data).glob("*.csv")):
        chain = chains[path.stem.partition("-")[0]]
        with path.open(encoding="utf-8", newline="") as file:
            variants = sorted({row["variant"] for row in csv.DictReader(file)}, key=_digest)
        for variant in variants[: int(count) // 2]:
            letters = list(chain["germline"])
            changes = zip(variant, chain["positions"], chain["somatic_residues"], strict=True)
            for bit, place, own in changes:
                letters[place - 1] = own if bit == "1" else letters[place - 1]
            # every segment from another residue on
            start = 4 * len(segments)
            segments.append(" ".join(letters[start : start + int(residues)]))
    Path(output).write_text("\n".join(["text", *segments]) + "\n", "utf-8")


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def main(arguments: Sequence[str]) -> None:
    """Keep rows, write a corpus, or renew the page."""
    ways: dict[str, Callable[..., object]] = {
        "keep": keep,
        "antibodies": antibodies,
    }
    if arguments:
        ways[arguments[0]](*arguments[1:])
        return
    for path, text in files().items():
        path.write_text(text, "utf-8")
    for name, one in read([*ENGLISH, *OTHERS]).items():
        save_figure(one.plot(), ROWS / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
