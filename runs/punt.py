"""PUNT (2510.21961): blanks that are filled together because their predictions do not move.

Written from what the paper's summary says. In a step the blanks are ordered by the confidence of
one prediction. The surer half of them is written into the text; a blank of the other half whose
prediction moves by more than epsilon (Kullback-Leibler, nats) is dropped. Both halves are then
halved in the same way, all of them in one pass per level, until none has two blanks. What is left
is filled with its likeliest tokens. A step of M blanks takes one pass, and some log2 M more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unmask.model.row_reader import Outcomes, RowReader
from unmask.text.cloze import Cloze
from unmask.text.support import Support


@dataclass
class Punted:
    """A text that is filled step by step: places of its tokens on the support, by blank."""

    text: Cloze
    ids: list[int] = field(init=False)
    left: list[int] = field(init=False)
    tokens: list[int] = field(init=False)
    forward_passes: int = 0
    log_prob: float = 0.0

    def __post_init__(self) -> None:
        self.ids = list(self.text.ids)
        self.left = list(range(len(self.text.positions)))
        self.tokens = [0] * len(self.left)

    def written(self, blanks: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """The ids with tokens in some blanks."""
        ids = list(self.ids)
        for blank, token in zip(blanks, tokens, strict=True):
            ids[self.text.positions[blank]] = token
        return ids


def halved(groups: Sequence[Sequence[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """The surer half of every group, and the other."""
    middles = [-(-len(group) // 2) for group in groups]
    surer = [list(group[:middle]) for group, middle in zip(groups, middles, strict=True)]
    others = [list(group[middle:]) for group, middle in zip(groups, middles, strict=True)]
    return surer, others


def moved(before: Tensor, now: Tensor) -> float:
    """Kullback-Leibler divergence of a prediction from the one before, in nats."""
    return float(torch.where(before.isfinite(), before.exp() * (before - now), 0.0).sum())


def fill(
    reader: RowReader, texts: Mapping[str, Cloze], support: Support, epsilon: float
) -> dict[str, Punted]:
    """Every text, filled; all of them advance in the same batches."""
    states = {name: Punted(text) for name, text in texts.items()}
    while unfinished := [state for state in states.values() if state.left]:
        _step(reader, unfinished, support, epsilon)
    return states


def _step(reader: RowReader, states: Sequence[Punted], support: Support, epsilon: float) -> None:
    ids = support.ids.tolist()
    base = _predicted(reader, states, [state.ids for state in states], support)
    likeliest = [
        {blank: int(log_probs.argmax()) for blank, log_probs in predicted.items()}
        for predicted in base
    ]
    groups = [
        [sorted(state.left, key=lambda blank: -float(predicted[blank].max()))]
        for state, predicted in zip(states, base, strict=True)
    ]
    while probed := [n for n, each in enumerate(groups) if any(len(group) > 1 for group in each)]:
        halves = {n: halved(groups[n]) for n in probed}
        rows = []
        for n, (surer, _) in halves.items():
            blanks = [blank for group in surer for blank in group]
            rows.append(states[n].written(blanks, [ids[likeliest[n][blank]] for blank in blanks]))
        now = _predicted(reader, [states[n] for n in probed], rows, support)
        for n, predicted in zip(probed, now, strict=True):
            surer, others = halves[n]
            still = [
                [blank for blank in group if moved(base[n][blank], predicted[blank]) <= epsilon]
                for group in others
            ]
            groups[n] = [group for group in (*surer, *still) if group]
    for state, each, predicted, tokens in zip(states, groups, base, likeliest, strict=True):
        blanks = [blank for group in each for blank in group]
        state.ids = state.written(blanks, [ids[tokens[blank]] for blank in blanks])
        for blank in blanks:
            state.tokens[blank] = tokens[blank]
            state.log_prob += float(predicted[blank][tokens[blank]])
        state.left = [blank for blank in state.left if blank not in blanks]


def _predicted(
    reader: RowReader, states: Sequence[Punted], rows: Sequence[list[int]], support: Support
) -> list[dict[int, Tensor]]:
    """Log-probabilities by open blank, one pass per text; of a written blank they say nothing."""
    predicted: list[dict[int, Tensor]] = [{} for _ in states]
    outcomes = Outcomes.of(reader.model, support)
    by_length: dict[int, list[int]] = {}
    for n, row in enumerate(rows):
        by_length.setdefault(len(row), []).append(n)
        states[n].forward_passes += 1
    for numbers in by_length.values():
        width = max(len(states[n].left) for n in numbers)
        positions = torch.zeros((len(numbers), width), dtype=torch.long)
        wanted = torch.zeros((len(numbers), width), dtype=torch.bool)
        for at, n in enumerate(numbers):
            left = states[n].left
            positions[at, : len(left)] = torch.tensor([states[n].text.positions[b] for b in left])
            wanted[at, : len(left)] = True

        def keep(
            some: Tensor, column: int, log_probs: Tensor, numbers: list[int] = numbers
        ) -> None:
            for at, values in zip(some.tolist(), log_probs, strict=True):
                state = states[numbers[at]]
                predicted[numbers[at]][state.left[column]] = values.cpu()

        reader.distributions(
            torch.tensor([rows[n] for n in numbers]),
            positions,
            wanted,
            [outcomes] * width,
            keep,
        )
    return predicted
