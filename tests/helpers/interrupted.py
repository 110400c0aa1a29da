"""Ctrl-C at any moment: no hook stays, the next answer is right, the model is as it was."""

import copy
import io
import random
import signal
import sys
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import redirect_stderr
from types import FrameType
from typing import Any

import pytest
import torch
from tiny_models import build, hooks
from torch import Tensor, nn

import unmask
from unmask import progress
from unmask.model import hugging_face, output_layer, passes

QUIET = unmask.Settings(progress=False, announce=False)
TWO = "the [MASK] sat on [MASK] mat."
ONE = "the cat sat on [MASK] mat."
TRIALS = 800
# progress that is not shown, told to a function, drawn
SHOWN: list[progress.Shown] = [False, lambda _: None, True]
SHOWN_IDS = ["hidden", "function", "drawn"]


class Subject:
    """A model, what it says when nothing interrupts, and what it must still say afterwards."""

    def __init__(self, name: str = "bert") -> None:
        self.model, self.tokenizer = build(name)
        fresh = unmask.load((copy.deepcopy(self.model), self.tokenizer))
        self.ids = torch.tensor([fresh.cloze(ONE).ids])
        self.logits = self.own_logits()
        self.one, self.two = self.asked(fresh, ONE), self.asked(fresh, TWO)
        self.lm = unmask.load((self.model, self.tokenizer))

    def own_logits(self) -> Tensor:
        with torch.inference_mode():
            return self.model(input_ids=self.ids).logits

    @staticmethod
    def asked(lm: unmask.LanguageModel, text: str, settings: unmask.Settings = QUIET) -> Tensor:
        fills = lm.joint(text, method="mrf", settings=settings).top(5)
        return torch.tensor([fill.log_prob for fill in fills])

    def load(self) -> None:
        unmask.load((self.model, self.tokenizer))

    def load_and_ask(self) -> None:
        self.asked(unmask.load((self.model, self.tokenizer)), TWO)

    def ask(self) -> None:
        self.asked(self.lm, TWO)

    def check(self) -> None:
        """All that an interrupt must leave as it was."""
        assert hooks(self.model) == 0
        assert torch.equal(self.own_logits(), self.logits)
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
        torch.testing.assert_close(self.asked(self.lm, ONE), self.one, atol=1e-6, rtol=0)

    def check_joint(self) -> None:
        torch.testing.assert_close(self.asked(self.lm, TWO), self.two, atol=1e-5, rtol=0)


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """Raise KeyboardInterrupt in this thread after so many seconds, as Ctrl-C would."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
def test_interrupts_at_random_moments_leave_nothing_behind(alarm):
    subject, draw = Subject(), random.Random(0)
    actions = [subject.ask, subject.ask, subject.load, subject.load_and_ask]
    hit = 0
    for trial in range(TRIALS):
        held: BaseException | None = None
        try:
            # shorter and shorter than what the action takes
            alarm(draw.uniform(1e-4, 0.03))
            actions[trial % len(actions)]()
            alarm(0)
        except KeyboardInterrupt as error:
            hit += 1
            # as an interactive shell keeps it: what its frames hold is not let go
            held = error
        assert hooks(subject.model) == 0, trial
        if trial % 20 == 0:
            subject.check()
        del held
    subject.check()
    subject.check_joint()
    assert hit > TRIALS // 2


# --- other threads -------------------------------------------------------------


class Terminal(io.StringIO):
    """What says that it is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def bars_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars that appear when they are made, not after a second."""
    monkeypatch.setattr(progress, "_DELAY", 0.0)


def interrupt_beside_threads(
    alarm: Callable[[float], None], shown: progress.Shown, trials: int
) -> None:
    """Interrupt this thread again and again, while three others ask the same model."""
    subject, draw = Subject(), random.Random(1)
    settings = unmask.Settings(progress=shown, announce=False)
    stop, errors, answers = threading.Event(), list[BaseException](), [0, 0, 0]

    def ask(number: int) -> None:
        try:
            while not stop.is_set():
                found = subject.asked(subject.lm, TWO, settings)
                torch.testing.assert_close(found, subject.two, atol=1e-5, rtol=0)
                answers[number] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(3)]
    for thread in threads:
        thread.start()
    interrupts = 0
    while interrupts < trials:
        try:
            alarm(draw.uniform(1e-4, 0.05))
            subject.asked(subject.lm, TWO, settings)
            alarm(0)
        except KeyboardInterrupt:
            interrupts += 1
    before = list(answers)
    stop.set()
    for thread in threads:
        thread.join(30)
    hanging = [thread for thread in threads if thread.is_alive()]
    assert (errors, hanging) == ([], [])
    assert all(after > count for after, count in zip(answers, before, strict=True))
    subject.check()
    subject.check_joint()


@pytest.mark.slow
@pytest.mark.parametrize("shown", SHOWN, ids=SHOWN_IDS)
def test_interrupts_leave_other_threads_free(alarm, bars_at_once, shown):
    with redirect_stderr(Terminal()) as terminal:
        interrupt_beside_threads(alarm, shown, 300)
    assert ("row/s" in terminal.getvalue()) == (shown is True)


# --- every line ---------------------------------------------------------------

WATCHED = {module.__file__ for module in (passes, hugging_face, output_layer)}


def interrupted_at(line: int, run: Callable[[], Any], watched: Container[Any] = WATCHED) -> bool:
    """Run, and interrupt where the so-many-th line of the code that handles hooks begins."""
    seen = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in watched:
            return None
        if event == "line":
            seen += 1
            if seen == line:
                # one interrupt, not one for every line of the clean-up
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.slow
def test_an_interrupt_at_every_line_of_a_pass_leaves_nothing_behind():
    """Lines are finer than Python's own moments for an interrupt, which are calls and loops."""
    subject = Subject()
    ids = subject.ids.repeat(20, 1)
    expected = subject.lm.model.readouts(ids, [5])
    line, reached = 1, True
    while reached:
        reached = interrupted_at(line, lambda: subject.lm.model.readouts(ids, [5]))
        assert hooks(subject.model) == 0, line
        assert torch.equal(subject.lm.model.readouts(ids, [5]), expected), line
        line += 1
    subject.check()
    assert line > 100


