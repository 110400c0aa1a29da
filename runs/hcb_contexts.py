"""Which contexts HCB's normaliser is made of: a row of JSON per pair of blanks, and a table.

    python runs/hcb_contexts.py measure --model DIR --corpus FILE --mask contiguous --limit 50 \
        --output docs/results/hcb-contexts.jsonl
    python runs/hcb_contexts.py page docs/results/hcb-contexts.jsonl --output FILE

HCB of two blanks is q(a | b) q(b | a') / q(a' | b) / Z with a pivot a', and Z is the sum over all b
of x(b) = q(b | a') / q(a' | b). The likeliest contexts b of the masked text are run whole, so that
HCB over that many tokens per blank is exact. Of the other contexts a sample is run: the sum is
estimated without bias, and its logarithm, and with it the NLL of HCB, is on average too low.
Vocabularies of at most --head tokens are run whole. Started again on the same file, it does only
what is missing.
"""

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import marked_page
import numpy as np
import torch
from one_line import in_one_line
from rows import Row, extend, read
from torch import Tensor

import unmask
from unmask.evaluation.masks import MASKS, MaskedPair, examples
from unmask.jobs.plan import sha256
from unmask.model.row_reader import Outcomes, RowReader
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.resampling import DEFAULT, Estimate, means

HEADS = (128, 512, 2_048, 4_096)
# of the sampled contexts, the part that is drawn uniformly; the others by sqrt(q(b | a'))
UNIFORM = 0.5
QUIET = unmask.Settings(progress=False, announce=False)


class Contexts(NamedTuple):
    """What some contexts b say: log q(a' | b), and log q of the K likeliest a for every K."""

    pivot: Tensor
    heads: Tensor


def measure(
    lm: unmask.LanguageModel, pair: MaskedPair, *, name: str, head: int, sample: int
) -> Row:
    """Both parts of Z, and the NLLs over the likeliest tokens and over the vocabulary."""
    began = time.perf_counter()
    reader = RowReader(lm.model, QUIET)
    a, b = pair.cloze.gold or ()
    masked = _read(lm, reader, pair, [pair.cloze.ids], [0, 1])
    log_m, size = [masked[0, 0], masked[0, 1]], masked.shape[-1]
    pivot = int(log_m[0].argmax())
    given_pivot = list(pair.cloze.ids)
    given_pivot[pair.cloze.positions[0]] = pivot
    log_b = _read(lm, reader, pair, [given_pivot], [1])[0, 0]

    order = [one.argsort(descending=True) for one in log_m]
    sizes = [count for count in HEADS if count < size]
    # the gold tokens and the pivot are in every head
    kept = [
        (torch.cat([order[0][:n], torch.tensor([a, pivot])]).unique(), _with(order[1][:n], b))
        for n in sizes
    ]
    first = _with(order[1] if size <= head else order[1][:head], b)
    rest = torch.ones(size, dtype=torch.bool)
    rest[first] = False
    drawn, log_p = _drawn(log_b, rest, sample, pair.id)
    seen = _contexts(lm, reader, pair, torch.cat([first, drawn]), pivot, [s for s, _ in kept])

    x = log_b[torch.cat([first, drawn])] - seen.pivot
    place = {int(token): number for number, token in enumerate(first.tolist())}
    own = _contexts(lm, reader, pair, torch.tensor([b]), a, [])
    gold = float(own.pivot[0] + log_b[b] - seen.pivot[place[b]])
    head_z = float(torch.logsumexp(x[: len(first)], 0))
    row: Row = {
        "id": pair.id,
        "mask": pair.mask,
        "model": name,
        "vocabulary": size,
        "length": len(pair.cloze),
        "sampled": len(drawn),
        "mlm": -float(log_m[0][a] + log_m[1][b]) / 2,
        "log_head": head_z,
        "over": {},
    }
    for column, (n, (allowed_a, allowed_b)) in enumerate(zip(sizes, kept, strict=True)):
        if n > len(first):
            continue
        at = torch.tensor([place[token] for token in allowed_b.tolist()])
        log_z = float(torch.logsumexp(x[at] + seen.heads[at, column], 0))
        inside = sum(
            float(torch.logsumexp(log[allowed], 0))
            for log, allowed in zip(log_m, (allowed_a, allowed_b), strict=True)
        )
        row["over"][str(n)] = {"hcb": (log_z - gold) / 2, "mlm": row["mlm"] + inside / 2}
    # of the contexts that were not run whole: the mean of x / p, and its standard error
    tail = (x[len(first) :] - log_p).exp() / max(1, len(drawn))
    total = float(tail.sum())
    row["tail"] = total / math.exp(head_z)
    row["tail_error"] = (
        float(tail.std() * math.sqrt(len(drawn))) / math.exp(head_z) if len(drawn) else 0.0
    )
    row["hcb"] = (head_z + math.log1p(row["tail"]) - gold) / 2
    row["forward_passes"], row["seconds"] = reader.forward_passes, time.perf_counter() - began
    return row


def _with(tokens: Tensor, one: int) -> Tensor:
    found: Tensor = torch.cat([tokens, torch.tensor([one])]).unique()
    return found


def _drawn(log_b: Tensor, rest: Tensor, sample: int, name: str) -> tuple[Tensor, Tensor]:
    """Contexts drawn with replacement of those that are not run whole, and log p of each."""
    tokens = torch.nonzero(rest)[:, 0]
    if not len(tokens):
        return tokens, torch.empty(0, dtype=torch.float64)
    root = (log_b[tokens] / 2).softmax(0)
    p = UNIFORM / len(tokens) + (1 - UNIFORM) * root
    generator = torch.Generator().manual_seed(int(sha256([name])[:15], 16))
    places = torch.multinomial(p, sample, replacement=True, generator=generator)
    return tokens[places], p[places].log()


