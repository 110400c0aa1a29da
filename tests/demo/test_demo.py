"""The demo's parts: words, questions and links, the scheduler, answers, what is shown."""

import ast
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_lm import ToyMaskedLM, ToyTokenizer

import unmask
from unmask import cli
from unmask.demo import page, panels
from unmask.demo.examples import examples_for, label
from unmask.demo.handlers import Handlers
from unmask.demo.panels import PageUpdate
from unmask.demo.question import (
    LONGEST_TEXT,
    MOST_BLANKS,
    DemoQuestion,
    check,
    from_query,
    numbers,
    toggled,
)
from unmask.demo.scheduler import Computation, Scheduler
from unmask.demo.words import blanked, pieces
from unmask.text.support import Support

SOURCE = Path(unmask.__file__).parent
HOSTILE = "<script>x()</script> \"><img src=x onerror=x()> ${x()} {{x}} '`\u202e abc e\u0301 עברית"
V = 6
# more tokens than are all run for two blanks
LARGE = 520
# seconds, on a machine that others use too
PATIENCE = 90


def toy(blanks: int = 3, size: int = V) -> unmask.LanguageModel:
    alpha = np.full(size**blanks, 1.0 if size == V else 1e-3)
    joint = np.random.default_rng(3).dirichlet(alpha).reshape((size,) * blanks) + 1e-12
    return unmask.LanguageModel(ToyMaskedLM(joint, noise=0.3), ToyTokenizer(size))  # type: ignore[arg-type]


def handlers(
    *,
    places: int = 2,
    lm: unmask.LanguageModel | None = None,
    sketch: unmask.Sketch | None = None,
) -> Handlers:
    return Handlers(
        lm or toy(),
        settings=unmask.Settings(batch_size=2),
        sketch=sketch or unmask.Sketch(),
        default=DemoQuestion("t1 t2 t3", ()),
        places=places,
    )


def last(at: Handlers, question: DemoQuestion, visitor: str = "") -> PageUpdate:
    return list(at.answer(question, visitor))[-1]


# --- words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Two men, one dog.", ["Two", "men", "one", "dog"]),
        ("don't stop-and-go 3rd", ["don't", "stop-and-go", "3rd"]),
        ("今天很好", ["今", "天", "很", "好"]),
        ("안녕 세상", ["안녕", "세상"]),
        ("cafe\u0301 naïve", ["cafe\u0301", "naïve"]),
        ("- 'tis -", ["tis"]),
        ("", []),
        ("[MASK] ___ <mask>", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    found = pieces(text, "[MASK]")
    assert [piece.text for piece in found if piece.kind == "word"] == words
    assert "".join(piece.text for piece in found) == text


@pytest.mark.parametrize("text", [HOSTILE, "a[MASK]b", "__ _ x_y", "\u0301 \u200d👩‍🚀", "\x00\n\t"])
def test_nothing_of_a_text_is_lost(text: str) -> None:
    assert "".join(piece.text for piece in pieces(text, "<mask>")) == text
    assert blanked(text, [], "§").text.count("§") == len(blanked(text, [], "§").words)


def test_blanks_are_written_where_words_stood() -> None:
    found = blanked("Two men and ____ play.", {2}, "<mask>")
    assert found.text == "Two <mask> and <mask> play."
    assert found.words == ("men", None)
    # what is not a word is not blanked
    assert blanked("Two men.", {1}, "<mask>").text == "Two men."


# --- questions and links -----------------------------------------------------------------------


def test_a_link_asks_the_same_question_again() -> None:
    asked = DemoQuestion(HOSTILE, (0, 4), ("ag", "orders"))
    assert from_query("?" + asked.to_query(), DemoQuestion("other")) == asked
    # what there is not is not asked for
    other = DemoQuestion(HOSTILE, (0,), ("ag", "nonsense"))
    assert from_query(other.to_query(), DemoQuestion("")) == DemoQuestion(HOSTILE, (0,), ("ag",))


def test_enter_adds_nothing_to_a_text() -> None:
    asked = page._question("Two men\nran.\n\n", "2", ["mlm"])
    assert asked == DemoQuestion("Two men ran.", (2,), ("mlm",))
    shown = panels.words(DemoQuestion("Two men\nran.\n", (2,)), "[MASK]")
    assert shown == panels.words(DemoQuestion("Two men ran.", (2,)), "[MASK]")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?",
        "?text=",
        "?blanks=1",
        "?text=%FF%FE&blanks=-1,x,٣&methods=<b>&candidates=many",
        "&&&==",
    ],
)
def test_a_garbled_link_is_no_error(query: str) -> None:
    found = from_query(query, DemoQuestion("begin", (), ("mlm",)))
    assert found is None or (found.chosen, found.methods) == ((), ("mlm",))


