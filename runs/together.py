"""Fill several blanks in fewer steps, four ways: what is lost, and what it costs.

    python runs/together.py --model DIR --corpus FILE --limit 200 --output together.jsonl

Each sentence loses 4 to 8 tokens, by a hash of its id: in one run of neighbours, or scattered, half
of the sentences each. They are filled one at a time (the surest first), all at once, all at once
that are surer than a threshold (at least one per step), and in groups that share little mutual
information, which is measured once, by 4 samples per blank, the surest blank first. A fill is
judged by its log-probability under `orders`, the mean over all orders of filling up to 6 blanks,
over 16 of them beyond, and by how many blanks have the token of the sentence. Rows hold ids, never
text. runs/dependence_report.py makes the page. Started again on the same file, it does what is
missing.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rows import extend, hashed, hidden, in_hashed_order, read

import unmask
from unmask.model.row_reader import Outcomes, RowReader
from unmask.records.corpora import Sentence

THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
BOUNDS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FEWEST, MOST, SAMPLES = 4, 8, 4
QUIET = unmask.Settings(progress=False, announce=False)


class Filled(NamedTuple):
    """Token ids of the blanks, how many steps one after another, and forward passes in all."""

    tokens: tuple[int, ...]
    steps: int
    forward_passes: int


def by_threshold(lm: unmask.LanguageModel, cloze: unmask.Cloze, at_least: float) -> Filled:
    """Step by step, every blank whose likeliest token is so likely, and at least the surest."""
    reader, outcomes = RowReader(lm.model, QUIET), Outcomes.of(lm.model)
    ids, left = list(cloze.ids), list(cloze.positions)
    while left:
        best = outcomes.log_probs(reader.one(ids, left)).max(dim=1)
        sure = best.values.exp().tolist()
        taken = [n for n, p in enumerate(sure) if p >= at_least] or [sure.index(max(sure))]
        for n in taken:
            ids[left[n]] = int(best.indices[n])
        left = [position for n, position in enumerate(left) if n not in taken]
    steps = reader.forward_passes
    return Filled(tuple(ids[p] for p in cloze.positions), steps, steps)


def greedy_groups(values: torch.Tensor, order: Sequence[int], bits: float) -> list[tuple[int, ...]]:
    """Groups of blanks that share at most so much, each as large as it can be, in an order."""
    groups: list[tuple[int, ...]] = []
    for blank in order:
        fits = [all(float(values[blank, other]) <= bits for other in group) for group in groups]
        if any(fits):
            groups[fits.index(True)] += (blank,)
        else:
            groups.append((blank,))
    return groups


def by_groups(lm: unmask.LanguageModel, cloze: unmask.Cloze, bits: float) -> Filled:
    """Group after group, each blank with its likeliest token given the groups before."""
    reader, outcomes = RowReader(lm.model, QUIET), Outcomes.of(lm.model)
    log_probs = outcomes.log_probs(reader.one(cloze.ids, cloze.positions)).cpu()
    order = log_probs.amax(dim=1).argsort(descending=True, stable=True).tolist()
    measured = lm.dependence(cloze, samples=SAMPLES, settings=QUIET)
    groups = greedy_groups(measured.values, order, bits)
    ids = list(cloze.ids)
    for number, group in enumerate(groups):
        at = [cloze.positions[blank] for blank in group]
        if number:
            best = outcomes.log_probs(reader.one(ids, at)).argmax(dim=1)
        else:
            best = log_probs[list(group)].argmax(dim=1)
        for position, token in zip(at, best.tolist(), strict=True):
            ids[position] = token
    passes = reader.forward_passes + measured.forward_passes
    return Filled(tuple(ids[p] for p in cloze.positions), len(groups), passes)


WAYS: dict[str, Callable[[unmask.LanguageModel, unmask.Cloze], Filled]] = {
    "one at a time": partial(by_threshold, at_least=2.0),
    "all at once": partial(by_threshold, at_least=0.0),
    **{f"surer than {t}": partial(by_threshold, at_least=t) for t in THRESHOLDS},
    **{f"together, {b} bits": partial(by_groups, bits=b) for b in BOUNDS},
}


class Blanked(NamedTuple):
    """A sentence with blanks, what stood there, and how they lie."""

    cloze: unmask.Cloze
    true: tuple[int, ...]
    lie: str


def blanked(lm: unmask.LanguageModel, sentence: Sentence) -> Blanked | None:
    """None if it is too short."""
    ids = lm.tokenizer(sentence.text)["input_ids"]
    special = set(lm.tokenizer.all_special_ids)
    places = [place for place, token in enumerate(ids) if token not in special]
    if len(places) < MOST + 2:
        return None
    count = FEWEST + hashed(sentence.id, "count") % (MOST - FEWEST + 1)
    lie = ("run", "scattered")[hashed(sentence.id, "lie") % 2]
    chosen = hidden(places, sentence.id, count, run=lie == "run")
    masked = tuple(lm.tokenizer.mask_token_id if p in chosen else t for p, t in enumerate(ids))
    cloze = unmask.Cloze(sentence.text, masked, tuple(chosen))
    return Blanked(cloze, tuple(ids[p] for p in chosen), lie)


def rows(
    lm: unmask.LanguageModel, corpus: str, limit: int, names: Sequence[str], done: set[str]
) -> Iterator[Any]:
    taken = 0
    for sentence in in_hashed_order(corpus):
        found = blanked(lm, sentence)
        if found is None:
            continue
        if taken == limit:
            return
        taken += 1
        if sentence.id in done:
            continue
        cloze = found.cloze
        joint = lm.joint(cloze, method="orders", support="vocabulary", settings=QUIET)
        ways, scores = {}, dict[tuple[int, ...], float]()
        for name in names:
            filled = WAYS[name](lm, cloze)
            if filled.tokens not in scores:
                scores[filled.tokens] = joint.log_prob(*filled.tokens)
            right = sum(one == true for one, true in zip(filled.tokens, found.true, strict=True))
            ways[name] = [scores[filled.tokens], filled.steps, filled.forward_passes, right]
        yield {"id": sentence.id, "blanks": len(cloze.positions), "lie": found.lie, "ways": ways}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    done = {row["id"] for row in read(chosen.output)}
    lm = unmask.load(chosen.model)
    extend(chosen.output, rows(lm, chosen.corpus, chosen.limit, chosen.ways, done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
