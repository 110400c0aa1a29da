"""The tables of docs/results/sketch.md, from the rows that runs/sketch.py measured.

python runs/sketch_report.py --rows docs/results/sketch.jsonl --output docs/results/sketch.md
"""

import argparse
import json
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import marked_page
import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Row = dict[str, Any]
Numbers = NDArray[np.float64]

# the sketch's estimators, in the order in which they came
EARLIER, NOW, PARTNERS, DEFAULT = "tables of masses", "both tables", "partners", "default"
# what is compared: its name in rows, in the tables, and its unit
QUANTITIES = {
    "best": "log p of the likeliest fill (nats)",
    "ten": "log p of the ten likeliest (nats)",
    "gold": "log p of the true fill (nats)",
    "marginals": "log p of the five likeliest tokens of each blank (nats)",
    "incompatibility": "J (bits)",
    "mutual_information": "mutual information (nats)",
    "entropy": "entropy (nats)",
    "conditionals": "log p given a likely token (nats)",
}


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *lines))


def _groups(rows: Sequence[Row], key: Callable[[Row], str]) -> Iterator[tuple[str, list[Row]]]:
    by_key: dict[str, list[Row]] = {}
    for row in rows:
        by_key.setdefault(key(row), []).append(row)
    yield from by_key.items()


def _source(row: Row) -> str:
    return str(row["source"])


def _numbers(row: Row, name: str) -> list[list[float]]:
    numbers: dict[str, list[list[float]]] = row["numbers"]
    return numbers.get("ten", [])[:1] if name == "best" else numbers.get(name, [])


def _defaults(rows: Sequence[Row], estimator: str) -> list[Row]:
    return [row for row in rows if row["kind"] == "default" and row["estimator"] == estimator]


