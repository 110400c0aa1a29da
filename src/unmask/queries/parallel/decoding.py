"""Texts with many blanks, filled step by step as a rule decides: one forward pass per step.

Texts advance together, those of one length in the same batches, and equal rows run once; what is
filled in one of them does not depend on the others, but for rounding. A token is the likeliest of
its blank, or drawn: by one uniform number per blank, from the seed, the text and the blank alone,
so that rules which agree draw the same tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import ModelError
from unmask.logspace import row_blocks
from unmask.model.inside import Inside
from unmask.model.row_reader import Outcomes, RowReader, Rows
from unmask.queries.dependence.dependence_map import Place
from unmask.queries.dependence.information import by_information
from unmask.queries.dependence.question import MapOptions, MapQuestion
from unmask.queries.parallel.head import DependenceHead
from unmask.queries.parallel.rules import FUNCTIONS, MaskedStep
from unmask.text.support import Support

# tokens that are written into a blank to measure its mutual information with the others
SAMPLES_PER_STEP = 12
# layers, from the last, whose attention is averaged
_ATTENDING = 2


@dataclass(frozen=True)
class BlankedText:
    """Token ids, the positions of the blanks among them, which hold the mask."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]

    def question(self) -> MapQuestion:
        """The mutual information of its blanks, as a question."""
        places = tuple(Place("", (position,)) for position in self.positions)
        return MapQuestion("", self.ids, places, is_whole=False)


@dataclass(frozen=True)
class FilledText:
    """Places on the support by blank, the blanks of each step, and what it took.

    `log_prob` is the sum of the log-probabilities that the tokens had when they were filled in.
    """

    tokens: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    log_prob: float
    forward_passes: int


@dataclass(frozen=True, eq=False)
class Decoding:
    """How a text is filled: a rule with its threshold, what its blanks hold, whether tokens are
    drawn, from which seed, and for the rule `head` the dependence head.
    """

    rule: str
    threshold: float
    support: Support
    draw: bool = False
    seed: int = 0
    head: DependenceHead | None = None

    @property
    def reads_attention(self) -> bool:
        """Whether a pass has to show its attention weights."""
        return self.rule == "attention" or (self.head is not None and self.head.reads_attention)

    @property
    def looks_inside(self) -> bool:
        """Whether a step reads more than predictions."""
        return self.rule in ("attention", "head")


@dataclass(eq=False)
class _Filling:
    """A text on its way."""

    text: BlankedText
    how: Decoding
    key: int
    ids: list[int]
    left: list[int]
    tokens: list[int]
    uniforms: list[float] | None
    before: Tensor | None = None
    measured: Tensor | None = None
    steps: list[tuple[int, ...]] = field(default_factory=list)
    log_prob: float = 0.0
    forward_passes: int = 0

    @classmethod
    def of(cls, text: BlankedText, how: Decoding) -> "_Filling":
        key, count = crc32(np.array(text.ids, dtype=np.int64).tobytes()), len(text.positions)
        uniforms = None
        if how.draw:
            uniforms = np.random.default_rng([how.seed, key, 0]).random(count).tolist()
        return cls(text, how, key, list(text.ids), list(range(count)), [0] * count, uniforms)

    def positions(self) -> tuple[int, ...]:
        return tuple(self.text.positions[blank] for blank in self.left)

    def decide(self, step: MaskedStep) -> "_Decision":
        """What is filled now; changes nothing, so that a batch may be tried again."""
        step.before = self.before
        step.draw = np.random.default_rng([self.how.seed, self.key, 1, len(self.left)])
        chosen = FUNCTIONS[self.how.rule](step, self.how.threshold)
        tokens = [self._token(self.left[number], step.log_probs[number]) for number in chosen]
        rest = sorted(set(range(len(self.left))) - set(chosen))
        # predictions are kept only where they are read again
        before = step.log_probs[rest] if self.how.rule == "stability" else None
        return _Decision(self, chosen, tokens, float(step.log_probs[chosen, tokens].sum()), before)

    def _token(self, blank: int, log_probs: Float[Tensor, " size"]) -> int:
        if self.uniforms is None:
            return int(log_probs.argmax())
        totals = log_probs.double().exp().cumsum(dim=0)
        place = torch.searchsorted(totals, self.uniforms[blank] * totals[-1], right=True)
        return min(int(place), len(totals) - 1)


@dataclass(frozen=True, eq=False)
class _Decision:
    """Blanks that are filled in a step, by their numbers among those that are left."""

    filling: _Filling
    chosen: list[int]
    tokens: list[int]
    log_prob: float
    before: Tensor | None

    def carry_out(self) -> None:
        one = self.filling
        blanks = tuple(one.left[number] for number in self.chosen)
        for blank, token in zip(blanks, self.tokens, strict=True):
            one.tokens[blank] = token
            one.ids[one.text.positions[blank]] = int(one.how.support.ids[token])
        one.steps.append(blanks)
        one.left = [blank for blank in one.left if blank not in blanks]
        one.before, one.log_prob = self.before, one.log_prob + self.log_prob
        one.forward_passes += 1