@pytest.mark.slow
def test_an_interrupt_while_a_model_is_loaded_leaves_nothing_behind():
    subject = Subject()
    ids = subject.ids.repeat(20, 1)
    expected = subject.lm.model.readouts(ids, [5])

    def load() -> None:
        unmask.load((subject.model, subject.tokenizer)).model.readouts(ids, [5])

    line, reached = 1, True
    while reached:
        reached = interrupted_at(line, load)
        assert hooks(subject.model) == 0, line
        line += 29
    torch.testing.assert_close(subject.lm.model.readouts(ids, [5]), expected, atol=1e-6, rtol=0)
    subject.check()
    assert line > 300


# an answer takes so many hooked passes
@pytest.mark.parametrize("number", [1, 2])
def test_an_interrupt_right_after_a_hook_is_registered_leaves_no_hook(
    monkeypatch: pytest.MonkeyPatch, number: int
):
    """The hook is on the module, and nobody has been told of it yet."""
    subject = Subject()
    subject.ask()
    register, count = nn.Module.register_forward_pre_hook, 0

    def patched(self: nn.Module, *args: Any, **options: Any) -> Any:
        nonlocal count
        handle = register(self, *args, **options)
        count += 1
        if count == number:
            raise KeyboardInterrupt
        return handle

    monkeypatch.setattr(nn.Module, "register_forward_pre_hook", patched)
    with pytest.raises(KeyboardInterrupt):
        subject.ask()
    monkeypatch.undo()
    assert count == number
    subject.check()
    subject.check_joint()
