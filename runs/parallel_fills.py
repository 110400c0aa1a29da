"""Many blanks in few passes: what every rule of parallel decoding loses, at how many passes.

    python runs/parallel_fills.py fill --model DIR --head FILE --corpus FILE --rows ROWS --limit 300
    python runs/parallel_fills.py page --rows DIR

`fill` masks 4 to 12 tokens of every sentence, by a hash of its id, scattered or in a run, and fills
them by every rule and threshold, each blank with its likeliest token. A fill is scored by the
model's own chain rule: the mean of its log-probability along `ORDERS` random orders, the same for
all fills of a sentence. All ways of a chunk of sentences advance in the same batches. Rows hold
ids, never text; started again on the same file, it does what is missing. `--part` takes a part of
a corpus, by the same hash, for where it has no dev file.

`page` chooses thresholds on the rows of snli-dev and xsum-dev, judges them on snli and xsum, and
renews the tables and the picture of docs/results/parallel-filling.md.
"""

import argparse
import functools
import hashlib
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from marked_page import write_blocks
from numpy.typing import NDArray

import unmask
from unmask.model.row_reader import RowReader
from unmask.queries.parallel.decoding import BlankedText, Decoding, fill_blanked
from unmask.queries.parallel.head import DependenceHead
from unmask.records.corpora import CorpusSpec, read_corpus

QUIET = unmask.Settings(progress=False, announce=False)
PAGE = Path("docs/results/parallel-filling.md")
FEWEST, MOST, ORDERS, CHUNK, RESAMPLES = 4, 12, 8, 25, 1000
ONE_BY_ONE = ("surest", "left-to-right", "margin")
WAYS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys((*ONE_BY_ONE, "all-at-once"), (0,)),
    "top-k": (2, 3, 4),
    "confidence": (0.05, 0.1, 0.15, 0.3, 0.5),
    "factor": (1, 1.5, 2.5, 3.5, 5),
    "entropy-bound": (1, 2, 4, 8, 16),
    "stability": (0.05, 0.1, 0.3),
    "attention": (0.015, 0.03, 0.06, 0.12),
    "random-sizes": (0.25, 0.35, 0.5),
    "head": (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6),
    "mutual-information": (0.1, 0.4),
}
# of the rules that fill several blanks per step: colours that colour-blind readers tell apart
CURVES = {
    "top-k": ("#999999", "x"),
    "confidence": ("#E69F00", "s"),
    "factor": ("#56B4E9", "D"),
    "entropy-bound": ("#0072B2", "^"),
    "stability": ("#CC79A7", "v"),
    "attention": ("#009E73", "P"),
    "random-sizes": ("#BBBBBB", "+"),
    "head": ("#D55E00", "o"),
    "mutual-information": ("#000000", "*"),
}
NAMES = {"snli": "SNLI", "xsum": "XSum"}
# nats per blank that a threshold may lose on dev sentences
ALLOWED = 0.02
Row = dict[str, Any]


def hashed(*parts: object) -> int:
    key = "\x00".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big")


def named(rule: str, threshold: float) -> str:
    return rule if len(WAYS[rule]) == 1 else f"{rule} {threshold:g}"


# --- fills -------------------------------------------------------------------------------------


def in_a_run(name: str) -> bool:
    """Whether the blanks of a sentence are neighbours."""
    return hashed(name, "lie") % 3 == 0


def blanked(lm: unmask.LanguageModel, sentence: Any) -> BlankedText | None:
    """None if it is too short."""
    ids = lm.tokenizer(sentence.text, verbose=False)["input_ids"]
    special = set(lm.tokenizer.all_special_ids)
    places = [place for place, token in enumerate(ids) if token not in special]
    count = FEWEST + hashed(sentence.id, "count") % (MOST - FEWEST + 1)
    if len(places) < count + 2 or len(ids) > (lm.max_length or len(ids)):
        return None
    if in_a_run(sentence.id):
        start = hashed(sentence.id, "start") % (len(places) - count + 1)
        chosen = places[start : start + count]
    else:
        chosen = sorted(sorted(places, key=lambda p: hashed(sentence.id, "place", p))[:count])
    masked = tuple(lm.tokenizer.mask_token_id if p in chosen else t for p, t in enumerate(ids))
    return BlankedText(masked, tuple(chosen))


Context = tuple[tuple[int, ...], int]


