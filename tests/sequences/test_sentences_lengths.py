"""How probable lengths are: each prior against its definition, and descriptions that are not."""

import math
from pathlib import Path

import pytest
from tiny_models import build

import unmask
from unmask.sequences import read_length_prior
from unmask.sequences.lengths import empirical


@pytest.mark.parametrize("spec", ["poisson:3.5", "poisson:0.01", "geometric:0.8"])
def test_proper_priors_add_up_to_one(spec: str):
    prior = read_length_prior(spec)
    assert prior.proper
    assert math.fsum(math.exp(prior.log_prob(n)) for n in range(1, 400)) == pytest.approx(1)
    assert prior.log_prob(0) == -math.inf


def test_poisson_lengths_have_poisson_ratios():
    prior = read_length_prior("poisson:4")
    for n in (1, 2, 9):
        assert prior.log_prob(n + 1) - prior.log_prob(n) == pytest.approx(math.log(4 / (n + 1)))


def test_geometric_lengths_go_on_with_their_probability():
    prior = read_length_prior("geometric:0.9")
    assert prior.log_prob(1) == pytest.approx(math.log(0.1))
    assert prior.log_prob(5) - prior.log_prob(4) == pytest.approx(math.log(0.9))


def test_uniform_lengths_are_improper_and_alike():
    prior = read_length_prior("uniform")
    assert not prior.proper
    assert prior.log_prob(3) == prior.log_prob(300)


def test_a_corpus_counts_tokens_and_adds_one(tmp_path: Path):
    lm = unmask.load(build("bert"))
    file = tmp_path / "lines.txt"
    long = "the " * 40
    file.write_text(f"the cats sat\n\nhe ran\nthe dog ran .\n{long}\n", encoding="utf-8")
    prior = read_length_prior(f"corpus:{file}", lm)
    # 24 positions, two of them special: lengths 1 to 22; three texts fit
    assert prior.log_prob(4) == pytest.approx(math.log(3 / 25))
    assert prior.log_prob(2) == pytest.approx(math.log(2 / 25))
    assert prior.log_prob(22) == pytest.approx(math.log(1 / 25))
    assert prior.log_prob(23) == -math.inf
    assert "3 texts" in prior.note
    assert "1 to 22; 1 longer texts left out" in prior.note
    assert math.fsum(math.exp(prior.log_prob(n)) for n in range(1, 23)) == pytest.approx(1)


def test_counted_lengths_add_up_to_one():
    prior = empirical("x", [3, 3, 5, 8], 9)
    assert math.fsum(math.exp(prior.log_prob(n)) for n in range(1, 10)) == pytest.approx(1)
    assert prior.log_prob(3) - prior.log_prob(4) == pytest.approx(math.log(3))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("poisson", "a length prior is uniform, poisson:MEAN"),
        ("flat", "not 'flat'"),
        ("uniform:3", "not 'uniform:3'"),
        ("corpus:", "not 'corpus:'"),
        ("", "not ''"),
        (7, "not 7"),
        ("poisson:-1", "needs a mean above 0, not '-1'"),
        ("poisson:nan", "needs a mean above 0, not 'nan'"),
        ("poisson:inf", "needs a mean above 0, not 'inf'"),
        ("geometric:1", "needs a probability between 0 and 1, not '1'"),
        ("geometric:x", "needs a probability between 0 and 1, not 'x'"),
        ("corpus:a.txt", "give the model"),
    ],
)
def test_descriptions_that_are_none_are_refused(spec: object, said: str):
    with pytest.raises(unmask.UnmaskError, match=said) as error:
        read_length_prior(spec)
    assert "\n" not in str(error.value)


def test_files_that_hold_no_lengths_are_refused(tmp_path: Path):
    lm = unmask.load(build("bert"))
    empty, binary = tmp_path / "empty.txt", tmp_path / "binary.txt"
    empty.write_text("\n \n", encoding="utf-8")
    binary.write_bytes(b"\xff\xfe\x00")
    for file, said in (
        (empty, "holds no text"),
        (binary, "not UTF-8"),
        (tmp_path / "missing", "No such file"),
        (tmp_path, "cannot read lengths"),
    ):
        with pytest.raises(unmask.CorpusError, match=said) as error:
            read_length_prior(f"corpus:{file}", lm)
        assert "\n" not in str(error.value)
