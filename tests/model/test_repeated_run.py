"""How large batches are, and that a run can be repeated with the size that it names."""

import pytest
import torch
from assets import real_model

import unmask
from unmask import Settings


@pytest.mark.real
def test_a_run_is_repeated_bit_for_bit_with_the_size_it_names():
    lm = unmask.load(real_model("tiny-english"))
    text = "Two [MASK] are playing [MASK] on the beach."
    support = list(range(700))
    first = lm.tables(text, support=support)
    found = first.a_given_b.log_prob(slice(None))
    size = first.diagnostics()["batch_size"]
    again = lm.tables(text, support=support, settings=Settings(batch_size=size))
    assert torch.equal(again.a_given_b.log_prob(slice(None)), found)
    assert again.diagnostics()["batch_size"] == size
    other = lm.tables(text, support=support, settings=Settings(batch_size=37))
    torch.testing.assert_close(other.a_given_b.log_prob(slice(None)), found, atol=2e-5, rtol=0)
