"""Elicitation against the bare trunk of the model, and against a straightforward loop.

Timed on the same contexts, in batches of the same size, in inference mode:

- `readouts`: from a cloze to a table of a single outcome, by the public way. It builds the rows,
  runs the model, keeps a readout a row, and has next to no output layer.
- `elicitation`: the same with the whole vocabulary as outcomes, which is what a user gets: the
  output layer, the normaliser of every context and the cells of the table on top.
- `trunk`: `model.base_model` on the same ids, made beforehand, and nothing else.
- `loop`: logits of every position from the whole model, one position picked, log-softmax, kept.
"""

from collections.abc import Iterator

import torch
from engine_subjects import Subject
from interleaved import Comparison, Run, in_turns
from torch import Tensor

import unmask


class Elicitation:
    """What is timed on one model."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.model = subject.adapted.model
        lm, contexts = subject.lm, subject.contexts()
        self._whole, self._one = lm.support(), lm.support(contexts[:1])
        self._contexts = lm.support(contexts)
        ids = torch.tensor(subject.cloze.ids).repeat(len(contexts), 1)
        ids[:, subject.cloze.positions[1]] = torch.tensor(contexts)
        assert subject.settings.batch_size
        self._batches = ids.split(subject.settings.batch_size)

    def readouts(self) -> object:
        return self._tables(self._one, self._contexts).a_given_b

    def elicitation(self) -> object:
        return self._tables(self._whole, self._contexts).a_given_b

    @torch.inference_mode()
    def trunk(self) -> None:
        for ids in self._batches:
            self.model.base_model(input_ids=ids)

    @torch.inference_mode()
    def loop(self) -> Tensor:
        position = self.subject.cloze.positions[0]
        return torch.cat(
            [
                torch.log_softmax(self.model(input_ids=ids).logits[:, position], dim=-1)
                for ids in self._batches
            ]
        )

    def _tables(self, outcomes: unmask.Support, contexts: unmask.Support) -> unmask.PairTables:
        subject, chosen = self.subject, {0: outcomes, 1: contexts}
        return subject.lm.tables(subject.cloze, support=chosen, settings=subject.settings)


def compare(subject: Subject, repeats: int, *, bfloat16: bool) -> Iterator[Comparison]:
    """Every ratio of one model; what is held against each other runs next to each other."""
    exact = Elicitation(subject)
    runs: dict[str, Run] = {
        "trunk": exact.trunk,
        "readouts": exact.readouts,
        "elicitation": exact.elicitation,
        "loop": exact.loop,
    }
    if bfloat16:
        rounded = Elicitation(subject.in_bfloat16())
        runs["elicitation in bfloat16"] = rounded.elicitation
        runs["readouts in bfloat16"] = rounded.readouts
        runs["trunk in bfloat16"] = rounded.trunk
    in_turns(runs, 1)
    seconds = in_turns(runs, repeats)

    def ratio(kind: str, over: str, under: str, dtype: str = "float32") -> Comparison:
        measured = seconds[over], seconds[under]
        return Comparison(
            kind, subject.name, over, under, measured, subject.size(), dtype=dtype
        )  # fmt: skip

    yield ratio("readouts-of-trunk", "trunk", "readouts")
    yield ratio("elicitation-of-trunk", "trunk", "elicitation")
    yield ratio("elicitation-over-loop", "loop", "elicitation")
    if bfloat16:
        both = "bfloat16 over float32"
        yield ratio("bfloat16-over-loop", "loop", "elicitation in bfloat16", both)
        yield ratio(
            "bfloat16-readouts-of-trunk", "trunk in bfloat16", "readouts in bfloat16", "bfloat16"
        )
