"""`unmask mutations` on a tiny ESM: what it prints, what it reads, and what it rejects."""

import io
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from tiny_models import saved

import unmask
from unmask import cli

ROOT = Path(__file__).parents[2]
CHAIN = "MKALWYAGT"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return saved("esm", tmp_path_factory.mktemp("esm"))


@pytest.fixture
def command(folder, capsys):
    def run(*arguments: str, sequence: str = CHAIN, code: int = 0) -> tuple[str, str]:
        done = cli.main(["mutations", "-m", folder, "--quiet", "--sequence", sequence, *arguments])
        out, err = capsys.readouterr()
        assert done == code, err
        return out, err

    return run


@pytest.mark.slow
def test_a_table_for_people(command, folder):
    out, err = command("L4K:K2R", "Y6F")
    lm = unmask.load(folder)
    pair, one = lm.mutations(CHAIN, "K2R:L4K"), lm.mutations(CHAIN, "Y6F")
    rows = [line.split() for line in out.splitlines()]
    assert " ".join(rows[0]) == "mutations log-odds alone interaction J forward passes"
    alone = [f"{odds:+.3f}" for odds in pair.single_log_odds]
    interaction, bits = f"{pair.interaction:+.3f}", f"{pair.incompatibility:.3f}"
    assert rows[1] == ["K2R:L4K", f"{pair.log_odds:+.3f}", *alone, interaction, bits, "41"]
    assert rows[2] == ["Y6F", *[f"{one.log_odds:+.3f}"] * 2, "-", "-", "1"]
    assert err == ""


@pytest.mark.slow
def test_json_from_a_list_on_stdin(command, monkeypatch, folder):
    monkeypatch.setattr(sys, "stdin", io.StringIO("K2R:L4K\n\n Y6F \n"))
    out, _ = command("-", "--json", "--method", "mrf")
    found = json.loads(out)
    assert found["sequence"] == CHAIN
    assert [one["mutations"] for one in found["results"]] == [["K2R", "L4K"], ["Y6F"]]
    expected = unmask.load(folder).mutations(CHAIN, "K2R:L4K", method="mrf")
    assert found["results"][0] == json.loads(json.dumps(expected.to_dict()))


@pytest.mark.slow
def test_a_sequence_from_a_file(command, tmp_path):
    path = tmp_path / "chain.fasta"
    path.write_text(f">one of them\n{CHAIN[:4]}\n{CHAIN[4:].lower()}*\n", encoding="utf-8")
    assert command("K2R:L4K", sequence=str(path))[0] == command("K2R:L4K")[0]
    path.write_text(CHAIN, encoding="utf-8")
    assert command("K2R:L4K", sequence=str(path))[0] == command("K2R:L4K")[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b">a\nMK\n>b\nMK\n", "has 2 records, and mutations are of one sequence"),
        (b"MK\n>b\nMK\n", "is not FASTA: there is text before its record"),
        (b">a\n", "the sequence is empty"),
        (b">a\nM\xffK\n", "is not text: byte 4 cannot be decoded"),
        (None, "No such file or directory"),
    ],
)
def test_files_that_are_rejected(command, tmp_path, content, said):
    path = tmp_path / "chain.fa"
    if content is not None:
        path.write_bytes(content)
    out, err = command("M1A", sequence=str(path), code=2)
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["K2R", "Q2R"], "Q2R: the sequence has K at position 2, not Q"),
        (["K2R", "--steps", "3"], "log-pool has no option 'steps'"),
        (["K2R", "--support", "digits"], "no token for any letter of 'digits'"),
        (["-"], "there are no mutations on stdin"),
    ],
)
def test_commands_that_are_rejected(command, monkeypatch, arguments, said):
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    out, err = command(*arguments, code=2)
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def test_commands_of_the_how_to_parse():
    page = (ROOT / "docs" / "how-to" / "proteins.md").read_text(encoding="utf-8")
    lines = re.findall(r"^unmask (mutations [^<\n]*)", page, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        chosen = cli._parser().parse_args(shlex.split(line))
        assert chosen.support == "amino-acids"
