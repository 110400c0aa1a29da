"""Work that is done stays done: the same command goes on after what is in its file."""

import csv
import gc
import json
import sys

import pytest
from tiny_tokenizers import ODD, save_bert

from unmask.cli import announce, main, score
from unmask.jobs import running, single_file
from unmask.jobs.tally import Tally
from unmask.jobs.work import Work
from unmask.sequences import scoring
from unmask.sequences.scores import TextScore

pytestmark = pytest.mark.usefixtures("read_once")

PAIR, ONE = "the [MASK] sat on the [MASK].", "the [MASK] sat."
TEXTS = ["the [MASK] sat.", "a [MASK] ran.", "the [MASK] [MASK].", "a [MASK] saw the dog."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return str(save_bert(tmp_path_factory.mktemp("bert"), bias=dict.fromkeys(ODD, -30.0)))


@pytest.fixture
def fill_all(folder, tmp_path, capsys):
    """Run `unmask fill` on TEXTS, or others, into a file; exit code and stderr."""

    def run(*arguments: str, texts: list[str] = TEXTS, name: str = "in.txt") -> tuple[int, str]:
        (tmp_path / name).write_text("\n".join(texts) + "\n")
        out = ["--output", str(tmp_path / "out.jsonl"), "--top", "2"]
        code = main(["fill", str(tmp_path / name), "-m", folder, *out, *arguments])
        return code, capsys.readouterr().err

    return run


# --- fill --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("place", ["_plan.json", "part-000000.parquet", "_locks/0-of-1.lock"])
def test_a_job_is_never_written_to(place, fill_all, tmp_path):
    """A lock is an empty file, which would pass for one without answers so far."""
    run = tmp_path / "run"
    (run / "_locks").mkdir(parents=True)
    for name in ("_plan.json", "_locks/0-of-1.lock"):
        (run / name).touch()
    code, err = fill_all("-o", str(run / "_locks" / ".." / place))
    assert (code, err.count("\n")) == (2, 1)
    assert f"belongs to the job '{run}' and would be lost" in err
    assert sum(path.is_file() for path in run.rglob("*")) == 2
    assert not any(path.stat().st_size for path in run.rglob("*") if path.is_file())
    # beside them there is room
    assert fill_all("-o", str(run / "fills.jsonl"))[0] == 0


@pytest.mark.slow
def test_rejected_lines_are_answers_that_stay(fill_all, tmp_path):
    code, err = fill_all(texts=[ONE, "no blank.", ONE])
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith(
        "unmask: 2 of 3 texts answered; the others have a reason instead, e.g.: no blank: "
    )
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["reason"] is None for row in rows] == [True, False, True]


@pytest.mark.slow
def test_quiet_says_nothing(fill_all, tmp_path):
    assert fill_all("--quiet") == (0, "")
    assert fill_all("--quiet") == (0, "")


@pytest.mark.slow
def test_a_terminal_sees_how_many_of_how_many(fill_all, monkeypatch):
    from unmask import progress

    bars = []

    def tell(at: progress.Progress) -> None:
        bars.append((at.what, at.done, at.total))

    def bar(what, *, unit, total=None, shown, **_):
        return progress.CallbackBar(tell, what, unit, total)

    monkeypatch.setattr(running, "bar", bar)
    assert fill_all()[0] == 0
    assert [one for one in bars if one[0] == "texts"] == [("texts", n, 4) for n in range(5)]


@pytest.mark.slow
def test_the_cost_of_all_lines_is_said_once(fill_all, monkeypatch, folder, capsys):
    monkeypatch.setattr(announce, "_LONG_SECONDS", 0.0)
    code, err = fill_all(texts=[PAIR] * 9)
    assert code == 0
    cost, _ = err.splitlines()
    assert cost.startswith("log-pool: 73 forward passes of 9 tokens")
    assert " per text like the first; 9 texts: 657 forward passes, about " in cost
    assert len(fill_all("--quiet", texts=[PAIR] * 9)[1]) == 0


