"""What `unmask fill` says of trust, and the options of the joints beyond the paper."""

import json

import pytest

import unmask
from fill_command import runner
from tiny_tokenizers import save_bert
from unmask.cli import main
from unmask.trust import APART, CLOSE, verdict

PAIR = "the [MASK] sat on the [MASK]."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def lm(folder):
    return unmask.load(folder)


@pytest.fixture
def fill(folder, capsys):
    return runner(folder, capsys)


@pytest.fixture
def results(fill):
    return lambda *arguments: json.loads(fill(*arguments, "--json", "--quiet")[0])


def test_plain_words_change_at_the_thresholds() -> None:
    assert verdict(0.0) == verdict(CLOSE - 1e-9) == "the two conditionals agree closely"
    assert "agree roughly" in verdict(CLOSE)
    assert "agree roughly" in verdict(APART - 1e-9)
    assert verdict(APART).endswith("disagree: treat these probabilities as approximate")


def test_how_far_to_trust_the_fills_stands_below_them(fill, results, lm):
    out, _ = fill(PAIR, "--method", "ag,mlm")
    bits = lm.joint(PAIR, method="ag").incompatibility()
    agreement, dependence = out.split("\n\n")[1].splitlines()
    assert agreement.startswith(f"J = {bits:.3f} bits: the two conditionals ")
    assert dependence.startswith("mutual information: ")
    assert dependence.endswith("bits (ag), 0.00 bits (mlm)")
    shown = results(PAIR, "--method", "ag")["results"]["ag"]
    assert shown["incompatibility"] == pytest.approx(bits)
    assert shown["verdict"] in agreement


def test_nothing_is_said_of_trust_without_both_tables(fill, results):
    assert "J =" not in fill(PAIR, "--method", "mlm,orders")[0]
    shown = results(PAIR, "--method", "orders")["results"]["orders"]
    assert (shown["incompatibility"], shown["verdict"], shown["entropy"]) == (None, None, None)


@pytest.mark.parametrize(
    ("method", "arguments", "options"),
    [
        ("ag", ["--pseudo-counts", "0.5", "--towards", "uniform"],
         {"pseudo_counts": 0.5, "towards": "uniform"}),
        ("orders", ["--mean", "geometric"], {"mean": "geometric"}),
        ("sweep", ["--contexts", "3", "--floor", "0.1"], {"contexts": 3, "floor": 0.1}),
    ],
)  # fmt: skip
def test_options_of_the_better_joints(method, arguments, options, results, lm):
    shown = results(PAIR, "--method", method, *arguments)["results"][method]
    assert shown["fills"] == lm.fill(PAIR, method=method, top=10, **options)
    assert shown["fills"] != lm.fill(PAIR, method=method, top=10)


def test_a_direction_without_a_strength_is_refused(folder, capsys):
    assert main(["fill", PAIR, "-m", folder, "--method", "ag", "--towards", "uniform"]) != 0
    assert "--towards says what --pseudo-counts pull to; give both" in capsys.readouterr().err
