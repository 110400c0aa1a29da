"""Training a dependence head: masked texts, their measured mutual information, and a regression.

Of each text a random number of tokens is masked, at random places in two of three texts and in a
run in the third. The mutual information of every two is measured by samples; its logarithm is
learnt, with weights by its error, from the pass that predicts both blanks. Per pair it reads the
logarithm of the attention between the two in every layer and head, the mean and the larger of both
directions; the smaller and the larger entropy and confidence; how near they are; the cosine of
their hidden states in the middle layer and the last; the overlap of their predictions.

A tenth of the texts is held out: for when to stop, for the rank correlation that the head reports,
and for how many passes a bound on dependence takes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unmask.errors import UnmaskError
from unmask.model.inside import Inside
from unmask.model.row_reader import Outcomes, RowReader
from unmask.queries.decode.decoding import Decoding, Predictor, each_masked, fill_blanked
from unmask.queries.dependence.information import by_information
from unmask.queries.dependence.question import MapOptions, question_of
from unmask.queries.joint_model import JointModel
from unmask.settings import Settings
from unmask.text.cloze import Cloze
from unmask.text.support import Support

# below this, attention weights are rounding
_LEAST = 1e-6
# bits are predicted by their logarithm, and this is nothing
FLOOR = 0.001
FEWEST, MOST = 2, 9
WIDTH = 48
# no more steps than so many passes over the pairs
_STEPS, _PAIRS_PER_STEP, _RATE, _EPOCHS = 2000, 256, 3e-3, 100
_EVERY = 20
# the spread of the logarithm of bits about what features can tell, so that exact labels do not rule
_SPREAD = 0.3
# bounds in bits, and numbers of blanks, at which passes are counted
BOUNDS = (0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
COUNTS = (4, 8, 12)
_COUNTED_TEXTS = 40


def feature_groups(inside: Inside) -> dict[str, int]:
    """The numbers of features of each kind that a model shows, in their order."""
    attention = 0 if inside.attention is None else 2 * inside.attention[0, :, :, 0, 0].numel()
    states = 0 if inside.hidden is None else 2
    return {"attention": attention, "certainty": 4, "distance": 3, "states": states, "overlap": 1}


def pair_features(
    inside: Inside,
    log_probs: Float[Tensor, "rows blanks size"],
    positions: Int[Tensor, "rows blanks"],
) -> Float[Tensor, "rows pairs features"]:
    """The features of every two blanks of each row, in the order of `torch.triu_indices`."""
    first, second = torch.triu_indices(positions.shape[1], positions.shape[1], offset=1)
    parts: list[Tensor] = []
    if inside.attention is not None:
        weights = inside.attention.flatten(1, 2).cpu().clamp(min=_LEAST)
        there, back = weights[:, :, first, second], weights[:, :, second, first]
        parts += [((there + back) / 2).log_().mT, torch.maximum(there, back).log_().mT]
    narrow = log_probs.float()
    probabilities = narrow.exp()
    # a product of matrices takes four times as long, and a product of all numbers their memory
    entropy = -torch.linalg.vecdot(probabilities, narrow)
    for values in (entropy, narrow.amax(dim=2).exp()):
        both = torch.stack([values[:, first], values[:, second]], dim=2)
        parts += [both.amin(dim=2, keepdim=True), both.amax(dim=2, keepdim=True)]
    distances = (positions[:, first] - positions[:, second]).abs().float()[:, :, None]
    parts += [1 / (distances + 1), (distances == 1).float(), (distances == 2).float()]
    vectors = [probabilities.sqrt_()]
    if inside.hidden is not None:
        vectors = [*torch.nn.functional.normalize(inside.hidden.cpu(), dim=-1).unbind(1), *vectors]
    parts += [(values @ values.mT)[:, first, second, None] for values in vectors]
    return torch.cat(parts, dim=2)


@dataclass(frozen=True, eq=False)
class LabelledPairs:
    """Pairs of blanks: features, measured bits with their errors, and the text of each."""

    features: Float[Tensor, "pairs features"]
    bits: Float[Tensor, " pairs"]
    errors: Float[Tensor, " pairs"]
    texts: Int[Tensor, " pairs"]
    groups: dict[str, int]


def masked_texts(
    lm: JointModel, texts: Iterable[str], *, counts: Sequence[int], seed: int, limit: int
) -> list[Cloze]:
    """Texts with one of these numbers of masked tokens, of those that are long enough."""
    masked: list[Cloze] = []
    special, mask = set(lm.tokenizer.all_special_ids), lm.model.mask_id
    for text in texts:
        if len(masked) == limit:
            break
        ids = [int(token) for token in lm.tokenizer(text, verbose=False)["input_ids"]]
        places = [place for place, token in enumerate(ids) if token not in special]
        draw = np.random.default_rng([seed, crc32(text.encode())])
        # two tokens at least stay
        fitting = [count for count in counts if count <= len(places) - 2]
        if not fitting or len(ids) > (lm.max_length or len(ids)):
            continue
        count = int(draw.choice(fitting))
        if draw.random() < 1 / 3:
            start = int(draw.integers(len(places) - count + 1))
            blanks = places[start : start + count]
        else:
            blanks = sorted(draw.choice(places, count, replace=False).tolist())
        for place in blanks:
            ids[place] = mask
        masked.append(Cloze(text, tuple(ids), tuple(blanks)))
    return masked


def labelled_pairs(
    lm: JointModel,
    texts: Sequence[Cloze],
    support: Support,
    settings: Settings,
    *,
    samples: int,
    attention: bool = True,
) -> LabelledPairs:
    """The features and the measured mutual information of every two blanks of each text."""
    reader = RowReader(lm.model, settings)
    options = MapOptions("mutual-information", support, samples)
    features, groups = dict[int, Tensor](), dict[str, int]()

    def use(numbers: Sequence[int], inside: Inside, log_probs: Tensor, positions: Tensor) -> None:
        groups.update(feature_groups(inside))
        for row, number in enumerate(numbers):
            count = len(texts[number].positions)
            only = slice(row, row + 1)
            (features[number],) = pair_features(
                inside.part(only, count), log_probs[only, :count], positions[only, :count]
            )

    with reader.counted("training the dependence head"):
        measured = by_information(reader, list(map(question_of, texts)), options)
        rows = [(text.ids, text.positions) for text in texts]
        outcomes = Outcomes.of(lm.model, support)
        each_masked(reader, rows, outcomes, use, attention=attention)
    bits, errors, numbers = [], [], []
    for number, (text, result) in enumerate(zip(texts, measured, strict=True)):
        first, second = torch.triu_indices(len(text.positions), len(text.positions), offset=1)
        bits.append(result.values[first, second])
        spread = result.standard_errors
        errors.append(0 * bits[-1] if spread is None else spread[first, second])
        numbers.append(torch.full((len(first),), number))
    ordered = torch.cat([features[number] for number in range(len(texts))])
    return LabelledPairs(ordered, torch.cat(bits), torch.cat(errors), torch.cat(numbers), groups)


def fit(
    pairs: LabelledPairs, held_out: Bool[Tensor, " pairs"], *, seed: int = 0
) -> dict[str, Tensor]:
    """The weights with the least held-out loss."""
    features, target = pairs.features.float(), (pairs.bits.clamp(min=0) + FLOOR).log().float()
    weight = 1 / (_SPREAD**2 + (pairs.errors / (pairs.bits.clamp(min=0) + FLOOR)) ** 2).float()
    learnt = ~held_out
    mean, deviation = features[learnt].mean(dim=0), features[learnt].std(dim=0).clamp(min=1e-3)
    draw = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)
        width = features.shape[1]
        network = nn.Sequential(
            *(nn.Linear(width, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU()),
            nn.Linear(WIDTH, 1),
        )
        steps = max(_EVERY, min(_STEPS, _EPOCHS * int(learnt.sum()) // _PAIRS_PER_STEP))
        inputs = ((features - mean) / deviation).clone()
        optimizer = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        rows, best, weights = learnt.nonzero()[:, 0], math.inf, dict[str, Tensor]()
        for step in range(1, steps + 1):
            batch = rows[torch.randint(len(rows), (_PAIRS_PER_STEP,), generator=draw)]
            gap = network(inputs[batch])[:, 0] - target[batch]
            loss = (weight[batch] * gap**2).sum() / weight[batch].sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if step % _EVERY == 0:
                with torch.no_grad():
                    far = network(inputs[held_out])[:, 0] - target[held_out]
                    loss = float((weight[held_out] * far**2).sum() / weight[held_out].sum())
                if loss < best:
                    best = loss
                    weights = {n: p.detach().clone() for n, p in network.state_dict().items()}
    layers = {
        f"{part}{n}": weights[f"{2 * n}.{part}"] for part in ("weight", "bias") for n in range(3)
    }
    return {**layers, "mean": mean, "deviation": deviation}


def texts_to_learn(
    lm: JointModel, texts: Iterable[str], *, seed: int, limit: int
) -> tuple[list[str], list[Cloze]]:
    """The distinct texts in a random order, since files are often sorted; and the first, masked."""
    distinct = list(dict.fromkeys(texts))
    order = np.random.default_rng(seed).permutation(len(distinct))
    drawn, counts = [distinct[n] for n in order], range(FEWEST, MOST + 1)
    masked = masked_texts(lm, drawn, counts=counts, seed=seed, limit=limit)
    if len(masked) < 10:
        raise UnmaskError(
            f"a dependence head is trained on at least 10 texts of {FEWEST + 2} or more tokens, "
            f"and here are {len(masked)}; give more"
        )
    return drawn, masked


def held_out_pairs(pairs: LabelledPairs) -> Bool[Tensor, " pairs"]:
    """The pairs of the last tenth of the texts."""
    count = int(pairs.texts.max()) + 1
    return pairs.texts >= count - max(1, count // 10)


def rank_correlation(predicted: Tensor, bits: Tensor) -> float | None:
    """Spearman's, to four digits; None where it is not defined."""
    # here: scipy.stats takes a second that no other request needs
    from scipy.stats import spearmanr

    rank = float(spearmanr(predicted.numpy(), bits.numpy()).statistic)
    return round(rank, 4) if math.isfinite(rank) else None


def counted_passes(
    lm: JointModel,
    head: Predictor,
    texts: Sequence[str],
    support: Support,
    settings: Settings,
    *,
    seed: int,
    learnt_from: int,
) -> dict[str, Any]:
    """Mean passes per text by the number of blanks and the bound, on the last texts."""
    limit = min(_COUNTED_TEXTS, max(1, learnt_from // 10))
    decodings = [Decoding("head", bound, support, head=head) for bound in BOUNDS]
    table = list[list[float]]()
    for count in COUNTS:
        masked = masked_texts(lm, reversed(texts), counts=(count,), seed=seed + 1, limit=limit)
        pairs = [(text, decoding) for decoding in decodings for text in masked]
        fillings = (
            fill_blanked(RowReader(lm.model, settings), *zip(*pairs, strict=True)) if pairs else []
        )
        # without texts that are long enough: one blank per pass
        passes = [filling.forward_passes for filling in fillings] or [count] * len(BOUNDS)
        # a larger bound takes no more passes except by chance
        means = np.array(passes).reshape(len(BOUNDS), -1).mean(axis=1).round(3)
        table.append(np.minimum.accumulate(means).tolist())
    return {"bounds": list(BOUNDS), "blanks": list(COUNTS), "passes": table}