def test_numbers_are_digits_alone() -> None:
    assert numbers("3, 1,1,x,-2,٣,") == (1, 3)
    assert numbers("9" * 5000) == numbers("1," * 5 + "9" * 5000)[1:] == ()


def test_a_word_is_blanked_and_filled_again() -> None:
    asked = DemoQuestion("Two men play.", ())
    once = toggled(asked, 2, "men", "[MASK]")
    assert once.chosen == (2,)
    assert toggled(once, 2, "men", "[MASK]").chosen == ()
    for place in (1, 99, -1, "2", None):
        assert toggled(asked, place, "men", "[MASK]") == asked
    # a word of the text before this
    assert toggled(asked, 2, "women", "[MASK]") == asked


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (DemoQuestion("Two men."), "There is no blank to fill yet"),
        (DemoQuestion("[MASK] " * (MOST_BLANKS + 1)), f"has {MOST_BLANKS + 1} blanks"),
        (DemoQuestion("x" * (LONGEST_TEXT + 1)), f"takes {LONGEST_TEXT}"),
        (DemoQuestion("[MASK]", (), ()), "choose a construction"),
        (DemoQuestion("[MASK]", (), ("nonsense",)), "no construction 'nonsense'"),
        (DemoQuestion("[MASK]", (), tuple(unmask.CONSTRUCTIONS)), "has room for"),
        (DemoQuestion("[MASK] [MASK] [MASK]", (), ("sweep",)), "sweep: for two blanks only"),
    ],
)
def test_what_cannot_be_answered_is_rejected_in_one_line(question: DemoQuestion, said: str) -> None:
    with pytest.raises(unmask.UnmaskError, match=said):
        check(question, "[MASK]")


# --- the scheduler -----------------------------------------------------------------------------


@contextmanager
def occupied(scheduler: Scheduler) -> Iterator[None]:
    """While this lasts, nothing is computed."""
    ended = threading.Event()
    scheduler.thread.submit(ended.wait)
    try:
        yield
    finally:
        ended.set()


@pytest.mark.slow
def test_answers_come_in_the_order_of_questions() -> None:
    scheduler, order = Scheduler(5), list[int]()
    with occupied(scheduler):
        jobs = [scheduler.begin(lambda _, n=number: order.append(n)) for number in range(5)]
    assert not wait([job.future for job in jobs if job], PATIENCE).not_done
    assert order == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_what_a_computation_raises_is_its_own() -> None:
    scheduler = Scheduler(2)
    failing, job = scheduler.begin(lambda _: 1 / 0), scheduler.begin(lambda _: 3)
    assert failing is not None
    assert job is not None
    assert isinstance(failing.future.exception(PATIENCE), ZeroDivisionError)
    assert job.future.result(PATIENCE) == 3


@pytest.mark.slow
def test_forward_passes_are_counted_once() -> None:
    """Pieces of work have the same name again and again, in any size."""
    job = Scheduler(1).begin(lambda _: 1)
    assert job is not None
    for done, total in ((16, 25), (25, 25), (16, 16), (25, 25), (16, 40)):
        job.tick(unmask.Progress("rows", done, total, "row"))
    job.tick(unmask.Progress("solver", 7, None, "pass"))
    assert job.passes_done == 25 + 16 + 25 + 16


