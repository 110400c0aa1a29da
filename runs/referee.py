"""Rules of parallel decoding on joints that are known exactly, with a perfect denoiser.

    python runs/referee.py measure --output FILE      # rows, by joint, rule and threshold
    python runs/referee.py page --rows FILE           # docs/results/parallel-filling.md

A rule chooses blanks by what was filled before, so a text x has one path of steps, and the
probability that the rule samples x is the product of the conditionals along it: exact, for every x.
With p the joint and q what the rule samples, KL(p || q) is the mean of log p/q, total variation is
1 - E min(1, q/p), and the share of possible texts is E q/p, all under p: over all texts of small
joints, over texts drawn from the joint (`GRIDS`) where there are many steps. Rules with chance
average q over `SCHEDULES` draws, which all texts share. Passes are the mean number of steps under
p. The perfect denoiser's mutual information between blanks is exact too. Latin squares and Sudoku
are also learnt by a tiny masked LM each, so that the model's error and the rule's are seen apart;
its mutual information is its own. Started again on the same file, it does what is missing.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from compared_rules import chosen as chosen_by
from marked_page import write_blocks
from numpy.typing import NDArray
from rows import Row, extend, read
from torch import Tensor

from unmask.queries.decode.rules import Step

PAGE = Path("docs/results/parallel-filling.md")
ROWS, TABLES = PAGE.with_name("referee.jsonl"), "referee"
GRIDS, SCHEDULES, RESAMPLES = 24, 16, 1000
THRESHOLDS: dict[str, tuple[float, ...]] = {
    "surest": (0,),
    "left-to-right": (0,),
    "margin": (0,),
    "all-at-once": (0,),
    "top-k": (2, 3, 4),
    "confidence": (0.3, 0.5, 0.7, 0.9),
    "factor": (0.6, 1, 1.5, 2, 3),
    "entropy-bound": (0.2, 0.5, 1, 2, 4),
    "stability": (0.3, 0.5, 0.7),
    "mutual-information": (0.001, 0.03, 0.1, 0.3, 1),
    "random-sizes": (0.2, 0.35, 0.5),
}
# of the trained model, which shows attention as well
ATTENTION = (0.02, 0.05, 0.1, 0.2)
# of names of joints that a model has learnt
TRAINED = ", trained model"
ONE_BY_ONE = ("surest", "left-to-right", "margin")


# --- joints ------------------------------------------------------------------------------------


@dataclass(eq=False)
class Exact:
    """The texts of a joint with their probabilities, and which of them are judged."""

    name: str
    texts: NDArray[np.int64]
    p: NDArray[np.float64]
    size: int
    judged: NDArray[np.int64] | None = None
    known: dict[tuple[int, ...], tuple[Tensor, Tensor]] = field(default_factory=dict)

    def denoise(self, partial: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the blanks (-1) given the rest, and their mutual information."""
        if partial not in self.known:
            given = np.array(partial)
            fits = (self.texts == given)[:, given >= 0].all(axis=1)
            blanks = np.flatnonzero(given < 0)
            texts, p = self.texts[fits][:, blanks], self.p[fits] / self.p[fits].sum()
            hot = np.eye(self.size)[texts]
            single = np.einsum("t,tba->ba", p, hot)
            pairs = np.einsum("t,tia,tjb->ijab", p, hot, hot, optimize=True)
            product = np.einsum("ia,jb->ijab", single, single)
            ratio = np.where(pairs > 0, pairs / np.where(product > 0, product, 1), 1)
            bits = (pairs * np.log2(ratio)).sum(axis=(2, 3)).clip(min=0)
            with np.errstate(divide="ignore"):
                self.known[partial] = torch.from_numpy(np.log(single)), torch.from_numpy(bits)
        return self.known[partial]


def products(size: int, length: int) -> NDArray[np.int64]:
    return np.array(list(itertools.product(range(size), repeat=length)))


