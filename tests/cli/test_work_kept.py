"""Work that is done stays done: the same command goes on after what is in its file."""

import csv
import gc
import json
import signal
import sys

import pyarrow.parquet as pq
import pytest

from unmask.cli import main
from unmask.jobs import estimate
from unmask.jobs.worker import Worker
from unmask.model.hugging_face import HuggingFaceMaskedLM
from unmask.sequences import scoring
from unmask.sequences.scores import TextScore

pytestmark = pytest.mark.usefixtures("read_once")

ONE = "the [MASK] sat."


# --- fill --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pipes_and_devices_are_written_to_as_they_are(folder, tmp_path):
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
def test_rows_are_the_same_however_many_texts_are_scored_at_once(arguments, score_all):
    code, together, said = score_all("--json", *arguments)
    assert code == 0
    code, apart, said_apart = score_all("--json", *arguments, "--rows-per-unit", "2")
    assert (code, said_apart) == (0, said)
    rows, expected = ([json.loads(line) for line in out.splitlines()] for out in (apart, together))
    assert len(rows) == len(expected) > 6
    for row, other in zip(rows, expected, strict=True):
        numbers = {key: value for key, value in other.items() if isinstance(value, float)}
        assert {key: row[key] for key in numbers} == pytest.approx(numbers, abs=1e-6)
        assert {**row, **numbers} == other


@pytest.mark.slow
@pytest.mark.parametrize("size", [[], ["--rows-per-unit", "2"]], ids=["one unit", "many"])
@pytest.mark.parametrize("arguments", RUNS, ids=["texts", "words", "pairs"])
def test_a_file_has_the_rows_of_stdout(arguments, size, score_all, tmp_path):
    """Whatever the input's other columns hold, and whichever rows have them."""
    others = [{"n": 2**70}, {"n": "x", "deep": [{"a": [1.0, None]}]}, {"n": None}, {}, {"n": 1}]
    rows = [{"text": text, "good": text, **others[n % len(others)]} for n, text in enumerate(WHOLE)]
    out = {}
    for format in ("jsonl", "csv", "tsv"):
        more = [*arguments, *size, "--quiet"]
        place = tmp_path / f"out.{format}"
        assert score_all("-o", str(place), *more, rows=rows)[0] == 0
        code, out[format], _ = score_all("--output-format", format, *more, rows=rows)
        assert (code, place.read_text()) == (0, out[format])
    assert any("n" not in json.loads(line) for line in out["jsonl"].splitlines())
    assert [path.name for path in tmp_path.glob("*.parts")] == []


@pytest.mark.slow
def test_accuracies_are_of_the_pairs_of_before_too(score_all, tmp_path, monkeypatch):
    output, size = tmp_path / "out.csv", ["--rows-per-unit", "2"]
    code, summary, notes = score_all("--output", str(output), *PAIRS, *size)
    assert code == 0
    whole = output.read_text()
    output.write_text("of before")
    with monkeypatch.context() as patched:
        interrupt_after_writing(2, patched)
        code, out, err = score_all("--output", str(output), *PAIRS, *size)
    assert (code, out) == (130, "")
    said = f"4 texts are saved in '{output}.parts'; repeat the command to go on\n"
    assert err.endswith(f"unmask: interrupted; {said}")
    assert output.read_text() == "of before"
    # its units are those that it began with
    code, out, err = score_all("--output", str(output), *PAIRS)
    assert (code, out) == (0, summary)
    assert err.endswith(notes.splitlines()[-1] + "\n")
    assert output.read_text() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.csv"]


def interrupt_after_writing(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt as the unit after so many is run."""
    real, made = Worker.answers, []

    def answers(self, *arguments):
        made.append(1)
        if len(made) > units:
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(Worker, "answers", answers)


@pytest.mark.slow
def test_an_interrupt_late_in_a_run_keeps_most_of_its_rows(score_all, tmp_path, monkeypatch):
    """Ctrl-C in a forward pass, after 70% of those of a run of eight units or so, as of 40 s."""
    rows = [{"text": f"the {'cat ' * (n % 7 + 1)}sat."} for n in range(240)]
    output, real, passes = tmp_path / "out.csv", HuggingFaceMaskedLM.readouts, []

    def interrupted(self, ids, positions):
        if sum(passes) > 0.7 * total:
            signal.raise_signal(signal.SIGINT)
        passes.append(len(ids))
        return real(self, ids, positions)

    # a model of this size would do all of them in one unit
    monkeypatch.setattr(estimate, "_SECONDS_PER_PASS", estimate.UNIT_SECONDS / 200)
    # the processes that share the tests ignore Ctrl-C
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(HuggingFaceMaskedLM, "readouts", interrupted)
            total = float("inf")
            assert score_all("--output", str(output), rows=rows)[0] == 0
            total, whole = sum(passes), output.read_bytes()
            output.unlink()
            passes.clear()
            code, _, err = score_all("--output", str(output), rows=rows)
    finally:
        signal.signal(signal.SIGINT, before)
    parts = list((tmp_path / "out.csv.parts").glob("part-*"))
    saved = sum(len(pq.read_table(part)) for part in parts)
    assert code == 130
    assert len(parts) > 3
    assert len(rows) / 2 <= saved < 0.7 * len(rows) + 1
    kept = f"{saved} texts are saved in '{output}.parts'; repeat the command to go on"
    assert err.splitlines()[-1] == f"unmask: interrupted; {kept}"
    # what is left, and no more, is computed now
    passes.clear()
    monkeypatch.setattr(HuggingFaceMaskedLM, "readouts", counting(passes, real))
    assert score_all("--output", str(output), "--quiet", rows=rows)[0] == 0
    assert sum(passes) < total / 2
    assert output.read_bytes() == whole


def counting(passes, real):
    """The forward passes of a model, with their number in a list."""

    def run(self, ids, positions):
        passes.append(len(ids))
        return real(self, ids, positions)

    return run


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
def test_texts_that_cannot_be_scored_are_no_file_where_they_are_all(score_all, tmp_path):
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
        # what nobody holds may wait for the collector, and is not kept
        gc.collect()
        blocks.append(sys.getallocatedblocks())
        return [TextScore(one.text, method, -1.0, 1, (), 1) for one in texts]

    monkeypatch.setattr(scoring, "pseudo_log_likelihoods", no_model)
    monkeypatch.setattr("unmask.jobs.model_source.ModelSource.load", lambda *_: lm)

    def peak(texts: int) -> int:
        (tmp_path / "in.txt").write_text("the cat sat on the mat.\n" * texts)
        asked = ["-o", str(tmp_path / "out.csv"), "--quiet", "-m", "it", "--rows-per-unit", "16"]
        gc.collect()
        # what was there before need not be looked at again
        gc.freeze()
        blocks[:] = [sys.getallocatedblocks()]
        assert main(["score", str(tmp_path / "in.txt"), *asked]) == 0
        assert len((tmp_path / "out.csv").read_text().splitlines()) == texts + 1
        gc.unfreeze()
        return max(blocks) - blocks[0]

    peak(64)
    few, many = peak(128), peak(640)
    # three parts are under way at the same time, and how far each has got depends on the machine
    assert many - few < 2 * (640 - 128)
