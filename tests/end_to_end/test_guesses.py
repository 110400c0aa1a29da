"""Tasks as someone typed them who had read the list of commands or the README, and nothing else.

They were written down before anything was looked up. Each works, or its one line names what works;
all but one, `plot("map.png")` of a dependence map: `plot().savefig("map.png")` writes a file.
"""

import io
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from assets import real_model

import unmask
from unmask import cli

TWO = "The [MASK] sat on the [MASK]."
KEYS = "The keys to the cabinet are on the table."
FILES = {
    "sentences.csv": "text,sentence\nTwo dogs are running.,A man is here.\n",
    "texts.txt": f"{TWO}\nTwo [MASK] are [MASK].\n",
    "items.csv": f"text,word1,word2\n{TWO},man,street\n",
    "corpus.txt": "Two dogs are running.\nA man is playing a guitar.\n",
}
# what was typed, and what the answer names where that is not right
SHELL = [
    ("score sentences.csv --text-column sentence --output scores.parquet", "--column"),
    ("score sentences.csv --limit 100 --seed 1 -o scores.csv", None),
    ("score sentences.csv --dry-run", None),
    (f"fill '{TWO}' --top 20 --json", None),
    (f"fill '{TWO}' --exact --dry-run", None),
    ("fill --input texts.txt --max-passes 500 -o fills.jsonl", "give the file itself"),
    ("score - --input-format csv --text-column sentence", "--column"),
    ("pairs items.csv --methods mrf,hcb -o pairs.csv --on-error stop", "--method"),
    ("pairs items.csv --method orders -o pairs.csv --on-error stop", "--strict"),
    ("score sentences.csv --words -o words.csv", None),
    (f"dependence '{KEYS}' --plot map.png", "--figure"),
    ("evaluate corpus.txt --exact --n 200 -o eval.json", "--examples"),
    (f"fill '{TWO}' --candidates man,floor", "--support"),
    ("score sentences.csv -o scores.csv --resume", "the same command continues"),
    ("score sentences.csv --gpu", "--device"),
]
LanguageModel = unmask.LanguageModel
PYTHON: list[tuple[Callable[[LanguageModel], object], str | None]] = [
    (
        lambda lm: (lm.score("The cat sat on the mat."), lm.score(["The cat sat.", "A dog ran."])),
        None,
    ),
    (lambda lm: lm.surprisal("The cat sat on the mat.").to_dataframe(), "score(text).words"),
    (lambda lm: lm.score("The cat sat on the mat.").to_dataframe(), "to_pandas"),
    (lambda lm: lm.joint(TWO, method="mrf").top(20), "support='vocabulary'"),
    (lambda lm: lm.joint(TWO, exact=True), "support='vocabulary'"),
    (lambda lm: lm.joint(TWO).prob("cat", "mat"), "log_prob"),
    (lambda lm: lm.joint(TWO).mutual_information(), None),
    (lambda lm: lm.joint(TWO).sample(10, seed=0), None),
    (lambda lm: lm.joint(TWO).save("joint.json"), "to_dict()"),
    (lambda lm: lm.fill(TWO, top_k=3), "top=..."),
    (lambda lm: lm.joint(TWO, candidates=["man"]), "support=[...]"),
    (lambda lm: lm.joint(TWO, batch_size=4), "unmask.Settings"),
    (lambda lm: lm.score("A man is here.").log_prob, "use score"),
    (lambda lm: lm.dependence(KEYS).plot(), None),
    (lambda lm: lm.cost(TWO, timed=False), None),
    (lambda lm: lm.joint(TWO, seed=1, max_passes=500), "Sketch(seed="),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(FILES["sentences.csv"]))


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "answer"), SHELL)
def test_a_command_works_or_names_what_does(
    typed: str, answer: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main([*shlex.split(typed), "--model", str(real_model("tiny-english"))])
    error = capsys.readouterr().err
    assert code == (0 if answer is None else 2), error
    assert answer is None or (answer in error and error.count("\n") == 1), error


@pytest.mark.slow
@pytest.mark.parametrize(("ask", "answer"), PYTHON)
def test_a_call_works_or_names_what_does(
    ask: Callable[[LanguageModel], object], answer: str | None, tiny_english: LanguageModel
) -> None:
    if answer is None:
        ask(tiny_english)
        return
    with pytest.raises((AttributeError, unmask.UnmaskError)) as caught:
        ask(tiny_english)
    assert answer in str(caught.value)