def _ticking(job: Computation) -> int:
    for done in range(10_000):
        job.tick(unmask.Progress("rows", done, 10_000, "row"))
        time.sleep(0.002)
    return 1


@pytest.mark.slow
def test_a_job_that_is_cancelled_ends_and_frees_its_place() -> None:
    scheduler = Scheduler(2)
    running, waiting = scheduler.begin(_ticking), scheduler.begin(_ticking)
    assert running is not None
    assert waiting is not None
    while not running.passes_done:
        assert not wait([running.future], 0.01).done
    assert scheduler.begin(_ticking) is None
    # one that has not begun frees its place at once
    waiting.cancel()
    assert scheduler.places.acquire(blocking=False)
    assert not scheduler.places.acquire(blocking=False)
    running.cancel()
    for job in (running, waiting):
        with pytest.raises(CancelledError):
            job.future.result()
    assert scheduler.places.acquire(timeout=PATIENCE)


# --- answers -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_answer_is_that_of_the_constructions() -> None:
    lm = toy()
    *before, shown = handlers(lm=lm).answer(DemoQuestion("t1 t2 t3", (2, 4), ("mlm", "log-pool")))
    joint = lm.joint("t1 [MASK] [MASK]", method="log-pool")
    assert all(one.cards is None for one in before)
    assert shown.cards is not None
    assert shown.trust is not None
    assert shown.maps is not None
    for fill in joint.top(8):
        assert f">{panels.written(fill.probability)}<" in shown.cards
    gold = panels.written(np.exp(joint.log_prob("t2", "t3")))
    assert re.search(rf"What stood there: .* {gold}</p>", shown.cards)
    assert f"J = {joint.incompatibility():.3f} bits" in shown.trust
    assert f"{joint.mutual_information():.3f} nats (log-pool)" in shown.trust
    assert f"Cost: {2 * V + 1} forward passes" in shown.trust
    # a small vocabulary is run whole
    assert "±" not in shown.cards + shown.trust
    assert shown.maps.count("<table>") == 2
    best = joint.top(1)[0]
    assert f">{best.probability:.3f}</td>" in shown.maps


@pytest.mark.slow
def test_bars_of_all_constructions_have_one_scale() -> None:
    lm = toy()
    cards = last(handlers(lm=lm), DemoQuestion("t1 t2 t3", (2, 4), ("mlm", "ag"))).cards
    found = lm.joints("t1 [MASK] [MASK]", methods=["mlm", "ag"])
    most = max(joint.top(1)[0].probability for joint in found.values())
    wide = [float(width) for width in re.findall(r"width: ([\d.]+)%", str(cards))]
    each = [100 * fill.probability / most for one in found.values() for fill in one.top(8)]
    assert wide == pytest.approx(each, abs=0.06)


@pytest.mark.slow
def test_one_blank_and_three() -> None:
    one = last(handlers(), DemoQuestion("t1 t2 t3", (2,), ("log-pool",)))
    assert one.cards is not None
    assert one.cards.count("<section") == 1
    asked = DemoQuestion("t1 t2 t3", (0, 2, 4), ("mlm", "orders", "log-pool", "sweep"))
    three = last(handlers(), asked)
    assert three.cards is not None
    assert three.cards.count("<section") == 3
    assert "log-pool" in three.cards
    assert "sweep is for two blanks" in str(three.trust)
    assert three.maps == ""


@pytest.mark.slow
def test_several_answers_at_once_are_those_of_one_after_the_other() -> None:
    asked = [DemoQuestion("t1 t2 t3", places, ("ag",)) for places in ((0, 2), (2, 4), (0, 4))]
    alone = [last(handlers(), one) for one in asked]
    shared, found = handlers(places=3), dict[int, PageUpdate]()
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: last(shared, asked[n], str(n))}))
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [found[n].cards for n in range(3)] == [one.cards for one in alone]


