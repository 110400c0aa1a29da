"""The README's first command with a real model; its table is the one that the results page holds.

That all of its snippets and commands run is for tests/docs/test_snippets.py.
"""

import re
import shlex
from pathlib import Path

import pytest
from assets import real_model

from unmask import cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = ROOT / "docs" / "results" / "first-joints.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.real
def test_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    model = real_model("tiny-english")
    (command,) = [b for b in blocks("sh") if b.startswith('unmask fill "The')]
    words = shlex.split(command.replace("bert-base-cased", model.as_posix()))
    assert cli.main(words[1:]) == 0
    out, err = capsys.readouterr()
    head, first, *_ = (line.split() for line in out.splitlines())
    assert head == ["rank", "mlm", "prob", "log-pool", "prob"]
    assert first[4:6] == ["man", "is"]
    assert re.search(r"^J = 0\.\d{3} \+- 0\.\d{3} bits: the two conditionals ", out, re.MULTILINE)
    assert "at most 1,999 forward passes" in err


def rows(markdown: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in markdown.splitlines()
        if re.match(r"\| \d \|", line)
    ]


def test_the_table_is_the_published_one() -> None:
    page = RESULTS.read_text(encoding="utf-8")
    section = page.split("## Two ")[1].split("\n## ")[0]
    published = [[row[0], row[1], row[7]] for row in rows(section)]
    assert rows(README) == published