def fill_blanked(
    reader: RowReader, texts: Sequence[BlankedText], hows: Sequence[Decoding]
) -> list[FilledText]:
    """Every text filled as its decoding says, in the order given; all have one support."""
    fillings = [_Filling.of(text, how) for text, how in zip(texts, hows, strict=True)]
    while active := [filling for filling in fillings if filling.left]:
        outcomes = Outcomes.of(reader.model, active[0].how.support)
        by_length: dict[int, list[_Filling]] = {}
        for filling in active:
            by_length.setdefault(len(filling.ids), []).append(filling)
        for some in by_length.values():
            _fill_step(reader, some, outcomes)
    return [
        FilledText(tuple(f.tokens), tuple(f.steps), f.log_prob, f.forward_passes) for f in fillings
    ]


def _fill_step(reader: RowReader, some: Sequence[_Filling], outcomes: Outcomes) -> None:
    """One step of texts of one length."""
    alike: dict[tuple[tuple[int, ...], tuple[int, ...]], list[_Filling]] = {}
    # rows with as many blanks are neighbours, so that few positions are read in vain
    for filling in sorted(some, key=lambda one: len(one.left)):
        alike.setdefault((tuple(filling.ids), filling.positions()), []).append(filling)
    ids, members = torch.tensor([row for row, _ in alike]), list(alike.values())
    most = max(len(positions) for _, positions in alike)
    # rows with fewer blanks repeat their first one
    at = torch.tensor([one + one[:1] * (most - len(one)) for _, one in alike])
    _measure(reader, members)

    def read(batch: slice, inside: Inside) -> None:
        decisions, here = list[_Decision](), members[batch]
        longest = max(len(row[0].left) for row in here)
        for block in row_blocks(len(here), longest * outcomes.size):
            part = inside.part(block, longest)
            steps = _steps(part, at[batch][block, :longest], here[block], outcomes)
            decisions += [filling.decide(step) for filling, step in steps]
        for decision in decisions:
            decision.carry_out()

    def read_alone(batch: slice, readouts: Tensor) -> None:
        read(batch, Inside(readouts, None, None))

    if any(filling.how.looks_inside for filling in some):
        attention = any(filling.how.reads_attention for filling in some)
        reader.each_inside(ids, at, read, attention=attention)
    else:
        reader.each_batch(Rows.of(ids), at, read_alone, batch_for=0)


def _steps(
    inside: Inside,
    positions: Int[Tensor, "rows blanks"],
    members: Sequence[Sequence[_Filling]],
    outcomes: Outcomes,
) -> Iterator[tuple[_Filling, MaskedStep]]:
    """What every text of some rows knows; all of them have one head."""
    log_probs = outcomes.log_probs(inside.readouts.flatten(0, 1)).cpu()
    log_probs = log_probs.view(*positions.shape, -1)
    hows = [filling.how for row in members for filling in row]
    head = next((how.head for how in hows if how.head is not None), None)
    inner = (
        None if head is None else head.predict(inside, log_probs, positions),
        mean_attention(inside) if any(how.rule == "attention" for how in hows) else None,
    )
    for number, row in enumerate(members):
        count = len(row[0].left)
        values = [None if one is None else one[number, :count, :count] for one in inner]
        for filling in row:
            dependence = values[0] if filling.measured is None else filling.measured
            step = MaskedStep(log_probs[number, :count], None, dependence, values[1])
            yield filling, step


def mean_attention(inside: Inside) -> Float[Tensor, "rows blanks blanks"]:
    """The mean over the heads of the last layers, the larger of both directions."""
    if inside.attention is None:
        raise ModelError("this model shows no attention weights; take another rule")
    mean = inside.attention[:, -_ATTENDING:].mean(dim=(1, 2)).cpu()
    return torch.maximum(mean, mean.mT)


def _measure(reader: RowReader, members: Sequence[Sequence[_Filling]]) -> None:
    """The mutual information of all blanks that are left, in forward passes of their own."""
    rows = [
        asking
        for row in members
        if (asking := [one for one in row if one.how.rule == "mutual-information"])
    ]
    for row in rows:
        for filling in row:
            filling.measured = torch.zeros(len(row[0].left), len(row[0].left), dtype=torch.float64)
    several = [row for row in rows if len(row[0].left) > 1]
    if not several:
        return
    options = MapOptions("mutual-information", several[0][0].how.support, SAMPLES_PER_STEP)
    questions = [BlankedText(tuple(row[0].ids), row[0].positions()).question() for row in several]
    for row, result in zip(several, by_information(reader, questions, options), strict=True):
        for filling in row:
            filling.measured = result.values
            filling.forward_passes += result.forward_passes