@pytest.mark.slow
def test_pipes_and_devices_are_written_to_as_they_are(folder, tmp_path, capsys):
    (tmp_path / "in.txt").write_text(ONE)
    asked = ["fill", str(tmp_path / "in.txt"), "-m", folder, "--output", "/dev/null"]
    asked += ["--output-format", "jsonl"]
    assert [main(asked), main(asked)] == [0, 0]


# --- score -------------------------------------------------------------------------------------

WHOLE = ["the cat sat.", "a dog ran.", "the man saw a dog.", "", "the cats sat.", "a cat.", "dog."]


@pytest.fixture
def score_all(folder, tmp_path, capsys):
    """Run `unmask score` on WHOLE, or others; exit code, stdout and stderr."""

    def run(*arguments: str, rows: list[dict] | None = None) -> tuple[int, str, str]:
        made = rows or [{"n": n, "text": text, "good": text} for n, text in enumerate(WHOLE)]
        (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, made)) + "\n")
        code = main(["score", str(tmp_path / "in.jsonl"), "-m", folder, *arguments])
        return code, *capsys.readouterr()

    return run


METHODS = ["--method", "pll,pll-word-l2r"]
PAIRS = ["--method", "pll,hcb-path", "--orders", "2", "--pairs", "text,good"]
RUNS = [METHODS, ["--words"], PAIRS]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", RUNS, ids=["texts", "words", "pairs"])
def test_rows_are_the_same_however_many_texts_are_scored_at_once(arguments, score_all, monkeypatch):
    code, together, said = score_all("--json", *arguments)
    assert code == 0
    monkeypatch.setattr(score, "TEXTS_AT_ONCE", 2)
    code, apart, said_apart = score_all("--json", *arguments)
    assert (code, said_apart) == (0, said)
    rows, expected = ([json.loads(line) for line in out.splitlines()] for out in (apart, together))
    assert len(rows) == len(expected) > 6
    for row, other in zip(rows, expected, strict=True):
        numbers = {key: value for key, value in other.items() if isinstance(value, float)}
        assert {key: row[key] for key in numbers} == pytest.approx(numbers, abs=1e-6)
        assert {**row, **numbers} == other


@pytest.mark.slow
def test_accuracies_are_of_the_pairs_of_before_too(score_all, tmp_path, monkeypatch):
    monkeypatch.setattr(score, "TEXTS_AT_ONCE", 2)
    output, part = tmp_path / "out.csv", tmp_path / "out.csv.partial"
    code, summary, notes = score_all("--output", str(output), *PAIRS)
    assert code == 0
    whole = output.read_text()
    output.write_text("of before")
    with monkeypatch.context() as patched:
        interrupt_after_writing(2, patched)
        code, out, err = score_all("--output", str(output), *PAIRS)
    assert (code, out) == (130, "")
    assert err == (
        f"unmask: interrupted; '{part}' holds the first 4 texts; repeat the command to go on after "
        "them\n"
    )
    assert output.read_text() == "of before"
    code, out, err = score_all("--output", str(output), *PAIRS)
    assert code == 0
    assert (out, err) == (summary, "unmask: continuing after the first 4 texts\n" + notes)
    assert output.read_text() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.csv"]


