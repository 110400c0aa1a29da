"""The demo in a real browser, used as visitors use it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from assets import real_model
from browser import browser, fits, opened, screenshot

__all__ = ["browser"]
pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
# milliseconds that a slow machine may take for what is not timed here
PATIENCE = 90_000
HOSTILE = '<script>met=1</script><img src=x onerror="met=1">${met=1}{{met}}&lt;'
DIRECTIONS = "\u202e שלום مرحبا e\u0301\u0323 \u200d"


@contextmanager
def served(model: str, *options: str) -> Iterator[str]:
    """`unmask demo` in a process of its own; gives its address."""
    command = [sys.executable, "-m", "unmask", "demo", "-m", str(real_model(model)), *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert found, f"{line}{process.stderr and process.stderr.read()}"
        yield found[0]
        assert process.poll() is None, "the demo has ended by itself"
    finally:
        process.terminate()
        _, said = process.communicate(timeout=120)
    assert "Traceback" not in said, said


@pytest.fixture(scope="module")
def english() -> Iterator[str]:
    with served("tiny-english") as address:
        yield address


def words(page: Any) -> list[str]:
    return [one.inner_text() for one in page.query_selector_all("#words button")]


def blanks(page: Any) -> list[str]:
    return [one.inner_text() for one in page.query_selector_all("#words button.blank")]


def click_word(page: Any, word: str) -> None:
    before = len(blanks(page))
    page.locator("#words button", has_text=re.compile(rf"^\s*{word}\s*$")).first.click()
    page.wait_for_function(
        "count => document.querySelectorAll('#words button.blank').length != count", arg=before
    )


def write(page: Any, text: str) -> None:
    """Type a text in place of the one that is there, and wait until its words are shown."""
    box = page.locator("#text textarea")
    box.fill("")
    box.press_sequentially(text[:4])
    box.fill(text)
    last = re.findall(r"\w+", text)[-1]
    page.wait_for_function(
        "last => [...document.querySelectorAll('#words button')].at(-1)?.innerText == last",
        arg=last[-1] if "\u4e00" <= last[-1] <= "\u9fff" else last,
    )
    # the answer to what was typed first may come last, and is then put right
    page.wait_for_timeout(500)


def ask(page: Any) -> float:
    """Click the button; the seconds until something was answered."""
    page.evaluate("document.querySelector('#cards .cards')?.setAttribute('data-old', '')")
    began = time.monotonic()
    page.click("#fill")
    page.wait_for_selector("#cards .cards:not([data-old]) li", timeout=PATIENCE)
    return time.monotonic() - began


def done(page: Any) -> None:
    page.wait_for_function(
        "document.querySelector('#status').innerText.trim() == 'Done.'", timeout=PATIENCE
    )


def heads(page: Any) -> list[str]:
    return [one.inner_text() for one in page.query_selector_all("#cards h3")]


def choose(page: Any, method: str) -> None:
    page.locator("#methods label", has_text=re.compile(rf"^\s*{method}: ")).locator("input").click()


def ask_for_long_work(page: Any) -> None:
    """An example of three blanks by tables: some thousand forward passes."""
    page.wait_for_selector("#words button")
    page.locator("button.example").last.click()
    page.wait_for_selector("[role=progressbar]", timeout=PATIENCE)


def answered_example(page: Any) -> float:
    """Ask the first example; the seconds until all of it was answered."""
    page.locator("button.example").first.click()
    began = time.monotonic()
    done(page)
    return time.monotonic() - began


@pytest.fixture(scope="module")
def alone(browser: Any, english: str) -> float:
    """The seconds that the first example takes when nothing else is asked."""
    with opened(browser, english) as page:
        page.wait_for_selector("#words button")
        return answered_example(page)


def test_a_visit(browser: Any, english: str, record_property: Any) -> None:
    """Type, click words, wait for the answer, change the construction, come back by the link."""
    with opened(browser, english) as page:
        page.wait_for_selector("#words button")
        screenshot(page, "demo-begin")
        write(page, "A man is playing a guitar on the street.")
        click_word(page, "man")
        click_word(page, "guitar")
        assert blanks(page) == ["man", "guitar"]

        record_property("seconds until the first answer", ask(page))
        done(page)
        assert heads(page) == ["mlm", "log-pool"]
        assert re.search(r"\d\.\d+ ± <?0\.\d+", page.inner_text("#cards"))
        trust = page.inner_text("#trust")
        assert re.search(r"J = \d\.\d{3} ± \d\.\d{3} bits: the two conditionals", trust)
        assert "Mutual information" in trust
        assert re.search(r"from \d{3} of its 16,385 forward passes", trust)
        assert page.locator("#maps table").count() == 2
        screenshot(page, "demo-done")

        choose(page, "mlm")
        choose(page, "ag")
        ask(page)
        done(page)
        assert heads(page) == ["log-pool", "ag"]
        assert "Only over 100 candidates per blank" in page.inner_text("#cards")
        # no text of Gradio's own without a translation
        assert "common." not in page.inner_text("body")
        cards = page.inner_text("#cards")
        link = page.input_value("#link textarea")
        assert page.url == link

    with opened(browser, link, width=420, height=900, dark=True) as page:
        page.wait_for_selector("#cards li", timeout=PATIENCE)
        done(page)
        assert blanks(page) == ["man", "guitar"]
        assert page.inner_text("#cards") == cards
        assert fits(page)
        # a heat map is wider than the window, and all of it can be reached
        wide = "document.querySelector('#maps .wide')"
        assert page.evaluate(f"{wide}.scrollWidth > {wide}.clientWidth")
        page.evaluate(f"{wide}.scrollLeft = 10000")
        ends = "document.querySelector('#maps table').getBoundingClientRect().right"
        assert page.evaluate(f"{ends} <= window.innerWidth")
        screenshot(page, "demo-link-phone-dark")


def test_how_far_it_is_and_bars_of_one_scale(browser: Any, english: str) -> None:
    with opened(browser, english) as page:
        ask_for_long_work(page)
        seen = progress(page)
        screenshot(page, "demo-progress")
        done(page)
        assert len(seen) >= 2, seen
        wide = "[...document.querySelectorAll('#cards .part')].map(part => part.style.width)"
        assert page.evaluate(wide).count("100%") == 1


def progress(page: Any) -> list[int]:
    """The counts of forward passes that the page shows, until they are all there or enough."""
    seen: list[int] = []
    until = time.monotonic() + 60
    while len(seen) < 3 and time.monotonic() < until:
        said = page.inner_text("#status")
        found = re.search(r"([\d,]+) of at most [\d,]+ forward passes", said)
        if found and int(found[1].replace(",", "")) not in seen:
            seen.append(int(found[1].replace(",", "")))
            bar = page.get_attribute("[role=progressbar]", "aria-valuenow")
            assert 0 <= int(bar or 0) <= 100
        if said.strip() == "Done.":
            break
        time.sleep(0.1)
    assert seen == sorted(seen)
    return seen


def test_cancelling_ends_the_work(browser: Any, english: str, alone: float) -> None:
    with opened(browser, english) as page:
        ask_for_long_work(page)
        page.click("#cancel")
        page.wait_for_function("document.querySelector('#status').innerText.trim() == 'Cancelled.'")
        # what was cancelled does not come
        time.sleep(1.5)
        assert page.inner_text("#status").strip() == "Cancelled."
        assert not page.query_selector("#cards li")
        screenshot(page, "demo-cancelled")
        # the machine is free again
        assert answered_example(page) < max(10, 4 * alone)


def test_a_page_that_is_closed_is_not_waited_for(browser: Any, english: str, alone: float) -> None:
    """An answer ends when its page is closed: the next is not behind it."""
    with opened(browser, english) as page:
        ask_for_long_work(page)
    with opened(browser, english) as page:
        page.wait_for_selector("#words button")
        assert answered_example(page) < max(10, 4 * alone)


def test_asking_again_while_an_answer_is_computed(browser: Any, english: str) -> None:
    """The page ends with the answer to what it shows."""
    with opened(browser, english) as page:
        ask_for_long_work(page)
        click_word(page, "running")
        ask(page)
        done(page)
        time.sleep(1)
        assert "What stood there: dog … snow" in page.inner_text("#cards")
        assert "±" in page.inner_text("#cards")
        assert page.inner_text("#status").strip() == "Done."
        assert "blanks=2%2C12" in page.url


def test_hostile_text_is_inert(browser: Any, english: str) -> None:
    with opened(browser, english) as page:
        page.wait_for_selector("#words button")
        write(page, f"A [MASK] {HOSTILE} {DIRECTIONS} is ____ here.")
        ask(page)
        done(page)
        assert page.evaluate("window.met") is None
        inside = (
            "document.querySelectorAll('#words :is(script, img), #cards :is(script, img)').length"
        )
        assert page.evaluate(inside) == 0
        assert "<script>met=1</script>" in re.sub(r"\s", "", page.inner_text("#words"))
        assert "\u202e" not in page.inner_text("#words")
        screenshot(page, "demo-hostile")
        link = page.url
        write(page, HOSTILE)
        ask_nothing(page)
    with opened(browser, link) as page:
        page.wait_for_selector("#cards li", timeout=PATIENCE)
        assert page.evaluate("window.met") is None


def test_a_text_that_is_too_long_is_said_to_be(browser: Any, english: str) -> None:
    """What is pasted stays as it is, its blank too, and is not answered."""
    long = f"{'a man ' * 80}plays the [MASK]."
    with opened(browser, english, width=420) as page:
        page.wait_for_selector("#words button")
        page.locator("#text textarea").focus()
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(long)
        page.wait_for_selector("#words .rejected")
        assert page.input_value("#text textarea") == long
        assert "shorten it" in page.inner_text("#words")
        page.click("#fill")
        page.wait_for_selector("#status .rejected")
        assert "the demo takes 400" in page.inner_text("#status")
        screenshot(page, "demo-too-long-phone")
        write(page, "A man plays the [MASK] well")
        assert not page.query_selector("#words .rejected")


def ask_nothing(page: Any) -> None:
    page.click("#fill")
    page.wait_for_function(
        "document.querySelector('#status').innerText.includes('There is no blank to fill yet')"
    )
    assert not page.query_selector("#cards li")


@pytest.mark.assets("the Chinese model")
def test_a_chinese_model(browser: Any) -> None:
    """Every character is a word, the examples are Chinese, and so are the heat maps."""
    with (
        served("albert-tiny-chinese", "--max-passes", "121") as address,
        opened(browser, address, width=1100) as page,
    ):
        page.wait_for_selector("#words button")
        screenshot(page, "demo-chinese-begin")
        assert all(len(word) == 1 for word in words(page))
        write(page, "我喜欢在家里看电影。")
        click_word(page, "电")
        click_word(page, "影")
        ask(page)
        done(page)
        assert re.search(r"[\u4e00-\u9fff]", page.inner_text("#cards li"))
        assert "of its 42,257 forward passes" in page.inner_text("#trust")
        assert re.search(r"[\u4e00-\u9fff]", page.inner_text("#maps"))
        assert fits(page)
        screenshot(page, "demo-chinese-done")


def test_what_a_page_does_wrong_is_noticed(browser: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='https://example.org/x.png'><script>alert(1); nothing()</script>")
    with pytest.raises(AssertionError) as error, opened(browser, bad) as page:
        page.wait_for_timeout(50)
    for wanted in ("a dialog: 1", "an exception: nothing is", "a request: https://example.org/x"):
        assert wanted in str(error.value)
