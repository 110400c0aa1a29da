"""The folder of a run: what is saved, resumed, refused, set aside and copied."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from evaluation_rows import a_row
from filelock import FileLock
from plans import a_plan
from run_rows import hold, pairs, rows

import unmask.durable as durable
from unmask import StoreError
from unmask.evaluation.plan import Batch
from unmask.evaluation.store.parts import DamagedPartError, read_part, write_part
from unmask.evaluation.store.run_folder import parts, read_plan, read_run
from unmask.evaluation.store.run_writer import copy_run, writing
from unmask.jobs.shards import Shard


def test_rows_come_back_as_they_were_saved(tmp_path: Path) -> None:
    spans = ((0, 3), (4, 8))
    saved = [
        a_row(0, spans=spans, converged=True, passes=12, software="s", device="cpu"),
        a_row(1, error="[bold]no\x1b", converged=None),
        a_row(2, pairwise_nll=0.1 + 0.2, corpus="ö\n,\"'"),
    ]
    write_part(tmp_path / "part.parquet", saved, "plan")
    assert read_part(tmp_path / "part.parquet", "plan") == saved
    with pytest.raises(DamagedPartError, match="another plan"):
        read_part(tmp_path / "part.parquet", "other")


def test_what_is_done_is_not_done_again_and_what_failed_is(tmp_path: Path) -> None:
    with hold(tmp_path / "run") as writer:
        assert len(writer.to_do(pairs())) == 5
        writer.save([*rows(0), *rows(1, error="broken")])
    with hold(tmp_path / "run") as writer:
        assert {one.id for one in writer.to_do(pairs())} == {p.id for p in pairs()[1:]}
        assert (len(writer.done), len(writer.failed)) == (1, 1)
        writer.save(rows(1))
        assert (len(writer.done), len(writer.failed)) == (2, 0)
    found = read_run(tmp_path / "run")
    assert [(row.example_id, row.failed) for row in found.rows[::2]] == [
        ("s0000/random", False),
        ("s0001/random", False),
    ]
    assert found.missing == 3


def test_a_later_failure_does_not_undo_what_was_measured(tmp_path: Path) -> None:
    with hold(tmp_path / "run") as writer:
        writer.save(rows(0))
        writer.save(rows(0, error="broken"))
    assert not any(row.failed for row in read_run(tmp_path / "run").rows)


def test_what_failed_before_comes_last(tmp_path: Path) -> None:
    with hold(tmp_path / "run") as writer:
        writer.save([*rows(0, error="broken"), *rows(2, error="broken"), *rows(3)])
    with hold(tmp_path / "run") as writer:
        assert [one.id[:5] for one in writer.to_do(pairs())] == ["s0001", "s0004", "s0000", "s0002"]


def test_an_error_of_the_disk_says_nothing_about_a_part(tmp_path: Path, monkeypatch) -> None:
    """A network disk that stumbles must not cost what was saved."""
    with hold(tmp_path / "run") as writer:
        writer.save(rows(0))

    def stale(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", stale)
        with (
            pytest.raises(StoreError, match="Stale file handle; try again"),
            hold(tmp_path / "run"),
        ):
            pass
    assert len(read_run(tmp_path / "run").rows) == 2


def test_two_different_answers_are_not_passed_over(tmp_path: Path) -> None:
    with hold(tmp_path / "run") as writer:
        writer.save(rows(0))
        writer.save(rows(0, seconds=9.0))
        assert len(read_run(tmp_path / "run").rows) == 2
        writer.save(rows(0, gold_kl=9.0))
    with pytest.raises(
        StoreError,
        match=r"result rows of 'mlm', in 0-of-1/part-000001.parquet and 0-of-1/part-000003",
    ):
        read_run(tmp_path / "run")


def test_the_manifest_says_what_there_is(tmp_path: Path) -> None:
    with hold(tmp_path / "run", shard=Shard(1, 2)) as writer:
        writer.to_do(pairs())
        writer.save([*rows(1), *rows(3, error="broken")])
    folder = tmp_path / "run" / "rows" / "1-of-2"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {name: manifest[name] for name in ("plan", "shard", "examples", "done", "failed")} == {
        "plan": a_plan().digest,
        "shard": "1/2",
        "examples": 2,
        "done": 1,
        "failed": 1,
    }
    (part,) = manifest["parts"]
    assert part["bytes"] == (folder / part["name"]).stat().st_size


def test_another_plan_is_refused_and_the_first_stays(tmp_path: Path) -> None:
    with hold(tmp_path / "run"):
        pass
    said = "memory_limit is '4000000000' there, '1' here"
    other = hold(tmp_path / "run", a_plan(memory_limit=1))
    with pytest.raises(StoreError, match=said), other:
        pass
    assert read_plan(tmp_path / "run") == a_plan()


def test_the_batch_size_is_found_once(tmp_path: Path) -> None:
    draft = a_plan(batch=None)
    with writing(tmp_path / "run", draft, Shard(), lambda: Batch(tokens=77)) as writer:
        assert writer.plan.batch == Batch(tokens=77)
    with writing(tmp_path / "run", draft, Shard(), lambda: pytest.fail("again")) as writer:
        assert writer.plan.batch == Batch(tokens=77)


def test_the_lock_is_given_back_when_a_plan_is_refused(tmp_path: Path) -> None:
    for _ in range(2):
        with hold(tmp_path / "run"):
            pass
        with (
            pytest.raises(StoreError, match="another plan"),
            hold(tmp_path / "run", a_plan(support=("a",))),
        ):
            pass


def test_rivals_are_refused_and_neighbours_are_not(tmp_path: Path) -> None:
    with hold(tmp_path / "run", shard=Shard(0, 2)):
        with hold(tmp_path / "run", shard=Shard(1, 2)):
            pass
        lock = FileLock(tmp_path / "run" / "locks" / "0-of-2.lock", timeout=0)
        assert not lock.is_locked
        with pytest.raises(StoreError, match="overlaps with 0/1"), hold(tmp_path / "run"):
            pass


@pytest.mark.parametrize(
    "text", ["", "1", "1/1", "2/2", "-1/2", "a/b", "1/2/3", "0/0", "٠/٢", "0/9999999"]
)
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="a shard is i/n with i from 0 to n - 1"):
        Shard.parse(text)


def test_shards_cover_everything_once() -> None:
    shares = [Shard(i, 3).of(range(11)) for i in range(3)]
    assert sorted(one for share in shares for one in share) == list(range(11))
    assert Shard.parse(str(Shard(2, 3))) == Shard(2, 3)


@pytest.mark.parametrize("count", range(1, 8))
def test_every_shard_has_its_part_of_every_kind(count: int) -> None:
    things = [*enumerate(["random", "contiguous"] * 14 + ["random"] * 14)]
    shares = [Shard(i, count).of(things, lambda one: one[1]) for i in range(count)]
    assert sorted(one for share in shares for one in share) == things
    for kind in ("contiguous", "random"):
        sizes = [sum(mask == kind for _, mask in share) for share in shares]
        assert max(sizes) - min(sizes) <= 1
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    # in the order in which they came
    assert all(share == sorted(share) for share in shares)


def test_unreadable_parts_are_set_aside(tmp_path: Path) -> None:
    with hold(tmp_path / "run") as writer:
        writer.save(rows(0))
        writer.save(rows(1))
    first, _ = parts(tmp_path / "run")
    changed = bytearray(first.read_bytes())
    changed[60] ^= 0xFF
    first.write_bytes(changed)
    (damaged,) = read_run(tmp_path / "run").damaged
    assert damaged.path == first
    with hold(tmp_path / "run") as writer:
        assert [one.id for one in writer.to_do(pairs(2))] == ["s0000/random"]
        assert len(writer.set_aside) == 1
        writer.save(rows(0))
    assert read_run(tmp_path / "run").damaged == ()
    assert first.with_name(first.name + ".damaged").read_bytes() == changed


def test_a_damaged_part_is_said_once(tmp_path: Path) -> None:
    with hold(tmp_path / "run") as writer:
        writer.save(rows(0))
    (part,) = parts(tmp_path / "run")
    part.write_bytes(part.read_bytes()[:100])
    (damaged,) = read_run(tmp_path / "run").damaged
    assert damaged.why.count("cannot be read") == 1
    assert not damaged.of_another_plan


def test_an_error_of_the_disk_is_not_damage_for_a_reader(tmp_path: Path, monkeypatch) -> None:
    with hold(tmp_path / "run") as writer:
        writer.save(rows(0))

    def stale(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(Path, "read_bytes", stale)
    with pytest.raises(StoreError, match="Stale file handle; try again"):
        read_run(tmp_path / "run")


def test_parts_of_a_neighbour_are_left_to_it(tmp_path: Path) -> None:
    with hold(tmp_path / "run", shard=Shard(1, 2)) as writer:
        writer.save(rows(1))
    (part,) = parts(tmp_path / "run")
    part.write_bytes(b"PAR1")
    with hold(tmp_path / "run", shard=Shard(0, 2)) as writer:
        assert writer.set_aside == []
    assert part.exists()


def test_what_was_half_written_is_cleared(tmp_path: Path) -> None:
    with hold(tmp_path / "run") as writer:
        writer.save(rows(0))
    left = tmp_path / "run" / "rows" / "0-of-1" / ".part-000002.parquet.1.unfinished"
    left.write_bytes(b"half")
    with hold(tmp_path / "run"):
        assert not left.exists()


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_a_failing_disk_leaves_no_trace(tmp_path: Path, monkeypatch, call: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with hold(tmp_path / "run") as writer:
        writer.save(rows(0))
        with monkeypatch.context() as patch:
            if call == "open":
                patch.setattr(Path, "open", fail)
            else:
                patch.setattr(durable.os, call, fail)
            with pytest.raises(
                StoreError, match=r"cannot write .*Input/output error; what was saved"
            ):
                writer.save(rows(1))
        assert len(parts(tmp_path / "run")) == 1
        writer.save(rows(1))
    assert len(read_run(tmp_path / "run").rows) == 4


def test_a_disk_without_locks_is_one_sentence(tmp_path: Path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr(FileLock, "acquire", fail)
    with pytest.raises(StoreError, match=r"cannot lock .*put the output on"), hold(tmp_path / "r"):
        pass


def test_folders_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match=r"holds 'thesis\.tex' and no evaluation"), hold(tmp_path):
        pass
    assert os.listdir(tmp_path) == ["thesis.tex"]
    with pytest.raises(StoreError, match="is a file; give a folder"), hold(tmp_path / "thesis.tex"):
        pass
    with pytest.raises(StoreError, match="is not the folder of an evaluation"):
        read_run(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', "\xff"])
def test_a_damaged_plan_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StoreError):
        read_run(tmp_path)


def test_a_copy_tells_no_details_of_errors(tmp_path: Path) -> None:
    with hold(tmp_path / "run") as writer:
        writer.save(rows(0, error="OSError: /home/me/secret on host 10.0.0.5"))
    copy_run(read_run(tmp_path / "run"), tmp_path / "copy")
    assert {row.error for row in read_run(tmp_path / "copy").rows} == {"OSError"}


def test_locks_are_given_back_at_once(tmp_path: Path) -> None:
    context = hold(tmp_path / "run")
    with context:
        pass
    for name in ("0-of-1", "plan"):
        with FileLock(tmp_path / "run" / "locks" / f"{name}.lock", timeout=0):
            pass


def test_a_copy_is_a_run_in_one_part(tmp_path: Path) -> None:
    with hold(tmp_path / "run") as writer:
        writer.save([*rows(0), *rows(2, error="broken")])
        writer.save([*rows(1), *rows(2)])
    run = read_run(tmp_path / "run")
    copy_run(run, tmp_path / "copy")
    assert len(parts(tmp_path / "copy")) == 1
    assert replace(read_run(tmp_path / "copy"), folder=run.folder) == run
    manifest = json.loads((tmp_path / "copy/rows/0-of-1/manifest.json").read_text())
    assert [manifest[name] for name in ("examples", "done", "failed")] == [5, 3, 0]
    with pytest.raises(StoreError, match="is not empty"):
        copy_run(run, tmp_path / "copy")