def scores(
    lm: unmask.LanguageModel,
    texts: Mapping[str, BlankedText],
    fills: Mapping[str, set[Any]],
    count: int = ORDERS,
) -> dict[tuple[str, tuple[int, ...]], float]:
    """The mean log-probability along random orders; equal contexts are read once."""
    asked: dict[int, dict[Context, list[int]]] = {}
    terms: list[tuple[tuple[str, tuple[int, ...]], Context, int]] = []
    for name, text in texts.items():
        rng, blanks = np.random.default_rng(hashed(name, "orders")), len(text.positions)
        orders = [rng.permutation(blanks).tolist() for _ in range(count)]
        contexts = asked.setdefault(len(text.ids), {})
        for fill in sorted(fills[name]):
            for order in orders:
                row = list(text.ids)
                for blank in order:
                    context = tuple(row), text.positions[blank]
                    tokens = contexts.setdefault(context, [])
                    if fill[blank] not in tokens:
                        tokens.append(fill[blank])
                    terms.append(((name, fill), context, tokens.index(fill[blank])))
                    row[text.positions[blank]] = fill[blank]
    log_probs: dict[Context, list[float]] = {}
    for contexts in asked.values():
        most = max(map(len, contexts.values()))
        given = [tokens + tokens[:1] * (most - len(tokens)) for tokens in contexts.values()]
        read = RowReader(lm.model, QUIET).log_probs(
            torch.tensor([row for row, _ in contexts]),
            torch.tensor([[position] for _, position in contexts]),
            torch.tensor(given)[:, None],
        )
        log_probs |= zip(contexts, read[:, 0].tolist(), strict=True)
    totals = dict.fromkeys((key for key, _, _ in terms), 0.0)
    for key, context, column in terms:
        totals[key] += log_probs[context][column] / count
    return totals


def filled(
    lm: unmask.LanguageModel,
    head: DependenceHead,
    some: Mapping[str, BlankedText],
    rules: Sequence[str],
    orders: int,
) -> Iterator[Row]:
    axis = lm.support("tokens")
    ids = axis.ids.tolist()
    ways = {
        named(rule, threshold): Decoding(
            rule, threshold, axis, head=head if rule == "head" else None
        )
        for rule in rules
        for threshold in WAYS[rule]
    }
    pairs = [(name, way) for name in some for way in ways]
    results = fill_blanked(
        RowReader(lm.model, QUIET), [some[name] for name, _ in pairs], [ways[w] for _, w in pairs]
    )
    by_name: dict[str, dict[str, Any]] = {name: {} for name in some}
    for (name, way), one in zip(pairs, results, strict=True):
        by_name[name][way] = tuple(ids[place] for place in one.tokens), one
    fills = {name: {tokens for tokens, _ in mine.values()} for name, mine in by_name.items()}
    totals = scores(lm, some, fills, orders)
    for name, mine in by_name.items():
        row = {
            way: [round(totals[name, tokens], 5), len(one.steps), one.forward_passes]
            for way, (tokens, one) in mine.items()
        }
        yield {"id": name, "blanks": len(some[name].positions), "ways": row}


def fill(lm: unmask.LanguageModel, head: DependenceHead, chosen: argparse.Namespace) -> None:
    path = Path(chosen.rows)
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    done = {json.loads(line)["id"] for line in lines}
    number, of = map(int, chosen.part.split("/"))
    corpus = read_corpus(CorpusSpec(chosen.corpus)).sentences
    texts: dict[str, BlankedText] = {}
    for sentence in sorted(corpus, key=lambda one: hashed(one.id)):
        if len(texts) == chosen.limit:
            break
        text = blanked(lm, sentence)
        if text is not None and hashed(sentence.id, "part") % of == number:
            texts[sentence.id] = text
    rules = list(WAYS) if chosen.rules is None else chosen.rules.split(",")
    left = [name for name in texts if name not in done]
    with path.open("a", encoding="utf-8") as file:
        for start in range(0, len(left), CHUNK):
            some = {name: texts[name] for name in left[start : start + CHUNK]}
            file.writelines(
                json.dumps(row) + "\n" for row in filled(lm, head, some, rules, chosen.orders)
            )
            file.flush()


# --- what they lose ----------------------------------------------------------------------------


class Fills:
    """The fills of one corpus: sentences x ways, and the means of resamples of sentences."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.ways = [named(rule, threshold) for rule, every in WAYS.items() for threshold in every]
        self.blanks = np.array([row["blanks"] for row in rows], dtype=np.float64)
        log_probs = np.array([row["log_probs"] for row in rows])
        self.lost = log_probs[:, :1] - log_probs
        self.steps = np.array([row["steps"] for row in rows], dtype=np.float64)
        self.rows = rows

    @property
    def count(self) -> int:
        return len(self.blanks)

    def part(self, low: int, high: int, *, run: bool) -> "Fills":
        """Sentences with so many blanks, in a run or scattered."""
        here = [row for row in self.rows if low <= row["blanks"] <= high]
        return Fills([row for row in here if in_a_run(row["id"]) == run])

    def means(self, weights: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Passes per sentence, and nats lost per blank, of every way: by draws and ways."""
        passes = weights @ self.steps / weights.sum(axis=1, keepdims=True)
        return passes, weights @ self.lost / (weights @ self.blanks)[:, None]

    def mean(self) -> tuple[NDArray[Any], NDArray[Any]]:
        passes, lost = self.means(np.ones((1, self.count)))
        return passes[0], lost[0]

    @functools.cache  # noqa: B019
    def resampled(self) -> tuple[NDArray[Any], NDArray[Any]]:
        share = np.full(self.count, 1 / self.count)
        draws = np.random.default_rng(0).multinomial(self.count, share, size=RESAMPLES)
        return self.means(draws.astype(np.float64))


