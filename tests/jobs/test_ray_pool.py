"""Which worker does which job, what becomes of the jobs of one that dies, and what its errors mean.

Without Ray.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from ray_nodes import Workers

from unmask import UnmaskError
from unmask.errors import ModelError
from unmask.jobs.executors.ray_cluster import (
    Cluster,
    RayExecutor,
    on_workers,
    with_whole_path,
)
from unmask.jobs.executors.ray_failures import problem
from unmask.jobs.executors.ray_pool import Died, Placed, Pool
from unmask.jobs.executors.ray_workers import Worker
from unmask.jobs.executors.task import Failure
from unmask.jobs.model_source import ModelSource
from unmask.jobs.tally import Tally
from unmask.jobs.work import Done


def give_up(job: str, failure: Failure) -> str:
    return ", ".join(filter(None, (f"gave up {job}: {failure.message}", failure.details)))


def outcomes(workers: Any, jobs: Sequence[str], wanted: int = 2, **options: Any) -> list[str]:
    return list(Pool(workers, wanted, give_up, **options).run(jobs))


JOBS = [f"job {i}" for i in range(20)]
DONE = sorted(f"did {job}" for job in JOBS)


@pytest.mark.parametrize("wanted", [1, 2, 3, 20, 50])
def test_every_job_is_done_once_with_at_most_one_waiting(wanted):
    workers = Workers()
    assert sorted(outcomes(workers, JOBS, wanted)) == DONE
    assert sorted(workers.did) == sorted(JOBS)
    assert workers.most_waiting <= 2
    assert workers.started == min(wanted, len(JOBS))
    assert not workers.queues


def test_jobs_are_taken_as_there_is_room():
    taken = []
    source = (taken.append(job) or job for job in JOBS)
    pool = Pool(Workers(), 2, give_up).run(source)
    for done in range(1, 6):
        next(pool)
        assert len(taken) <= done + 2 * 2
    pool.close()


def test_without_jobs_there_are_no_workers():
    workers = Workers()
    assert outcomes(workers, []) == []
    assert workers.started == 0


@pytest.mark.parametrize("wanted", [1, 2, 5])
def test_a_job_that_kills_its_worker_fails_after_three_tries_and_the_others_are_done(wanted):
    workers = Workers(deadly=["job 3"])
    found = outcomes(workers, JOBS, wanted)
    assert len(found) == len(JOBS)
    assert [one for one in found if not one.startswith("did")] == [
        "gave up job 3: its worker ended 3 times while it ran, the last time with: out of memory"
    ]
    assert sorted(workers.did) == sorted(set(JOBS) - {"job 3"})
    assert workers.started == wanted + 3


def test_several_deadly_jobs_are_each_given_up():
    deadly = ["job 0", "job 7", "job 8"]
    found = outcomes(Workers(deadly=deadly), JOBS, 2)
    assert sorted(one.split(":")[0][8:] for one in found if one.startswith("gave")) == deadly
    assert len(found) == len(JOBS)


def test_a_job_that_only_waited_is_not_held_responsible():
    # one try: any charge at all would end "job 1", which waits behind "job 0"
    found = outcomes(Workers(deadly=["job 0"]), JOBS[:2], 1, tries=1)
    assert sorted(one.split(":")[0] for one in found) == ["did job 1", "gave up job 0"]


def test_a_late_answer_of_a_worker_that_was_given_up_is_dropped():
    found = outcomes(Workers(deadly=["job 3"], late=True), JOBS, 2)
    assert len(found) == len(JOBS)
    assert not [one for one in found if one.startswith("late")]


def test_two_answers_to_one_job_count_once():
    class Twice(Workers):
        def step(self, number, queue):
            events = list(super().step(number, queue))
            return events + events

    assert sorted(outcomes(Twice(), JOBS)) == DONE


def test_workers_killed_from_outside_cost_nothing():
    workers = Workers(killed=[0, 1, 3])
    assert sorted(outcomes(workers, JOBS)) == DONE
    assert workers.started == 5


def test_a_worker_that_gets_no_place_does_not_hold_up_the_others():
    workers = Workers(killed=[1], room=2)
    assert sorted(outcomes(workers, JOBS)) == DONE
    assert workers.started == 3


@pytest.mark.parametrize(("wanted", "deaths"), [(1, 10), (2, 10), (5, 15)])
def test_workers_that_only_die_end_the_run(wanted, deaths):
    class Dying(Workers):
        def wait(self, seconds):
            return [Died(number, "killed") for number in list(self.queues)[:1]]

    workers = Dying()
    with pytest.raises(UnmaskError, match=f"workers died {deaths} times without finishing") as told:
        outcomes(workers, JOBS, wanted)
    assert "\n" not in str(told.value)
    assert not workers.queues


def test_no_room_in_the_cluster_ends_the_run_after_a_while():
    now = [0.0]

    class Full(Workers):
        def wait(self, seconds):
            now[0] += seconds
            return []

    with pytest.raises(UnmaskError, match="no room for a worker for 120 s"):
        outcomes(Full(), JOBS, clock=lambda: now[0])
    assert 120 <= now[0] <= 122


def test_loading_may_take_longer_than_finding_room():
    now = [0.0]

    class Slow(Workers):
        def wait(self, seconds):
            now[0] += 50
            self.steps += 1
            if self.steps == 1:
                return [Placed(number) for number in self.fresh]
            return super().wait(seconds) if self.steps > 9 else []

    assert sorted(outcomes(Slow(), JOBS, clock=lambda: now[0])) == DONE


def test_a_worker_that_refuses_ends_the_run():
    class Refusing(Workers):
        def wait(self, seconds):
            return [Died(0, "on node a: no such model", lasts=True)]

    workers = Refusing()
    with pytest.raises(UnmaskError, match=r"^on node a: no such model$"):
        outcomes(workers, JOBS)
    assert not workers.queues


def test_an_error_of_a_job_is_its_outcome():
    found = outcomes(Workers(raising=["job 2"]), JOBS)
    assert [one for one in found if one.startswith("gave")] == ["gave up job 2: KeyError: 'x'"]
    assert len(found) == len(JOBS)


def test_workers_are_stopped_when_nobody_listens_any_more():
    workers = Workers()
    pool = Pool(workers, 2, give_up).run(JOBS)
    next(pool)
    pool.close()
    assert not workers.queues


def raised(error: BaseException, cause: BaseException) -> BaseException:
    error.__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "lasts"),
    [
        (ModelError("there is no folder 'x'"), True),
        (raised(ModelError("cannot load"), OSError("no such model")), True),
        (raised(ModelError("no device"), RuntimeError("CUDA error: unknown error")), False),
        (raised(ModelError("cannot load"), ConnectionResetError()), False),
        (raised(ModelError("cannot load"), MemoryError()), False),
        (OSError("stale file handle"), False),
        (RuntimeError("CUDA out of memory"), False),
    ],
)
def test_what_unmask_refuses_lasts_and_the_rest_passes(error, lasts):
    found = problem(error)
    assert found.lasts is lasts
    assert str(error) in found.why


class Failing:
    """A task whose outcome has this error."""

    overlapped = None

    def __init__(self, error: str | None = None) -> None:
        self.outcome = Done(0, Tally(), error=error)

    def run(self, lm: Any, job: Any) -> Done:
        return self.outcome


@pytest.mark.parametrize(
    ("error", "fails"),
    [
        ("AcceleratorError: CUDA error: an illegal memory access was encountered", True),
        ("RuntimeError: CUDA error: device-side assert triggered", True),
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", False),
        ("AcceleratorError: CUDA error: out of memory", False),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED", False),
        ("KeyError: 'cuda'", False),
        (None, False),
    ],
)
def test_a_worker_whose_accelerator_fails_ends(error, fails):
    task = Failing(error)
    worker = Worker(ModelSource(place="model"), task, 1)
    worker._lm = object()
    if fails:
        with pytest.raises(SystemExit, match=error):
            worker.do(None)
    else:
        assert worker.do(None) == task.outcome


@pytest.mark.parametrize("said", ["CUDA error: unspecified launch failure", "no such token"])
def test_a_worker_whose_accelerator_raises_ends_and_any_other_lives(said, monkeypatch):
    task = Failing()
    monkeypatch.setattr(Failing, "run", lambda *_: (_ for _ in ()).throw(RuntimeError(said)))
    worker = Worker(ModelSource(place="model"), task, 1)
    worker._lm = object()
    with pytest.raises(SystemExit if "CUDA" in said else RuntimeError, match=said):
        worker.do(None)


def test_a_folder_has_its_whole_path_and_a_name_stays(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in ("model", "./model", "~/model"):
        whole = with_whole_path(ModelSource(place=place, device="cpu"))
        assert whole == ModelSource(place=str(tmp_path / "model"), device="cpu")
    named = ModelSource(place="bert-base-cased")
    assert with_whole_path(named) == named


@pytest.mark.parametrize(("workers", "seconds"), [(None, 120), (4, 900)])
def test_workers_that_were_asked_for_are_waited_for_longer(workers, seconds):
    ray = RayExecutor(ModelSource(place="model"), Cluster(workers=workers))
    assert ray._patience == seconds
    own = RayExecutor(ModelSource(place="model"), Cluster(workers=workers, wait=7))
    assert own._patience == 7


@pytest.mark.parametrize(
    ("asked", "gpus", "device"),
    [(None, True, "cuda"), (None, False, "cpu"), ("cpu", True, "cpu"), ("cuda:3", True, "cuda")],
)
def test_a_worker_has_a_gpu_if_there_are_any(asked, gpus, device):
    source = ModelSource(place="model", device=asked)
    assert on_workers(source, gpus=gpus) == replace(source, device=device)


def test_a_gpu_that_no_node_has_is_refused():
    with pytest.raises(UnmaskError, match="no node of the cluster has a GPU"):
        on_workers(ModelSource(place="model", device="cuda"), gpus=False)


@pytest.mark.parametrize(
    "wrong", [{"workers": 0}, {"workers": 1.5}, {"cpus_per_worker": True}, {"address": " "}]
)
def test_a_cluster_of_no_size_is_refused(wrong):
    with pytest.raises(UnmaskError, match="not "):
        Cluster(**wrong)