def chain(seed: int, size: int = 3, length: int = 5) -> Exact:
    rng = np.random.default_rng([seed, 1])
    start, moves = rng.dirichlet([1] * size), rng.dirichlet([0.5] * size, size)
    texts = products(size, length)
    p = start[texts[:, 0]] * moves[texts[:, :-1], texts[:, 1:]].prod(axis=1)
    return Exact(f"Markov chain {seed}", texts, p, size)


def hidden_chain(seed: int, size: int = 3, length: int = 5, states: int = 2) -> Exact:
    rng = np.random.default_rng([seed, 2])
    moves = rng.dirichlet([0.3] * states, states) * 0.3 + 0.7 * np.eye(states)
    emits = rng.dirichlet([0.4] * size, states)
    texts = products(size, length)
    forward = np.full((len(texts), states), 1 / states) * emits[:, texts[:, 0]].T
    for place in range(1, length):
        forward = forward @ moves * emits[:, texts[:, place]].T
    return Exact(f"hidden Markov model {seed}", texts, forward.sum(axis=1), size)


def coupled(dial: float, size: int = 3, pairs: int = 2) -> Exact:
    """Pairs that hold the same token with probability `dial`, and are independent otherwise."""
    texts = products(size, 2 * pairs)
    same = texts[:, ::2] == texts[:, 1::2]
    each = (1 - dial) / size**2 + dial * same / size
    p = each.prod(axis=1)
    return Exact(f"pairs, dial {dial}", texts[p > 0], p[p > 0], size)


def squares(boxes: bool) -> Exact:
    rows = np.array(list(itertools.permutations(range(4))))
    grids = rows[products(len(rows), 4)]
    corners = grids.reshape(-1, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4).reshape(-1, 4, 4)
    different = [grids.transpose(0, 2, 1), *([corners] if boxes else [])]
    fits = [(np.sort(lines, axis=2) == np.arange(4)).all(axis=(1, 2)) for lines in different]
    texts = grids[np.logical_and.reduce(fits)].reshape(-1, 16)
    name, count = ("4 x 4 Sudoku", 288) if boxes else ("4 x 4 Latin squares", 576)
    assert len(texts) == count
    rng = np.random.default_rng([7, boxes])
    judged = rng.choice(count, GRIDS, replace=False)
    return Exact(name, texts, np.full(count, 1 / count), 4, judged)


def joints() -> Iterator[Exact]:
    yield from (coupled(dial) for dial in (0.0, 0.5, 0.9, 1.0))
    yield from (chain(0), hidden_chain(0))
    yield from (squares(boxes) for boxes in (False, True))
    yield from (chain(1), hidden_chain(1))


def family(name: str) -> str:
    """Joints whose rows are averaged."""
    return name.split(",")[0].rstrip(" 0123456789") or name


# --- what a rule samples -----------------------------------------------------------------------


@dataclass(eq=False)
class Judged:
    """Of some texts: log q, the number of steps, and the pairwise information within steps."""

    log_q: NDArray[np.float64]
    steps: NDArray[np.float64]
    shared: NDArray[np.float64]


def judge(exact: Exact, rule: str, threshold: float) -> Judged:
    """Along the path of every text."""
    texts = exact.texts if exact.judged is None else exact.texts[exact.judged]
    if rule != "random-sizes":
        memory: dict[Any, tuple[list[int], float]] = {}
        return Judged(*np.array([path(exact, x, rule, threshold, None, memory) for x in texts]).T)
    runs = np.zeros((SCHEDULES, len(texts), 3))
    for seed in range(SCHEDULES):
        fixed = schedule(exact.texts.shape[1], threshold, seed)
        runs[seed] = [path(exact, x, rule, threshold, fixed, {}) for x in texts]
    log_q = np.logaddexp.reduce(runs[:, :, 0], axis=0) - math.log(SCHEDULES)
    return Judged(log_q, *runs[:, :, 1:].mean(axis=0).T)


