"""Requests that once were answered with another number than was asked for, or not in one line."""

import json
from pathlib import Path

import pytest
import tiny_models
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask import Sketch
from unmask.cli import main
from unmask.constructions.needs import Needs
from unmask.joints.forms import Product
from unmask.queries.dependence import jacobian

QUIET = unmask.Settings(progress=False, announce=False)


# --- joints --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sketched() -> unmask.Joint:
    lm = unmask.LanguageModel(ToyMaskedLM(toy_joint(600, 2), noise=0.2), ToyTokenizer(600))
    return lm.joint("[MASK] [MASK]", support=Sketch(precision=None, max_passes=201), settings=QUIET)


@pytest.mark.slow
def test_odds_of_a_sketch_take_every_token_that_has_a_probability(sketched) -> None:
    held = [set(axis.names) for axis in sketched.supports]
    left = [next(f"t{n}" for n in range(600) if f"t{n}" not in names) for names in held]
    there = [axis.names[0] for axis in sketched.supports]
    odds = sketched.log_odds(left, there)
    assert odds == pytest.approx(sketched.log_prob(*left) - sketched.log_prob(*there), abs=1e-9)
    one, other = (
        sketched.log_odds([a, b], there) for a, b in ((left[0], there[1]), (there[0], left[1]))
    )
    assert sketched.interaction(left, there) == pytest.approx(odds - one - other, abs=1e-9)


# --- targets -------------------------------------------------------------------------------------


def test_targets_are_scored_by_the_construction_that_is_named(lm) -> None:
    """One of your own that reads masked distributions alone is not `mlm`."""
    name = "tempered-for-a-test"

    @unmask.register(name, needs=Needs(masked=True))
    def tempered(tables):
        masked = tables.masked
        return Product((0.0, 0.0), (0.5 * masked.log_a[:, None], 0.5 * masked.log_b[None]))

    text, words = "the [MASK] [MASK] on the mat.", {0: ["cat", "dog"], 1: ["sat", "ran"]}
    found = lm.fill(text, targets=words, method=name, top=4)
    joint = lm.joint(text, method=name, support="vocabulary")
    for one in found:
        expected = joint.log_prob(*one["word"])
        assert one["log_prob_given_pieces"] == pytest.approx(expected, abs=1e-6)


# --- dependence ----------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["mutual-information", "jacobian"])
def test_a_window_holds_for_blanks_too(measure, lm) -> None:
    text = "the [MASK] [MASK] on [MASK] [MASK]."
    found = lm.dependence(text, measure=measure, window=1, settings=QUIET)
    assert [(one.first, one.second) for one in found.pairs()] == [(0, 1), (1, 2), (2, 3)]


def test_nothing_stands_in_a_blank(lm, monkeypatch) -> None:
    real, seen = jacobian._fills, []

    def watched(tokens, log_probs):
        seen.extend(tokens.flatten().tolist())
        return real(tokens, log_probs)

    monkeypatch.setattr(jacobian, "_fills", watched)
    lm.dependence("the [MASK] [MASK] on the mat.", measure="jacobian", samples=4, settings=QUIET)
    assert len(seen) == 8
    assert lm.model.mask_id not in seen


@pytest.mark.slow
def test_chosen_places_are_as_far_apart_as_in_the_text(tmp_path: Path) -> None:
    lm = unmask.load(tiny_models.saved("esm", tmp_path))
    asked = {"support": "amino-acids", "places": [2, 9, 11], "settings": QUIET}
    rows = lm.dependence("MKTAYIAKQRLEDW", **asked).to_rows()
    assert [row["distance"] for row in rows] == [7, 9, 2]
    near = lm.dependence("MKTAYIAKQRLEDW", **asked, window=2)
    assert [one.names for one in near.pairs()] == [("Q9", "L11")]
    assert [one.names for one in lm.dependence("MKTAYIAKQRLEDW", **asked).top(apart=8)] == [
        ("K2", "L11")
    ]


# --- the command line ----------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_without_text_have_none_in_their_reason(folder, capsys) -> None:
    given = ["score", "--no-text", "--json", "-m", folder, "--text", "zebra", "--text", "the cat ."]
    assert main(given) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0]["reason"]
    assert "zebra" not in json.dumps(rows)


# --- what is true or false -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("half_tables", lambda lm: unmask.Settings(half_tables="no")),
        ("trust_remote_code", lambda lm: unmask.load("nowhere", trust_remote_code="no")),
        ("allow_pickle", lambda lm: unmask.load("nowhere", allow_pickle=3)),
        ("draw", lambda lm: lm.decode("the [MASK] sat", draw="no")),
        ("timed", lambda lm: lm.cost("the [MASK] [MASK]", timed="no")),
        ("exact", lambda lm: lm.consistency(["the cat sat"], exact="no")),
    ],
)
def test_a_word_is_no_truth_value(lm, name, call) -> None:
    with pytest.raises(unmask.errors.UnmaskError, match=f"^{name} is True or False, not "):
        call(lm)
