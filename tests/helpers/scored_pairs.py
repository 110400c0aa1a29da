"""Pairs of tokens in clozes of many lengths, scored by a toy."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from toy_lm import ToyMaskedLM, toy_joint

from unmask import Cloze, LanguageModel, Settings, Support
from unmask.queries.pair_log_probs import pair_log_probs

SIZE, MASK = 7, 7


METHODS = ["mlm", "orders"]


WHOLE = Support.of(f"t{i}" for i in range(SIZE))


# neither sorted nor of one size
A = Support(torch.tensor([4, 0, 6, 2, 1]), ["t4", "t0", "t6", "t2", "t1"])


B = Support(torch.tensor([5, 3, 6]), ["t5", "t3", "t6"])


SUPPORTS = {"whole": (WHOLE, WHOLE), "parts": (A, B), "same part": (A, A), "mixed": (WHOLE, B)}


# blanks in any order, each next to other tokens
CLOZES = [
    Cloze("", tuple(MASK if i in at else (i + k) % SIZE for i in range(4)), at)
    for k, at in enumerate([(0, 2), (3, 1), (2, 1), (0, 3)] * 2)
]


# between batches of one row and of many, the tiny model differs by 8e-7, measured
KERNELS = 5e-6


def toy(*, factored: bool = True) -> ToyMaskedLM:
    return ToyMaskedLM(toy_joint(SIZE, 4), noise=0.7, factored=factored)


def some_pairs(texts: int, supports: tuple[Support, Support]) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    sides = [torch.randint(len(axis), (texts,), generator=generator) for axis in supports]
    return torch.stack(sides, dim=1)


def scores(model, method: str, supports=(WHOLE, WHOLE), clozes=CLOZES, **options: Any) -> Tensor:
    settings = Settings(batch_size=options.pop("batch_size", None))
    pairs = some_pairs(len(clozes), supports)
    return pair_log_probs(model, clozes, pairs, supports, settings, method=method, options=options)


def assert_near(found: Tensor, expected: Sequence[float] | Tensor, within: float = 1e-6) -> None:
    assert found.dtype == torch.float64
    wanted = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found, wanted, atol=within, rtol=0)


def mixed_clozes(lm: LanguageModel) -> list[Cloze]:
    """Of five to ten tokens, blanks anywhere, in either order."""
    rng, mask, clozes = random.Random(5), lm.model.mask_id, []
    for _ in range(14):
        length = rng.randrange(5, 11)
        at = tuple(rng.sample(range(1, length - 1), 2))
        ids = [rng.randrange(5, lm.model.vocabulary_size) for _ in range(length)]
        clozes.append(Cloze("", tuple(mask if i in at else t for i, t in enumerate(ids)), at))
    return clozes
