"""A job on a Ray cluster of two nodes: the rows of one process, also if workers and a node die."""

import json
import random
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ray_nodes import TwoNodes, private_nodes
from remote_code import write_model
from tiny_tokenizers import save_bert

import unmask
from unmask import cli
from unmask.errors import StoreError, UnmaskError
from unmask.evaluation.request import EvaluationRequest, prepare
from unmask.jobs import folder as folders
from unmask.jobs.executors.local import LocalExecutor
from unmask.jobs.executors.ray_cluster import Cluster, RayExecutor
from unmask.jobs.executors.task import Failure
from unmask.jobs.kinds.score import ScoreKind
from unmask.jobs.model_source import ModelSource
from unmask.jobs.plan import JobPlan
from unmask.jobs.running import Job, open_job, run_job
from unmask.jobs.work import _give_up
from unmask.records.corpora import CorpusSpec
from unmask.records.files import Unit

needs_ray = pytest.mark.skipif(not find_spec("ray"), reason="the extra `ray` is not here")
WORDS = ("cat", "dog", "man", "woman", "mat")
UNITS = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    # sockets have short paths
    with private_nodes(tmp_path_factory.mktemp("r")) as nodes:
        yield nodes


class Disturbed:
    """A cluster to which something is done after some units."""

    def __init__(self, ray: RayExecutor, disturb: Any) -> None:
        self._ray, self._disturb = ray, disturb

    def run(self, task: Any, jobs: Any) -> Iterator[Any]:
        for number, done in enumerate(self._ray.run(task, jobs)):
            self._disturb(number)
            yield done


def rows_in(folder: Path, units: int) -> list[dict[str, Any]]:
    numbers = sorted(folders.part_numbers(str(folder)))
    assert numbers == [*range(units)]
    return [
        {name: value for name, value in row.items() if name != "seconds"}
        for number in numbers
        for row in pq.read_table(folders.place_of(str(folder), number)).to_pylist()
    ]


def jobs(model: str, folder: Path) -> dict[str, tuple[Job, JobPlan]]:
    """Texts to score, from a file that nodes share; and examples that the driver alone has."""
    draw = random.Random(5)
    texts = [f"the {' '.join(draw.choices(WORDS, k=8))} sat." for _ in range(UNITS * 20)]
    (folder / "in.txt").write_text("\n".join(texts))
    rows = [f"{text},the {WORDS[n % len(WORDS)]}" for n, text in enumerate(texts)]
    (folder / "in.csv").write_text("\n".join(["text,before", *rows]))
    kind = ScoreKind(given=("before",), separator=" ", methods=("pll", "elbo"), draws=2)
    score = open_job(kind, [str(folder / "in.csv")], texts_per_unit=20)
    request = EvaluationRequest(
        corpus=CorpusSpec(str(folder / "in.txt")),
        model=ModelSource(place=model, device="cpu"),
        examples=2 * UNITS,
        methods=["mlm", "hcb"],
        support=WORDS,
    )
    prepared = prepare(request)
    plan = prepared.plan.job(examples_per_unit=2, units=UNITS)
    return {
        "score": (score, score.plan(unmask.load(model), name="bert", dtype="float32")),
        "evaluate": (prepared.job(2), plan),
    }


def refusal(job: Job, plan: JobPlan, source: ModelSource, nodes: TwoNodes, folder: Path) -> str:
    executor = RayExecutor(source, Cluster(address=nodes.address, workers=1))
    with executor as ray, pytest.raises(UnmaskError) as told:
        run_job(job, plan, str(folder), ray, progress=False)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500
    return str(told.value)


@needs_ray
@pytest.mark.slow
@pytest.mark.long
def test_nodes_without_the_model_or_too_small_end_a_job_in_one_line(
    cluster: TwoNodes, tmp_path: Path
) -> None:
    job, plan = jobs(str(save_bert(tmp_path / "bert")), tmp_path)["evaluate"]
    other = save_bert(tmp_path / "other", {"cat": 1.0})
    said = refusal(job, plan, ModelSource(place=str(other)), cluster, tmp_path / "a")
    assert said.startswith("on node ")
    assert "has other " in said
    assert " here than where the run was planned" in said
    nowhere = ModelSource(place=str(tmp_path / "none"))
    assert "none" in refusal(job, plan, nowhere, cluster, tmp_path / "b")
    wide = Cluster(address=cluster.address, cpus_per_worker=2)
    with (
        RayExecutor(nowhere, wide) as ray,
        pytest.raises(UnmaskError, match="no node of the cluster has 2 CPUs"),
    ):
        run_job(job, plan, str(tmp_path / "c"), ray, progress=False)


