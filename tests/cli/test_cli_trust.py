"""What `unmask fill` says of trust, and the options of the joints beyond the paper."""

import pytest
from tiny_tokenizers import save_bert

from unmask.joints.agreement import APART, CLOSE, Agreement

PAIR = "the [MASK] sat on the [MASK]."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_bert(tmp_path_factory.mktemp("bert")))


def test_plain_words_change_at_the_thresholds() -> None:
    closely = "the two conditionals agree closely"
    assert Agreement(0.0).words() == Agreement(CLOSE - 1e-9).words() == closely
    assert "agree roughly" in Agreement(CLOSE).words()
    assert "agree roughly" in Agreement(APART - 1e-9).words()
    assert Agreement(APART).words().endswith("treat these probabilities as approximate")
