"""A folder of parts: what is in it, what is checked, tried again, shared and refused.

By `unmask score`, and where it says so by `unmask evaluate` too; kills, damage and other jobs are
those of every kind (test_every_kind.py).
"""

import csv
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import killable
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unmask
from unmask import cli
from unmask.evaluation.kind import Evaluate
from unmask.jobs import model_source, running, worker
from unmask.jobs.folder import Shard, folder_at, held
from unmask.jobs.kinds import add, counted
from unmask.jobs.kinds.score import ScoreKind
from unmask.jobs.model_source import ModelSource
from unmask.jobs.parts import merge

pytestmark = pytest.mark.usefixtures("read_once")

WORDS = ("cat", "dog", "man", "woman", "mat")
ROWS = 600
UNIT = 10


def texts(count: int, seed: int = 3) -> list[str]:
    draw = random.Random(seed)
    return [f"the {' '.join(draw.choices(WORDS, k=draw.randint(1, 6)))} sat." for _ in range(count)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of four formats, one of them empty."""
    folder = tmp_path_factory.mktemp("corpus")
    given = texts(ROWS)
    quarter = ROWS // 4
    rows = [{"id": n, "text": text, "note": f"a\n{n}"} for n, text in enumerate(given)]
    parts = [rows[n : n + quarter] for n in range(0, ROWS, quarter)]
    pq.write_table(pa.Table.from_pylist(parts[0]), folder / "a.parquet", row_group_size=37)
    (folder / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in parts[1]))
    with (folder / "c.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ["id", "text", "note"])
        table.writeheader()
        table.writerows(parts[2])
    (folder / "d.txt").write_text("\n".join(row["text"] for row in parts[3]))
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), folder / "e.parquet")
    (folder / "f.txt").write_text("")
    (folder / "_hidden.txt").write_text("not this\n")
    return folder


both_kinds = pytest.mark.parametrize("kind", ["score", "evaluate"], indirect=True)


@pytest.fixture(scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    """The command, unless a test is for both."""
    return getattr(request, "param", "score")


@pytest.fixture(scope="module")
def arguments(model: str, corpus: Path, kind: str) -> Callable[..., list[str]]:
    def of(output: object, *more: str, files: Path = corpus) -> list[str]:
        how = ["--rows-per-unit", str(UNIT)]
        if kind == "evaluate":
            files = files / "d.txt" if files.is_dir() else files
            how = ["--examples", "30", "--rows-per-unit", "4"]
            how += ["--method", "mlm,hcb", "--support", ",".join(WORDS)]
        return [kind, str(files), "-m", model, "-o", f"{output}/", *how, "--quiet", *more]

    return of


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """All rows in the order of the input, without the time that they took."""
    return [
        {name: value for name, value in row.items() if name != "seconds"}
        for part in sorted(folder.glob("part-*"))
        for row in pq.read_table(part).to_pylist()
    ]


def counts_in(folder: Path) -> dict[str, Any]:
    """The counters of all parts."""
    total = counted()
    for receipt in folder_at(str(folder)).receipts().values():
        add(total, receipt["counts"])
    return total


@pytest.fixture(scope="module")
def undisturbed(arguments, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("undisturbed") / "scores"
    assert cli.main(arguments(folder)) == 0
    return rows_in(folder)


@pytest.mark.slow
def test_parts_hold_the_rows_of_the_whole_input(undisturbed, model, tmp_path) -> None:
    given = texts(ROWS)
    assert [row["text"] for row in undisturbed] == given
    assert [int(row["id"]) for row in undisturbed[: 3 * ROWS // 4]] == [*range(3 * ROWS // 4)]
    assert undisturbed[0]["note"] == "a\n0"
    found = unmask.load(model).score(given)
    for row, one in zip(undisturbed, found, strict=True):
        assert row["score"] == pytest.approx(one.score, abs=1e-6)
        assert (row["tokens"], row["method"], row["unit"]) == (one.tokens, "pll", "nats")


@pytest.mark.slow
def test_a_folder_is_read_by_what_reads_parquet(arguments, corpus, tmp_path, capsys) -> None:
    import pandas as pd

    assert cli.main([*arguments(tmp_path / "s", files=corpus / "a.parquet"), "--no-text"]) == 0
    frame = pd.read_parquet(tmp_path / "s")
    assert len(frame) == ROWS // 4
    assert "text" not in frame
    assert frame["id"].dtype == "int64"
    assert counts_in(tmp_path / "s")["texts"] == 150
    assert capsys.readouterr() == ("", "")


@pytest.fixture(scope="module")
def finished(arguments, corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "done"
    assert cli.main(arguments(folder, files=corpus / "d.txt")) == 0
    return folder


@pytest.fixture
def done(finished, tmp_path) -> Path:
    """A finished folder of the test's own."""
    return Path(shutil.copytree(finished, tmp_path / "done"))


@pytest.fixture
def again(model, arguments, corpus, monkeypatch) -> Callable[[Path], int]:
    """The command that `done` comes of, with a model that is loaded once."""
    lm = unmask.load(model)
    monkeypatch.setattr(ModelSource, "load", lambda _: lm)
    return lambda folder: cli.main(arguments(folder, files=corpus / "d.txt"))


@pytest.mark.slow
def test_every_flipped_bit_is_noticed_and_its_part_named(done, tmp_path, capsys) -> None:
    draw, parts = random.Random(11), sorted(done.glob("part-*"))
    folder = folder_at(str(done))
    whole = {part: part.read_bytes() for part in parts}
    for _ in range(100):
        part = draw.choice(parts)
        content = bytearray(whole[part])
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        part.write_bytes(content)
        with pytest.raises(unmask.errors.StoreError, match=f"{part.name}' is damaged"):
            merge(folder, folder.receipts(), tmp_path / "out.csv", "csv")
        part.write_bytes(whole[part])
    assert not (tmp_path / "out.csv").exists()
    assert merge(folder, folder.receipts(), tmp_path / "out.csv", "csv") == len(rows_in(done))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("model_max_length", 6, "model.tokenizer.max_length is '24' there, '6' here"),
        ("split_special_tokens", True, "model.tokenizer.sample is"),
    ],
)
def test_other_settings_of_the_tokenizer_are_another_job(
    name, value, said, model, done, arguments, corpus, tmp_path, capsys
) -> None:
    """Texts that were scored would be refused, or read as other tokens: rows would be mixed."""
    shutil.copytree(model, changed := tmp_path / "changed" / Path(model).name)
    settings = json.loads((changed / "tokenizer_config.json").read_text())
    (changed / "tokenizer_config.json").write_text(json.dumps(settings | {name: value}))
    again = [*arguments(done, files=corpus / "d.txt"), "-m", str(changed)]
    assert cli.main(again) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.slow