@needs_ray
@pytest.mark.slow
def test_a_shifted_model_with_code_of_its_own_on_nodes(
    cluster: TwoNodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model(tmp_path / "dream-like", named="<|mask|>", classes=("AutoModel",))
    rows = [f"the {a} sat on,a {b}" for a in ("cat", "dog", "man") for b in ("mat", "hat")]
    (tmp_path / "in.csv").write_text("\n".join(["before,text", *rows]))
    command = ["score", str(tmp_path / "in.csv"), "--given", "before", "--separator", " "]
    command += ["--method", "unmasking", "--texts-per-unit", "2", "--shift", "--quiet"]
    command += ["-m", model, "--trust-remote-code", "--device", "cpu"]
    for place, options in (("here", []), ("there", ["--ray", cluster.address])):
        code = cli.main([*command, "-o", f"{tmp_path / place}/", *options])
        assert code == 0, capsys.readouterr().err
    units = len(list(folders.part_numbers(str(tmp_path / "here"))))
    first, *others = rows_in(tmp_path / "there", units)
    assert [first, *others] == rows_in(tmp_path / "here", units)
    lm = unmask.load(model, trust_remote_code=True, shift=True)
    own = lm.score("a mat", given="the cat sat on", separator=" ", method="unmasking")
    assert first["score"] == pytest.approx(own.score, abs=1e-5)


@needs_ray
@pytest.mark.slow
def test_a_card_of_consistency_from_nodes(cluster: TwoNodes, tmp_path: Path) -> None:
    model = str(save_bert(tmp_path / "bert"))
    rows = [f"the {a} saw the {b}.,the {b} saw the {a}." for a in WORDS for b in WORDS[:2]]
    (tmp_path / "in.csv").write_text("\n".join(["text,contrast", *rows]))
    command = ["consistency", str(tmp_path / "in.csv"), "-m", model, "--random-orders", "2"]
    command += ["--device", "cpu", "--quiet"]
    for place, options in (("here", []), ("there", ["--ray", cluster.address])):
        assert cli.main([*command, "-o", f"{tmp_path / place}/", *options]) == 0
    assert rows_in(tmp_path / "there", 3) == rows_in(tmp_path / "here", 3)
    here, there = (
        json.loads((tmp_path / one / "_card.json").read_text()) for one in ("here", "there")
    )
    assert there["results"] == here["results"]


# last, for it leaves one node
@needs_ray
@pytest.mark.slow
def test_the_rows_of_one_process_although_workers_die_and_a_node_stops(
    cluster: TwoNodes, tmp_path: Path
) -> None:
    model = save_bert(tmp_path / "bert")
    both = jobs(str(model), tmp_path)
    kills = [
        (5, cluster.other, "ray::Worker"),
        (15, cluster.head, "ray::Worker"),
        (25, cluster.other, "raylet/raylet"),
    ]
    disturbed(*both["evaluate"], cluster, model, tmp_path / "evaluate", kills[:1])
    disturbed(*both["score"], cluster, model, tmp_path / "score", kills)


def disturbed(
    job: Job, plan: JobPlan, cluster: TwoNodes, model: Path, folder: Path, kills: list[Any]
) -> None:
    lm = unmask.load(str(model))
    folder.mkdir()
    run_job(job, plan, str(folder / "here"), LocalExecutor(lm), progress=False)

    def disturb(done: int) -> None:
        if kills and done >= kills[0][0] and kills[0][1].kill(kills[0][2]):
            del kills[0]

    source = ModelSource(place=str(model), device="cpu")
    with RayExecutor(source, Cluster(address=cluster.address)) as ray:
        outcome = run_job(job, plan, str(folder / "there"), Disturbed(ray, disturb), progress=False)
    assert not kills
    texts = job.source.texts
    assert (outcome.done, outcome.failed, outcome.tally.texts) == (plan.units, 0, texts)
    assert rows_in(folder / "there", plan.units) == rows_in(folder / "here", plan.units)


def test_what_cannot_be_stored_ends_the_job_and_what_cannot_be_done_does_not() -> None:
    unit = Unit(3, "in.txt", "txt", 0, 9, 1)
    done = _give_up(unit, Failure("its worker ended 3 times while it ran", "killed"))
    assert (done.unit, done.error) == (3, "its worker ended 3 times while it ran, killed")
    with pytest.raises(StoreError, match=r"^cannot write x"):
        _give_up(unit, Failure("StoreError: cannot write x: No space left on device"))


@pytest.mark.slow
def test_a_class_for_ray_data(tmp_path: Path) -> None:
    import pyarrow as pa

    from unmask.jobs.ray_data import MapBatches

    model = str(save_bert(tmp_path / "bert"))
    texts = ["the cat sat.", "", "a dog ran."]
    table = MapBatches(model)(pa.table({"text": texts, "n": [1, 2, 3]}))
    assert table.column_names[:4] == ["text", "n", "method", "score"]
    first, _, last = unmask.load(model).score([texts[0], texts[0], texts[2]])
    found = table["score"].to_pylist()
    assert found == [pytest.approx(first.score), None, pytest.approx(last.score)]
    assert table["reason"].to_pylist()[1] == "the text is empty"
    with pytest.raises(ValueError, match="no column 'text'"):
        MapBatches(model)(pa.table({"n": [1]}))