def interrupt_after_writing(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt as the unit after so many is run."""
    real, made = Work.run, []

    def run(self, *arguments):
        made.append(1)
        if len(made) > units:
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(Work, "run", run)


@pytest.mark.slow
def test_rows_that_nobody_can_go_on_with_are_replaced(score_all, tmp_path):
    """As a kill leaves them: of a run without a plan, and of one before its first unit is noted."""
    output = tmp_path / "out.csv"
    names = ("out.csv.partial", "out.csv.partial.json")
    with single_file.growing(str(output), single_file.FileLayout(["a"], "csv"), None) as writer:
        writer.append([{"a": 1}], Tally(1))
        left = {tmp_path / name: (tmp_path / name).read_bytes() for name in names}
    for path, content in left.items():
        path.write_bytes(content)
    assert score_all("--output", str(output), "--quiet")[0] == 0
    assert output.read_text().startswith("n,text,good,")
    assert not any(path.exists() for path in left)


@pytest.mark.slow
def test_a_device_that_is_full_is_named(score_all):
    code, _, err = score_all("--output", "/dev/full", "--output-format", "csv", "--quiet")
    assert (code, err.count("\n")) == (2, 1)
    assert "cannot write '/dev/full': No space left on device; " in err


@pytest.mark.slow
def test_a_text_that_the_model_fails_on_has_a_reason_and_stops_no_other(score_all, monkeypatch):
    real = scoring.pseudo_log_likelihoods

    def failing(reader, texts, **how):
        if any(one.text == WHOLE[2] for one in texts):
            raise RuntimeError("the model does not\nlike it")
        return real(reader, texts, **how)

    monkeypatch.setattr(scoring, "pseudo_log_likelihoods", failing)
    code, out, err = score_all("--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, len(rows)) == (0, 7)
    assert [n for n, row in enumerate(rows) if row["score"] is None] == [2, 3]
    assert rows[2]["reason"] == "RuntimeError: the model does not like it"
    assert "pll: 2 of 7 texts not scored, e.g.: RuntimeError" in err


@pytest.mark.slow
def test_before_the_first_part_there_is_nothing_to_leave(score_all, tmp_path, monkeypatch):
    interrupt_after_writing(0, monkeypatch)
    code, _, err = score_all("--output", str(tmp_path / "out.csv"))
    assert (code, err) == (130, "unmask: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.slow
def test_stdout_has_rows_as_they_are_scored(score_all, monkeypatch):
    whole = score_all("--output-format", "csv")[1].splitlines()
    monkeypatch.setattr(score, "TEXTS_AT_ONCE", 2)
    interrupt_after_writing(2, monkeypatch)
    code, out, _ = score_all("--output-format", "csv")
    assert code == 130
    assert out.splitlines() == whole[:5]


def test_a_column_of_a_later_row_is_in_the_header(score_all, tmp_path, monkeypatch):
    monkeypatch.setattr(score, "TEXTS_AT_ONCE", 1)
    rows = [{"text": "the cat."}, {"text": "a dog.", "late": "x"}]
    assert score_all("--output", str(tmp_path / "out.csv"), rows=rows)[0] == 0
    found = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert list(found[0])[:3] == ["text", "late", "method"]
    assert [row["late"] for row in found] == ["", "x"]


@pytest.mark.slow
def test_texts_that_cannot_be_scored_are_no_file_where_they_are_all(
    score_all, tmp_path, monkeypatch
):
    monkeypatch.setattr(score, "TEXTS_AT_ONCE", 2)
    bad = [{"text": "the [MASK]."}] * 3
    code, _, err = score_all("--output", str(tmp_path / "out.csv"), rows=bad)
    assert (code, err.count("\n")) == (2, 1)
    assert "none of the texts (3) can be scored: the text holds [MASK]" in err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    # those before the first that can be are not lost
    assert score_all("--output", str(tmp_path / "out.csv"), rows=[*bad, {"text": "a cat."}])[0] == 0
    found = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [bool(row["reason"]) for row in found] == [True, True, True, False]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_input(lm, tmp_path, monkeypatch):
    """By blocks of Python's memory: a row that is kept is several, and counting them is quick."""
    blocks: list[int] = []

    def no_model(reader, texts, *, method):
        blocks.append(sys.getallocatedblocks())
        return [TextScore(one.text, method, -1.0, 1, (), 1) for one in texts]

    monkeypatch.setattr(scoring, "pseudo_log_likelihoods", no_model)
    monkeypatch.setattr("unmask.cli.options.Running.load", lambda *_: lm)
    monkeypatch.setattr(score, "TEXTS_AT_ONCE", 16)

    def peak(texts: int) -> int:
        (tmp_path / "in.txt").write_text("the cat sat on the mat.\n" * texts)
        asked = ["-o", str(tmp_path / "out.csv"), "--quiet", "-m", "it"]
        gc.collect()
        blocks[:] = [sys.getallocatedblocks()]
        assert main(["score", str(tmp_path / "in.txt"), *asked]) == 0
        assert len((tmp_path / "out.csv").read_text().splitlines()) == texts + 1
        return max(blocks) - blocks[0]

    peak(64)
    few, many = peak(128), peak(640)
    # three parts are under way at the same time, and how far each has got depends on the machine
    assert many - few < 2 * (640 - 128)