@pytest.mark.slow
def test_without_a_free_place_the_page_says_so() -> None:
    at = handlers(places=1)
    assert at._scheduler.places.acquire(blocking=False)
    (shown,) = at.answer(DemoQuestion("t1 t2 t3", (2, 4), ("ag",)))
    assert shown.status is not None
    assert "Please try again" in shown.status


@pytest.mark.slow
def test_an_answer_that_nobody_waits_for_is_not_finished() -> None:
    lm = toy()
    at = handlers(places=1, lm=lm)
    with occupied(at._scheduler):
        answer = at.answer(DemoQuestion("t1 t2 t3", (2, 4), ("ag",)))
        assert "waits for its turn" in str(next(answer).status)
        answer.close()
    assert at._scheduler.places.acquire(timeout=PATIENCE)
    assert lm.model.rows_asked == 0  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_visitor_cancels_what_is_theirs() -> None:
    at = handlers(places=2)
    question = DemoQuestion("t1 t2 t3", (2, 4), ("ag",))
    with occupied(at._scheduler):
        mine, others = at.answer(question, "me"), at.answer(question, "others")
        assert "waits" in str(next(mine).status)
        assert "waits" in str(next(others).status)
        assert "Cancelled" in str(at.cancel("me").status)
        assert "Cancelled" in str(next(mine).status)
        assert next(mine, None) is None
        assert "waits" in str(next(others).status)
    assert "J = " in str([*others][-1].trust)
    # there is nothing more to cancel
    assert at.cancel("me") == at.cancel("others") == PageUpdate()
    assert "J = " in str(last(at, question, "me").trust)


@pytest.mark.slow
def test_a_second_question_gets_its_answer_and_not_that_of_the_first() -> None:
    at = handlers(places=1)
    old, new = (DemoQuestion("t1 t2 t3", places, ("ag",)) for places in ((0, 2), (2, 4)))
    with occupied(at._scheduler):
        first = at.answer(old, "me")
        assert "waits" in str(next(first).status)
        second = at.answer(new, "other")
        assert "Please try again" in str(next(second).status)
    answers = at.answer(new, "me")
    shown = [*answers][-1]
    # what watched the old one shows nothing more
    assert [*first] == [PageUpdate()]
    assert shown.cards == last(handlers(), new).cards


@pytest.mark.slow
def test_what_fails_is_said_without_what_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    at = handlers()

    def readouts(*_: object) -> object:
        raise RuntimeError("secret t1 t2 t3")

    at.lm.model.readouts = readouts  # type: ignore[method-assign, assignment]
    question = DemoQuestion("t1 t2 t3", (2, 4), ("ag",))
    shown = last(at, question)
    assert "Something failed" in str(shown.status)
    assert shown.cards == ""
    assert capsys.readouterr().err == "unmask: the demo could not answer: RuntimeError\n"


@pytest.mark.slow
def test_a_closed_demo_ends_its_work() -> None:
    at = handlers()
    with occupied(at._scheduler):
        answer = at.answer(DemoQuestion("t1 t2 t3", (2, 4), ("ag",)))
        next(answer)
        at.close()
        assert "Cancelled" in str([*answer][-1].status)
    assert "Something failed" in str(last(at, DemoQuestion("t1 t2 t3", (2, 4))).status)


@pytest.mark.slow
def test_a_long_text_is_cut_before_anything_looks_at_it() -> None:
    # not by the clock: others may use the machine too
    began = time.process_time()
    found = handlers().edited("x " * 500_000, "y " * 500_000, "0")
    assert len(found.text) == LONGEST_TEXT + 1
    last(handlers(), DemoQuestion("x " * 500_000))
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "question",
    [
        DemoQuestion("t1 [MASK] [MASK]", (), ("nonsense",)),
        DemoQuestion("x" * 20_000, (0,)),
        DemoQuestion("[MASK] " * 9),
    ],
)
def test_bad_input_is_one_line_and_no_exception(question: DemoQuestion) -> None:
    (shown,) = handlers().answer(question)
    assert shown.status is not None
    assert "rejected" in shown.status


