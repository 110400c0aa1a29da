"""Threads and forked processes that share a model: every answer is the one of a single thread."""

import gc
import multiprocessing
import pickle
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from tiny_models import build, hooks
from torch import Tensor, nn

import unmask
from unmask.model import passes
from unmask.model.passes import Pass, lock_of

THREADS, EACH, DIFFERENT = 4, 40, 40
QUIET = unmask.Settings(progress=False, announce=False)
ONE = "the {} sat on the [MASK]."
TWO = "the [MASK] sat on [MASK] {}."
THREE = "[MASK] [MASK] sat on the [MASK]."
WORDS = ["cat", "dog", "man", "woman", "mat", "hat", "car", "house", "it", "he", "she", "they"]

Question = Callable[[unmask.LanguageModel], Tensor]


def question(number: int) -> Question:
    """One blank, two, three, given pairs or whole sentences, in turn; texts are equally long."""
    draw = random.Random(number)
    words, method = draw.sample(WORDS, 4), "log-pool" if number < 5 else "mrf"
    kinds: list[Question] = [
        lambda lm: best(lm.joint(ONE.format(words[0]), settings=QUIET)),
        # now and then through a solver
        lambda lm: best(lm.joint(TWO.format(words[0]), method=method, settings=QUIET)),
        lambda lm: best(lm.joint(THREE, support=words, method=method, settings=QUIET)),
        lambda lm: log_p(lm, [(TWO.format(w), *words[:2]) for w in words[:2]]),
        lambda lm: scores(lm, [ONE.format(w).replace("[MASK]", words[3]) for w in words[:2]]),
    ]
    return kinds[number % len(kinds)]


def best(joint: unmask.Joint) -> Tensor:
    return torch.tensor([fill.log_prob for fill in joint.top(8)], dtype=torch.float64)


def log_p(lm: unmask.LanguageModel, items: list[tuple[str, str, str]]) -> Tensor:
    scores = lm.pairs(items, settings=QUIET)
    return torch.tensor([score.log_p for score in scores], dtype=torch.float64)


def scores(lm: unmask.LanguageModel, texts: list[str]) -> Tensor:
    found = lm.score(texts, settings=QUIET)
    return torch.tensor([one.score for one in found], dtype=torch.float64)


def answers(lms: list[unmask.LanguageModel], numbers: list[int]) -> list[Tensor]:
    return [question(n % DIFFERENT)(lms[n % len(lms)]) for n in numbers]


@cache
def alone() -> list[Tensor]:
    return answers([unmask.load(build("bert"))], list(range(DIFFERENT)))


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["one lm", "two lm over one model"])
def test_four_threads_get_the_answers_of_one(sharing: str):
    pair = build("bert")
    lms = [unmask.load(pair) for _ in range(1 if sharing == "one lm" else 2)]
    rounds = [random.Random(n).sample(range(EACH), EACH) for n in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(lambda numbers: answers(lms, numbers), rounds))
    worst = max(
        float((answer - alone()[number % DIFFERENT]).abs().max())
        for numbers, got in zip(rounds, found, strict=True)
        for number, answer in zip(numbers, got, strict=True)
    )
    assert worst <= 1e-6


@pytest.mark.slow
def test_a_pass_of_another_thread_does_not_cut_into_this_one():
    """The other thread's pass begins while this one's is under way."""
    lm = unmask.load(build("bert"))
    tables = lm.tables(TWO.format("mat"), settings=QUIET)
    text = ONE.format("cat")
    expected = best(lm.joint(text, settings=QUIET))
    assert len(lm.cloze(text)) == len(lm.cloze(TWO.format("mat")))
    failures: list[BaseException] = []

    def read_tables() -> None:
        try:
            _ = tables.a_given_b
        except BaseException as error:
            failures.append(error)

    other = threading.Thread(target=read_tables)
    calls = 0

    def meet(*_: object) -> None:
        nonlocal calls
        if threading.current_thread() is other:
            return
        calls += 1
        other.start()
        # without a lock the other thread would be inside the model long before this ends
        other.join(0.5)

    handle = lm.model.model.bert.encoder.layer[0].register_forward_pre_hook(meet)
    try:
        found = best(lm.joint(text, settings=QUIET))
    finally:
        handle.remove()
    other.join(60)
    assert (calls, failures, other.is_alive()) == (1, [], False)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)


def test_a_progress_function_may_wait_for_another_thread():
    """As a server does that answers short questions between two batches of a long one."""
    lm = unmask.load(build("bert"))
    text = TWO.format("mat")
    expected = best(lm.joint(text, settings=QUIET))
    found: list[Tensor] = []

    def wait(_: unmask.Progress) -> None:
        if not found:
            other = threading.Thread(
                target=lambda: found.append(best(lm.joint(text, settings=QUIET))), daemon=True
            )
            other.start()
            other.join(30)
            assert found, "the other thread waits for this one"

    how = unmask.Settings(progress=wait, announce=False)
    torch.testing.assert_close(best(lm.joint(text, settings=how)), expected)
    torch.testing.assert_close(found[0], expected)


@pytest.mark.slow
def test_the_callers_own_use_of_the_model_is_not_cut_by_our_hooks():
    """A thread that calls the model itself takes no lock; hooks of other threads leave it alone."""
    model, tokenizer = build("bert")
    lm = unmask.load((model, tokenizer))
    ids = torch.tensor([lm.cloze(ONE.format("cat")).ids])
    with torch.inference_mode():
        expected = model(input_ids=ids).logits
    stop, wrong = threading.Event(), []

    def use_directly() -> None:
        while not stop.is_set():
            with torch.inference_mode():
                if not torch.equal(model(input_ids=ids).logits, expected):
                    wrong.append(1)

    mine = threading.Thread(target=use_directly)
    mine.start()
    try:
        for word in WORDS:
            _ = lm.tables(TWO.format(word), settings=QUIET).both()
    finally:
        stop.set()
        mine.join(60)
    assert not wrong


