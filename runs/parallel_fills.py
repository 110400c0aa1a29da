"""Many blanks in few passes: what every rule of parallel decoding loses, at how many passes.

    python runs/parallel_fills.py fill --model DIR --head FILE --corpus FILE --rows ROWS --limit 300
    python runs/parallel_fills.py fill ... --few --orders 4 [--draws 4] --rows ROWS --limit 60
    python runs/parallel_fills.py fill ... --whole --blanks 6 16 --few --draws 1 --limit 20
    python runs/parallel_fills.py antibodies --assets DIR --corpus cr6261 --limit 20 --rows FILE
    python runs/parallel_fills.py page --rows DIR

`fill` masks 4 to 12 tokens of every sentence, by a hash of its id, scattered or in a run, and fills
them by every rule and threshold, each blank with its likeliest token. A fill is scored by the
model's own chain rule: the mean of its log-probability along `ORDERS` random orders, the same for
all fills of a sentence. All ways of a chunk of sentences advance in the same batches. Rows hold
ids, never text; started again on the same file, it does what is missing. `--part` takes a part of
a corpus, by the same hash, for where it has no dev file. `--few` takes the ways of `FEW`, for
slower models. With `--draws` every token is drawn, so many times per sentence; the row holds the
means over draws, and the log-probability by which a way drew them. With `--whole` a sentence is
masks alone, as many as `--blanks` allows; of every length `--limit` are drawn, or one is filled.

`antibodies` writes variants of an antibody of the assets, for a model of proteins: one file of one
antibody to train a head, one of another to fill.

`--only RULE` fills by one rule alone: `page` adds its ways to those that are published.

`page` chooses thresholds on the rows of snli-dev and xsum-dev, judges them on snli and xsum, and
renews the tables and the picture of docs/results/parallel-filling.md. Folders inside DIR, named
after models or `draws`, hold rows of few ways. What DIR lacks stays as it was published.
"""

import argparse
import functools
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import punt
import torch
from compared_rules import named_rule
from drawing import INK, STYLE
from marked_page import write_blocks
from numpy.typing import NDArray
from rows import Row, extend, hashed, hidden, in_hashed_order
from rows import read as measured

import unmask
from unmask.model.row_reader import RowReader
from unmask.plots.saving import library, save_figure
from unmask.queries.decode.decoding import Decoding, fill_blanked
from unmask.queries.decode.head import DependenceHead
from unmask.text.cloze import Cloze

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
    "punt": (0.01, 0.03, 0.1, 0.3, 1),
}
FEW: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("surest", "all-at-once"), (0,)),
    "confidence": (0.1, 0.3),
    "factor": (1.5, 2.5),
    "entropy-bound": (2, 4),
    "attention": (0.015, 0.03),
    "head": (0.05, 0.1, 0.2, 0.4),
}
# the bound that was chosen on dev sentences of SNLI, for models without dev sentences
HEAD = "head 0.1"
# the bound nearest to the default of `lm.decode` that models of `FEW` ran with
LOOSE = "entropy-bound 2"
# the folder of fills that are drawn
DRAWS = "draws"
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
    "mutual-information": ("#8856A7", "*"),
    "punt": ("#8C510A", "h"),
}
NAMES = {"snli": "SNLI", "xsum": "XSum"}
OTHERS = {"whole": "whole sentences", "cr6261": "CR6261"}
# nats per blank that a threshold may lose on dev sentences
ALLOWED = 0.02


def named(rule: str, threshold: float) -> str:
    return rule if len(WAYS[rule]) == 1 else f"{rule} {threshold:g}"


def names_of(ways: Mapping[str, Sequence[float]]) -> list[str]:
    return [named(rule, threshold) for rule, every in ways.items() for threshold in every]


# --- fills -------------------------------------------------------------------------------------


def in_a_run(name: str) -> bool:
    """Whether the blanks of a sentence are neighbours."""
    return hashed(name, "lie") % 3 == 0


def blanked(
    lm: unmask.LanguageModel, sentence: Any, blanks: Sequence[int] = (FEWEST, MOST)
) -> Cloze | None:
    """None if it is too short; of so many blanks at least and at most."""
    ids = lm.tokenizer(sentence.text, verbose=False)["input_ids"]
    special = set(lm.tokenizer.all_special_ids)
    places = [place for place, token in enumerate(ids) if token not in special]
    least, most = blanks
    count = least + hashed(sentence.id, "count") % (most - least + 1)
    if len(places) < count + 2 or len(ids) > (lm.max_length or len(ids)):
        return None
    chosen = hidden(places, sentence.id, count, run=in_a_run(sentence.id))
    masked = tuple(lm.tokenizer.mask_token_id if p in chosen else t for p, t in enumerate(ids))
    return Cloze(sentence.text, masked, tuple(chosen))