def test_words_stay_blank_while_the_text_is_edited() -> None:
    at = handlers()
    kept = at.edited("Yesterday two men played", "two men play", "2")
    assert [pieces(kept.text, "[MASK]")[place].text for place in kept.chosen] == ["men"]
    assert at.edited("two play", "two men play", "2").chosen == ()


@pytest.mark.slow
def test_two_blanks_of_a_large_vocabulary_are_estimated() -> None:
    """By constructions that a sketch does for; the others are over candidates, and say so."""
    asked = DemoQuestion("t1 t2", (0, 2), ("mlm", "log-pool", "ag"))
    shown = last(handlers(lm=toy(2, LARGE), sketch=unmask.Sketch(max_passes=150)), asked)
    cards = dict(zip(asked.methods, str(shown.cards).split("<section")[1:], strict=True))
    assert "±" not in cards["mlm"] + cards["ag"]
    assert cards["log-pool"].count(" ± ") >= 8
    assert "Only over 100 candidates per blank, which hold" in cards["ag"]
    assert "Among" not in cards["mlm"] + cards["log-pool"]
    assert re.search(r"J = [\d.]+ ± [\d.]+ bits", str(shown.trust))
    assert re.search(rf"from \d+ of its {2 * LARGE + 1:,} forward passes", str(shown.trust))
    assert str(shown.maps).count("<table>") == 3


@pytest.mark.slow
def test_an_estimate_that_is_rough_is_said_to_be() -> None:
    sketch = unmask.Sketch(precision=1e-9, max_passes=101)
    at = handlers(lm=toy(2, LARGE), sketch=sketch)
    trust = str(last(at, DemoQuestion("t1 t2", (0, 2), ("log-pool",))).trust)
    assert re.search(r"Less precise than wanted: likely fills may be off by \d+%", trust)


# --- what is shown -----------------------------------------------------------------------------


def test_whatever_is_written_is_inert() -> None:
    names = Support.of([HOSTILE, "</section><b>"])
    joint = unmask.Joint.from_scores(torch.zeros(2, 2), (names, names), method="mlm")
    every = [
        panels.words(DemoQuestion(HOSTILE, (0,)), "[MASK]"),
        panels.cards({HOSTILE: joint}, {HOSTILE: 0.1}, (HOSTILE,), (1, 1)),
        panels.trust([HOSTILE]),
        panels.maps({HOSTILE: joint}),
        panels.line(HOSTILE),
        panels.page_head(HOSTILE, 10),
    ]
    for shown in every:
        assert "<script" not in shown
        assert "<img" not in shown
        assert "<b>" not in shown.replace("<b><bdi>", "")
        assert "\u202e" not in shown


@pytest.mark.parametrize(
    ("probability", "error", "said"),
    [
        (0.1284, None, "0.128"),
        (2e-5, None, "2.0e-05"),
        (0.0, None, "0.000"),
        (0.9999, None, ">0.999"),
        (0.1284, 0.004, "0.128 ± 0.004"),
        (0.1284, 0.0002, "0.1284 ± 0.0002"),
        (0.1284, 1e-9, "0.1284 ± <0.0001"),
        (2e-5, 1e-6, "2.0e-05 ± 1e-06"),
    ],
)
def test_probabilities_are_readable(probability: float, error: float | None, said: str) -> None:
    assert panels.written(probability, error) == said


def test_a_number_that_is_nothing_has_no_sign() -> None:
    names = Support.of(["a", "b"])
    joint = unmask.Joint.from_scores(torch.zeros(2, 2), (names, names), method="mlm")
    shown = panels.cards({"mlm": joint}, {"mlm": -1e-9}, ("a", "b"), None)
    assert "Mutual information: 0.000 nats" in shown
    assert unmask.joints.agreement.Agreement(-1e-9, True).said().startswith("J = 0.000 bits")


def test_every_construction_has_a_meaning() -> None:
    for name in unmask.CONSTRUCTIONS:
        assert 1 <= len(panels.meaning_of(name).split()) <= 7
    assert panels.meaning_of("log-pool").endswith("; the default")


