"""Many small parts become one, and a kill at any moment of it loses and doubles no row."""

import os
import signal
from pathlib import Path
from typing import Any

import killable
import pytest
from plans import a_plan
from run_rows import hold, pairs, rows

import unmask.evaluation.store.merging as merging
from unmask.evaluation.store.merging import due, merged_name, part_name, replaced, saves
from unmask.evaluation.store.parts import read_part
from unmask.evaluation.store.run_folder import parts, read_run
from unmask.jobs.shards import Shard

AT_ONCE = 3


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MERGED", AT_ONCE)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("rows/*/*.parquet"))


def on_disk(folder: Path) -> list[tuple[str, str]]:
    """Every row of every file, as another program would read them."""
    found = [
        row
        for path in sorted(folder.glob("rows/*/*.parquet"))
        for row in read_part(path, a_plan().digest)
    ]
    return sorted((row.example_id, row.construction) for row in found)


def expected(count: int) -> list[tuple[str, str]]:
    return sorted((row.example_id, row.construction) for i in range(count) for row in rows(i))


def save(folder: Path, *examples: int, shard: Shard | None = None) -> None:
    with hold(folder, shard=shard) as writer:
        for example in examples:
            writer.save(rows(example))


def test_parts_are_merged_while_they_are_saved(tmp_path: Path) -> None:
    save(tmp_path / "run", *range(8))
    assert names(tmp_path / "run") == [
        "part-000001-000003.parquet",
        "part-000004-000006.parquet",
        "part-000007.parquet",
        "part-000008.parquet",
    ]
    assert on_disk(tmp_path / "run") == expected(8)
    save(tmp_path / "run", 8)
    assert names(tmp_path / "run")[-1] == "part-000007-000009.parquet"
    assert on_disk(tmp_path / "run") == expected(9)
    found = read_run(tmp_path / "run")
    assert len(found.rows) == 18
    assert found.damaged == ()


def test_parts_of_earlier_versions_are_merged_at_the_start(tmp_path: Path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(merging, "MERGED", 1000)
        save(tmp_path / "run", *range(7))
    assert len(names(tmp_path / "run")) == 7
    save(tmp_path / "run")
    assert len(names(tmp_path / "run")) == 3
    assert on_disk(tmp_path / "run") == expected(7)


def test_a_failure_and_its_repetition_keep_their_order(tmp_path: Path) -> None:
    with hold(tmp_path / "run") as writer:
        writer.save(rows(0, error="broken"))
        writer.save(rows(0))
        writer.save(rows(1, error="broken"))
    assert len(names(tmp_path / "run")) == 1
    assert [row.failed for row in read_run(tmp_path / "run").rows] == [False, False, True, True]


def test_parts_of_other_shards_are_left_to_them(tmp_path: Path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(merging, "MERGED", 1000)
        save(tmp_path / "run", *range(4), shard=Shard(1, 2))
    save(tmp_path / "run", shard=Shard(0, 2))
    assert len(names(tmp_path / "run")) == 4


def test_what_a_damaged_merged_part_stood_for_counts_if_it_is_there(tmp_path: Path) -> None:
    save(tmp_path / "run", 0, 1)
    kept = {path: path.read_bytes() for path in parts(tmp_path / "run")}
    save(tmp_path / "run", 2)
    (merged,) = parts(tmp_path / "run")
    for path, content in kept.items():
        path.write_bytes(content)
    assert parts(tmp_path / "run") == [merged]
    merged.write_bytes(merged.read_bytes()[:100])
    with hold(tmp_path / "run") as writer:
        assert [one.id[:5] for one in writer.to_do(pairs(3))] == ["s0002"]
        assert len(writer.set_aside) == 1
        writer.save(rows(2))
    assert on_disk(tmp_path / "run") == expected(3)


def test_a_reader_that_comes_between_looks_again(tmp_path: Path, monkeypatch) -> None:
    save(tmp_path / "run", 0, 1)
    listed = parts(tmp_path / "run")
    save(tmp_path / "run", 2)
    looks = iter([listed])
    monkeypatch.setattr(
        "unmask.evaluation.store.run_folder.parts",
        lambda folder: next(looks, None) or parts(folder),
    )
    assert len(read_run(tmp_path / "run").rows) == 6


def test_names_say_which_saves_a_part_holds() -> None:
    assert saves("part-000007.parquet") == (7, 7)
    assert saves("part-000001-000100.parquet") == (1, 100)
    assert saves("mine.parquet") == saves("part-1.parquet.damaged") == (0, 0)
    single = [part_name(i) for i in (2, 3, 5, 6)]
    assert merged_name(due([*single, "mine.parquet"])) == "part-000002-000005.parquet"
    assert due(single[:2]) == ()
    here, there = Path("rows/0-of-2"), Path("rows/1-of-2")
    held = [here / "part-000001-000003.parquet", here / part_name(2), there / part_name(2)]
    assert replaced(held) == {here / part_name(2)}


def _save_and_die(folder: str, step: int) -> None:
    """Save two parts and a third, which is merged; killed at some call that changes the disk."""
    merging.MERGED = AT_ONCE
    with hold(Path(folder)) as writer:
        writer.save(rows(0))
        writer.save(rows(1))
        left = step

        def counted(call: Any) -> Any:
            def dying(*arguments: Any, **options: Any) -> Any:
                nonlocal left
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return call(*arguments, **options)

            return dying

        os.replace, os.fsync = counted(os.replace), counted(os.fsync)
        Path.unlink = counted(Path.unlink)  # type: ignore[method-assign]
        writer.save(rows(2))
        os._exit(7)


@pytest.mark.slow
@pytest.mark.long
def test_a_kill_while_parts_are_merged_loses_and_doubles_nothing(tmp_path: Path) -> None:
    seen = set()
    for step in range(30):
        folder = tmp_path / str(step)
        code = killable.call(_save_and_die, str(folder), step)
        seen.add(tuple(names(folder)))
        found = [row for path in parts(folder) for row in read_part(path, a_plan().digest)]
        keys = sorted((row.example_id, row.construction) for row in found)
        assert keys in (expected(2), expected(3)), step
        assert len(read_run(folder).rows) == len(keys)
        with hold(folder) as writer:
            for one in writer.to_do(pairs(3)):
                writer.save(rows(int(one.sentence_id[1:])))
        assert on_disk(folder) == expected(3), step
        if code == 7:
            break
        assert code == -signal.SIGKILL
    # before the third save, after it, beside the merged part in every state, and at the end
    assert len(seen) == 2 + AT_ONCE + 1
    assert step > 10
