"""Texts with many blanks, filled step by step as a rule decides: one forward pass per step.

Texts advance together, those of one length in the same batches; what is filled in one of them does
not depend on the others, but for rounding. A token is the likeliest of
its blank, or drawn: by one uniform number per blank, from the seed, the text and the blank alone,
so that rules which agree draw the same tokens.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.arguments import whole_number
from unmask.errors import ClozeError, ModelError, SupportError
from unmask.joints.fill import Fill
from unmask.lazy import computed_once
from unmask.logspace import row_blocks
from unmask.model.inside import Inside
from unmask.model.row_reader import Outcomes, RowReader
from unmask.printable import quoted
from unmask.queries import fill_mask_output
from unmask.queries.decode.rules import (
    FUNCTIONS,
    Rule,
    Step,
    asks_for_attention,
    own_choice,
    rule_name,
)
from unmask.queries.dependence.information import by_information
from unmask.queries.dependence.question import MapOptions, question_of
from unmask.queries.joint_model import Axes, JointModel
from unmask.settings import Settings, Sketch
from unmask.tables.proposals import is_auto
from unmask.text.cloze import Cloze
from unmask.text.support import Support

# tokens that are written into a blank to measure its mutual information with the others
_SAMPLES_PER_STEP = 12
# of a step: the numbers of blanks, their tokens and log-probability, and predictions to be kept
Decision = tuple[list[int], list[int], float, Tensor | None]
# layers, from the last, whose attention is averaged
_ATTENDING = 2


class Predictor(Protocol):
    """A dependence head, as far as fills read it."""

    @property
    def reads_attention(self) -> bool:
        """True if a pass has to show its attention weights."""
        ...

    def predict(self, inside: Inside, log_probs: Tensor, positions: Tensor) -> Tensor:
        """The mutual information of every two blanks of each row, in bits."""
        ...


@dataclass(frozen=True, eq=False)
class Decoding:
    """A rule with its threshold, the tokens of blanks, and for the rule `head` the dependence head.

    A rule is the name of a built-in one, or a function of one step, which has no threshold.
    """

    rule: str | Rule
    threshold: float | None
    support: Support
    draw: bool = False
    seed: int = 0
    head: Predictor | None = None

    @computed_once
    def hands_attention(self) -> bool:
        """True if the rule is a function that asks for the attention between blanks."""
        return not isinstance(self.rule, str) and asks_for_attention(self.rule)

    @property
    def reads_attention(self) -> bool:
        """True if a pass has to show its attention weights."""
        return self.hands_attention or (self.head is not None and self.head.reads_attention)

    def choice(self, step: Step, attention: Tensor | None) -> list[int]:
        """The blanks that are filled in a step, by their numbers among those that are open."""
        # every rule fills the last blank, whatever it reads
        if len(step.log_probs) == 1:
            return [0]
        if isinstance(self.rule, str):
            return FUNCTIONS[self.rule](step, self.threshold)
        return own_choice(self.rule, step, attention if self.hands_attention else None)


class Filling:
    """A text that is filled step by step.

    `tokens` are places on the support by blank, `steps` the blanks of each step, and `log_prob` is
    the sum of the log-probabilities that the tokens had when they were filled in.
    """

    def __init__(self, text: Cloze, decoding: Decoding) -> None:
        self.text, self.decoding, count = text, decoding, len(text.positions)
        self.ids, self.left, self.tokens = list(text.ids), list(range(count)), [0] * count
        self.steps: list[tuple[int, ...]] = []
        self.log_prob, self.forward_passes = 0.0, 0
        # of the blanks that are left: as the step before predicted them, and what was measured
        self.before: Tensor | None = None
        self.measured: Tensor | None = None
        self._key = crc32(np.array(text.ids, dtype=np.int64).tobytes())
        draw = np.random.default_rng([decoding.seed, self._key, 0])
        self._uniforms = draw.random(count).tolist() if decoding.draw else None

    @property
    def open_positions(self) -> tuple[int, ...]:
        """The positions of the blanks that are left to fill."""
        return tuple(self.text.positions[blank] for blank in self.left)

    def decided(
        self, log_probs: Tensor, predicted: Tensor | None, attention: Tensor | None
    ) -> Decision:
        """The next blanks, by their numbers among those that are left, with tokens and log p."""
        generator = np.random.default_rng([self.decoding.seed, self._key, 1, len(self.left)])
        dependence = predicted if self.measured is None else self.measured
        step = Step(log_probs, self.before, generator, dependence)
        blanks = self.decoding.choice(step, attention)
        tokens = [self._token(blank, step) for blank in blanks]
        # predictions are kept only where they are read again
        before = None if isinstance(self.decoding.rule, str) else step.log_probs
        return blanks, tokens, float(step.log_probs[blanks, tokens].sum()), before

    def _token(self, number: int, step: Step) -> int:
        if self._uniforms is None:
            return int(step.likeliest[1][number])
        totals = step.log_probs[number].double().exp().cumsum(dim=0)
        uniform = self._uniforms[self.left[number]]
        place = torch.searchsorted(totals, uniform * totals[-1], right=True)
        return min(int(place), len(totals) - 1)

    def fill(
        self, blanks: list[int], tokens: list[int], log_prob: float, before: Tensor | None
    ) -> None:
        """Write the tokens of a step."""
        for number, token in zip(blanks, tokens, strict=True):
            blank = self.left[number]
            self.tokens[blank] = token
            self.ids[self.text.positions[blank]] = int(self.decoding.support.ids[token])
        self.steps.append(tuple(self.left[number] for number in blanks))
        rest = [number for number in range(len(self.left)) if number not in blanks]
        self.left = [self.left[number] for number in rest]
        self.before, self.measured = None if before is None else before[rest], None
        self.log_prob += log_prob
        self.forward_passes += 1


def fill_blanked(
    reader: RowReader, texts: Sequence[Cloze], decodings: Sequence[Decoding]
) -> list[Filling]:
    """Every text filled as its decoding says, in the order given; all have one support."""
    fillings = [Filling(*pair) for pair in zip(texts, decodings, strict=True)]
    outcomes = Outcomes.of(reader.model, decodings[0].support) if decodings else None
    while outcomes and (unfinished := [filling for filling in fillings if filling.left]):
        _fill_step(reader, unfinished, outcomes)
    return fillings


def _fill_step(reader: RowReader, fillings: Sequence[Filling], outcomes: Outcomes) -> None:
    _measure(reader, [each for each in fillings if each.decoding.rule == "mutual-information"])
    decodings = [filling.decoding for filling in fillings]
    # all of them have one head
    head = next((each.head for each in decodings if each.head is not None), None)
    is_handed, decided = any(each.hands_attention for each in decodings), dict[int, Decision]()

    def use(numbers: Sequence[int], inside: Inside, log_probs: Tensor, positions: Tensor) -> None:
        bits = None if head is None else head.predict(inside, log_probs, positions)
        weights = mean_attention(inside) if is_handed else None
        for row, number in enumerate(numbers):
            count = len(fillings[number].left)
            tables = (
                None if table is None else table[row, :count, :count] for table in (bits, weights)
            )
            # a batch may fail and be tried again before anything is filled
            decided[number] = fillings[number].decided(log_probs[row, :count], *tables)

    each_masked(
        reader,
        [(filling.ids, filling.open_positions) for filling in fillings],
        outcomes,
        use,
        inside=head is not None or is_handed,
        attention=any(each.reads_attention for each in decodings),
    )
    for number, blanks in decided.items():
        fillings[number].fill(*blanks)


def mean_attention(inside: Inside) -> Float[Tensor, "rows blanks blanks"]:
    """The mean over the heads of the last layers, the larger of both directions."""
    if inside.attention is None:
        raise ModelError("this model shows no attention weights; take another rule")
    mean = inside.attention[:, -_ATTENDING:].mean(dim=(1, 2)).cpu()
    return torch.maximum(mean, mean.mT)


def _measure(reader: RowReader, fillings: Sequence[Filling]) -> None:
    """The mutual information of all blanks that are left, in forward passes of their own."""
    measurable = [filling for filling in fillings if len(filling.left) > 1]
    if not measurable:
        return
    options = MapOptions("mutual-information", measurable[0].decoding.support, _SAMPLES_PER_STEP)
    texts = [Cloze("", tuple(each.ids), each.open_positions) for each in measurable]
    results = by_information(reader, list(map(question_of, texts)), options)
    for filling, result in zip(measurable, results, strict=True):
        filling.measured = result.values
        filling.forward_passes += result.forward_passes


# receives the numbers of some rows, readouts and inner states at their positions, log-probabilities
# there, and the positions; rows with fewer positions than the others repeat their first one
UseMasked = Callable[[Sequence[int], Inside, Tensor, Tensor], None]


def each_masked(
    reader: RowReader,
    rows: Sequence[tuple[Sequence[int], Sequence[int]]],
    outcomes: Outcomes,
    use: UseMasked,
    *,
    inside: bool = True,
    attention: bool = True,
) -> None:
    """Show `use` what a pass computes at the positions of rows, given as ids and positions.

    Rows of one length run together. Without `inside` a pass computes readouts alone.
    """
    by_length: dict[int, list[int]] = {}
    # rows with as many positions are neighbours, so that few are read in vain
    for number in sorted(range(len(rows)), key=lambda number: len(rows[number][1])):
        by_length.setdefault(len(rows[number][0]), []).append(number)

    def each_of(numbers: list[int]) -> None:
        most = len(rows[numbers[-1]][1])
        ids = torch.tensor([rows[number][0] for number in numbers])
        padded = [[*at, *[at[0]] * (most - len(at))] for at in (rows[n][1] for n in numbers)]
        places = torch.tensor(padded)

        def read(batch: slice, computed: Inside) -> None:
            here = numbers[batch]
            count = len(rows[here[-1]][1])
            for block in row_blocks(len(here), count * outcomes.size):
                part, positions = computed.part(block, count), places[batch][block, :count]
                log_probs = outcomes.log_probs(part.readouts.flatten(0, 1)).cpu()
                use(here[block], part, log_probs.view(*positions.shape, -1), positions)

        def read_alone(batch: slice, readouts: Tensor) -> None:
            read(batch, Inside(readouts))

        if inside:
            reader.each_inside(ids, places, read, attention=attention)
        else:
            reader.each_batch(ids, places, read_alone)

    for numbers in by_length.values():
        each_of(numbers)


# --- what `lm.decode` returns --------------------------------------------------------------------


def one_support(lm: JointModel, support: Axes) -> Support:
    """The tokens that every blank ranges over; by default all that are written in texts."""
    if isinstance(support, Mapping | Sketch) or whole_number(support) is not None:
        raise SupportError(
            "blanks that are filled step by step have one support: 'vocabulary', 'tokens', "
            f"'no-special', an alphabet or a list of tokens, not {quoted(support)}"
        )
    candidates: Any = "tokens" if is_auto(support) else support
    return lm.support(candidates)


def decoded(
    lm: JointModel, clozes: Sequence[Cloze], decodings: Sequence[Decoding], settings: Settings
) -> list[dict[str, Any]]:
    """A fill per text, with its rule, the blanks of each step as `groups`, and its passes."""
    for cloze in clozes:
        if max(cloze.blank_widths) > 1:
            raise ClozeError(
                "blanks that are filled step by step have one token each, and some have more; "
                "write one mask per blank"
            )
    reader = RowReader(lm.model, settings)
    with reader.counted(rule_name(decodings[0].rule) if decodings else ""):
        reader.expect(sum(len(cloze.positions) for cloze in clozes))
        fillings = fill_blanked(reader, clozes, decodings)
    results = []
    for cloze, decoding, filling in zip(clozes, decodings, fillings, strict=True):
        support = decoding.support
        ids = tuple(int(support.ids[place]) for place in filling.tokens)
        names = tuple(support.names[place] for place in filling.tokens)
        fill, blanks = Fill(names, ids, filling.log_prob), replace(cloze, gold=None)
        (result,) = fill_mask_output.of_tokens(lm.tokenizer, blanks, [fill], "decode")
        steps = {
            "rule": rule_name(decoding.rule),
            # JSON has no infinity: the bound of a head that may fill all blanks at once
            "threshold": None if decoding.threshold == math.inf else decoding.threshold,
            "groups": filling.steps,
            "forward_passes": filling.forward_passes,
        }
        results.append(result | steps)
    return results
