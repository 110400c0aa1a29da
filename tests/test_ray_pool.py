"""Which worker does which job, and what becomes of the jobs of one that dies: without Ray."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from unmask import UnmaskError
from unmask.evaluation.executors.ray_pool import (
    Answered,
    Died,
    Event,
    Limits,
    Placed,
    Pool,
    Raised,
    Ready,
    Refused,
)


class Workers:
    """Workers that do a job a step, the first of their queue, and die of the jobs in `deadly`.

    Only the first `room` of them get a place; `late` repeats what the dead had been asked.
    """

    def __init__(
        self,
        *,
        deadly: Sequence[str] = (),
        raising: Sequence[str] = (),
        room: int = 10**6,
        late: bool = False,
        killed: Sequence[int] = (),
    ) -> None:
        self.deadly, self.raising, self.room, self.late = deadly, raising, room, late
        self.killed = set(killed)
        self.queues: dict[int, list[tuple[int, str]]] = {}
        self.fresh: list[int] = []
        self.started = 0
        self.most_waiting = 0
        self.did: list[str] = []
        self.steps = 0

    def start(self) -> int:
        self.started += 1
        number = self.started - 1
        self.queues[number] = []
        if number < self.room:
            self.fresh.append(number)
        return number

    def give(self, worker: int, job: int, content: str) -> None:
        self.queues[worker].append((job, content))
        self.most_waiting = max(self.most_waiting, len(self.queues[worker]))

    def stop(self, worker: int) -> None:
        self.queues.pop(worker, None)

    def wait(self, seconds: float) -> list[Event]:
        self.steps += 1
        events: list[Event] = []
        for number in self.fresh:
            events += [Placed(number), Ready(number)]
        self.fresh = []
        for number, queue in list(self.queues.items()):
            if number in self.killed:
                self.killed.remove(number)
                events.append(Died(number, "killed"))
            elif queue:
                events += self.step(number, queue)
        return events

    def step(self, number: int, queue: list[tuple[int, str]]) -> Iterator[Event]:
        if queue[0][1] in self.deadly:
            yield Died(number, "out of memory")
            if self.late:
                yield from [Answered(number, job, f"late {content}") for job, content in queue]
            return
        job, content = queue.pop(0)
        self.did.append(content)
        if content in self.raising:
            yield Raised(number, job, "KeyError: 'x'")
        else:
            yield Answered(number, job, f"did {content}")


def give_up(job: str, why: str) -> str:
    return f"gave up {job}: {why}"


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
        "gave up job 3: its worker died 3 times, the last time with: out of memory"
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
    found = outcomes(Workers(deadly=["job 0"]), JOBS[:2], 1, limits=Limits(tries=1))
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
            return [Refused(0, "on node a: no such model")]

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