def test_many_units_that_cannot_be_read_do_not_end_a_job(arguments, tmp_path, capsys) -> None:
    place, rows = tmp_path / "a.parquet", [{"text": text} for text in texts(66)]
    pq.write_table(pa.Table.from_pylist(rows), place, row_group_size=22)
    damaged = pq.read_metadata(place).row_group(1).column(0)
    content = bytearray(place.read_bytes())
    start = damaged.dictionary_page_offset or damaged.data_page_offset
    content[start : start + damaged.total_compressed_size] = bytes(damaged.total_compressed_size)
    place.write_bytes(content)
    assert cli.main(arguments(tmp_path / "run", "--rows-per-unit", "1", files=place)) == 1
    assert "22 of 66 units failed, e.g.: cannot read" in capsys.readouterr().err
    assert [row["text"] for row in rows_in(tmp_path / "run")] == texts(22) + texts(66)[44:]


def _failing(monkeypatch, fails: Callable[[str], bool]) -> None:
    """As a machine whose memory is too small for some texts."""
    score, measure = ScoreKind.run, Evaluate.measure

    def run(self, lm, items):
        if any(fails(text.text) for item in items for text in item):
            raise MemoryError("too small")
        return score(self, lm, items)

    def measured(self, lm, example):
        if fails(example.cloze.text):
            raise MemoryError("too small")
        return measure(self, lm, example)

    monkeypatch.setattr(ScoreKind, "run", run)
    monkeypatch.setattr(Evaluate, "measure", measured)


def _reasons(rows: list[dict[str, Any]]) -> list[str]:
    return [why for row in rows if (why := row.get("reason"))]


@pytest.mark.slow
@both_kinds
def test_rows_that_ended_in_an_error_are_computed_again(
    done, again, kind, tmp_path, capsys, monkeypatch
) -> None:
    """Last, so that others are done even if they fail again; until then they have a reason."""
    before = rows_in(done)
    shutil.rmtree(done)
    with monkeypatch.context() as patch:
        _failing(patch, lambda text: "dog dog" in text)
        # an evaluation says by its code that examples failed
        assert again(done) == again(done) == (1 if kind == "evaluate" else 0)
    reasons = _reasons(rows_in(done))
    assert set(reasons) == {"MemoryError: too small"}
    assert counts_in(done)["failed"] == len(reasons) / (2 if kind == "evaluate" else 1)
    assert len(reasons) < len(before) / 2
    assert cli.main(["merge", str(done), str(tmp_path / "all.jsonl"), "--quiet"]) == 0
    assert again(done) == 0
    assert rows_in(done) == before
    kept = {path: path.stat().st_mtime_ns for path in done.glob("part-*")}
    assert again(done) == 0
    assert {path: path.stat().st_mtime_ns for path in done.glob("part-*")} == kept


