"""INPUT: what is a file and what is a text, and names of options that were meant."""

from pathlib import Path

import pytest

from unmask.cli import main
from unmask.cli.inputs import Input, read_input
from unmask.errors import CorpusError, UnmaskError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("texts.txt", "my notes", "word", "shelf/a.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text\na\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "given",
    [
        "-",
        "texts.txt",
        "my notes",  # exists, with a space
        "word",  # exists, and looks like a text
        "shelf",
        "missing.csv",
        "my missing items.csv.gz",
        "chains.fasta",
        "s3://bucket/texts",
        "hf://datasets/x/y",
        "and/or",  # --text is for such a text
        "shelf/*",
        "nothing-[0-9].jsonl",  # a pattern without matches
        "text?.txt",
        "wor?",  # a pattern that a file matches
    ],
)
def test_a_file(given: str) -> None:
    if "missing" in given or given in ("chains.fasta", "and/or"):
        with pytest.raises(CorpusError, match="there is no file"):
            read_input([given])
    else:
        assert read_input([given]) == Input((given,), ())


@pytest.mark.parametrize(
    "given",
    [
        "",
        "The [MASK] [MASK] at the casino.",
        "Is it [MASK]?",
        "[MASK]",
        "我[MASK]北京[MASK]。",
        "MKTAYIAKQR",
        "A <mask> and/or a <mask>",
        "See https://example.org for more.",
        "csv",
        "U.S.",
        "x" * 5000,
        "a\0b",
    ],
)
def test_a_text(given: str) -> None:
    assert read_input([given]) == Input((), (given,))


def test_input_is_files_or_texts() -> None:
    assert read_input(["texts.txt", "shelf"]) == Input(("texts.txt", "shelf"), ())
    assert read_input(["A text."]) == Input((), ("A text.",))
    assert read_input([], ["texts.txt", "word"]) == Input((), ("texts.txt", "word"))


@pytest.mark.parametrize(
    ("given", "texts", "said"),
    [
        ([], [], "give INPUT: a file, or - for standard input, or a text"),
        (["texts.txt"], ["a"], "INPUT and --text exclude each other"),
        (["The", "[MASK]", "sat."], [], "put it in quotation marks"),
        (["texts.txt", "A text."], [], "'A text.' is not a file"),
        (["missing.csv"], [], "there is no file 'missing.csv'; a text that looks like a file is"),
        (["and/or"], [], "given with --text"),
    ],
)
def test_what_is_neither_is_refused(given: list[str], texts: list[str], said: str) -> None:
    with pytest.raises(UnmaskError, match=said.replace("[", r"\[").replace(".", r"\.")):
        read_input(given, texts)


def test_a_table_is_not_a_text() -> None:
    with pytest.raises(CorpusError, match=r"'A text\.' is not a file; give a table"):
        read_input(["A text."], instead="give a table")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("score --top-k 3", "score has no option '--top-k': unmask score --help lists its options"),
        ("fill --topk=3", "fill has no option '--topk': did you mean --top?"),
        ("score --output-file x", "did you mean --output?"),
        ("fill --methods mlm", "did you mean --method?"),
        ("report x --format csv", "did you mean --output-format?"),
        ("score --batch 3", "did you mean --batch-size?"),
        ("score --quite", "did you mean --quiet?"),
        ("merge a b c", "merge takes no further argument 'c'"),
    ],
)
def test_an_option_that_was_meant_is_named(words: str, said: str, capsys) -> None:
    model = [] if words.startswith(("report", "merge")) else ["-m", "model"]
    assert main([*words.split(), *model]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