def test_a_text_that_is_too_long_is_said_to_be() -> None:
    """Wherever it comes from: typed, clicked, or from a link."""
    # its blank is beyond what is looked at
    at, long = handlers(), f"{'a ' * 250}[MASK]"
    link = from_query(DemoQuestion(long).to_query(), DemoQuestion(""))
    for found in (at.edited(long, "", ""), at.clicked(long, "", 0, "a"), link):
        assert found is not None
        assert panels.TOO_LONG in panels.words(found, "[MASK]")
    assert "the demo takes 400" in str(last(at, DemoQuestion(long)).status)
    fits = at.edited("a " * 200, "", "")
    assert len(fits.text) == LONGEST_TEXT
    assert panels.TOO_LONG not in panels.words(fits, "[MASK]")


def test_filling_without_blanks_says_that_there_are_none() -> None:
    status = str(last(handlers(), DemoQuestion("t1 t2 t3")).status)
    assert "There is no blank to fill yet" in status
    assert status != panels.line(panels.HINT)


@pytest.mark.slow
def test_how_far_an_answer_is() -> None:
    scheduler = Scheduler(1)
    with occupied(scheduler):
        job = scheduler.begin(lambda _: 1)
        assert job is not None
        assert "waits for its turn" in panels.progress(job)
    job.future.result(PATIENCE)
    job.passes_expected, job.passes_done = 1_999, 201
    assert "201 of at most 1,999 forward passes" in panels.progress(job)
    assert 'aria-valuenow="10"' in panels.progress(job)
    # a search may take more than was known before
    job.passes_done = 2_500
    assert ">2,500 forward passes<" in panels.progress(job)


# --- what it is made of ------------------------------------------------------------------------


def test_the_demo_uses_public_names_alone() -> None:
    """Public names, its own modules, and what makes text safe to show."""
    helpers = {
        *("unmask.errors", "unmask.lazy", "unmask.markup", "unmask.printable"),
        *("unmask.constructions", "unmask.names", "unmask.text.unknown_tokens"),
        "unmask.queries.joint_model",
    }
    for path in (SOURCE / "demo").glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("unmask"):
                module = str(node.module)
                public = module == "unmask" and all(n.name in {"plots"} for n in node.names)
                assert public or module in helpers or module.startswith("unmask.demo"), module
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == "unmask":
                    assert node.attr in unmask.__all__, f"{path.name}: unmask.{node.attr}"
                if node.value.id in ("lm", "joint", "plots"):
                    assert not node.attr.startswith("_"), f"{path.name}: {node.attr}"


def test_without_gradio_one_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "gradio.py").write_text("raise ImportError('no')")
    paths = [str(tmp_path), str(SOURCE.parent)]
    done = subprocess.run(
        [sys.executable, "-m", "unmask", "demo", "-m", "nothing"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["unmask: the demo needs Gradio: pip install 'unmask[demo]'"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--port", "0"], "--port takes a number from 1 to 65535, not 0"),
        (["--max-waiting", "0"], "--max-waiting takes a number from 1, not 0"),
        (["--max-passes", "5"], "a sketch takes at least 101 forward passes, not --max-passes 5"),
        (["--method", "nonsense"], "no method 'nonsense'"),
        (["--method", "all"], "has room for"),
        (["--host", "not.a.host.invalid"], "cannot listen on 'not.a.host.invalid'"),
    ],
)
def test_bad_options_are_one_line(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", "-m", "nothing", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_examples_are_in_what_the_model_speaks() -> None:
    # the toy knows none of the languages, and has something all the same
    class Speaks(ToyTokenizer):
        unk_token_id = 0  # type: ignore[assignment]

        def __call__(self, text: str, **_: object) -> dict[str, list[int]]:
            return {"input_ids": [1 if "\u4e00" <= ch <= "\u9fff" else 0 for ch in text]}

    lm = unmask.LanguageModel(toy().model, Speaks(V))  # type: ignore[arg-type]
    first = examples_for(lm)[0]
    assert "天" in first.text
    assert first.chosen
    assert "____" in label(first)
