"""A job whose input and output are in a bucket: moto's server on this machine, through pyarrow."""

import json
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import killable
import pytest
from test_every_kind import KINDS

from unmask import cli
from unmask.jobs.folder import Folder, folder_at
from unmask.jobs.worker import Worker
from unmask.records import places

pytestmark = pytest.mark.slow
KILLS = 5
TEXTS = [
    f"the {one} saw a {two}." for one in ("cat", "dog", "man") for two in ("mat", "dog", "cat")
]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URL of a new bucket."""
    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{port}", scheme="http", allow_bucket_creation=True
        ).create_dir("crawl")
        places._connected.cache_clear()
        yield "s3://crawl"
        places._connected.cache_clear()
    server.stop()


def put(place: str, rows: list[dict[str, Any]]) -> None:
    places.write_whole(place, "".join(json.dumps(row) + "\n" for row in rows).encode())


def folder_of(output: str) -> Folder:
    return folder_at(output)


def done(output: str) -> int:
    """How many units have a part."""
    return sum(name.startswith("part-") for name in places.names_in(output))


def run(*arguments: object) -> int:
    return cli.main(list(map(str, arguments)))


def test_a_job_in_a_bucket_goes_on_and_notices_another_input(
    bucket, model, tmp_path, capsys, monkeypatch
) -> None:
    rows = [{"n": n, "text": text} for n, text in enumerate(TEXTS * 3)]
    put(f"{bucket}/in/a.jsonl", rows[:20])
    put(f"{bucket}/in/b.jsonl", rows[20:])
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ["score", f"{bucket}/in/*.jsonl", "-m", model, "--rows-per-unit", "4", "--quiet"]
    output = f"{bucket}/out/"

    real, made = Worker.answers, []

    def interrupted(self, *arguments):
        made.append(1)
        if len(made) == 4:
            raise KeyboardInterrupt
        return real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "answers", interrupted)
        assert run(*given, "-o", output) == 130
    folder = folder_of(output)
    assert set(folder.receipts()) == {0, 1, 2}
    # a part that was cut off
    content = places.read_bytes(folder.path(1))
    assert content is not None
    places.write_whole(folder.path(1), content[:-9])
    assert run(*given, "-o", output) == 0
    assert "damaged parts, which are computed again: 1" in capsys.readouterr().err
    assert run("merge", output, tmp_path / "merged.jsonl", "--quiet") == 0

    plain = ["score", tmp_path / "in.jsonl", "-m", model, "--quiet"]
    assert run(*plain, "-o", tmp_path / "plain.jsonl") == 0
    found, expected = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("merged.jsonl", "plain.jsonl")
    )
    assert [(row["n"], row["text"]) for row in found] == [(r["n"], r["text"]) for r in expected]
    scores = [row["score"] for row in expected]
    assert [row["score"] for row in found] == pytest.approx(scores, abs=1e-6)

    time.sleep(1.1)  # a store keeps times in seconds
    put(f"{bucket}/in/b.jsonl", rows[20:])
    assert run(*given, "-o", output) == 2
    assert "'b.jsonl' of the input has changed" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_kills_lose_no_row_in_a_bucket_and_repeat_none(bucket, model, tmp_path, kind: str) -> None:
    given = KINDS[kind]
    # a corpus is a file
    source = f"{tmp_path if kind == 'evaluate' else f'{bucket}/{kind}'}/in.jsonl"
    put(source, given.rows)
    words = [source if word == "FILE" else word for word in given.command]
    command = [*words, "-m", model, "--rows-per-unit", "1", "--quiet", "-o"]
    output, log, moments = f"{bucket}/{kind}/killed/", tmp_path / "log", random.Random(3)
    killed = 0
    for _ in range(KILLS):
        wanted = done(output) + moments.choice([0, 1, 2])
        process = killable.start([*command, output], log)
        while process.exitcode is None and done(output) < wanted:
            threading.Event().wait(0.01)
        process.join(moments.uniform(0, 0.3))
        process.kill()
        process.join()
        # so many kills are no sign of a unit that kills
        for name in places.names_in(output):
            if b"begun" in (places.read_bytes(f"{output}{name}") or b""):
                places.remove(f"{output}{name}")
        killed += process.exitcode == -signal.SIGKILL
    assert killed >= KILLS // 2
    assert killable.finish([*command, output], log) == 0
    assert run(*command, f"{bucket}/{kind}/whole/") == 0
    parts = [
        {
            name: places.read_bytes(f"{bucket}/{kind}/{folder}/{name}")
            for name in places.names_in(f"{bucket}/{kind}/{folder}/")
            if name.startswith("part-")
        }
        for folder in ("killed", "whole")
    ]
    assert len(parts[0]) >= len(given.rows)
    assert parts[0] == parts[1]
    assert "Traceback" not in log.read_text()


def test_what_is_not_there_ends_in_one_line(bucket, model, capsys, tmp_path: Path) -> None:
    for place in (f"{bucket}/none", f"{bucket}/none/*.jsonl"):
        assert run("score", place, "-m", model, "-o", f"{tmp_path}/x/", "--quiet") == 2
        assert capsys.readouterr().err.count("\n") == 1