def interval(draws: NDArray[Any]) -> str:
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"[{low:+.3f}, {high:+.3f}]"


def thresholds_of(rule: str) -> list[str]:
    return [named(rule, threshold) for threshold in WAYS[rule]]


def chosen_on(dev: Fills, rule: str) -> str | None:
    """The threshold with the fewest passes that loses at most `ALLOWED` on dev sentences."""
    passes, lost = dev.mean()
    places = [dev.ways.index(way) for way in thresholds_of(rule)]
    fitting = [place for place in places if lost[place] <= ALLOWED]
    return dev.ways[min(fitting, key=lambda place: passes[place])] if fitting else None


def at_passes(fills: Fills, rule: str, passes: Any, lost: Any, target: float) -> float:
    """Nats lost per blank by a rule at so many passes: on the line between its thresholds."""
    ways = ["all-at-once", *thresholds_of(rule), "surest"]
    places = [fills.ways.index(way) for way in ways]
    order = np.argsort(passes[places], kind="stable")
    return float(np.interp(target, passes[places][order], lost[places][order]))


def chosen_table(dev: Mapping[str, Fills], test: Mapping[str, Fills]) -> Iterator[str]:
    yield "| rule |" + "".join(f" {NAMES[c]}: threshold | passes | loss |" for c in test)
    yield "|---|" + "---|---|---|" * len(test)
    means = {corpus: (fills.mean(), fills.resampled()) for corpus, fills in test.items()}
    for rule in CURVES:
        cells = []
        for corpus, fills in test.items():
            way = chosen_on(dev[corpus], rule)
            if way is None:
                cells.append(" none | | |")
                continue
            place, (mean, draws) = fills.ways.index(way), means[corpus]
            loss = f"{mean[1][place]:+.3f} {interval(draws[1][:, place])}"
            cells.append(f" {way.removeprefix(rule).strip()} | {mean[0][place]:.2f} | {loss} |")
        yield f"| {rule} |" + "".join(cells)


def equal_table(dev: Mapping[str, Fills], test: Mapping[str, Fills]) -> Iterator[str]:
    """What every other rule loses more than the head at the passes of the head."""
    targets: dict[str, tuple[int, float]] = {}
    for corpus, fills in test.items():
        place = fills.ways.index(chosen_on(dev[corpus], "head") or thresholds_of("head")[0])
        targets[corpus] = place, float(fills.mean()[0][place])
    yield "| rule |" + "".join(
        f" {NAMES[corpus]}, {target:.2f} passes |" for corpus, (_, target) in targets.items()
    )
    yield "|---|" + "---|" * len(test)
    for rule in CURVES:
        if rule == "head":
            continue
        cells = []
        for corpus, fills in test.items():
            place, target = targets[corpus]
            passes, lost = fills.mean()
            more = at_passes(fills, rule, passes, lost, target) - lost[place]
            # every resample at the passes that the head takes there
            draws = [
                at_passes(fills, rule, p, one, float(p[place])) - one[place]
                for p, one in zip(*fills.resampled(), strict=True)
            ]
            cells.append(f" {more:+.3f} {interval(np.array(draws))} |")
        yield f"| {rule} |" + "".join(cells)


def blanks_table(dev: Mapping[str, Fills], test: Mapping[str, Fills]) -> Iterator[str]:
    yield "| corpus | blanks | sentences | one at a time | head | loss | entropy bound | loss |"
    yield "|---|---|---|---|---|---|---|---|"
    kinds = itertools.product(test, (False, True), ((4, 6), (7, 9), (10, 12)))
    for corpus, run, (low, high) in kinds:
        part = test[corpus].part(low, high, run=run)
        (passes, lost), (_, draws) = part.mean(), part.resampled()
        kind = f"{low} to {high}, {'in a run' if run else 'scattered'}"
        cells = f"| {NAMES[corpus]} | {kind} | {part.count} | {passes[0]:.2f} |"
        for rule in ("head", "entropy-bound"):
            way = chosen_on(dev[corpus], rule)
            if way is None:
                cells += " | |"
                continue
            place = part.ways.index(way)
            cells += f" {passes[place]:.2f} | {lost[place]:+.3f} {interval(draws[:, place])} |"
        yield cells


