"""`unmask tune`: what it prints and leaves, how it is stopped, and bad input in one line."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import killable
import pytest
import tiny_models

import unmask
from unmask.cli import main

ROOT = Path(__file__).parents[2]
SENTENCES = [
    f"A {who} {does} a {what} in the {where}."
    for who in ("man", "woman", "boy", "girl", "dog")
    for does in ("sees", "has", "likes", "holds")
    for what in ("ball", "hat", "car", "book")
    for where in ("park", "street", "house", "garden")
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(SENTENCES) + "\n")
    return path


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("bert")
    for one in tiny_models.build("bert"):
        one.save_pretrained(folder)
    return str(folder)


@pytest.mark.real
@pytest.mark.slow
def test_tiny_english_learns_a_small_corpus(corpus, tmp_path, capsys) -> None:
    began = time.process_time()
    output = tmp_path / "tuned"
    command = ["tune", str(ROOT / "models/tiny-english"), str(corpus), "-o", str(output)]
    command += ["--compatibility", "1", "--passes", "600", "--learning-rate", "1e-3"]
    assert main([*command, "--evaluations", "2", "--device", "cpu"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    lines = [line for line in said.err.splitlines() if "held-out loss" in line]
    assert lines[0].startswith("0 of 600 forward passes")
    assert lines[-1].startswith("the model after 600 of 600 forward passes is in")
    about = json.loads((output / "tuning.json").read_text())
    first, *_, last = about["record"]["evaluations"]
    assert last["loss"] < first["loss"] - 0.3
    assert about["plan"]["model"]["name"] == "tiny-english"
    assert about["plan"]["corpora"] == ["sentences.txt"]
    assert unmask.load(output).joint("A man [MASK] a [MASK] in the park.").top(1)
    assert time.process_time() - began < 60
    # the same command finds everything done
    assert main([*command, "--evaluations", "2", "--device", "cpu"]) == 0
    assert "the model after 600 of 600" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_in_one_line_with_everything_saved(tiny, tmp_path, number, code) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(f"the cat sat {w}" for w in _WORDS) + "\n")
    output, log = tmp_path / "tuned", tmp_path / "log"
    command = ["tune", tiny, str(tmp_path / "texts.txt"), "-o", str(output), "--passes", "400000"]
    process = killable.start([*command, "--device", "cpu"], log)
    while not (log.exists() and "held-out loss" in log.read_text()):
        assert process.exitcode is None, log.read_text()
        time.sleep(0.1)
    time.sleep(0.5)
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode == code
    last = log.read_text().splitlines()[-1]
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert last.startswith(f"unmask: {word}; ")
    assert last.endswith("of 400,000 forward passes are saved; repeat the command to continue")
    assert "Traceback" not in log.read_text()
    assert (output / "training/state.safetensors").exists()


_WORDS = ("on the mat", "in the house", "at the car", "on a hat", "in the red car", "at a house")


@pytest.mark.slow
def test_the_cost_comes_first_and_a_model_that_is_not_improved_is_said_to_be_the_same(
    tiny, tmp_path, capsys
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(f"the cat sat {w}" for w in _WORDS) + "\n")
    output = tmp_path / "tuned"
    command = ["tune", tiny, str(tmp_path / "texts.txt"), "-o", str(output), "--device", "cpu"]
    # a rate so high that it can only harm
    command += ["--passes", "60", "--learning-rate", "5", "--patience", "2"]
    assert main(command) == 0
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("training: 60 forward passes on 5 sentences, and ")
    about = json.loads((output / "tuning.json").read_text())
    loss = about["record"]["evaluations"][0]["loss"]
    assert last == (
        f"training ran {about['record']['passes']} forward passes and stopped early: no evaluation "
        f"was better than that of the model it began with (held-out loss {loss:.3f}), so "
        f"'{output}' holds the weights it began with"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--compatibility", "-1"], "compatibility is a finite number from 0, not -1.0"),
        (["--compatibility", "nan"], "compatibility is a finite number from 0, not nan"),
        (["--marginals", "inf"], "marginals is a finite number from 0, not inf"),
        (["--masks", "all"], "masks is one of blanks, plain, any, not 'all'"),
        (["--keep", "first"], "keep is one of best, last, not 'first'"),
        (["--tokens", "1"], "tokens is a whole number from 2, not 1"),
        (["--tokens", "999", "--compatibility", "1"], "tokens is at most"),
        (["--passes", "0"], "passes is a whole number from 1, not 0"),
        (["--learning-rate", "0"], "learning_rate is a finite number above 0, not 0.0"),
        (["--device", "abacus"], "no device 'abacus' here"),
        (["--without", "nowhere.txt"], "there is no file 'nowhere.txt'"),
    ],
)
def test_bad_options_are_one_line(options, said, tiny, corpus, tmp_path, capsys) -> None:
    output = tmp_path / "tuned"
    assert main(["tune", tiny, str(corpus), "-o", str(output), *options]) == 2
    _one_line(capsys, said)
    assert not output.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n\n", "has no sentence"),
        ("xyzzy\nplugh\n", "0 of 2 texts can be learnt from (left out: 2 without a known token)"),
        ("the cat\n", "1 of 1 texts can be learnt from"),
        ("the [MASK]\nthe cat\n", "1 with a mask token"),
        (" ".join(["cat"] * 40) + "\nthe cat\n", "1 longer than the model takes"),
    ],
)
def test_a_corpus_without_texts_to_learn_from_is_one_line(
    text, said, tiny, tmp_path, capsys
) -> None:
    (tmp_path / "texts.txt").write_text(text)
    output = tmp_path / "tuned"
    assert main(["tune", tiny, str(tmp_path / "texts.txt"), "-o", str(output)]) == 2
    _one_line(capsys, said)
    assert not output.exists()


def test_models_and_folders_that_cannot_be_used_are_one_line(
    tiny, corpus, tmp_path, capsys
) -> None:
    assert main(["tune", str(tmp_path / "none"), str(corpus), "-o", str(tmp_path / "out")]) == 2
    _one_line(capsys, "there is no folder")
    without = tmp_path / "without-mask"
    model, tokenizer = tiny_models.build("bert")
    model.save_pretrained(without)
    tokenizer.mask_token = None
    tokenizer.save_pretrained(without)
    capsys.readouterr()
    assert main(["tune", str(without), str(corpus), "-o", str(tmp_path / "out")]) == 2
    _one_line(capsys, "has no mask token")
    # the model's own folder above all
    before = sorted(path.name for path in Path(tiny).iterdir())
    assert main(["tune", tiny, str(corpus), "-o", tiny]) == 2
    _one_line(capsys, "is not empty")
    assert sorted(path.name for path in Path(tiny).iterdir()) == before


def _one_line(capsys: Any, said: str) -> None:
    err = capsys.readouterr().err
    assert said in err
    assert err.startswith("unmask: ")
    assert err.count("\n") == 1