def whole(
    lm: unmask.LanguageModel, blanks: Sequence[int], count: int
) -> dict[str, tuple[Cloze, int]]:
    """Sentences of so many masks at least and at most, and nothing else, with a seed of each."""
    texts = dict[str, tuple[Cloze, int]]()
    for length in range(blanks[0], blanks[1] + 1):
        cloze = lm.cloze(" ".join([lm.tokenizer.mask_token] * length))
        texts |= {f"{length}:{seed}": (cloze, seed) for seed in range(count)}
    return texts


Context = tuple[tuple[int, ...], int]


def scores(
    lm: unmask.LanguageModel,
    texts: Mapping[str, Cloze],
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
        read = RowReader(lm.model, QUIET).token_log_probs(
            torch.tensor([row for row, _ in contexts]),
            torch.tensor([[position] for _, position in contexts]),
            torch.tensor(given)[:, None],
        )
        log_probs |= zip(contexts, read.log_probs[:, 0].tolist(), strict=True)
    totals = dict.fromkeys((key for key, _, _ in terms), 0.0)
    for key, context, column in terms:
        totals[key] += log_probs[context][column] / count
    return totals


def filled(
    lm: unmask.LanguageModel,
    head: DependenceHead | None,
    some: Mapping[str, Cloze],
    ways: Mapping[str, Sequence[float]],
    orders: int,
    draws: int,
    seeds: Mapping[str, int] = {},
) -> Iterator[Row]:
    axis = lm.support("tokens")
    ids = axis.ids.tolist()
    hows = [
        (named(rule, one), Decoding(*named_rule(rule, one), axis, draws > 0, seed, head=head))
        for rule, every in ways.items()
        if rule != "punt"
        for one in every
        for seed in range(max(draws, 1))
    ]
    hows = [(way, how if how.rule == "head" else replace(how, head=None)) for way, how in hows]
    pairs = [(name, way, how) for name in some for way, how in hows]
    each = [replace(how, seed=how.seed + seeds.get(name, 0)) for name, _, how in pairs]
    reader = RowReader(lm.model, QUIET)
    results = fill_blanked(reader, [some[name] for name, *_ in pairs], each)
    by_name: dict[str, list[Any]] = {name: [] for name in some}
    for (name, way, _), one in zip(pairs, results, strict=True):
        tokens = tuple(ids[place] for place in one.tokens)
        by_name[name].append((way, tokens, len(one.steps), one.log_prob))
    # a rule sees one pass; this one runs passes of its own, which count
    for epsilon in ways.get("punt", ()):
        for name, state in punt.fill(reader, some, axis, epsilon).items():
            tokens = tuple(ids[place] for place in state.tokens)
            passes, log_q = state.forward_passes, state.log_prob
            by_name[name].append((named("punt", epsilon), tokens, passes, log_q))
    fills = {name: {tokens for _, tokens, *_ in mine} for name, mine in by_name.items()}
    totals = scores(lm, some, fills, orders)
    for name, mine in by_name.items():
        numbers: dict[str, list[list[float]]] = {}
        for way, tokens, passes, log_q in mine:
            numbers.setdefault(way, []).append([totals[name, tokens], passes, log_q])
        row = {way: np.mean(each, axis=0).round(5).tolist() for way, each in numbers.items()}
        yield {"id": name, "blanks": len(some[name].positions), "ways": row}


def antibodies(assets: Path, antibody: str, count: int) -> Iterator[str]:
    """Variants between germline and mature, each mutation with chance one half, as tokens."""
    about = json.loads((assets / "antibody" / "sequences.json").read_text("utf-8"))[antibody]
    rng = np.random.default_rng(0)
    for _ in range(count):
        residues = list(about["germline"])
        for place, mature in zip(about["positions"], about["somatic_residues"], strict=True):
            if rng.random() < 0.5:
                residues[place - 1] = mature
        yield " ".join(residues)


def fill(lm: unmask.LanguageModel, head: DependenceHead | None, chosen: argparse.Namespace) -> None:
    path = Path(chosen.rows)
    done = {row["id"] for row in measured(path)}
    number, of = map(int, chosen.part.split("/"))
    texts: dict[str, Cloze] = {}
    seeds: dict[str, int] = {}
    if chosen.whole:
        every = whole(lm, chosen.blanks, chosen.limit if chosen.draws else 1)
        texts = {name: text for name, (text, _) in every.items()}
        seeds = {name: seed for name, (_, seed) in every.items()}
    for sentence in [] if chosen.whole else in_hashed_order(chosen.corpus):
        if len(texts) == chosen.limit:
            break
        text = blanked(lm, sentence, chosen.blanks)
        if text is not None and hashed(sentence.id, "part") % of == number:
            texts[sentence.id] = text
    left = [name for name in texts if name not in done]
    ways = FEW if chosen.few else WAYS
    if chosen.only:
        ways = {chosen.only: ways[chosen.only]}
    for start in range(0, len(left), chosen.chunk):
        some = {name: texts[name] for name in left[start : start + chosen.chunk]}
        extend(path, filled(lm, head, some, ways, chosen.orders, chosen.draws, seeds))


# --- what they lose ----------------------------------------------------------------------------


class Fills:
    """The fills of one corpus: sentences x ways, and the means of resamples of sentences."""

    def __init__(self, rows: Sequence[Row], ways: Mapping[str, Sequence[float]] = WAYS) -> None:
        self.ways = names_of(ways)
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
    places = [fills.ways.index(way) for way in ways if way in fills.ways]
    order = np.argsort(passes[places], kind="stable")
    return float(np.interp(target, passes[places][order], lost[places][order]))


def chosen_table(dev: Mapping[str, Fills], test: Mapping[str, Fills]) -> Iterator[str]:
    heads = (f" {NAMES[c]}: {head} |" for c in test for head in ("threshold", "passes", "loss"))
    yield "| rule |" + "".join(heads)
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


def beside_head(fills: Fills, rule: str, place: int) -> str:
    """How much more a rule loses than a way of the head, at the passes that this way takes."""
    passes, lost = fills.mean()
    more = at_passes(fills, rule, passes, lost, float(passes[place])) - lost[place]
    # every resample at the passes that the head takes there
    draws = [
        at_passes(fills, rule, p, one, float(p[place])) - one[place]
        for p, one in zip(*fills.resampled(), strict=True)
    ]
    return f"{more:+.3f} {interval(np.array(draws))}"


def equal_table(dev: Mapping[str, Fills], test: Mapping[str, Fills]) -> Iterator[str]:
    """What every other rule loses more than the head at the passes of the head."""
    places = {
        corpus: fills.ways.index(chosen_on(dev[corpus], "head") or thresholds_of("head")[0])
        for corpus, fills in test.items()
    }
    yield "| rule |" + "".join(
        f" {NAMES[corpus]}, {test[corpus].mean()[0][place]:.2f} passes |"
        for corpus, place in places.items()
    )
    yield "|---|" + "---|" * len(test)
    for rule in (rule for rule in CURVES if rule != "head"):
        cells = [f" {beside_head(test[corpus], rule, place)} |" for corpus, place in places.items()]
        yield f"| {rule} |" + "".join(cells)


def blanks_table(
    test: Mapping[str, Fills],
    sizes: Sequence[tuple[int, int]] = ((4, 4), (5, 7), (9, 11), (12, 12)),
) -> Iterator[str]:
    """Two bounds of the head and one on what is measured, by how many blanks there are."""
    ways = (HEAD, "head 0.2", "mutual-information 0.1")
    yield "| corpus | blanks | n | one at a time |" + "".join(f" {w} | {w}: loss |" for w in ways)
    yield "|---|---|---|---|" + "---|---|" * len(ways)
    kinds = itertools.product(test, (False, True), sizes)
    for corpus, run, (low, high) in kinds:
        part = test[corpus].part(low, high, run=run)
        passes, _ = part.mean()
        size = f"{low} to {high}" if low < high else f"{low}"
        kind = f"{size}, {'in a run' if run else 'scattered'}"
        cells = "".join(f" {passes[part.ways.index(w)]:.2f} | {loss(part, w)} |" for w in ways)
        yield f"| {NAMES[corpus]} | {kind} | {part.count} | {passes[0]:.2f} |" + cells


def loss(fills: Fills, way: str) -> str:
    place = fills.ways.index(way)
    return f"{fills.mean()[1][place]:+.3f} {interval(fills.resampled()[1][:, place])}"


def models_table(others: Mapping[tuple[str, str], Fills]) -> Iterator[str]:
    """The head with the bound chosen with tiny-english, and every other rule at its passes."""
    rules = [rule for rule in FEW if rule not in ("surest", "all-at-once", "head")]
    beside = "".join(f" {rule} |" for rule in rules) + f" {LOOSE}: passes | {LOOSE}: loss |"
    yield "| run | corpus | n | one at a time | head | loss |" + beside
    yield "|---|---|---|---|---|---|---|---|" + "---|" * len(rules)
    for (run, corpus), fills in others.items():
        place, (passes, _) = fills.ways.index(HEAD), fills.mean()
        more = "".join(f" {beside_head(fills, rule, place)} |" for rule in rules)
        more += f" {passes[fills.ways.index(LOOSE)]:.2f} | {loss(fills, LOOSE)} |"
        yield (
            f"| {run} | {shown(corpus)} | {fills.count} | {passes[0]:.2f} |"
            f" {passes[place]:.2f} | {loss(fills, HEAD)} |{more}"
        )


def shown(corpus: str) -> str:
    return (NAMES | OTHERS).get(corpus, corpus)


def draws_table(
    draws: Mapping[str, Fills], ways: Sequence[str] = tuple(names_of(FEW)[1:])
) -> Iterator[str]:
    """What drawn fills lose per blank: in log-probability and in entropy, and both together."""
    heads = ["passes", "KL more", "log-probability lost", "entropy more"]
    yield "| way |" + "".join(f" {shown(c)}: {head} |" for c in draws for head in heads)
    yield "|---|" + "---|" * len(heads) * len(draws)
    for way in ways:
        cells = ""
        for fills in draws.values():
            place = fills.ways.index(way)
            passes, less = fills.mean()
            log_q = np.array([row["log_q"] for row in fills.rows])
            more = (log_q[:, :1] - log_q)[:, place].sum() / fills.blanks.sum()
            # the same as the loss of a log-probability that the entropy is taken off
            both = Fills(
                [
                    {**row, "log_probs": np.array(row["log_probs"]) - row["log_q"]}
                    for row in fills.rows
                ],
                FEW,
            )
            cells += f" {passes[place]:.2f} | {loss(both, way)} |"
            cells += f" {less[place]:+.3f} | {more:+.3f} |"
        yield f"| {way} |" + cells


def curve_table(test: Mapping[str, Fills]) -> Iterator[str]:
    heads = (f" {NAMES[c]}: {head} |" for c in test for head in ("passes", "loss"))
    yield "| rule | threshold |" + "".join(heads)
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
    with library("matplotlib").rc_context(STYLE):
        save_figure(curves(test), place)


def curves(test: Mapping[str, Fills]) -> Any:
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
        panel.axhline(0, color=INK, linewidth=0.8)
        panel.set(
            title=f"{NAMES[corpus]}, one at a time {passes[0]:.1f} passes",
            xlabel="passes per sentence",
            ylim=(-0.03, 0.32),
        )
        panel.grid(color=INK, alpha=0.3, linewidth=0.5)
    panels[0].set_ylabel("nats lost per blank")
    panels[-1].legend(fontsize=7)
    return figure


def renew(place: Path, rows: Sequence[Row]) -> None:
    """Put rows into a published file, in place of those of the same runs and corpora."""
    new = {(row.get("run"), row["corpus"]) for row in rows}
    kept = [row for row in measured(place) if (row.get("run"), row["corpus"]) not in new]
    place.write_text("".join(f"{json.dumps(row)}\n" for row in [*kept, *rows]), encoding="utf-8")


def rows_of(folder: Path) -> Iterator[Row]:
    """What is published: the fills of every sentence, its ways in the order of `WAYS`."""
    for corpus in (f"{name}{part}" for name in NAMES for part in ("-dev", "")):
        if (path := folder / f"{corpus}.jsonl").exists():
            yield from published(path, {"corpus": corpus}, WAYS)


def with_published(row: Row, about: Row, ways: Mapping[str, Sequence[float]]) -> Row:
    """A row with all its ways: those that were not filled now, as they were published."""
    if set(names_of(ways)) <= set(row["ways"]):
        return row
    (before,) = (
        each
        for each in measured(PAGE.with_suffix(".jsonl"))
        if (each["corpus"], each["id"]) == (about["corpus"], row["id"])
    )
    published_ways = zip(names_of(ways), before["log_probs"], before["steps"], strict=False)
    old = {way: [log_prob, steps, 0.0] for way, log_prob, steps in published_ways}
    return {**row, "ways": old | row["ways"]}


def rows_of_few(folder: Path) -> Iterator[Row]:
    """The same of other models and of draws, its ways in the order of `FEW`."""
    for path in sorted(folder.glob("*/*.jsonl")):
        yield from published(path, {"run": path.parent.name, "corpus": path.stem}, FEW)


def published(path: Path, about: Row, ways: Mapping[str, Sequence[float]]) -> Iterator[Row]:
    for row in (with_published(row, about, ways) for row in measured(path)):
        log_probs, steps, log_q = zip(*(row["ways"][way] for way in names_of(ways)), strict=True)
        more = {"log_q": [round(one, 3) for one in log_q]} if about.get("run") == DRAWS else {}
        known = {**about, "id": row["id"], "blanks": row["blanks"]}
        yield {**known, "log_probs": [round(one, 3) for one in log_probs], "steps": steps, **more}


Few = dict[tuple[str, str], Fills]


def blocks(dev: Mapping[str, Fills], test: Mapping[str, Fills]) -> dict[str, list[str]]:
    counts = [f"{NAMES[c]} {dev[c].count} dev and {test[c].count} test" for c in test]
    return {
        "sentences": [f"Sentences: {', '.join(counts)}."],
        "equal passes": list(equal_table(dev, test)),
    }


def of_models(few: Few) -> Few:
    """Fills of other models and kinds of text, without drawn ones."""
    return {key: one for key, one in few.items() if key[0] != DRAWS}


def whole_tables(
    dev: Mapping[str, Fills], test: Mapping[str, Fills], few: Few
) -> dict[str, Iterator[str]]:
    """The CSV files beside the page, by the ends of their names."""
    drawn = {corpus: one for (run, corpus), one in few.items() if run == DRAWS}
    return {
        "chosen": chosen_table(dev, test),
        "models": models_table(of_models(few)),
        "every-threshold": curve_table(test),
        "by-blanks": blanks_table(test),
        "draws": draws_table(drawn),
    }


def read(path: Path) -> tuple[dict[str, Fills], dict[str, Fills]]:
    """Dev and test fills by corpus."""
    rows = measured(path)
    dev, test = (
        {name: Fills([row for row in rows if row["corpus"] == name + part]) for name in NAMES}
        for part in ("-dev", "")
    )
    return dev, test


def read_few(path: Path) -> Few:
    """Fills by run and corpus."""
    rows: dict[tuple[str, str], list[Row]] = {}
    for row in measured(path):
        rows.setdefault((row["run"], row["corpus"]), []).append(row)
    return {key: Fills(some, FEW) for key, some in rows.items()}


def page(folder: Path | None) -> None:
    path, few = PAGE.with_suffix(".jsonl"), PAGE.with_name("parallel-filling-few.jsonl")
    if folder is not None:
        for place, rows in ((path, rows_of(folder)), (few, rows_of_few(folder))):
            renew(place, list(rows))
    dev, test = read(path)
    others = read_few(few)
    write_blocks(PAGE, blocks(dev, test), whole_tables(dev, test, others))
    draw(test, PAGE.with_suffix(".svg"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["fill", "antibodies", "page"])
    parser.add_argument("--assets")
    parser.add_argument("--model")
    parser.add_argument("--head")
    parser.add_argument("--corpus")
    parser.add_argument("--part", default="0/1", help="the n-th of so many parts of the corpus")
    parser.add_argument("--few", action="store_true", help="the ways of FEW")
    parser.add_argument("--only", choices=WAYS, help="the ways of one rule")
    parser.add_argument("--whole", action="store_true", help="sentences of masks alone")
    parser.add_argument("--draws", type=int, default=0, help="draw tokens, so many times")
    parser.add_argument("--blanks", type=int, nargs=2, default=(FEWEST, MOST))
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--chunk", type=int, default=CHUNK)
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--rows", help="a file, or of page the folder of all; default: published")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.what == "fill":
        lm, head = unmask.load(chosen.model), None
        if chosen.head is not None:
            head = DependenceHead.load(chosen.head)
            head.check(lm.model, lm.name)
        fill(lm, head, chosen)
    elif chosen.what == "antibodies":
        lines = antibodies(Path(chosen.assets), chosen.corpus, chosen.limit)
        Path(chosen.rows).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    else:
        page(None if chosen.rows is None else Path(chosen.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