def curve_table(test: Mapping[str, Fills]) -> Iterator[str]:
    yield "| rule | threshold |" + "".join(f" {NAMES[c]}: passes | loss |" for c in test)
    yield "|---|---|" + "---|---|" * len(test)
    means = {corpus: (fills.mean(), fills.resampled()) for corpus, fills in test.items()}
    for rule, every in WAYS.items():
        for threshold in every:
            shown = "" if len(every) == 1 else f"{threshold:g}"
            cells = ""
            for corpus, fills in test.items():
                place, (mean, draws) = fills.ways.index(named(rule, threshold)), means[corpus]
                loss = f"{mean[1][place]:+.3f} {interval(draws[1][:, place])}"
                cells += f" {mean[0][place]:.2f} | {'' if rule == 'surest' else loss} |"
            yield f"| {rule} | {shown} |" + cells


def draw(test: Mapping[str, Fills], place: Path) -> None:
    """Loss against passes, a line per rule, a panel per corpus."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 3.8), layout="constrained")
    panels = figure.subplots(1, len(test), sharey=True)
    for panel, (corpus, fills) in zip(panels, test.items(), strict=True):
        passes, lost = fills.mean()
        for rule, (colour, marker) in CURVES.items():
            points = sorted(
                (passes[fills.ways.index(w)], lost[fills.ways.index(w)])
                for w in thresholds_of(rule)
            )
            wide = 2.0 if rule in ("head", "mutual-information") else 1.0
            panel.plot(
                *zip(*points, strict=True),
                color=colour,
                marker=marker,
                markersize=4,
                linewidth=wide,
                label=rule,
            )
        panel.axhline(0, color="#777777", linewidth=0.8)
        panel.set(
            title=f"{NAMES[corpus]}, one at a time {passes[0]:.1f} passes",
            xlabel="passes per sentence",
            ylim=(-0.03, 0.32),
        )
        panel.grid(color="#DDDDDD", linewidth=0.5)
    panels[0].set_ylabel("nats lost per blank")
    panels[-1].legend(fontsize=7)
    with rc_context({"svg.hashsalt": "unmask"}):
        figure.savefig(place, metadata={"Date": None})


def rows_of(folder: Path) -> Iterator[Row]:
    """What is published: the fills of every sentence, its ways in the order of `WAYS`."""
    ways = [named(rule, threshold) for rule, every in WAYS.items() for threshold in every]
    for corpus in (f"{name}{part}" for name in NAMES for part in ("-dev", "")):
        for line in (folder / f"{corpus}.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            log_probs, steps = zip(*(row["ways"][way][:2] for way in ways), strict=True)
            about = {"corpus": corpus, "id": row["id"], "blanks": row["blanks"]}
            yield {**about, "log_probs": [round(one, 3) for one in log_probs], "steps": steps}


def blocks(dev: Mapping[str, Fills], test: Mapping[str, Fills]) -> dict[str, list[str]]:
    counts = [f"{NAMES[c]} {dev[c].count} dev and {test[c].count} test" for c in test]
    return {
        "sentences": [f"Sentences: {', '.join(counts)}."],
        "chosen": list(chosen_table(dev, test)),
        "equal passes": list(equal_table(dev, test)),
        "by blanks": list(blanks_table(dev, test)),
        "every threshold": list(curve_table(test)),
    }


def read(path: Path) -> tuple[dict[str, Fills], dict[str, Fills]]:
    """Dev and test fills by corpus."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    dev, test = (
        {name: Fills([row for row in rows if row["corpus"] == name + part]) for name in NAMES}
        for part in ("-dev", "")
    )
    return dev, test


def page(folder: Path) -> None:
    path = PAGE.with_suffix(".jsonl")
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows_of(folder)), encoding="utf-8")
    dev, test = read(path)
    write_blocks(PAGE, blocks(dev, test))
    draw(test, PAGE.with_suffix(".svg"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["fill", "page"])
    parser.add_argument("--model")
    parser.add_argument("--head")
    parser.add_argument("--corpus")
    parser.add_argument("--part", default="0/1", help="the n-th of so many parts of the corpus")
    parser.add_argument("--rules", help="only these, separated by commas")
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--rows", required=True)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.what == "fill":
        lm, head = unmask.load(chosen.model), DependenceHead.load(chosen.head)
        head.check(lm.model, lm.name)
        fill(lm, head, chosen)
    else:
        page(Path(chosen.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
