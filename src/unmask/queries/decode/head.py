"""A dependence head: the mutual information of every two blanks, from the pass that predicts them.

A small network over the features of a pair, trained on the model's own mutual information, as
`unmask.queries.dependence.information` measures it; that a head is trained for this is the idea of
DEMASK (2604.02560). It belongs to one model, which a probe recognises. On disk it is one file of
safetensors, its facts as JSON in the header.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from unmask.durable import explained, make_folder, replacing
from unmask.errors import ModelError
from unmask.model.inside import Inside
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import Outcomes, RowReader
from unmask.names import model_name
from unmask.printable import printable, quoted
from unmask.queries.decode import training
from unmask.queries.decode.decoding import each_masked, one_support
from unmask.queries.decode.training import feature_groups, pair_features
from unmask.queries.dependence.dependence_map import DependenceMap
from unmask.queries.dependence.question import MapOptions, MapQuestion, masked_places
from unmask.queries.joint_model import Axes, JointModel
from unmask.settings import Settings
from unmask.tables.proposals import AUTO
from unmask.text.support import Support

FILE = "dependence_head.safetensors"
_ABOUT = "about"
# nats by which the probe of one model may differ between machines
_PROBE_ROUNDING = 0.02


@dataclass(frozen=True, eq=False)
class DependenceHead:
    """A trained head; `facts` are its model, its features, what it was trained on and how well.

    Examples:
        >>> lm = unmask.load("models/tiny-english")
        >>> texts = [f"Two dogs are running through street {n}." for n in range(10)]
        >>> head = unmask.DependenceHead.train(lm, texts, samples=4)
        >>> head.to_dict()["texts"], head.reads_attention
        (10, True)
    """

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def train(
        cls,
        lm: JointModel,
        texts: Iterable[str],
        *,
        sentences: int = 1000,
        samples: int = 12,
        attention: bool = True,
        support: Axes = AUTO,
        seed: int = 0,
        settings: Settings | None = None,
    ) -> "DependenceHead":
        """Train a head that predicts a model's mutual information of blanks in one forward pass.

        It is measured on masked texts in about 70 forward passes per text. The model is not
        changed: assign the result to `lm.head`, or save it.

        Args:
            lm: The model.
            texts: Whole texts of the kind that will be filled, without mask tokens.
            sentences: At most so many of them, drawn from all.
            samples: How many tokens are tried at a place.
            attention: Read attention weights, for which the model runs unfused.
            support: Tokens that all blanks range over.
            seed: Seed of everything that is drawn.
            settings: How to run the model: batch size, memory limit, progress.
        Returns:
            The head, with its rank correlation on held-out texts among its facts.
        Raises:
            UnmaskError: There are fewer than 10 texts that are long enough.
            ModelError: The model shows neither attention nor hidden states.
        Examples:
            >>> texts = ["Two dogs are running through the grass.", "A man is playing a guitar."]
            >>> every = [f"{text} {n}" for text in texts for n in range(5)]
            >>> unmask.DependenceHead.train(lm, every, samples=4)
            <DependenceHead of tiny-english: 42 features, 4,465 parameters>
        """
        axis, settings = one_support(lm, support), Settings.of(settings)
        drawn, masked = training.texts_to_learn(lm, texts, seed=seed, limit=sentences)
        pairs = training.labelled_pairs(
            lm, masked, axis, settings, samples=samples, attention=attention
        )
        return cls.of_pairs(lm, pairs, drawn, axis, settings, seed=seed, samples=samples)

    @classmethod
    def of_pairs(
        cls,
        lm: JointModel,
        pairs: training.LabelledPairs,
        texts: Sequence[str],
        support: Support,
        settings: Settings,
        *,
        seed: int,
        samples: int,
    ) -> "DependenceHead":
        """Fit a head to measured pairs, and count on the last of the texts how it fills."""
        held_out, count = training.held_out_pairs(pairs), int(pairs.texts.max()) + 1
        facts: dict[str, Any] = {
            "model": model_name(lm.name),
            "probe": probe(lm.model),
            "features": pairs.groups,
            "texts": count,
            "pairs": int((~held_out).sum()),
            "samples": samples,
            "seed": seed,
        }
        head = cls(training.fit(pairs, held_out, seed=seed), facts)
        facts["rank_correlation"] = training.rank_correlation(
            head.bits(pairs.features[held_out]), pairs.bits[held_out]
        )
        facts["held_out_pairs"] = int(held_out.sum())
        facts["passes"] = training.counted_passes(
            lm, head, texts, support, settings, seed=seed, learnt_from=count
        )
        return head

    def __repr__(self) -> str:
        """Its model and its size."""
        size = sum(t.numel() for name, t in self.tensors.items() if name[0] in "wb")
        features = len(self.tensors["mean"])
        return (
            f"<DependenceHead of {self.facts.get('model')}: {features} features, "
            f"{size:,} parameters>"
        )

    @property
    def reads_attention(self) -> bool:
        """True if a pass has to show its attention weights."""
        return bool(self.facts["features"]["attention"])

    def bits(self, features: Float[Tensor, "*pairs features"]) -> Float[Tensor, "*pairs"]:
        """The predicted mutual information of pairs."""
        t = self.tensors
        state = (features - t["mean"]) / t["deviation"]
        for layer in range(3):
            state = state @ t[f"weight{layer}"].T + t[f"bias{layer}"]
            if layer < 2:
                state = torch.nn.functional.gelu(state)
        return (state[..., 0].double().exp() - training.FLOOR).clamp(min=0.0)

    def predict(
        self,
        inside: Inside,
        log_probs: Float[Tensor, "rows blanks size"],
        positions: Int[Tensor, "rows blanks"],
    ) -> Float[Tensor, "rows blanks blanks"]:
        """The mutual information of every two blanks of each row, in bits; 0 on the diagonal."""
        rows, count = positions.shape
        values = torch.zeros(rows, count, count, dtype=torch.float64)
        if count < 2:
            return values
        groups = feature_groups(inside)
        if groups != self.facts["features"]:
            raise ModelError(
                f"the dependence head reads other features ({self.facts['features']}) than this "
                f"model shows ({groups}); train one for it"
            )
        first, second = torch.triu_indices(count, count, offset=1)
        values[:, first, second] = self.bits(pair_features(inside, log_probs, positions))
        return values + values.mT

    def measure(
        self, reader: RowReader, questions: Sequence[MapQuestion], options: MapOptions
    ) -> list[DependenceMap]:
        """Maps of dependence: of the blanks of a text in one pass, of a whole text in one a pair.

        A head knows pairs of masked tokens. Of two words in a whole text both are masked, as mutual
        information is measured. A word of several tokens has the sum over them.
        """
        openings, mask_id = options.openings(questions), reader.model.mask_id
        tables = [torch.zeros((len(each.places),) * 2, dtype=torch.float64) for each in questions]
        masked_rows = (masked_places(questions, [opening], mask_id) for opening in openings)
        rows = [(ids[0].tolist(), positions[0].tolist()) for ids, positions, _ in masked_rows]

        def use(numbers: Sequence[int], inside: Inside, log_probs: Tensor, at: Tensor) -> None:
            for row, bits in zip(numbers, self.predict(inside, log_probs, at), strict=True):
                number, masked = openings[row]
                widths = torch.tensor([questions[number].widths[n] for n in masked])
                places = torch.tensor(masked).repeat_interleave(widths)
                size = len(places)
                tables[number].index_put_(
                    (places[:, None], places), bits[:size, :size], accumulate=True
                )

        outcomes = Outcomes.of(reader.model, options.support)
        each_masked(reader, rows, outcomes, use, attention=self.reads_attention)
        return [
            options.map_of(
                question, options.within(question, table), options.forward_passes(question)
            )
            for question, table in zip(questions, tables, strict=True)
        ]

    def threshold_for(self, passes: float, blanks: int) -> float:
        """The bound, in bits, at which held-out texts of so many blanks took so many passes.

        Args:
            passes: Forward passes per text, on average, from 1.
            blanks: How many blanks the text has.
        Returns:
            A bound for the rule "head"; between measured ones by interpolation.
        """
        table = self.facts["passes"]
        bounds = np.log(table["bounds"])
        # passes of a text with so many blanks, at every bound: they fall
        curve = np.array(
            [
                np.interp(blanks, table["blanks"], each)
                for each in zip(*table["passes"], strict=True)
            ]
        )
        if passes >= curve[0]:
            return float(table["bounds"][0]) if passes < blanks else 0.0
        if passes <= curve[-1]:
            return float(table["bounds"][-1]) if passes > 1 else math.inf
        return float(np.exp(np.interp(-passes, -curve, bounds)))

    def to_dict(self) -> dict[str, Any]:
        """Its facts, ready for JSON."""
        return dict(self.facts)

    def save(self, path: str | Path) -> None:
        """Write one file of safetensors, replacing an earlier one whole."""
        place = Path(path)
        make_folder(place.parent)
        about = {_ABOUT: json.dumps(dict(self.facts), allow_nan=False)}
        tensors = {name: tensor.contiguous() for name, tensor in self.tensors.items()}
        with explained(place), replacing(place) as unfinished:
            save_file(tensors, unfinished, metadata=about)

    @classmethod
    def load(cls, path: str | Path) -> "DependenceHead":
        """Read what `save` wrote."""
        try:
            with safe_open(path, "pt") as file:
                facts = json.loads((file.metadata() or {})[_ABOUT])
                return cls({name: file.get_tensor(name) for name in file.keys()}, facts)  # noqa: SIM118
        except (SafetensorError, KeyError, ValueError, OSError):
            raise ModelError(f"{quoted(str(path), limit=150)} is no dependence head") from None

    def check(self, model: MaskedLM, name: str) -> None:
        """Reject a model that this head was not trained for."""
        expected, measured = self.facts["probe"], probe(model)
        if len(expected) != len(measured) or any(
            abs(a - b) > _PROBE_ROUNDING for a, b in zip(expected, measured, strict=True)
        ):
            raise ModelError(
                f"the dependence head of {quoted(name)} was trained for other weights; train it "
                "anew, or remove its file"
            )


def required(head: DependenceHead | None, name: str) -> DependenceHead:
    """The head of a model; one that has none is rejected."""
    if head is None:
        raise ModelError(
            f"{printable(name)} has no dependence head; train one with "
            "unmask.DependenceHead.train(lm, texts) or unmask head, or take models/any-rate, which "
            "has one; the default rule needs none"
        )
    return head


def probe(model: MaskedLM) -> list[float]:
    """Log-probabilities of some tokens at a blank of a fixed row: they tell models apart."""
    ordinary = [i for i in range(model.vocabulary_size) if i not in model.special_ids]
    length = min(12, model.max_length or 12)
    row = [ordinary[7919 * (k + 1) % len(ordinary)] for k in range(length)]
    row[length // 2] = model.mask_id
    reader = RowReader(model, Settings(progress=False))
    log_p = Outcomes.of(model).log_probs(reader.one(row, [length // 2]))[0].cpu()
    outcomes = [ordinary[k * len(ordinary) // 8] for k in range(8)]
    return [round(float(log_p[token]), 4) for token in outcomes]


def place_of(name: str) -> Path:
    """The file of a model's head: in its folder, otherwise in the user's cache."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder / FILE
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "unmask" / "heads" / hashlib.sha256(name.encode()).hexdigest()[:16] / FILE
