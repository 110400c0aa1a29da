"""Every kind of bad input, twice: a named exception in Python, one line and exit 2 in a shell."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from tiny_tokenizers import save_bert, tiny_bert, word_piece

import unmask
from unmask import UnmaskError
from unmask.cli import main
from unmask.errors import ClozeError, MethodError, ModelError, NumericsError, SupportError

pytestmark = pytest.mark.usefixtures("read_once")

PAIR = "the [MASK] sat on the [MASK]."
PLAIN = "the unhappy cat sat."
LONG = "the cat sat on the mat. the [MASK] ran."


class Models(NamedTuple):
    folder: Path
    lm: unmask.LanguageModel


class Bad(NamedTuple):
    error: type[UnmaskError]
    python: Callable[[Models], object]
    # after `unmask fill`; `-m bert` is added where no other model is named
    shell: list[str]


def joint(error: type[UnmaskError], text: str, shell: str = "", **options: object) -> Bad:
    return Bad(error, lambda m: m.lm.joint(text, **options), [text, *shlex.split(shell)])


def fill(error: type[UnmaskError], shell: str, **options: object) -> Bad:
    return Bad(error, lambda m: m.lm.fill(PAIR, **options), [PAIR, *shlex.split(shell)])


def load(shell: str, name: str = "bert", **options: object) -> Bad:
    return Bad(
        ModelError,
        lambda models: unmask.load(name and models.folder / name, **options),
        [PAIR, *shlex.split(shell)],
    )


def settings(shell: str, **options: int) -> Bad:
    return Bad(UnmaskError, lambda _: unmask.Settings(**options), [PAIR, *shell.split()])


FIVE, HIDDEN = "[MASK] " * 5, "\x1b[31m\u202e"
TABLE = [
    joint(ClozeError, "the cat sat."),
    joint(ClozeError, "the <mask>."),
    joint(ClozeError, ""),
    joint(ClozeError, " \n"),
    joint(MethodError, FIVE, "--method ag", method="ag"),
    joint(ClozeError, "[MASK] " * 23),
    # how Python hands on the byte 0xff of a command line
    joint(ClozeError, "[MASK] \udcff"),
    # blanks
    joint(ClozeError, PLAIN, "--blank 12:15 --blank 11:15", blanks=[(12, 15), (11, 15)]),
    joint(ClozeError, PLAIN, "--blank catt", blanks=["catt"]),
    joint(ClozeError, PLAIN, "--blank happy", blanks=["happy"]),
    joint(ClozeError, PLAIN, "--blank 12:14", blanks=[(12, 14)]),
    joint(ClozeError, PLAIN, "--blank 12:99", blanks=[(12, 99)]),
    joint(ClozeError, PLAIN, "--blank -1", blanks=[-1]),
    joint(ClozeError, PLAIN, "--blank 0", blanks=[0]),
    joint(ClozeError, PAIR, "--blank 1", blanks=[1]),
    # methods
    joint(MethodError, PAIR, "--method log-pol", method="log-pol"),
    joint(MethodError, PAIR, "--method mlm,", method=""),
    joint(MethodError, PAIR, "--method mrf --pivot cat", method="mrf", pivot="cat"),
    joint(MethodError, PAIR, "--method ag --tolerance -1", method="ag", tolerance=-1.0),
    joint(MethodError, PAIR, "--method orders --mean x", method="orders", mean="x"),
    joint(MethodError, PAIR, "--method ag --steps 0", method="ag", steps=0),
    joint(SupportError, PAIR, "--method hcb --pivot catt", method="hcb", pivot="catt"),
    # supports
    joint(SupportError, PAIR, "--support vocab", support="vocab"),
    joint(SupportError, PAIR, "--support cat,zebra", support=["cat", "zebra"]),
    joint(SupportError, PAIR, "--support cat,dog,cat", support=["cat", "dog", "cat"]),
    joint(SupportError, PAIR, "--support ,", support=[]),
    joint(SupportError, PAIR, "--support 0", support=0),
    joint(SupportError, PAIR, "--support 2=cat,dog", support={2: ["cat", "dog"]}),
    joint(SupportError, PAIR, "--support amino-acids", support="amino-acids"),
    # words
    fill(SupportError, "--targets 1=cat,unhappy", targets={1: ["cat", "unhappy"]}),
    fill(SupportError, "--targets cat,mat", targets=["cat", "mat"]),
    fill(SupportError, "--targets 5=cat", targets={5: ["cat"]}),
    fill(SupportError, "--targets ,", targets=[]),
    fill(SupportError, f"--targets '0=cat,{HIDDEN}'", targets={0: ["cat", HIDDEN]}),
    fill(
        SupportError,
        "--targets 0=cat --piece-prior 1=1.5",
        targets={0: ["cat"]},
        piece_prior={1: 1.5},
    ),
    fill(MethodError, "--targets 0=unhappy --method ag", targets={0: ["unhappy"]}, method="ag"),
    # numbers
    fill(SupportError, "--top 0", top=0),
    settings("--batch-size 0", batch_size=0),
    settings("--memory-limit -5", memory_limit=-5),
    # models
    load("--dtype float8", dtype="float8"),
    load("--device abacus", device="abacus"),
    load("-m ''", ""),
    # of folders that are broken, test_pretrained.py
    load("-m MODELS/no-folder", "no-folder"),
    Bad(
        NumericsError,
        lambda models: unmask.load(models.folder / "not-finite").joint(LONG),
        [LONG, "-m", "MODELS/not-finite"],
    ),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder, not_finite = tmp_path_factory.mktemp("models"), tiny_bert()
    with torch.no_grad():
        # beyond the few positions that loading tries out
        not_finite.bert.embeddings.position_embeddings.weight[9:] = torch.nan
    for part in (not_finite, word_piece()):
        part.save_pretrained(folder / "not-finite")
    return Models(folder, unmask.load(save_bert(folder / "bert")))


def arguments(bad: Bad, models: Models) -> list[str]:
    shell = [argument.replace("MODELS", str(models.folder)) for argument in bad.shell]
    return ["fill", *shell, *([] if "-m" in shell else ["-m", str(models.folder / "bert")])]


def exception(bad: Bad, models: Models) -> str:
    with pytest.raises(bad.error) as raised:
        bad.python(models)
    return str(raised.value)


def check_refused(shell: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shell) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("unmask: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1
    assert sentence in err


@pytest.mark.slow
@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: " ".join(bad.shell)[-40:])
def test_a_named_exception_and_the_same_sentence_with_exit_code_2(bad, models, capsys):
    sentence = exception(bad, models)
    assert sentence.isprintable()
    capsys.readouterr()
    check_refused(arguments(bad, models), sentence, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--blank", "x", "'x' does not occur in the text; a blank is a word as written"),
        ("--blank", "1:2:3", "'1:2:3' does not occur in the text"),
        ("--blank", "\x1b[31m", "'\\x1b[31m' does not occur in the text"),
        # beyond what Python reads as a number
        ("--blank", "9" * 5000, "does not occur in the text"),
        ("--piece-prior", "uniform", "--piece-prior ranks words of different numbers of pieces"),
        ("--input", "x.txt", "fill has no option '--input'"),
        ("--batch-size", "many", "--batch-size takes a whole number, not 'many'"),
        # beyond what Python reads as a number
        ("--batch-size", "9" * 5000, f"a whole number, not '{'9' * 28}...{'9' * 29}'"),
        ("--memory-limit", "lots", "--memory-limit takes a size such as 500MB or 8GB, not 'lots'"),
        ("--memory-limit", "nan", "--memory-limit takes a size such as 500MB or 8GB, not 'nan'"),
        ("--memory-limit", "1e999GB", "such as 500MB or 8GB, not '1e999GB'"),
    ],
)
def test_values_that_only_a_shell_can_spell(option, value, sentence, models, capsys):
    check_refused(
        ["fill", PLAIN, "-m", str(models.folder / "bert"), option, value], sentence, capsys
    )


@pytest.mark.parametrize(
    ("shell", "sentence"),
    [
        (["fill"], "the following arguments are required: -m/--model; see unmask fill --help"),
        (["fill", PAIR, "-m"], "argument -m/--model: expected one argument; see unmask fill"),
        (["fill", PAIR, "-m", "x", "--top", "many"], "--top takes a whole number, not 'many'"),
        (["fill", PAIR, "-m", "x", "--pivot-axis", "2"], "--pivot-axis is one of 0, 1, not 2"),
        (["fill", PAIR, "-m", "x", "--no-such-option"], "fill has no option '--no-such-option': "),
        # abbreviations would change their meaning when an option is added
        (["fill", PAIR, "-m", "x", "--js"], "fill has no option '--js': "),
    ],
)
def test_usage_errors_exit_with_2_in_one_line_too(shell, sentence, capsys):
    check_refused(shell, sentence, capsys)
