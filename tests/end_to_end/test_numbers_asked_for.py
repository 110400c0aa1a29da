"""Requests that once were answered with another number than was asked for, or not in one line."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from tiny_tokenizers import save_bert
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask import Sketch
from unmask.cli import main
from unmask.constructions.needs import Needs
from unmask.jobs.kinds.fill import FillKind
from unmask.joints.form_engine import streamed
from unmask.joints.forms import Product
from unmask.queries.dependence import jacobian
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.records.files import open_input, read_unit
from unmask.tables.conditional import DenseLogits
from unmask.tables.pair_tables import PairTables

QUIET = unmask.Settings(progress=False, announce=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def lm(folder: str) -> unmask.LanguageModel:
    return unmask.load(folder)


# --- joints --------------------------------------------------------------------------------------


def test_factors_of_a_form_are_added_where_they_are() -> None:
    factors = torch.zeros(3, 1, device="meta"), torch.zeros(1, 3, device="meta")
    logits = DenseLogits(torch.zeros(3, 3))
    engine = streamed(Product((0.0, 0.0), factors), PairTables.from_logits(logits, logits))
    assert [log.device.type for log in engine.log_marginals] == ["meta", "meta"]


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


def test_pmi_of_what_cannot_be_is_undefined() -> None:
    scores = torch.tensor([[0.0, -math.inf], [0.0, -math.inf]], dtype=torch.float64)
    joint = unmask.Joint.from_scores(scores, (unmask.Support.of(["a", "b"]),) * 2)
    with pytest.raises(unmask.errors.NumericsError, match="undefined"):
        joint.pmi(*(axis.names[1] for axis in joint.supports))


def test_blanks_are_counted_by_whole_numbers(lm) -> None:
    joint = lm.joint("the [MASK] sat on the [MASK].", support=["cat", "mat"])
    assert joint.marginal(np.int64(1)).supports == joint.marginal(1).supports
    with pytest.raises(unmask.errors.SupportError, match="there is no blank True"):
        joint.marginal(True)


def test_a_sketch_is_not_taken_for_the_vocabulary(lm) -> None:
    with pytest.raises(unmask.errors.SupportError, match="a Sketch is for joint and fill"):
        lm.tables("the [MASK] sat on the [MASK].", support=Sketch())


def test_large_tables_of_bfloat16_are_read() -> None:
    logits = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(0)).bfloat16()
    tables = PairTables.from_logits(DenseLogits(logits), DenseLogits(logits.clone()))
    row = tables.a_given_b.log_prob(slice(0, 1024)).exp().sum(0)
    assert torch.allclose(row, torch.ones_like(row))


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


def test_a_target_beyond_the_model_is_named(folder) -> None:
    lm = unmask.load(folder)
    lm.tokenizer.add_tokens(["zzz"])
    with pytest.raises(
        unmask.errors.SupportError, match="has a token for 'zzz', but the model has"
    ):
        lm.fill("the [MASK] sat.", targets=["dog", "zzz"])


def test_words_in_a_cell_are_several_targets() -> None:
    assert FillKind().with_fields({"targets": "man, woman"}).targets == ["man", "woman"]
    assert FillKind().with_fields({"targets": ["man,woman"]}).targets == ["man,woman"]


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


def test_maps_that_cannot_be_are_refused_in_one_line(lm) -> None:
    with pytest.raises(unmask.errors.SupportError, match="out of the whole vocabulary"):
        lm.dependence("the dog sat.", measure="pmi", support=["dog", "sat"])
    texts = ["the dog sat.", "the cat sat."]
    for places, said in (([[1, 2]], "text 1 has no places"), ([[1, 2]] * 3, "more places than")):
        with pytest.raises(unmask.errors.ClozeError, match=said):
            lm.dependence(texts, places=places, settings=QUIET)
    wide = lm.cloze("the unhappy dog sat.", blanks=["unhappy", "dog"])
    with pytest.raises(unmask.errors.ClozeError, match="one token each"):
        lm.decode(wide)


# --- the command line ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("more", [["--pairs", "good,bad"], ["--column", "bad", "--words"]])
def test_unknown_words_are_told_of_pairs_and_words_too(more, folder, tmp_path, capsys) -> None:
    (tmp_path / "p.csv").write_text("good,bad\nthe cat sat .,the zebra sat .\n")
    assert main(["score", str(tmp_path / "p.csv"), "-m", folder, *more]) == 0
    said = "".join(capsys.readouterr())
    assert "1 of 1" in said
    assert "have words that the vocabulary has no token for: " in said


@pytest.mark.slow
def test_rows_without_text_have_none_in_their_reason(folder, capsys) -> None:
    given = ["score", "--no-text", "--json", "-m", folder, "--text", "zebra", "--text", "the cat ."]
    assert main(given) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0]["reason"]
    assert "zebra" not in json.dumps(rows)


@pytest.mark.parametrize("blank", ["", "\n", "\n \n"])
def test_the_header_of_a_table_is_no_row(blank: str, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text(f"{blank}id\ttext\n1\tA cat.\n")
    (unit,) = open_input([str(tmp_path / "t.tsv")]).cut(9).units
    assert list(read_unit(unit, ["text"]).rows) == [{"id": "1", "text": "A cat."}]


def test_a_corpus_from_no_standard_input_is_one_line(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(unmask.errors.CorpusError, match="no standard input to read from"):
        read_corpus(CorpusSpec("-"))
