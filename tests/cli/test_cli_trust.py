"""What `unmask fill` says of trust, and the options of the joints beyond the paper."""

from unmask.joints.agreement import APART, CLOSE, Agreement

PAIR = "the [MASK] sat on the [MASK]."


def test_plain_words_change_at_the_thresholds() -> None:
    closely = "the two conditionals agree closely"
    assert Agreement(0.0).words() == Agreement(CLOSE - 1e-9).words() == closely
    assert "agree roughly" in Agreement(CLOSE).words()
    assert "agree roughly" in Agreement(APART - 1e-9).words()
    assert Agreement(APART).words().endswith("treat these probabilities as approximate")