@pytest.mark.slow
def test_wrappers_of_one_model_share_its_lock_and_no_lock_outlives_it():
    model, tokenizer = build("bert")
    first, second = unmask.load((model, tokenizer)), unmask.load((model, tokenizer))
    assert lock_of(first.model.model) is lock_of(second.model.model) is lock_of(model)
    assert lock_of(unmask.load(build("bert")).model.model) is not lock_of(model)
    before = len(passes._LOCKS)
    del first, second, model
    gc.collect()
    assert len(passes._LOCKS) < before


# --- processes -----------------------------------------------------------------


def in_child(run: Callable[[], object], seconds: float = 60) -> object:
    """What a forked process gets, or an error if it takes so long."""
    fork = multiprocessing.get_context("fork")
    mine, theirs = fork.Pipe()
    # pickled here: torch would share tensors with a process that is gone
    child = fork.Process(target=lambda: theirs.send_bytes(pickle.dumps(run())))
    child.start()
    theirs.close()
    try:
        assert mine.poll(seconds), "the child does not answer"
        return pickle.loads(mine.recv_bytes())
    finally:
        child.kill()
        child.join()


@pytest.mark.slow
def test_a_child_forked_in_the_middle_of_a_pass_answers():
    """The lock and the hooks of a thread that the child does not have are copied with the model."""
    model, tokenizer = build("bert")
    lm, text = unmask.load((model, tokenizer)), TWO.format("mat")
    ids = torch.tensor([lm.cloze(text).ids])
    expected, own = best(lm.joint(text, settings=QUIET)), model(input_ids=ids).logits.detach()
    other = threading.Thread(target=lambda: lm.joint(text, settings=QUIET), daemon=True)
    inside, leave = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        if threading.current_thread() is other:
            inside.set()
            leave.wait(60)

    handle = model.cls.predictions.decoder.register_forward_pre_hook(wait)
    other.start()
    assert inside.wait(60)

    def ask() -> tuple[int, Tensor, list[Tensor]]:
        left = hooks(model)
        # the number of the thread that is gone may be that of one of these
        with ThreadPoolExecutor(THREADS) as threads:
            logits = list(threads.map(lambda _: model(input_ids=ids).logits.detach(), range(8)))
        return left, best(lm.joint(text, settings=QUIET)), logits

    try:
        left, answer, logits = in_child(ask)
        # what a spawned process gets; the hook of this test cannot be pickled
        handle.remove()
        copied = pickle.loads(pickle.dumps(lm))
    finally:
        leave.set()
        other.join(60)
    # the one of this test
    assert left == 1
    torch.testing.assert_close(answer, expected)
    torch.testing.assert_close(best(copied.joint(text, settings=QUIET)), expected)
    for one in logits:
        torch.testing.assert_close(one, own)
    assert hooks(model) == 0


def test_what_a_pass_replaces_is_put_back_in_a_child():
    inside, leave = threading.Event(), threading.Event()

    class Changing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Linear(1, 1)

        def forward(self) -> None:
            self.part = nn.Linear(2, 2)
            inside.set()
            leave.wait(60)

    model = Changing()
    other = threading.Thread(target=Pass(model).run, daemon=True)
    other.start()
    assert inside.wait(60)
    try:
        assert in_child(lambda: model.part.in_features) == 1
    finally:
        leave.set()
        other.join(60)
    assert model.part.in_features == 1


@pytest.mark.slow
def test_a_child_of_a_thread_that_computed_with_several_answers():
    """OpenMP in the child would wait for threads that it does not have."""
    lm, text, matrix = unmask.load(build("bert")), ONE.format("cat"), torch.ones(512, 512)

    def compute() -> Tensor:
        return torch.stack([(matrix @ matrix).sum(), best(lm.joint(text, settings=QUIET))[0]])

    def compute_and_fork() -> tuple[Tensor, object]:
        torch.set_num_threads(2)
        return compute(), in_child(compute)

    threads = torch.get_num_threads()
    try:
        # a thread of its own: the helpers of this one would stay
        with ThreadPoolExecutor(1) as pool:
            here, there = pool.submit(compute_and_fork).result()
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(there, here)


def first(lm: unmask.LanguageModel, text: str) -> float:
    return lm.joint(text, settings=QUIET).top(1)[0].log_prob


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forked", "spawned"), [(5, 0), pytest.param(50, 3, marks=pytest.mark.long)]
)
def test_processes_started_while_another_thread_runs_the_model_answer(forked: int, spawned: int):
    lm, text = unmask.load(build("bert")), TWO.format("mat")
    expected, stop = first(lm, text), threading.Event()

    def keep_asking() -> None:
        while not stop.is_set():
            first(lm, text)

    other = threading.Thread(target=keep_asking, daemon=True)
    other.start()
    answers = []
    for number in range(forked):
        time.sleep(random.Random(number).uniform(0, 0.02))
        answers.append(in_child(lambda: first(lm, text)))
    if spawned:
        with multiprocessing.get_context("spawn").Pool(spawned) as pool:
            answers += pool.starmap_async(first, [(lm, text)] * spawned).get(300)
    stop.set()
    other.join(60)
    assert not other.is_alive()
    assert answers == pytest.approx([expected] * (forked + spawned), abs=1e-6)
