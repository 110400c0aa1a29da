"""What `unmask fill` says of trust, and the options of the joints beyond the paper."""

import pytest
from tiny_tokenizers import save_bert

from unmask.cli import main
from unmask.constructions.solvers import fits
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


@pytest.mark.slow
def test_a_j_that_has_not_converged_is_called_rough(fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver behind J is stopped at once; a joint that needs no solver still shows J."""
    solve = fits.solve_stationary
    monkeypatch.setattr(fits, "solve_stationary", lambda tables: solve(tables, max_passes=2))
    out, err = fill(PAIR, "--method", "mrf")
    assert "J = " in out
    assert "the solver behind J has not converged" in err


def test_a_direction_without_a_strength_is_refused(folder, capsys):
    assert main(["fill", PAIR, "-m", folder, "--method", "ag", "--towards", "uniform"]) != 0
    assert "--towards is what --pseudo-counts pull to; give both" in capsys.readouterr().err
