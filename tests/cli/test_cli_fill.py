"""`unmask fill` on a tiny BERT: what it prints, where, and how it ends."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import killable
import pytest
from counted_rows import counted_rows
from tiny_tokenizers import PIECES

from unmask.cli import main

pytestmark = pytest.mark.usefixtures("read_once")

PAIR = "the [MASK] sat on the [MASK]."


def rows(table: str) -> list[list[str]]:
    """The cells of the table, without the lines below it."""
    return [line.split() for line in table.split("\n\n")[0].splitlines()]


@pytest.mark.slow
def test_json_holds_what_python_returns(results, lm):
    assert results(PAIR, "--top", "4")["results"]["log-pool"]["fills"] == lm.fill(PAIR, top=4)
    for fill in results(PAIR)["results"]["log-pool"]["fills"]:
        assert fill["token_str"] == [PIECES[token] for token in fill["token"]]


@pytest.mark.parametrize(
    ("stdin", "sentence"),
    [
        (io.TextIOWrapper(io.BytesIO(b"the [MASK] \xff"), encoding="utf-8"), "its byte 12 is 0xff"),
        (io.TextIOWrapper(io.BytesIO()), "standard input holds no text"),
        (None, "there is no standard input"),
    ],
)
def test_a_stdin_that_holds_no_text(stdin, sentence, folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["fill", "-", "-m", folder]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert sentence in err


def test_words_stay_inert(fill, capsys, folder):
    # the tokenizer drops a joiner and an override; a terminal would act on them
    out, _ = fill("the [MASK] sat.", "--targets", "c\u200dat,\u202edog")
    assert {row[1] for row in rows(out)[1:]} == {"c\\u200dat", "\\u202edog"}
    assert out.replace("\n", "").isprintable()
    for bad in ("[unused1]", "\x1b[31m", "[/x]\n"):
        assert main(["fill", "the [MASK] sat.", "-m", folder, "--targets", f"cat,{bad}"]) == 2
        err = capsys.readouterr().err
        assert len(err.splitlines()) == 1
        assert err[:-1].isprintable()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--support", "0=3", "--support", "0=4"], "not as '0=3' and '0=4'"),
        (["--support", "9" * 5000], "no support '999"),
        (["--targets", "cat", "--targets", "dog"], "--targets is given once for all blanks"),
        (
            ["--targets", "cat", "--support", "dog,"],
            "support and targets both restrict what a blank may hold",
        ),
        (["--targets", "cat", "--mean", "geometric"], "orders of targets takes no option 'mean'"),
        (["--limit", "0"], "limit is a number of rows from 1, not 0"),
    ],
)
def test_what_does_not_go_together(arguments, sentence, folder, capsys):
    assert main(["fill", PAIR, "-m", folder, *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert sentence in err


@pytest.mark.slow
@pytest.mark.parametrize("method", ["log-pool", "hcb", "mlm,ag"])
def test_fill_runs_what_it_announces(
    method: str, folder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, text = counted_rows(monkeypatch), "the [MASK] sat on the [MASK]."
    assert main(["fill", text, "-m", folder, "--method", method, "--exact"]) == 0
    assert f": {sum(rows):,} forward passes of 9 tokens, " in capsys.readouterr().err


def test_a_terminal_that_cannot_show_a_token_shows_its_escape(folder, monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert main(["fill", PAIR, "-m", folder, "--support", "日,é", "--quiet"]) == 0
    shown = stdout.buffer.getvalue().decode()
    assert {"\\u65e5", "\\xe9"} <= {row[1] for row in rows(shown)}


@contextmanager
def started(folder: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(
        [sys.executable, "-m", "unmask", "fill", PAIR, "-m", folder, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # buffered, as a person's: the last of the output is written when Python exits
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        # a shell's background job would hand on that interrupts are ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


@pytest.mark.slow
def test_control_c_ends_a_long_run_after_its_cost_was_said(folder, tmp_path):
    log = tmp_path / "log"
    long = ["--method", "ag", "--steps", str(10**9)]
    process = killable.start(["fill", PAIR, "-m", folder, *long], log)
    while not (log.exists() and "forward passes" in log.read_text()):
        assert process.exitcode is None, log.read_text()
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    process.join(300)
    assert process.exitcode == 130
    _, *rest = log.read_text().splitlines()
    assert rest == ["unmask: interrupted"]


@pytest.mark.slow
def test_a_reader_that_leaves_is_met_with_silence(folder):
    with started(folder, "--quiet") as running:
        # as `| head -0`: closed before anything can be written
        running.stdout.close()
        err = running.stderr.read()
        assert running.wait(timeout=300) == 0
    assert err == ""
