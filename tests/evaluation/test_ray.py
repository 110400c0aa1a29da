"""Options and rooms of a Ray cluster; what runs there is in tests/jobs/test_ray_jobs.py."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import unmask.cli
from unmask import UnmaskError
from unmask.jobs.executors.ray_cluster import (
    capacity,
    connect,
)
from unmask.jobs.executors.ray_workers import WorkerResources

needs_ray = pytest.mark.skipif(not find_spec("ray"), reason="the extra `ray` is not here")


@pytest.mark.slow
@needs_ray
def test_where_nobody_listens_it_ends_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    code, said = command(capsys, tmp_path, "--ray", "auto")
    assert code == 2
    assert said.startswith("unmask: no Ray cluster answers at '127.0.0.1:1'")
    assert said.count("\n") == 1
    assert "ray start --head" in said
    assert "or choose local" in said


@pytest.mark.slow
@needs_ray
def test_without_a_cluster_on_this_machine_it_ends_in_one_line(monkeypatch, capsys, tmp_path):
    import ray

    def refuse(**_: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nPlease specify one")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", refuse)
    code, said = command(capsys, tmp_path, "--ray", "auto")
    assert code == 2
    assert said.startswith("unmask: no Ray cluster runs on this machine; start one with")
    assert said.count("\n") == 1


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnmaskError, match=r"pip install 'unmask\[ray\]'"):
        connect("auto")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers", "2"], "--workers is for a cluster; give --ray auto, local or an address"),
        (["--workers", "0"], "--workers is for a cluster"),
        (["--cpus-per-worker", "1"], "--cpus-per-worker is for a cluster"),
        (["--ray", "auto", "--workers", "0"], "workers is a whole number from 1, not 0"),
        (["--ray", "auto", "--cpus-per-worker", "-1"], "cpus_per_worker is a whole number"),
        (["--wait", "9"], "--wait is for a cluster"),
        (["--ray", "auto", "--wait", "0"], "--wait takes seconds, a number above 0, not 0"),
        (["--ray", "auto", "--wait", "nan"], "--wait takes seconds, a number above 0"),
        (["--ray", "auto", "--wait", "inf"], "--wait takes seconds, a number above 0"),
        (["--ray", ""], "a cluster is auto, local or an address"),
        (["--max-passes", "0"], "a sketch takes at least 101 forward passes, not --max-passes 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(capsys, tmp_path, options, said):
    code, told = command(capsys, tmp_path, *options)
    assert code == 2
    assert told.startswith(f"unmask: {said}")
    assert told.count("\n") == 1


def command(capsys: Any, folder: Path, *options: str) -> tuple[int, str]:
    arguments = ["evaluate", "corpus.txt", "-m", "model", "-o", str(folder / "out"), *options]
    return unmask.cli.main(arguments), capsys.readouterr().err


NODES: list[dict[str, Any]] = [
    {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 2.0}},
    {"Alive": True, "Resources": {"CPU": 3.0}},
    {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}},
]


@pytest.mark.parametrize(
    ("cpus", "gpus", "workers"), [(1, 0, 11), (2, 0, 5), (4, 0, 2), (1, 1, 2), (8, 1, 1)]
)
def test_as_many_workers_as_living_nodes_have_room_for(cpus, gpus, workers):
    assert capacity(NODES, WorkerResources(cpus=cpus, gpus=gpus)) == workers


def test_room_for_no_worker_is_refused():
    with pytest.raises(UnmaskError, match="has 9 CPUs for a worker; give fewer"):
        capacity(NODES, WorkerResources(cpus=9, gpus=0))