def schedule(length: int, threshold: float, seed: int) -> list[list[int]]:
    """Steps of the rule with chance, which looks at nothing: numbers among the blanks left."""
    draw, steps = np.random.default_rng(seed), list[list[int]]()
    while length:
        step = Step(torch.zeros(length, 1), None, draw)
        steps.append(chosen_by("random-sizes", threshold, step))
        length -= len(steps[-1])
    return steps


def path(
    exact: Exact,
    text: NDArray[np.int64],
    rule: str,
    threshold: float,
    fixed: list[list[int]] | None,
    memory: dict[Any, tuple[list[int], float]],
) -> tuple[float, int, float]:
    partial, steps, log_q, shared = (-1,) * len(text), 0, 0.0, 0.0
    before: tuple[int, ...] = ()
    earlier: Tensor | None = None
    while -1 in partial:
        blanks = [place for place, token in enumerate(partial) if token < 0]
        log_probs, bits = exact.denoise(partial)
        key = (partial, before if rule == "stability" else None)
        if key not in memory:
            step = Step(log_probs, earlier, np.random.default_rng(0), dependence=bits)
            chosen = chosen_by(rule, threshold, step) if fixed is None else fixed[steps]
            memory[key] = chosen, float(bits[chosen][:, chosen].triu(1).sum()) * math.log(2)
        chosen, within = memory[key]
        log_q += sum(float(log_probs[n, text[blanks[n]]]) for n in chosen)
        filled = {blanks[n]: int(text[blanks[n]]) for n in chosen}
        before, steps, shared = partial, steps + 1, shared + within
        partial = tuple(filled.get(place, token) for place, token in enumerate(partial))
        earlier = log_probs[[n for n in range(len(blanks)) if n not in set(chosen)]]
    return log_q, steps, shared


def summary(exact: Exact, judged: Judged) -> dict[str, Any]:
    """KL, total variation, share of possible texts and passes; intervals where texts are drawn."""
    chosen = slice(None) if exact.judged is None else exact.judged
    log_p = np.log(exact.p[chosen], where=exact.p[chosen] > 0, out=np.full(len(judged.steps), 0.0))
    weight = exact.p[chosen] / exact.p[chosen].sum()
    gap = np.where(weight > 0, log_p - judged.log_q, 0.0)
    ratio = np.where(weight > 0, np.exp(-gap), 0.0)
    numbers = np.stack([gap, 1 - np.minimum(1, ratio), ratio, judged.steps, judged.shared])
    means = numbers @ weight
    names = ("kl", "tv", "valid", "passes", "shared")
    row = dict(zip(names, means.tolist(), strict=True))
    if exact.judged is not None:
        picks = np.random.default_rng(0).integers(len(gap), size=(RESAMPLES, len(gap)))
        ends = np.quantile(numbers[:, picks].mean(axis=2), [0.025, 0.975], axis=1).T
        row |= {f"{n}_interval": e for n, e in zip(names, ends.tolist(), strict=True)}
    return row


# --- a tiny model ------------------------------------------------------------------------------


