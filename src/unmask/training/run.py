"""A training run: steps, evaluations and checkpoints, until its forward passes are used up.

A step is a pure function of the weights, the seed and its number, so a checkpoint needs weights,
moments and counts alone, and a run that was killed ends in the same weights.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from unmask.errors import MemoryLimitError, NumericsError
from unmask.language_model import LanguageModel
from unmask.model.devices import seeded_random_numbers
from unmask.model.masked_lm import first_blank
from unmask.printable import readable_seconds
from unmask.progress import Bar
from unmask.training.folder import TuningFolder
from unmask.training.masking import Vocabulary, mask_any_share, mask_blanks, mask_plainly
from unmask.training.network import Network
from unmask.training.pairs import BlankPairs, Terms, choose_pairs, measure_pairs, passes_per_pair
from unmask.training.record import Evaluation, TrainingRecord
from unmask.training.state import load_state, new_optimizer, save_state, save_weights
from unmask.training.texts import (
    Batch,
    Texts,
    batch_places,
    generator,
    number,
    ordinary_tokens,
    padded,
)
from unmask.training.tuning import Tuning

# a kill loses no more, unless saving takes so long that more often would slow training down
_CHECKPOINT_SECONDS, _SAVING_SHARE = 60.0, 0.05
# pairs of blanks on which the penalties are measured at every evaluation
_HELD_OUT_PAIRS = 32
_LARGEST_GRADIENT = 1.0

# by the names of `Tuning.masks`
_MASKS = {"blanks": mask_blanks, "plain": mask_plainly, "any": mask_any_share}

Stop = Callable[[], bool]


class Stopped(KeyboardInterrupt):
    """Training was interrupted, and has saved a checkpoint."""


class TrainingRun:
    """The network, what it has done so far, and where that is saved."""

    def __init__(
        self,
        lm: LanguageModel,
        texts: Texts,
        tuning: Tuning,
        folder: TuningFolder,
        say: Callable[[str], object],
    ) -> None:
        assert tuning.passes is not None
        self.texts, self.tuning, self.folder, self.say = texts, tuning, folder, say
        self.total = tuning.passes
        self.network = Network(lm, bfloat16=tuning.bfloat16)
        self.vocabulary = Vocabulary(lm.model.mask_id, ordinary_tokens(lm), first_blank(lm.model))
        self.optimizer = new_optimizer(self.network.parameters())
        self.record = TrainingRecord()
        if folder.state.exists():
            state = load_state(folder.state, self.network.module, self.optimizer)
            self.record = TrainingRecord.from_dict(state["record"])
            say(f"continuing after {self.record.passes:,} of {self.total:,} forward passes")
        # of the epoch that the next step is in
        self._epoch, self._batches = -1, list[list[int]]()
        self._began = self._saved = time.monotonic()
        self._saving = 0.0

    def announcement(self) -> str:
        """What the run costs: the forward passes of training, and of every evaluation."""
        pairs = sum(len(one) for one, _ in self._held_out_pairs(self._held_out()))
        training, held_out = len(self.texts.training), len(self.texts.held_out)
        each = held_out + pairs * passes_per_pair(self._held_out_tokens())
        return (
            f"training: {self.total:,} forward passes on {training:,} sentences, and {each:,} on"
            f" {held_out:,} held-out ones at each of at most {self.tuning.evaluations + 1:,}"
            " evaluations"
        )

    def train(self, shown: Bar, stop: Stop) -> None:
        """Go on until the passes are used up or nothing improves; ends with a checkpoint."""
        shown.update(self.record.passes)
        while True:
            if self.record.is_due(self.tuning):
                self._evaluate(stop)
            if self.record.is_over(self.tuning):
                break
            self._stop_if(stop)
            before = self.record.passes
            with _explained_memory():
                self._step()
            shown.update(self.record.passes - before)
            self._save_if_due()
        self._save()

    # --- checkpoints ---------------------------------------------------------------------------

    def _stop_if(self, stop: Stop) -> None:
        """Between two steps alone: in the middle of one, weights are neither old nor new."""
        if stop():
            self._save()
            raise Stopped(
                f"{self.record.passes:,} of {self.total:,} forward passes are saved; repeat the"
                " command to continue"
            )

    def _save_if_due(self) -> None:
        since = time.monotonic() - self._saved
        if since > max(_CHECKPOINT_SECONDS, self._saving / _SAVING_SHARE):
            self._save()

    def _save(self) -> None:
        now = time.monotonic()
        self.record.seconds += now - self._began
        self._began = now
        state = {"record": self.record.to_dict()}
        save_state(self.folder.state, self.network.module, self.optimizer, state)
        self._saved = time.monotonic()
        self._saving = self._saved - now

    # --- one step ------------------------------------------------------------------------------

    def _step(self) -> None:
        """Learn from one batch, and at every n-th from pairs of blanks of its texts too."""
        tuning, record, network = self.tuning, self.record, self.network
        left = self.total - record.passes
        batch = self._batch(record.step).first(left)
        pairs = self._pairs(batch, left - len(batch))
        pair_passes = 0 if pairs is None else len(pairs) * passes_per_pair(tuning.tokens)
        after = record.passes + len(batch) + pair_passes
        for group in self.optimizer.param_groups:
            group["lr"] = tuning.learning_rate_at(record.passes, after)
        network.passes = network.tokens = 0
        self.optimizer.zero_grad()
        # dropout draws from the global generators
        dropout = number(tuning.seed, "dropout", record.step)
        with seeded_random_numbers(network.device, dropout):
            loss = self._loss(batch)
            self._backward(loss)
            if pairs is not None:
                # every n-th batch counts n times: a weight means the same for every n
                self._backward(tuning.every * self._penalty(pairs))
        torch.nn.utils.clip_grad_norm_(network.parameters().values(), _LARGEST_GRADIENT)
        self.optimizer.step()
        record.step += 1
        record.passes += network.passes
        record.tokens += network.tokens
        record.pair_passes += network.passes - len(batch)
        record.losses.append(float(loss.detach()))

    def _loss(self, batch: Batch) -> Tensor:
        masked = _MASKS[self.tuning.masks](batch, self.vocabulary, self._generator("masks"))
        logits = self.network.logits(masked.batch, masked.chosen, dropout=True)
        return masked.mean(
            cross_entropy(logits, masked.targets.to(logits.device), reduction="none")
        )

    def _pairs(self, batch: Batch, left: int) -> BlankPairs | None:
        """As many pairs as fill another batch of this size, if so many passes are left."""
        tuning = self.tuning
        if not tuning.has_penalty or self.record.step % tuning.every:
            return None
        each = passes_per_pair(tuning.tokens)
        full = max(1, tuning.batch_tokens // (batch.ids.shape[1] * each))
        return choose_pairs(
            batch, self.vocabulary, min(full, left // each), self._generator("pairs")
        )

    def _penalty(self, pairs: BlankPairs) -> Tensor:
        tuning = self.tuning
        terms = measure_pairs(
            self.network,
            pairs,
            self.vocabulary,
            tuning.tokens,
            self._generator("tokens"),
            compatibility=tuning.compatibility > 0,
            marginals=tuning.marginals > 0,
        )
        total = tuning.marginals * terms.marginals.mean()
        if tuning.compatibility:
            # what the penalty moves is also what is learnt: see decision 22
            total = total + tuning.compatibility * terms.compatibility + terms.loss.mean()
        return total

    def _backward(self, loss: Tensor) -> None:
        if not bool(torch.isfinite(loss)):
            problem = f"the loss of step {self.record.step + 1:,} is {float(loss.detach())}"
            raise NumericsError(f"{problem}; give a lower learning rate, and another folder")
        loss.backward()

    def _batch(self, step: int) -> Batch:
        epoch = step // len(self._batches) if self._batches else 0
        while epoch != self._epoch:
            # every epoch has as many batches; the first is made to count them
            draw = generator(self.tuning.seed, "epoch", epoch)
            self._batches = self._places(self.texts.training, draw)
            self._epoch, epoch = epoch, step // len(self._batches)
        places = self._batches[step % len(self._batches)]
        return padded([self.texts.training[place] for place in places], self.network.padding)

    def _places(self, texts: Sequence[Sequence[int]], draw: torch.Generator) -> list[list[int]]:
        return batch_places(texts, self.tuning.batch_tokens, draw, pad=self.network.pads)

    def _generator(self, purpose: str) -> torch.Generator:
        return generator(self.tuning.seed, purpose, self.record.step)

    # --- the held-out texts --------------------------------------------------------------------

    @torch.no_grad()
    def _evaluate(self, stop: Stop) -> None:
        tuning, network = self.tuning, self.network
        network.passes = 0
        batches = self._held_out()
        loss, single = self._held_out_loss(batches, stop)
        terms = self._held_out_terms(batches, stop)
        one = None if terms is None else float(terms.compatibility)
        other = None if terms is None else float(terms.marginals.mean())
        moved = None if terms is None else float(terms.interaction.mean())
        result = Evaluation(
            passes=self.record.passes,
            loss=loss,
            single_blanks=single,
            compatibility=one,
            interaction=moved,
            marginals=other,
            objective=loss + tuning.compatibility * (one or 0) + tuning.marginals * (other or 0),
            training_loss=self.record.mean_loss(),
        )
        if not math.isfinite(result.objective):
            raise NumericsError(
                f"the held-out loss is {loss} after {result.passes:,} forward passes; give a lower"
                " learning rate, and another folder"
            )
        self.record.held_out_passes += network.passes
        if self.record.add(result) and tuning.keep == "best":
            save_weights(self.folder.best, network.module, {"evaluation": asdict(result)})
        self.say(self._line(result))

    def _held_out(self) -> list[Batch]:
        texts = self.texts.held_out
        return [
            padded([texts[place] for place in some], self.network.padding)
            for some in self._places(texts, generator("held out"))
        ]

    def _held_out_loss(self, batches: Sequence[Batch], stop: Stop) -> tuple[float, float | None]:
        """Nats per masked token, on the same blanks every time; and those of texts with one.

        For `any` the blanks are any share of a text, each with its weight: what is learnt.
        """
        mask = mask_any_share if self.tuning.masks == "any" else mask_blanks
        every, single, weights = list[float](), list[float](), list[float]()
        for place, batch in enumerate(batches):
            self._stop_if(stop)
            masked = mask(batch, self.vocabulary, generator("held out", place))
            logits = self.network.logits(masked.batch, masked.chosen)
            targets = masked.targets.to(logits.device)
            losses = cross_entropy(logits, targets, reduction="none").double().cpu()
            blanks = masked.chosen.sum(1)
            heavy = torch.ones(len(losses)) if masked.weights is None else masked.weights
            weights += heavy.tolist()
            every += (heavy.to(losses) * losses).tolist()
            single += losses[blanks.repeat_interleave(blanks) == 1].tolist()
        loss = math.fsum(every) / math.fsum(weights)
        return loss, math.fsum(single) / len(single) if single else None

    def _held_out_terms(self, batches: Sequence[Batch], stop: Stop) -> Terms | None:
        """The penalties on the same pairs of blanks every time, spread over the batches.

        Tokens follow the model: what it finds likely changes.
        """
        tokens = self._held_out_tokens()
        terms: list[Terms] = []
        for pairs, draw in self._held_out_pairs(batches):
            self._stop_if(stop)
            terms.append(measure_pairs(self.network, pairs, self.vocabulary, tokens, draw))
        if not terms:
            return None
        return Terms(*(torch.cat(term).double() for term in zip(*terms, strict=True)))

    def _held_out_pairs(
        self, batches: Sequence[Batch]
    ) -> Iterator[tuple[BlankPairs, torch.Generator]]:
        """The pairs of blanks, with the random numbers that their tokens are drawn by."""
        each, count = math.ceil(_HELD_OUT_PAIRS / len(batches)), 0
        for place, batch in enumerate(batches):
            draw = generator("held-out pairs", place)
            pairs = choose_pairs(batch, self.vocabulary, each, draw)
            if pairs is not None and count * each < _HELD_OUT_PAIRS:
                count += 1
                yield pairs, draw

    def _held_out_tokens(self) -> int:
        return min(self.tuning.tokens, int(self.vocabulary.ordinary.sum()))

    def _line(self, result: Evaluation) -> str:
        seconds = self.record.seconds + time.monotonic() - self._began
        line = f"held-out loss {result.loss:.3f} nats per masked token"
        if result.single_blanks is not None:
            line += f" (of single blanks {result.single_blanks:.3f})"
        if result.training_loss is not None:
            line += f", training {result.training_loss:.3f}"
        if result.compatibility is not None:
            line += f"; compatibility {result.compatibility:.3f}, marginals {result.marginals:.3f}"
            line += f", interaction {result.interaction:.3f}"
        done = f"{result.passes:,} of {self.total:,} forward passes, {readable_seconds(seconds)}"
        return f"{done}: {line}"


@contextmanager
def _explained_memory() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:
        raise MemoryLimitError(
            "a batch does not fit into the memory of the device; give fewer "
            "batch_tokens=, and another folder"
        ) from None