def _read(
    lm: unmask.LanguageModel,
    reader: RowReader,
    pair: MaskedPair,
    rows: Sequence[Sequence[int]],
    blanks: Sequence[int],
) -> Tensor:
    """Log-probabilities of every token at some blanks of a few rows."""
    outcomes, kept = Outcomes.of(lm.model), []
    at = [pair.cloze.positions[blank] for blank in blanks]

    def use(_: slice, readouts: Tensor) -> None:
        kept.append(outcomes.log_probs(readouts.flatten(0, 1)).view(*readouts.shape[:2], -1).cpu())

    reader.each_batch(torch.tensor([list(row) for row in rows]), at, use)
    return torch.cat(kept)


def _contexts(
    lm: unmask.LanguageModel,
    reader: RowReader,
    pair: MaskedPair,
    tokens: Tensor,
    outcome: int,
    heads: Sequence[Tensor],
) -> Contexts:
    """What the first blank is given tokens in the second: of one outcome, and of the heads."""
    outcomes = Outcomes.of(lm.model)
    first, second = pair.cloze.positions
    single, whole = [], []

    rows = torch.tensor(pair.cloze.ids).repeat(len(tokens), 1)
    rows[:, second] = tokens

    def use(_: slice, readouts: Tensor) -> None:
        # some rows at a time: a distribution over a vocabulary is a quarter of a megabyte
        for some in readouts[:, 0].split(64):
            log_q = outcomes.log_probs(some).cpu()
            single.append(log_q[:, outcome])
            mass = [torch.logsumexp(log_q[:, head], 1) for head in heads]
            whole.append(torch.stack(mass, 1) if mass else log_q.new_empty(len(log_q), 0))

    reader.each_batch(rows, [first], use)
    return Contexts(torch.cat(single), torch.cat(whole))


# --- the page ----------------------------------------------------------------------------------


def tables(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Whole tables, for the CSV files."""
    masks = dict.fromkeys(row["mask"] for row in rows)
    return {
        f"hcb-contexts-{mask}": list(_table([r for r in rows if r["mask"] == mask]))
        for mask in masks
    }


def _table(some: Sequence[Row]) -> Iterator[str]:
    last = ["the vocabulary", "the vocabulary minus K = 4,096", "Z beyond what was run whole"]
    yield f"| model | pairs | {' | '.join([*(f'K = {n:,}' for n in HEADS), *last])} |"
    yield "|---" * (5 + len(HEADS)) + "|"
    for model, heads in dict.fromkeys((row["model"], tuple(row["over"])) for row in some):
        yield _line(model, [r for r in some if (r["model"], tuple(r["over"])) == (model, heads)])
    for model in sorted({row["model"] for row in some if row["sampled"]}):
        yield _line(f"all of {model}", [row for row in some if row["model"] == model])


def _line(model: str, rows: Sequence[Row]) -> str:
    (size,) = {row["vocabulary"] for row in rows}
    cells = []
    for n in HEADS:
        both = [row["over"].get(str(n)) for row in rows]
        known = [one["hcb"] - one["mlm"] for one in both if one]
        cells.append(_interval(_mean(known, rows)) if len(known) == len(rows) else "–")
    gaps = [row["hcb"] - row["mlm"] for row in rows]
    sampled = any(row["sampled"] for row in rows)
    cells.append(_interval(_mean(gaps, rows)) + (" sampled" if sampled else ""))
    largest = [row["over"].get(str(max(HEADS))) for row in rows]
    grown = [gap - (one["hcb"] - one["mlm"]) for gap, one in zip(gaps, largest, strict=True) if one]
    cells.append(_interval(_mean(grown, rows)) if len(grown) == len(rows) else "–")
    beyond = [row["tail"] / (1 + row["tail"]) for row in rows]
    cells.append(f"{np.median(beyond):.0%}" if sampled else "–")
    return f"| {model}, {size:,} tokens | {len(rows)} | {' | '.join(cells)} |"


def _mean(values: Sequence[float], rows: Sequence[Row]) -> Estimate:
    (found,) = means([values], [row["id"] for row in rows], DEFAULT)
    return found


def _interval(found: Estimate) -> str:
    said = f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    return f"**{said}**" if found.low > 0 or found.high < 0 else said


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="What HCB's normaliser is made of.")
    commands = parser.add_subparsers(dest="what", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--model", required=True)
    measuring.add_argument("--corpus", required=True)
    measuring.add_argument("--mask", choices=MASKS, default="contiguous")
    measuring.add_argument("--limit", type=int, default=50)
    measuring.add_argument("--head", type=int, default=max(HEADS), help="contexts run whole")
    measuring.add_argument("--sample", type=int, default=1_000, help="contexts drawn of the others")
    measuring.add_argument("--output", type=Path, required=True)
    paging = commands.add_parser("page")
    paging.add_argument("rows", type=Path)
    paging.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    if chosen.what == "page":
        marked_page.write_blocks(chosen.output, {}, tables(read(chosen.rows)))
        return
    lm, name = unmask.load(chosen.model), Path(chosen.model).name
    known = {(row["model"], row["id"]) for row in read(chosen.output)}
    sentences = read_corpus(CorpusSpec(chosen.corpus)).sentences
    drawn = examples(lm, sentences, mask=chosen.mask, limit=chosen.limit).pairs
    rows = (
        measure(lm, pair, name=name, head=chosen.head, sample=chosen.sample)
        for pair in drawn
        if (name, pair.id) not in known
    )
    extend(chosen.output, rows)


if __name__ == "__main__":
    raise SystemExit(main())