def train(exact: Exact, steps: int = 1500) -> Any:
    """A masked LM of the texts: a share of the tokens uniform in (0, 1] is masked."""
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    length = exact.texts.shape[1]
    config = BertConfig(
        vocab_size=exact.size + 1,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    # fused attention shows no weights
    config._attn_implementation = "eager"
    model = BertForMaskedLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    texts, draw = torch.from_numpy(exact.texts), torch.Generator().manual_seed(1)
    for _ in range(steps):
        batch = texts[torch.randint(len(texts), (64,), generator=draw)]
        share = torch.rand(64, 1, generator=draw)
        masked = torch.rand(batch.shape, generator=draw) < share
        masked[:, 0] |= ~masked.any(dim=1)
        logits = model(batch.masked_fill(masked, exact.size)).logits[..., : exact.size]
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch, reduction="none")
        # every order of unmasking counts alike
        loss = (losses * masked / share.clamp(min=1 / length)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.inference_mode()
def own_bits(model: Any, exact: Exact, ids: Tensor) -> list[Tensor]:
    """The model's own mutual information between the blanks of each row, from every fill."""
    size, rows, tables = exact.size, [], []
    blanks = [(row == size).nonzero()[:, 0] for row in ids]
    for row, places in zip(ids, blanks, strict=True):
        for place in places:
            filled = row.repeat(size, 1)
            filled[:, place] = torch.arange(size)
            rows.append(filled)
    alone = model(ids).logits[..., :size].double().softmax(dim=-1)
    given = iter(
        torch.cat([model(some).logits for some in torch.cat(rows).split(1024)])[..., :size]
        .double()
        .softmax(dim=-1)
        .split(size)
    )
    for number, places in enumerate(blanks):
        bits = torch.zeros(len(places), len(places), dtype=torch.float64)
        for one, place in enumerate(places):
            weight, moved = alone[number, place][:, None, None], next(given)[:, places]
            mean = (weight * moved).sum(dim=0)
            bits[one] = (weight * moved * (moved / mean).log2()).sum(dim=(0, 2))
        tables.append((bits + bits.T) / 2)
    return tables


@torch.inference_mode()
def judge_model(model: Any, exact: Exact, rule: str, threshold: float) -> Judged:
    """The same of the model's own conditionals, all texts one step at a time."""
    assert exact.judged is not None
    texts = torch.from_numpy(exact.texts[exact.judged])
    count = len(texts)
    schedules = SCHEDULES if rule == "random-sizes" else 1
    runs = np.zeros((schedules, 3, count))
    for seed in range(schedules):
        draws = [np.random.default_rng(seed) for _ in range(count)]
        ids = torch.full_like(texts, exact.size)
        earlier: list[Tensor | None] = [None] * count
        while bool((ids == exact.size).any()):
            output = model(ids, output_attentions=True)
            every = output.logits[..., : exact.size].double().log_softmax(dim=-1)
            mean = torch.stack(output.attentions[-2:]).mean(dim=(0, 2))
            measured = own_bits(model, exact, ids) if rule == "mutual-information" else None
            for row in range(count):
                blanks = (ids[row] == exact.size).nonzero()[:, 0]
                if not len(blanks):
                    continue
                log_probs = every[row, blanks]
                weights = mean[row][blanks][:, blanks]
                step = Step(
                    log_probs,
                    earlier[row],
                    draws[row],
                    dependence=None if measured is None else measured[row],
                )
                chosen = chosen_by(rule, threshold, step, torch.maximum(weights, weights.T))
                tokens = texts[row, blanks[chosen]]
                runs[seed, 0, row] += float(log_probs[chosen, tokens].sum())
                runs[seed, 1, row] += 1
                ids[row, blanks[chosen]] = tokens
                rest = [n for n in range(len(blanks)) if n not in set(chosen)]
                earlier[row] = log_probs[rest]
    log_q = np.logaddexp.reduce(runs[:, 0], axis=0) - math.log(schedules)
    return Judged(log_q, runs[:, 1].mean(axis=0), runs[:, 2].mean(axis=0))


# --- rows --------------------------------------------------------------------------------------


def rows(done: set[tuple[str, str, float]]) -> Iterator[dict[str, Any]]:
    for exact in joints():
        for rule, thresholds in THRESHOLDS.items():
            for threshold in thresholds:
                if (exact.name, rule, threshold) in done:
                    continue
                numbers = summary(exact, judge(exact, rule, threshold))
                about = {"joint": exact.name, "length": exact.texts.shape[1]}
                yield {**about, "rule": rule, "threshold": threshold, **numbers}
    for exact in (squares(boxes) for boxes in (False, True)):
        name = f"{exact.name}{TRAINED}"
        wanted = {**THRESHOLDS, "attention": ATTENTION}
        left = [(r, t) for r, each in wanted.items() for t in each if (name, r, t) not in done]
        model = train(exact) if left else None
        for rule, threshold in left:
            judged = judge_model(model, exact, rule, threshold)
            about = {"joint": name, "length": exact.texts.shape[1]}
            gaps = -math.log(len(exact.p)) - judged.log_q
            more = {"gaps": [round(gap, 4) for gap in gaps.tolist()]}
            numbers = summary(exact, judged)
            yield {**about, "rule": rule, "threshold": threshold, **numbers, **more}


# --- the page ----------------------------------------------------------------------------------


def at_half(curve: Sequence[tuple[float, Any]], passes: float) -> Any:
    """The KL of a rule at so many passes, between the two thresholds around it."""
    # at equal passes the threshold that loses less
    ordered = sorted(curve, key=lambda point: (point[0], float(np.mean(point[1]))))
    for (low, first), (high, second) in itertools.pairwise(ordered):
        if low <= passes <= high:
            share = 0.0 if high == low else (passes - low) / (high - low)
            return first + share * (second - first)
    return math.nan


def curve(found: Sequence[Row], name: str, rule: str, key: str = "kl") -> list[tuple[float, Any]]:
    """Passes of a rule on a joint, and what it loses there, from one at a time to all at once."""
    rules = (rule, "surest", "all-at-once")
    return [(r["passes"], r[key]) for r in found if r["joint"] == name and r["rule"] in rules]


def equal_table(found: Sequence[Row]) -> Iterator[str]:
    """KL at half the passes by rule and family of joints."""
    exact = [row for row in found if TRAINED not in row["joint"]]
    lengths = {row["joint"]: row["length"] for row in exact}
    families = list(dict.fromkeys(map(family, lengths)))
    yield "| rule | " + " | ".join(families) + " |"
    yield "|---|" + "---|" * len(families)
    for rule in (rule for rule in THRESHOLDS if rule not in (*ONE_BY_ONE, "all-at-once")):
        cells = []
        for one in families:
            names = [name for name in lengths if family(name) == one]
            each = [at_half(curve(exact, name, rule), lengths[name] / 2) for name in names]
            cells.append(f"{sum(each) / len(each):.4f}")
        yield f"| {rule} | " + " | ".join(cells) + " |"


def free_table(found: Sequence[Row]) -> Iterator[str]:
    """The fewest passes without error."""
    exact = [row for row in found if TRAINED not in row["joint"]]
    names = list(dict.fromkeys(row["joint"] for row in exact))
    yield "| rule | " + " | ".join(names) + " |"
    yield "|---|" + "---|" * len(names)
    for rule in dict.fromkeys(row["rule"] for row in exact):
        cells = []
        for name in names:
            free = [r for r in exact if (r["joint"], r["rule"]) == (name, rule) and r["kl"] < 1e-3]
            cells.append(f"{min(r['passes'] for r in free):.2f}" if free else "none")
        yield f"| {rule} | " + " | ".join(cells) + " |"


def trained_table(found: Sequence[Row]) -> Iterator[str]:
    """Of the grids: the error of every rule at half the passes, perfect and learnt."""
    names = list(dict.fromkeys(row["joint"] for row in found if TRAINED in row["joint"]))
    yield "| rule |" + "".join(
        f" {one}: perfect | {one}: trained | {one}: minus one at a time |"
        for one in (name.removesuffix(TRAINED) for name in names)
    )
    yield "|---|" + "---|---|---|" * len(names)
    picks = np.random.default_rng(0).integers(GRIDS, size=(RESAMPLES, GRIDS))
    rules = [rule for rule in (*THRESHOLDS, "attention") if rule not in ONE_BY_ONE[1:]]
    for rule in rules:
        cells = ""
        for name in names:
            rows = [row for row in found if row["joint"] == name]
            (surest,) = [np.array(row["gaps"]) for row in rows if row["rule"] == "surest"]
            ends = {r["rule"]: r["passes"] for r in rows if r["rule"] in ("surest", "all-at-once")}
            passes = ends.get(rule, rows[0]["length"] / 2)
            exact = curve(found, name.removesuffix(TRAINED), rule)
            perfect = f"{max(0.0, at_half(exact, passes)):.3f}" if rule != "attention" else ""
            # on the line between two thresholds, grid by grid
            points = [(p, np.array(gaps)) for p, gaps in curve(rows, name, rule, "gaps")]
            gaps = at_half(points, passes)
            more = (gaps - surest)[picks].mean(axis=1)
            low, high = np.quantile(more, [0.025, 0.975])
            extra = "" if rule == "surest" else f"{(gaps - surest).mean():+.3f}"
            extra += "" if rule == "surest" else f" [{low:+.3f}, {high:+.3f}]"
            cells += f" {perfect} | {gaps.mean():.3f} | {extra} |"
        yield f"| {rule} |" + cells


def all_rows(found: Sequence[Row]) -> Iterator[str]:
    """Every joint, rule and threshold."""
    yield "| joint | rule | threshold | passes | KL | total variation | possible texts |"
    yield "|---|---|---|---|---|---|---|"
    for row in found:
        cells = []
        for key in ("kl", "tv", "valid"):
            cell = f"{max(row[key], 0.0):.4f}"
            if bounds := row.get(f"{key}_interval"):
                cell += f" [{max(bounds[0], 0.0):.4f}, {max(bounds[1], 0.0):.4f}]"
            cells.append(cell)
        threshold = f"{row['threshold']:g}" if row["threshold"] else ""
        about = f"{row['joint'].replace(', trained', ' trained')} | {row['rule']} | {threshold}"
        yield f"| {about} | {row['passes']:.2f} | {' | '.join(cells)} |"


def facts(found: Sequence[Row]) -> Iterator[str]:
    """What the sentences of the page rest on."""
    exact = [row for row in found if TRAINED not in row["joint"]]
    fast = [r for r in exact if "4 x 4" in r["joint"] and r["passes"] <= 4.05]
    best = max(r["valid"] for r in fast if r["rule"] != "mutual-information")
    several = [row for row in exact if row["rule"] not in ONE_BY_ONE]
    shared, kl = (np.array([row[key] for row in several]) for key in ("shared", "kl"))
    ratio = np.median(kl[shared > 1e-6] / shared[shared > 1e-6])
    yield "| number | value |"
    yield "|---|---|"
    yield f"| possible grids, at most 4 passes, without mutual information, at most | {best:.0%} |"
    yield f"| settings with several blanks per step | {len(several)} |"
    yield f"| correlation of KL and pairwise information | {np.corrcoef(shared, kl)[0, 1]:.3f} |"
    yield f"| median of KL / pairwise information | {ratio:.2f} |"


def tables(found: Sequence[Row]) -> dict[str, list[str]]:
    """Whole tables, for the CSV files."""
    return {
        "facts": list(facts(found)),
        "half-the-passes": list(equal_table(found)),
        "trained": list(trained_table(found)),
        "every-threshold": list(all_rows(found)),
        "without-error": list(free_table(found)),
    }


def page(found: Sequence[Row]) -> None:
    """Renew the CSV files."""
    write_blocks(PAGE, {}, tables(found), TABLES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("measure").add_argument("--output", required=True)
    commands.add_parser("page").add_argument("--rows", default=ROWS)
    chosen = parser.parse_args()
    if chosen.command == "page":
        page(read(Path(chosen.rows)))
        return 0
    torch.set_num_threads(1)
    output = Path(chosen.output)
    extend(output, rows({(row["joint"], row["rule"], row["threshold"]) for row in read(output)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