def _bars(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    heads = [
        "pairs",
        "number",
        "n",
        "within 1",
        "within 2",
        "largest",
        "mean error",
        "rms",
        "stated",
    ]
    lines = []
    now, earlier = (
        [row for row in _defaults(rows, estimator) if row["numbers"]]
        for estimator in (NOW, EARLIER)
    )
    parts = [*_groups(now, _model), *_groups(earlier, _earlier_model), *_groups(now, _source)]
    for source, mine in dict(parts).items():
        for name, title in QUANTITIES.items():
            values = np.array([one for row in mine for one in _numbers(row, name)])
            if len(values):
                lines.append([source, title, *_bar(mine, name, values)])
    return heads, lines


def _model(row: Row) -> str:
    return f"{row['source'].split(',')[0]}, all"


def _earlier_model(row: Row) -> str:
    return f"{_model(row)}, before"


def _bar(rows: Sequence[Row], name: str, values: Numbers) -> list[str]:
    error, stated = values.T
    ratio = np.abs(error) / np.maximum(stated, 1e-12)
    means = [
        np.mean([one[0] for row in some for one in _numbers(row, name)])
        for _, some in _groups(rows, lambda row: f"{row['source']} {row['id']}")
    ]
    return [
        str(len(values)),
        f"{np.mean(ratio <= 1):.2f}",
        f"{np.mean(ratio <= 2):.3f}",
        f"{ratio.max():.1f}",
        f"{np.mean(means):+.4f} +- {np.std(means, ddof=1) / np.sqrt(len(means)):.4f}",
        f"{np.sqrt(np.mean(error**2)):.4f}",
        f"{np.sqrt(np.mean(stated**2)):.4f}",
    ]


def _by_text(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Errors of the default: those within a text are one error, so each text counts once."""
    heads = ["pairs", "number", "texts", "within 2", "95% interval"]
    heads += ["largest", "mean error", "median stated"]
    lines = []
    for model, mine in _groups(_defaults(rows, DEFAULT), _model):
        for name, title in QUANTITIES.items():
            if measured := [row for row in mine if _numbers(row, name)]:
                lines.append([model, title, *_once_per_text(measured, name)])
    return heads, lines


def _matched(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """The default before and now, of the same texts and seeds."""
    heads = ["pairs", "number", "texts", "within 2 before", "within 2 now"]
    heads += ["median stated before", "median stated now"]
    each = [
        {(row["source"], row["id"], row["seed"]): row for row in _defaults(rows, estimator)}
        for estimator in (PARTNERS, DEFAULT)
    ]
    shared = [key for key in each[0] if key in each[1]]
    lines = []
    for model, keys in _groups([each[0][key] for key in shared], _model):
        of_model = [(row["source"], row["id"], row["seed"]) for row in keys]
        for name, title in QUANTITIES.items():
            measured = [[some[k] for k in of_model if _numbers(some[k], name)] for some in each]
            if measured[0]:
                before, now = (_once_per_text(some, name) for some in measured)
                lines.append([model, title, now[0], before[1], now[1], before[-1], now[-1]])
    return heads, lines


def _once_per_text(rows: Sequence[Row], name: str) -> list[str]:
    within, means, every = [], [], []
    for _, some in _groups(rows, lambda row: f"{row['source']} {row['id']}"):
        numbers = np.array([number for row in some for number in _numbers(row, name)])
        error, stated = numbers.T
        within.append(np.mean(np.abs(error) <= 2 * stated))
        means.append(np.mean(error))
        every.append(numbers)
    error, stated = np.concatenate(every).T
    low, high = _wilson(float(np.mean(within)), len(within))
    spread = np.std(means, ddof=1) / np.sqrt(len(means))
    return [
        str(len(within)),
        f"{np.mean(within):.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{np.max(np.abs(error)):.2f}",
        f"{np.mean(means):+.4f} +- {spread:.4f}",
        f"{np.median(stated):.4f}",
    ]


def _wilson(share: float, count: int) -> tuple[float, float]:
    """The interval of a share that holds it in 95 of 100 samples (Wilson 1927)."""
    z = 1.96
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = np.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2) * z / (1 + z**2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def _missing(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Likely fills that are not among the first thirty of a sketch, with a 95% interval."""
    heads = ["pairs", "texts", "seeds", "fills with p from 0.01", "missing", "of them p from 0.02"]
    heads += ["95% interval of the rate", "passes: median", "mean"]
    lines = []
    parts = [
        *_groups(_defaults(rows, DEFAULT), _source),
        *_groups(_defaults(rows, PARTNERS), lambda row: f"{_source(row)}, before"),
    ]
    for source, mine in parts:
        count = sum(row["likely"] for row in mine)
        missing = [log_p for row in mine for log_p in row["missing"]]
        low = beta.ppf(0.025, len(missing), count - len(missing) + 1) if missing else 0.0
        high = beta.ppf(0.975, len(missing) + 1, count - len(missing))
        passes = [row["forward_passes"] for row in mine]
        lines.append(
            [
                source,
                str(len({row["id"] for row in mine})),
                str(len({row["seed"] for row in mine})),
                f"{count:,}",
                str(len(missing)),
                str(sum(log_p >= np.log(0.02) for log_p in missing)),
                f"{low:.4f} to {high:.4f}",
                f"{np.median(passes):,.0f}",
                f"{np.mean(passes):,.0f}",
            ]
        )
    return heads, lines


def _misses(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Every fill that is missing."""
    heads = ["pairs", "text", "seed", "p of the missing fills", "passes", "precision reached"]
    lines = [
        [
            _source(row),
            row["id"],
            str(row["seed"]),
            ", ".join(f"{np.exp(log_p):.3f}" for log_p in row["missing"]),
            f"{row['forward_passes']:,}",
            "yes" if row["precision_reached"] else "no",
        ]
        for row in _defaults(rows, DEFAULT)
        if row["missing"]
    ]
    return heads, lines


def _errors(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    heads = ["pairs", "passes", "n", "both tables", "tables of masses", "ratio"]
    lines = []
    fixed = [row for row in rows if row["kind"].endswith("passes")]
    for source, mine in _groups(fixed, _source):
        for kind, some in _groups(mine, lambda row: str(row["kind"])):
            squares = [_squares(some, estimator) for estimator in (NOW, EARLIER)]
            ids = sorted(squares[0].keys() & squares[1].keys())
            if len(ids) < 2:
                continue
            both = np.array([[one[i] for i in ids] for one in squares])
            now, before = np.sqrt(both.mean(axis=1))
            lines.append(
                [
                    source,
                    kind.split()[0],
                    str(len(ids)),
                    f"{now:.4f}",
                    f"{before:.4f}",
                    _ratio(both),
                ]
            )
    return heads, lines


def _squares(rows: Sequence[Row], estimator: str) -> dict[str, float]:
    """The mean squared error of each pair."""
    chosen = [row for row in rows if row["estimator"] == estimator]
    return {
        f"{row['id']} {row['seed']}": float(np.mean(np.square(row["numbers"]["ten"])))
        for row in chosen
    }


def _ratio(squares: Numbers) -> str:
    generator = np.random.default_rng(0)
    drawn = generator.integers(squares.shape[1], size=(2000, squares.shape[1]))
    now, before = (np.sqrt(one[drawn].mean(axis=1)) for one in squares)
    ratio = np.sqrt(squares[0].mean() / squares[1].mean())
    return f"{ratio:.2f} +- {np.std(now / before):.2f}"


def _sizes(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    heads = ["pairs", "vocabulary", "n", "passes: median", "passes: least", "passes: most"]
    heads += ["precision reached", "tokens: median", "tokens: least", "tokens: most"]
    lines = []
    parts = [
        *_groups(_defaults(rows, NOW), _source),
        *_groups(_defaults(rows, EARLIER), lambda row: f"{_source(row)}, before"),
    ]
    for source, mine in parts:
        passes = [row["forward_passes"] for row in mine]
        entropies = [row["exact_entropy"] for row in mine if row["exact_entropy"] is not None]
        tokens = np.exp(np.array(entropies) / 2)
        lines.append(
            [
                source,
                f"{mine[0]['vocabulary']:,}",
                str(len(mine)),
                *(f"{f(passes):,.0f}" for f in (np.median, np.min, np.max)),
                f"{np.mean([row['precision_reached'] for row in mine]):.2f}",
                *(f"{f(tokens):,.0f}" if len(tokens) else "–" for f in (np.median, np.min, np.max)),
            ]
        )
    return heads, lines


def tables(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Whole tables, for the CSV files."""
    made = {
        "error-bars": _bars(rows),
        "errors-by-passes": _errors(rows),
        "passes": _sizes(rows),
        "default": _by_text(rows),
        "before-and-now": _matched(rows),
        "missing": _missing(rows),
        "misses": _misses(rows),
    }
    return {name: _table(*table).splitlines() for name, table in made.items()}


def blocks(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The finding, and the numbers of the default by model."""
    return {"finding": _finding(rows), "default": _by_model(rows)}


def _by_model(rows: Sequence[Row]) -> list[str]:
    """Shares within two stated errors: numbers down, models across."""
    _, lines = _by_text(rows)
    models = list(dict.fromkeys(line[0] for line in lines))
    cells = {(line[1], line[0]): f"{line[3]} [{line[4].replace(' to ', ', ')}]" for line in lines}
    titles = [title for title in QUANTITIES.values() if (title, models[0]) in cells]
    table = [[title, *(cells[title, model] for model in models)] for title in titles]
    return _table(["number", *models], table).splitlines()


def _finding(rows: Sequence[Row]) -> list[str]:
    """The sentence at the top of the page."""
    _, lines = _by_text(rows)
    shares = [round(100 * float(line[3])) for line in lines]
    _, earlier = _bars([row for row in rows if row["estimator"] == NOW])
    chinese = [round(100 * float(line[4])) for line in earlier if "chinese, all" in line[0]]
    texts: dict[str, int] = {}
    for model, _, count, *_ in lines:
        name = model.removesuffix(", all")
        texts[name] = max(texts.get(name, 0), int(count))
    _, missing = _missing(_defaults(rows, DEFAULT))
    likely_fills, lost, surest = (
        sum(int(line[place].replace(",", "")) for line in missing) for place in (3, 4, 5)
    )
    measured = ", ".join(f"{number} texts of {name}" for name, number in texts.items())
    text = (
        f"**Intervals of two standard errors contain {min(shares)} to {max(shares)} of 100 exact"
        f" numbers in English** ({measured}). {lost:,} of {likely_fills:,} fills with a"
        f" probability of 0.01 or more were missing from the first thirty, {surest or 'none'} with"
        " 0.02 or more. In Chinese, measured with [an earlier default](#the-earlier-default),"
        f" such intervals contain {min(chinese)} to {max(chinese)}."
    )
    return textwrap.wrap(text, 120, break_on_hyphens=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    rows = read(chosen.rows)
    marked_page.write_blocks(chosen.output, blocks(rows), tables(rows))


if __name__ == "__main__":
    main()
