"""Every kind of bad input, twice: a named exception in Python, one line and exit 2 in a shell."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from tiny_tokenizers import save_bert, tiny_bert, word_piece
from transformers import BertModel, GPT2Config, GPT2LMHeadModel

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
    kind: str
    error: type[UnmaskError]
    python: Callable[[Models], object]
    # after `unmask fill`; `-m bert` is added where no other model is named
    shell: tuple[str, ...]


def joint(text: str, **options: object) -> Callable[[Models], object]:
    return lambda models: models.lm.joint(text, **options)


def fill(text: str, **options: object) -> Callable[[Models], object]:
    return lambda models: models.lm.fill(text, **options)


def load(name: str, **options: object) -> Callable[[Models], object]:
    return lambda models: unmask.load(models.folder / name, **options)


TEXTS = [
    Bad("no blank", ClozeError, joint("the cat sat."), ("the cat sat.",)),
    Bad("another model's blank", ClozeError, joint("the <mask>."), ("the <mask>.",)),
    Bad("empty text", ClozeError, joint(""), ("",)),
    Bad("white space", ClozeError, joint(" \n"), (" \n",)),
    Bad(
        "blanks beyond tables",
        MethodError,
        joint("[MASK] " * 5, method="ag"),
        ("[MASK] " * 5, "--method", "ag"),
    ),
    Bad("too long", ClozeError, joint("[MASK] " * 23), ("[MASK] " * 23,)),
    # how Python hands on the byte 0xff of a command line
    Bad("half a character", ClozeError, joint("[MASK] \udcff"), ("[MASK] \udcff",)),
]

BLANKS = [
    Bad(
        "overlapping blanks",
        ClozeError,
        joint(PLAIN, blanks=[(12, 15), (11, 15)]),
        (PLAIN, "--blank", "12:15", "--blank", "11:15"),
    ),
    Bad("no such word", ClozeError, joint(PLAIN, blanks=["catt"]), (PLAIN, "--blank", "catt")),
    Bad("half a word", ClozeError, joint(PLAIN, blanks=["happy"]), (PLAIN, "--blank", "happy")),
    Bad(
        "part of a token", ClozeError, joint(PLAIN, blanks=[(12, 14)]), (PLAIN, "--blank", "12:14")
    ),
    Bad("span outside", ClozeError, joint(PLAIN, blanks=[(12, 99)]), (PLAIN, "--blank", "12:99")),
    Bad("index outside", ClozeError, joint(PLAIN, blanks=[-1]), (PLAIN, "--blank", "-1")),
    Bad("special token", ClozeError, joint(PLAIN, blanks=[0]), (PLAIN, "--blank", "0")),
    Bad("blanks and masks", ClozeError, joint(PAIR, blanks=[1]), (PAIR, "--blank", "1")),
]

METHODS = [
    Bad(
        "unknown method", MethodError, joint(PAIR, method="log-pol"), (PAIR, "--method", "log-pol")
    ),
    Bad("no method", MethodError, joint(PAIR, method=""), (PAIR, "--method", "mlm,")),
    Bad(
        "option of another method",
        MethodError,
        joint(PAIR, method="mrf", pivot="cat"),
        (PAIR, "--method", "mrf", "--pivot", "cat"),
    ),
    *(
        Bad(
            f"{option} of {method}",
            MethodError,
            joint(PAIR, method=method, **{option: value}),
            (PAIR, "--method", method, f"--{option.replace('_', '-')}", str(value)),
        )
        for method, option, value in [
            ("ag", "tolerance", -1.0),
            ("orders", "mean", "x"),
        ]
    ),
    Bad(
        "no steps",
        MethodError,
        joint(PAIR, method="ag", steps=0),
        (PAIR, "--method", "ag", "--steps", "0"),
    ),
    Bad(
        "unknown pivot",
        SupportError,
        joint(PAIR, method="hcb", pivot="catt"),
        (PAIR, "--method", "hcb", "--pivot", "catt"),
    ),
]

SUPPORTS = [
    Bad(
        "unknown support", SupportError, joint(PAIR, support="vocab"), (PAIR, "--support", "vocab")
    ),
    Bad(
        "candidate outside the vocabulary",
        SupportError,
        joint(PAIR, support=["cat", "zebra"]),
        (PAIR, "--support", "cat,zebra"),
    ),
    Bad(
        "candidate twice",
        SupportError,
        joint(PAIR, support=["cat", "dog", "cat"]),
        (PAIR, "--support", "cat,dog,cat"),
    ),
    Bad("no candidates", SupportError, joint(PAIR, support=[]), (PAIR, "--support", ",")),
    Bad("no proposals", SupportError, joint(PAIR, support=0), (PAIR, "--support", "0")),
    Bad(
        "support of another blank",
        SupportError,
        joint(PAIR, support={2: ["cat", "dog"]}),
        (PAIR, "--support", "2=cat,dog"),
    ),
    Bad(
        "an alphabet that is not there",
        SupportError,
        joint(PAIR, support="amino-acids"),
        (PAIR, "--support", "amino-acids"),
    ),
]

WORDS = [
    Bad(
        "words of several lengths",
        SupportError,
        fill(PAIR, targets=["cat", "unhappy"]),
        (PAIR, "--targets", "cat,unhappy"),
    ),
    Bad(
        "targets of another blank",
        SupportError,
        fill(PAIR, targets={5: ["cat"]}),
        (PAIR, "--targets", "5=cat"),
    ),
    Bad("no targets", SupportError, fill(PAIR, targets=[]), (PAIR, "--targets", ",")),
    Bad(
        "a word without pieces",
        SupportError,
        fill(PAIR, targets=["cat", "\x1b[31m\u202e"]),
        (PAIR, "--targets", "cat,\x1b[31m\u202e"),
    ),
    Bad(
        "a prior above 1",
        SupportError,
        fill(PAIR, targets=["cat"], piece_prior={1: 1.5}),
        (PAIR, "--targets", "cat", "--piece-prior", "1=1.5"),
    ),
    Bad(
        "tables of many pieces",
        MethodError,
        fill(PAIR, targets=["unhappy"], method="ag"),
        (PAIR, "--targets", "unhappy", "--method", "ag"),
    ),
]

NUMBERS = [
    Bad("no fills", SupportError, lambda m: m.lm.fill(PAIR, top=0), (PAIR, "--top", "0")),
    Bad(
        "no rows",
        UnmaskError,
        lambda _: unmask.Settings(batch_size=0),
        (PAIR, "--batch-size", "0"),
    ),
    Bad(
        "negative memory",
        UnmaskError,
        lambda _: unmask.Settings(memory_limit=-5),
        (PAIR, "--memory-limit", "-5"),
    ),
]

MODELS = [
    Bad("unknown dtype", ModelError, load("bert", dtype="float8"), (PAIR, "--dtype", "float8")),
    Bad("unknown device", ModelError, load("bert", device="abacus"), (PAIR, "--device", "abacus")),
    Bad("no name", ModelError, lambda _: unmask.load(""), (PAIR, "-m", "")),
    *(
        Bad(kind.replace("-", " "), ModelError, load(kind), (PAIR, "-m", f"MODELS/{kind}"))
        for kind in (
            *("no-folder", "no-config", "no-weights", "no-masked-LM", "no-head", "only-a-pickle"),
            *("broken-weights", "broken-config", "broken-tokenizer", "bert/config.json"),
        )
    ),
    Bad(
        "weights that are not finite",
        NumericsError,
        lambda models: unmask.load(models.folder / "not-finite").joint(LONG),
        (LONG, "-m", "MODELS/not-finite"),
    ),
]

TABLE = [*TEXTS, *BLANKS, *METHODS, *SUPPORTS, *WORDS, *NUMBERS, *MODELS]


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> Models:
    folder = tmp_path_factory.mktemp("models")
    bert = save_bert(folder / "bert")
    for name in ("no-config", "no-weights", "only-a-pickle", "broken-weights", "broken-config"):
        shutil.copytree(bert, folder / name)
    shutil.copytree(bert, folder / "broken-tokenizer")
    (folder / "no-config/config.json").unlink()
    (folder / "no-weights/model.safetensors").unlink()
    (folder / "only-a-pickle/model.safetensors").rename(folder / "only-a-pickle/model.bin")
    (folder / "broken-weights/model.safetensors").write_bytes(b"not safetensors")
    (folder / "broken-config/config.json").write_text("{")
    (folder / "broken-tokenizer/tokenizer.json").write_text("{")
    save_other_models(folder)
    return Models(folder, unmask.load(bert))


def save_other_models(folder: Path) -> None:
    sizes = {"vocab_size": 36, "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 8}
    not_finite = tiny_bert()
    with torch.no_grad():
        # beyond the few positions that loading tries out
        not_finite.bert.embeddings.position_embeddings.weight[9:] = torch.nan
    for name, model in {
        "no-masked-LM": GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)),
        "no-head": BertModel(tiny_bert().config),
        "not-finite": not_finite,
    }.items():
        model.save_pretrained(folder / name)
        word_piece().save_pretrained(folder / name)


def arguments(bad: Bad, models: Models) -> list[str]:
    shell = [argument.replace("MODELS", str(models.folder)) for argument in bad.shell]
    return ["fill", *shell, *([] if "-m" in shell else ["-m", str(models.folder / "bert")])]


def exception(bad: Bad, models: Models) -> str:
    with pytest.raises(bad.error) as raised:
        bad.python(models)
    return str(raised.value)


def check_one_line(err: str, sentence: str) -> None:
    assert err.startswith("unmask: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1
    assert sentence in err


@pytest.mark.slow
@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.kind)
def test_a_named_exception_and_the_same_sentence_with_exit_code_2(bad, models, capsys):
    sentence = exception(bad, models)
    assert sentence.isprintable()
    capsys.readouterr()
    assert main(arguments(bad, models)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    check_one_line(err, sentence)


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
    assert main(["fill", PLAIN, "-m", str(models.folder / "bert"), option, value]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    check_one_line(err, sentence)


@pytest.mark.parametrize(
    ("shell", "sentence"),
    [
        (["fill"], "the following arguments are required: -m/--model; see unmask fill --help"),
        (["fill", PAIR, "-m"], "argument -m/--model: expected one argument; see unmask fill"),
        (["fill", PAIR, "-m", "x", "--top", "many"], "--top takes a whole number, not 'many'"),
        (["fill", PAIR, "-m", "x", "--pivot-axis", "2"], "--pivot-axis is one of 0, 1, not 2"),
    ],
)
def test_usage_errors_exit_with_2_in_one_line_too(shell, sentence, capsys):
    assert main(shell) == 2
    out, err = capsys.readouterr()
    assert out == ""
    check_one_line(err, sentence)


# abbreviations would change their meaning when an option is added
@pytest.mark.parametrize("option", ["--no-such-option", "--js"])
def test_an_unknown_option_exits_with_2_in_one_line(option, capsys):
    assert main(["fill", PAIR, "-m", "x", option]) == 2
    check_one_line(capsys.readouterr().err, f"fill has no option '{option}': ")
