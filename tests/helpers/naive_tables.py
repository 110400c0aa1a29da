"""Tables of a real architecture, read one row at a time from its own logits."""

from typing import NamedTuple

import torch
from torch import Tensor

import unmask

TOLERANCE = 1e-5


EVERY = slice(None)


class Naive(NamedTuple):
    """Both tables, [a, b], and the doubly masked distributions, in float64."""

    log_a_given_b: Tensor
    log_b_given_a: Tensor
    log_a: Tensor
    log_b: Tensor


@torch.no_grad()
def naive_tables(model, tokenizer, text: str) -> Naive:
    """Full logits of one sequence at a time, as the tokenizer encodes it."""
    encoding = tokenizer(text, return_tensors="pt")
    ids = encoding["input_ids"]
    a, b = torch.nonzero(ids[0] == tokenizer.mask_token_id)[:, 0].tolist()

    def log_q(at: int, context: dict[int, int]) -> Tensor:
        row = ids.clone()
        for position, token in context.items():
            row[0, position] = token
        logits = model(**{**encoding, "input_ids": row}).logits[0, at]
        return torch.log_softmax(logits.double(), dim=-1)

    vocabulary = range(len(log_q(a, {})))
    return Naive(
        torch.stack([log_q(a, {b: token}) for token in vocabulary], dim=1),
        torch.stack([log_q(b, {a: token}) for token in vocabulary]),
        log_q(a, {}),
        log_q(b, {}),
    )


def assert_near(found: Tensor, expected: Tensor, error: float = TOLERANCE) -> None:
    torch.testing.assert_close(found, expected, atol=error, rtol=0)


def assert_tables(tables: unmask.PairTables, expected: Naive, error: float = TOLERANCE) -> None:
    assert_near(tables.a_given_b.log_prob(EVERY), expected.log_a_given_b, error)
    assert_near(tables.b_given_a.log_prob(EVERY), expected.log_b_given_a, error)
    assert_near(tables.masked.log_a, expected.log_a, error)
    assert_near(tables.masked.log_b, expected.log_b, error)
