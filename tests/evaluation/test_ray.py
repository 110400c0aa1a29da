"""An evaluation on a real Ray cluster: the same rows as here, also when workers and nodes die."""

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from assets import real_model
from ray_nodes import TwoNodes, Workers, measured, private_nodes, table
from tiny_tokenizers import save_bert

import unmask.cli
from unmask import UnmaskError
from unmask.corpora import CorpusSpec
from unmask.evaluation.plan import Batch, Plan
from unmask.evaluation.request import Prepared, Request, prepare
from unmask.evaluation.worker import batch_on, measuring, of_median_length
from unmask.jobs.executors.local import LocalExecutor
from unmask.jobs.executors.ray_cluster import (
    Cluster,
    RayExecutor,
    capacity,
    connect,
)
from unmask.jobs.executors.ray_workers import Needs
from unmask.jobs.model_source import ModelSource
from unmask.settings import Settings

EXAMPLES = 90
# a few, one with a solver: the tiny model does them all
METHODS = ("mlm", "hcb", "pseudo-gibbs")
WORDS = ("cat", "dog", "man", "woman")
FEW_EXAMPLES = 40

needs_ray = pytest.mark.skipif(not find_spec("ray"), reason="the extra `ray` is not here")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Prepared:
    """Eight words per text, seeded; the support as well, so that an example is a few dozen rows."""
    draw = random.Random(5)
    texts = [" ".join(draw.choices(WORDS, k=8)) for _ in range(EXAMPLES // 2)]
    folder = tmp_path_factory.mktemp("corpus")
    real = request(folder, texts, real_model("tiny-english"), WORDS)
    return prepare(replace(real, methods=METHODS))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Prepared:
    """A model and texts that every machine has."""
    folder = tmp_path_factory.mktemp("tiny")
    pairs = [(a, b) for a in WORDS for b in (*WORDS, "mat")]
    texts = [f"the {a} sat on a {b}" for a, b in pairs]
    return prepare(request(folder, texts, save_bert(folder / "tiny-bert"), "vocabulary"))


def request(folder: Path, texts: list[str], model: Path, support: str | tuple[str, ...]) -> Request:
    corpus = folder / "texts.txt"
    corpus.write_text("\n".join(dict.fromkeys(texts)) + "\n", encoding="utf-8")
    return Request(
        corpus=CorpusSpec(place=str(corpus)),
        model=ModelSource(place=str(model), device="cpu"),
        support=support,
        settings=Settings(batch_size=12),
    )


def here(prepared: Prepared) -> dict[Any, dict[str, Any]]:
    """What this process finds."""
    runs = LocalExecutor(prepared.lm).run(measuring(prepared.draft), prepared.drawn.pairs)
    return table([row for rows in runs for row in rows])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    # sockets have short paths
    with private_nodes(tmp_path_factory.mktemp("r")) as nodes:
        yield nodes


@needs_ray
@pytest.mark.slow
@pytest.mark.long
def test_two_nodes_find_the_rows_of_one_process_with_a_tiny_model(tiny, cluster, monkeypatch):
    # a folder from where this process is, which is not where the workers are
    folder = Path(tiny.request.model.place)
    monkeypatch.chdir(folder.parent)
    model = replace(tiny.request.model, place=folder.name)
    assert len(tiny.drawn.pairs) == FEW_EXAMPLES
    assert table(measured(tiny, cluster, model=model)) == here(tiny)


def refusal(source: ModelSource, plan: Plan, prepared: Prepared, nodes: TwoNodes) -> str:
    executor = RayExecutor(source, Cluster(address=nodes.address, workers=1))
    with executor as ray, pytest.raises(UnmaskError) as told:
        list(ray.run(measuring(plan), prepared.drawn.pairs))
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500
    return str(told.value)


@needs_ray
@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
def test_another_model_on_a_node_ends_in_one_line(prepared, cluster, tmp_path):
    other = ModelSource(place=str(save_bert(tmp_path / "bert")), device="cpu")
    said = refusal(other, prepared.draft, prepared, cluster)
    assert said.startswith("on node ")
    # whichever part of it is looked at first
    assert "has other " in said
    assert " here than where the run was planned" in said


@needs_ray
@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
def test_a_model_that_a_node_has_not_ends_in_one_line(prepared, cluster, tmp_path):
    said = refusal(ModelSource(place=str(tmp_path / "none")), prepared.draft, prepared, cluster)
    assert said.startswith("on node ")
    assert "none" in said


@needs_ray
@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
def test_the_batch_size_is_found_on_a_worker(prepared, cluster):
    pairs, support = prepared.drawn.pairs, prepared.draft.support
    with RayExecutor(prepared.request.model, Cluster(address=cluster.address)) as ray:
        assert batch_on(ray, pairs, support, Settings(batch_size=3)) == Batch(rows=3)
        found = batch_on(ray, pairs, support, Settings())
        assert found == batch_on(LocalExecutor(prepared.lm), pairs, support, Settings())


@needs_ray
@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
def test_nodes_that_are_too_small_are_refused_at_once(prepared, cluster):
    wide = Cluster(address=cluster.address, cpus_per_worker=2)
    with (
        RayExecutor(prepared.request.model, wide) as ray,
        pytest.raises(UnmaskError, match="no node of the cluster has 2 CPUs"),
    ):
        batch_on(ray, prepared.drawn.pairs, prepared.draft.support, Settings())


# last, for it leaves one node
@needs_ray
@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
def test_the_same_rows_although_workers_are_killed_and_a_node_stops(prepared, cluster, capfd):
    expected = here(prepared)
    assert len(expected) == EXAMPLES * len(prepared.draft.constructions)
    both = (cluster.head, cluster.other)
    at_work = set()
    kills = [
        (10, cluster.other, "ray::Worker"),
        (30, cluster.head, "ray::Worker"),
        (50, cluster.other, "raylet/raylet"),
    ]

    def disturb(done: int) -> None:
        at_work.update(n for n, node in enumerate(both) if node.pids("ray::Worker"))
        # or later: a worker may take longer to start than others take for many examples
        if kills and done >= kills[0][0] and kills[0][1].kill(kills[0][2]):
            del kills[0]

    assert table(measured(prepared, cluster, disturb)) == expected
    assert not kills
    assert at_work == {0, 1}
    assert not cluster.other.pids("raylet/raylet")
    assert capfd.readouterr() == ("", "")


def test_rows_name_no_machines_and_other_errors_do(tiny, monkeypatch):
    ray = RayExecutor(tiny.request.model, Cluster(workers=1))
    pairs = tiny.drawn.pairs
    deadly = (*pairs, of_median_length(pairs))
    playing = Workers(deadly=deadly, why="killed (on node db7 (10.0.0.5))")
    monkeypatch.setattr(ray, "_transport", lambda task: playing)
    (rows,) = ray.run(measuring(tiny.draft), pairs[:1])
    assert {row.error for row in rows} == {"its worker ended 3 times while it ran"}
    with pytest.raises(UnmaskError, match=r"3 times while it ran, the last time with: killed.*db7"):
        batch_on(ray, pairs, tiny.draft.support, Settings())
    with pytest.raises(UnmaskError, match=r"workers died 10 times .*the last with: killed.*db7"):
        list(ray.run(measuring(tiny.draft), pairs))


@needs_ray
def test_where_nobody_listens_it_ends_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    code, said = command(capsys, tmp_path, "--ray", "auto")
    assert code == 2
    assert said.startswith("unmask: no Ray cluster answers at '127.0.0.1:1'")
    assert said.count("\n") == 1
    assert "ray start --head" in said
    assert "--ray local" in said


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
        (["--cpus-per-worker", "1"], "--cpus-per-worker is for a cluster"),
        (["--ray", "auto", "--workers", "0"], "workers is a whole number from 1, not 0"),
        (["--ray", "auto", "--cpus-per-worker", "-1"], "cpus_per_worker is a whole number"),
        (["--patience", "9"], "--patience is for a cluster"),
        (["--ray", "auto", "--patience", "0"], "--patience takes seconds, a number above 0, not 0"),
        (["--ray", "auto", "--patience", "nan"], "--patience takes seconds, a number above 0"),
        (["--ray", "auto", "--patience", "inf"], "--patience takes seconds, a number above 0"),
        (["--ray", ""], "a cluster is auto, local or an address"),
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
    assert capacity(NODES, Needs(cpus=cpus, gpus=gpus)) == workers


def test_room_for_no_worker_is_refused():
    with pytest.raises(UnmaskError, match="has 9 CPUs for a worker; give fewer"):
        capacity(NODES, Needs(cpus=9, gpus=0))
