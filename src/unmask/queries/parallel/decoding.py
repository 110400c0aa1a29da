"""Texts with many blanks, filled step by step as a rule decides: one forward pass per step.

Texts advance together, those of one length in the same batches; what is filled in one of them does
not depend on the others, but for rounding. A token is the likeliest of its blank, or drawn: by one
uniform number per blank, from the seed, the text and the blank alone, so that rules which agree
draw the same tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import ModelError
from unmask.model.inside import Inside
from unmask.model.row_reader import Outcomes, RowReader, Rows
from unmask.queries.dependence.dependence_map import Place
from unmask.queries.dependence.information import by_information
from unmask.queries.dependence.question import MapOptions, MapQuestion
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


@dataclass(frozen=True)
class FilledText:
    """Places on the support by blank, the blanks of each step, and what it took.

    `log_prob` is the sum of the log-probabilities that the tokens had when they were filled in.
    """

    tokens: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    log_prob: float
    forward_passes: int


# the mutual information of blanks, in bits, from what a pass computes inside
Predict = Callable[[Inside, Float[Tensor, "blanks size"], Sequence[int]], Tensor]


@dataclass(frozen=True, eq=False)
class Decoding:
    """How texts are filled: a rule with its threshold, what its blanks hold, whether tokens are
    drawn, and from which seed.

    `predict` is the dependence head's, for the rule `head`.
    """

    rule: str
    threshold: float
    support: Support
    draw: bool = False
    seed: int = 0
    predict: Predict | None = None
    reads_attention: bool = True

    @property
    def looks_inside(self) -> bool:
        """Whether a step reads more than predictions."""
        return self.rule in ("attention", "head")


@dataclass(eq=False)
class _Filling:
    """A text on its way."""

    text: BlankedText
    ids: list[int]
    left: list[int]
    tokens: list[int]
    uniforms: list[float] | None
    draw: np.random.Generator
    before: Tensor | None = None
    steps: list[tuple[int, ...]] = field(default_factory=list)
    log_prob: float = 0.0
    forward_passes: int = 0

    @classmethod
    def of(cls, text: BlankedText, how: Decoding) -> "_Filling":
        key, count = crc32(np.array(text.ids, dtype=np.int64).tobytes()), len(text.positions)
        uniforms = None
        if how.draw:
            uniforms = np.random.default_rng([how.seed, key, 0]).random(count).tolist()
        draw = np.random.default_rng([how.seed, key, 1])
        return cls(text, list(text.ids), list(range(count)), [0] * count, uniforms, draw)

    def positions(self) -> list[int]:
        return [self.text.positions[blank] for blank in self.left]

    def take(self, chosen: Sequence[int], log_probs: Tensor, support: Sequence[int]) -> None:
        """Fill some of the blanks that are left, by their numbers among those."""
        for number in chosen:
            blank = self.left[number]
            token = self._token(blank, log_probs[number])
            self.tokens[blank] = token
            self.ids[self.text.positions[blank]] = int(support[token])
            self.log_prob += float(log_probs[number, token])
        taken = set(chosen)
        rest = [number for number in range(len(self.left)) if number not in taken]
        self.before = log_probs[rest]
        self.steps.append(tuple(self.left[number] for number in chosen))
        self.left = [self.left[number] for number in rest]

    def _token(self, blank: int, log_probs: Float[Tensor, " size"]) -> int:
        if self.uniforms is None:
            return int(log_probs.argmax())
        totals = log_probs.double().exp().cumsum(dim=0)
        place = torch.searchsorted(totals, self.uniforms[blank] * totals[-1], right=True)
        return min(int(place), len(totals) - 1)


def fill_blanked(
    reader: RowReader, texts: Sequence[BlankedText], how: Decoding
) -> list[FilledText]:
    """Every text filled, in the order given."""
    fillings = [_Filling.of(text, how) for text in texts]
    outcomes = Outcomes.of(reader.model, how.support)
    ids = how.support.ids.tolist()
    while active := [filling for filling in fillings if filling.left]:
        for some in _by_length(active):
            steps = _read(reader, some, outcomes, how)
            if how.rule == "mutual-information":
                _measure(reader, some, steps, how)
            for filling, step in zip(some, steps, strict=True):
                filling.forward_passes += 1
                filling.take(FUNCTIONS[how.rule](step, how.threshold), step.log_probs, ids)
    return [
        FilledText(tuple(f.tokens), tuple(f.steps), f.log_prob, f.forward_passes) for f in fillings
    ]


def _by_length(fillings: Sequence[_Filling]) -> list[list[_Filling]]:
    groups: dict[int, list[_Filling]] = {}
    for filling in fillings:
        groups.setdefault(len(filling.ids), []).append(filling)
    return list(groups.values())


def _read(
    reader: RowReader, some: Sequence[_Filling], outcomes: Outcomes, how: Decoding
) -> list[MaskedStep]:
    """One forward pass of each; rows with fewer blanks repeat their first one, unread."""
    ids = torch.tensor([filling.ids for filling in some])
    each = [filling.positions() for filling in some]
    most = max(map(len, each))
    positions = torch.tensor([one + one[:1] * (most - len(one)) for one in each])
    steps: list[MaskedStep] = []

    def step_of(filling: _Filling, readouts: Tensor) -> MaskedStep:
        log_probs = outcomes.log_probs(readouts[: len(filling.left)]).cpu()
        return MaskedStep(log_probs, before=filling.before, draw=filling.draw)

    def read(batch: slice, readouts: Tensor) -> None:
        steps.extend(map(step_of, some[batch], readouts))

    def read_inside(batch: slice, inside: Inside) -> None:
        for row, filling in enumerate(some[batch]):
            step, one = step_of(filling, inside.readouts[row]), _row(inside, row, len(filling.left))
            if how.rule == "attention":
                step.attention = mean_attention(one)
            elif how.predict is not None:
                step.dependence = how.predict(one, step.log_probs, filling.positions())
            steps.append(step)

    if how.looks_inside:
        reader.each_inside(ids, positions, read_inside, attention=how.reads_attention)
    else:
        reader.each_batch(Rows.of(ids), positions, read, batch_for=0)
    return steps


def _row(inside: Inside, row: int, count: int) -> Inside:
    """What one row has inside at its first positions, as a batch of one."""
    weights, hidden = inside.attention, inside.hidden
    return Inside(
        inside.readouts[row : row + 1, :count],
        None if weights is None else weights[row : row + 1, :, :, :count, :count],
        None if hidden is None else hidden[row : row + 1, :, :count],
    )


def mean_attention(inside: Inside) -> Float[Tensor, "blanks blanks"]:
    """Of one row: the mean over the heads of the last layers, the larger of both directions."""
    if inside.attention is None:
        raise ModelError("this model shows no attention weights; take another rule")
    mean = inside.attention[0, -_ATTENDING:].mean(dim=(0, 1)).cpu()
    return torch.maximum(mean, mean.T)


def _measure(
    reader: RowReader, some: Sequence[_Filling], steps: Sequence[MaskedStep], how: Decoding
) -> None:
    """The mutual information of all blanks that are left, in forward passes of their own."""
    options = MapOptions("mutual-information", how.support, SAMPLES_PER_STEP)
    several = [number for number, filling in enumerate(some) if len(filling.left) > 1]
    questions = [
        MapQuestion(
            "",
            tuple(some[number].ids),
            tuple(Place("", (position,)) for position in some[number].positions()),
            is_whole=False,
        )
        for number in several
    ]
    for number, result in zip(several, by_information(reader, questions, options), strict=True):
        steps[number].dependence = result.values
        some[number].forward_passes += result.forward_passes
    for step in steps:
        if step.dependence is None:
            step.dependence = torch.zeros(1, 1, dtype=torch.float64)