@pytest.mark.slow
def test_other_versions_are_another_job(done, again, capsys, monkeypatch) -> None:
    """The last digits may be others: a part of each would be neither run."""
    newer = model_source.SOFTWARE.replace("torch ", "torch 99.")
    monkeypatch.setattr(running, "SOFTWARE", newer)
    assert again(done) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert "software is 'unmask" in said
    assert "torch 99." in said


@pytest.mark.slow
def test_shards_share_a_folder(arguments, undisturbed, tmp_path) -> None:
    started = [
        killable.start(arguments(tmp_path / "run", "--shard", f"{i}/3"), tmp_path / f"log{i}")
        for i in range(3)
    ]
    for process in started:
        process.join(300)
    assert [process.exitcode for process in started] == [0, 0, 0]
    assert rows_in(tmp_path / "run") == undisturbed
    # one process of them all finds nothing left to do
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("part*")}
    assert killable.finish(arguments(tmp_path / "run"), tmp_path / "log") == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("part*")} == before


@pytest.mark.parametrize(
    "text", ["", "1", "1/1", "2/2", "-1/2", "a/b", "1/2/3", "0/0", "٠/٢", "0/9999999"]
)
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(unmask.errors.StoreError, match="a shard is i/n with i from 0 to n - 1"):
        Shard.parse(text)


@pytest.mark.slow
def test_a_rival_is_refused(arguments, tmp_path, capsys) -> None:
    with held(str(tmp_path / "run"), Shard()):
        assert cli.main(arguments(tmp_path / "run")) == 2
        assert "another process is writing shard 0/1" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz", "in.csv", "in.parquet", "in.jsonl.zst"])
def test_every_shard_of_any_input_has_work(name, model, tmp_path) -> None:
    lines = {"txt": "the cat sat.\na dog ran.\n", "csv": "text\nthe cat sat.\na dog ran.\n"}
    lines["jsonl"] = '{"text": "the cat sat."}\n{"text": "a dog ran."}\n'
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"text": ["the cat sat.", "a dog ran."]}), tmp_path / name)
    else:
        with pa.output_stream(str(tmp_path / name)) as stream:
            stream.write(lines[name.split(".")[1]].encode())
    given = ["score", str(tmp_path / name), "-m", model, "-o", f"{tmp_path}/run/", "--quiet"]
    for shard in ("0/2", "1/2"):
        before = len(list((tmp_path / "run").glob("part-*")))
        assert cli.main([*given, "--shard", shard]) == 0
        assert len(list((tmp_path / "run").glob("part-*"))) == before + 1
    assert [row["text"] for row in rows_in(tmp_path / "run")] == ["the cat sat.", "a dog ran."]


def _fatal(arguments: list[str]) -> None:
    """A command whose process dies of one text."""
    real = worker.Worker.answers

    def answers(self: Any, batch: Any, items: Any) -> Any:
        if any(row["text"] == "the fatal dog." for row in batch.rows):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, batch, items)

    worker.Worker.answers = answers  # type: ignore[method-assign]
    os._exit(cli.main(arguments))


@pytest.mark.slow
@pytest.mark.parametrize("output", ["run/", "out.csv"])
def test_a_unit_that_kills_is_skipped_and_named_after_its_third_death(
    output, model, tmp_path, capfd
) -> None:
    given = texts(8)
    given[3] = "the fatal dog."
    (tmp_path / "in.txt").write_text("\n".join(given) + "\n")
    command = [
        "score",
        str(tmp_path / "in.txt"),
        "-m",
        model,
        "-o",
        str(tmp_path / output),
        "--quiet",
    ]
    command = [word + "/" if word.endswith("run") else word for word in command]
    command += ["--rows-per-unit", "2"]
    codes = [killable.call(_fatal, command) for _ in range(4)]
    assert codes == [-signal.SIGKILL] * 3 + [1]
    folder = tmp_path / ("run" if output == "run/" else "out.csv.parts")
    assert [row["text"] for row in rows_in(folder)] == [*given[:2], *given[4:]]
    assert not (tmp_path / "out.csv").exists()
