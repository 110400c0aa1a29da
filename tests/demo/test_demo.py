"""The demo: its answers, what it refuses, and the page in a real browser."""

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import tiny_models
import tiny_tokenizers
from assets import real_model
from browser import browser, fits, opened, screenshot
from cells import Cells
from evaluation_rows import HOSTILE

import unmask
from unmask import demo, markup
from unmask.cli import main
from unmask.printable import printable

__all__ = ["browser"]

NASTY = [
    *HOSTILE,
    "</script><script>alert(1)</script>",
    '" autofocus onfocus="alert(1)',
    "\u2028line\u2029",
    "\u0338\u0301struck",
    "\ud800lone",
    "&lt;b&gt;",
]
# what would tell that a text was run, in HTML, in a template of the page, or in an attribute
TRAP = '<script>met=1</script><img src=x onerror="met=1">${met=1}{{met}}'
SUBMIT = "#fill"
ANSWERED = "document.querySelector('#answer').innerText.includes('{}')"


@pytest.fixture(scope="module")
def lm() -> unmask.LanguageModel:
    return unmask.load(tiny_models.build("bert"))


# --- answers -----------------------------------------------------------------------------------


def test_an_answer_has_the_numbers_of_the_joints(lm: unmask.LanguageModel) -> None:
    text = "the [MASK] sat on the [MASK]."
    shown = demo.answer(lm, text)
    support: Any = "vocabulary" if lm.model.vocabulary_size <= 500 else unmask.Sketch(500)
    joints = lm.joints(text, methods=["mlm", "log-pool"], support=support)
    for joint in joints.values():
        for fill in joint.top(demo.FILLS):
            cells = f"<td>{markup.html(' '.join(fill.tokens))}</td><td>{fill.probability:.3f} "
            assert cells in shown
    assert shown.count("<tr>") == 2 * demo.FILLS
    nats = joints["log-pool"].mutual_information()
    assert f"Mutual information {nats:z.3f} nats" in shown
    assert joints["log-pool"].agreement().words() in shown
    assert re.search(r"\d forward passes, \d+\.\d s\.", shown)


def test_blanks_are_written_in_many_ways(lm: unmask.LanguageModel) -> None:
    answers = {
        re.sub(r"<p>\d.*", "", demo.answer(lm, f"the {blank} sat on\n the {blank}."))
        for blank in ("[MASK]", "<mask>", "__", "_______")
    }
    assert len(answers) == 1
    assert "alert" not in answers.pop()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, "write a text"),
        (["[MASK] [MASK]"], "write a text"),
        ("", "the text has 0 blanks; write [MASK] for two of its words"),
        ("the [MASK] sat.", "the text has 1 blanks"),
        ("[MASK] [MASK] [MASK]", "the text has 3 blanks"),
        ("[MASK] " * 5_000, "the text has 35,000 characters; the demo takes 400"),
    ],
)
def test_what_cannot_be_answered_is_one_line(
    lm: unmask.LanguageModel, text: object, error: str
) -> None:
    shown = demo.answer(lm, text)
    assert shown.startswith('<p role="alert">')
    assert shown.count("<") == 2
    assert "\n" not in shown
    assert error in unescape(shown)


@pytest.mark.parametrize("text", [*NASTY, TRAP])
def test_texts_and_tokens_stay_text(lm: unmask.LanguageModel, text: str) -> None:
    shown = demo.answer(lm, f"{text} [MASK] [MASK].")
    allowed = {"div", "section", "h3", "table", "tr", "td", "meter", "p"}
    assert Cells(shown).tags <= allowed


@pytest.mark.parametrize("text", NASTY)
def test_html_of_a_text_is_that_text_between_tags_and_in_attributes(text: str) -> None:
    shown = markup.html(text)
    assert not set(shown) & set("<>\"'")
    assert unescape(shown) == printable(text)
    # a program that normalises the file makes no other markup of it
    page = f"<p>{shown}</p>"
    assert unicodedata.normalize("NFC", page).startswith("<p>")


# --- the command -------------------------------------------------------------------------------


def test_bad_places_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tiny_tokenizers.save_bert(tmp_path))
    capsys.readouterr()
    for options, error in (
        (["--port", "0"], "--port takes a number from 1 to 65535, not 0"),
        (["--host", "203.0.113.1"], "cannot serve the page at '203.0.113.1'"),
    ):
        assert main(["demo", "-m", folder, *options]) == 2
        _, err = capsys.readouterr()
        assert error in err
        assert err.count("\n") == 1


def test_without_gradio_the_error_says_what_to_install(
    lm: unmask.LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(unmask.UnmaskError, match=r"pip install 'unmask\[demo\]'"):
        demo.serve(lm)


# --- the page in a browser ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """`unmask demo` in a process of its own, where the environment asks for telemetry."""
    environment = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "True", "GRADIO_SHARE": "True"}
    command = [sys.executable, "-m", "unmask", "demo", "-m", str(real_model("tiny-english"))]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        line = process.stdout.readline()
        place = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert place, f"{line}{process.stderr and process.stderr.read()}"
        yield place[0]
        assert process.poll() is None, "the demo has ended by itself"
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=120)
    assert "Traceback" not in errors, errors
    assert "playing" not in errors, "a visitor's text is in the log"


def ask(page: Any, text: str | None, wanted: str) -> str:
    if text is not None:
        page.locator("#text textarea").fill(text)
    page.locator(SUBMIT).click()
    page.wait_for_function(ANSWERED.format(wanted))
    shown: str = page.locator("#answer").inner_text()
    return shown


@pytest.mark.real
@pytest.mark.slow
def test_it_opens_with_the_casino_and_answers(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        assert page.locator("#text textarea").input_value() == demo.EXAMPLES[0]
        shown = ask(page, None, "forward passes")
        assert "Two separate guesses" in shown
        assert "One joint" in shown
        assert "J = " in shown
        # guessed apart, "man are" is likely; together, it is not
        apart, together = (one.inner_text() for one in page.query_selector_all("#answer table"))
        assert "man are" in apart
        assert "man are" not in together
        screenshot(page, "demo")
        page.locator("button.example").nth(1).click()
        page.wait_for_function(
            "!document.querySelector('#answer').innerText.includes('people are')"
        )
        page.wait_for_function(ANSWERED.format("forward passes"))
        assert page.locator("#text textarea").input_value() == demo.EXAMPLES[1]


@pytest.mark.real
@pytest.mark.slow
def test_hostile_and_bad_texts(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        assert "0 blanks" in ask(page, TRAP, "0 blanks")
        ask(page, f"{TRAP} [MASK] [MASK].", "forward passes")
        assert page.evaluate("typeof met") == "undefined"
        assert page.locator("#answer script, #answer img").count() == 0
        assert "demo takes 400" in ask(page, "x" * 500, "500 characters")


@pytest.mark.real
@pytest.mark.slow
def test_a_phone_shows_all_of_it(browser: Any, address: str) -> None:
    with opened(browser, address, width=390, height=844) as page:
        button = page.locator(SUBMIT).bounding_box()
        # without scrolling, in the upper half
        assert button["y"] + button["height"] < 422
        ask(page, None, "forward passes")
        assert fits(page)
        widths = "all => all.every(one => one.scrollWidth <= one.clientWidth + 1)"
        assert page.locator("#answer table, #answer section, #answer p").evaluate_all(widths)
        screenshot(page, "demo-390")


@pytest.mark.real
@pytest.mark.slow
def test_other_host_names_and_the_interface_of_programs_are_refused(address: str) -> None:
    assert urlopen(address).status == 200
    with pytest.raises(HTTPError, match="400"):
        urlopen(Request(address, headers={"Host": "rebound.example"}))
    info = json.load(urlopen(f"{address}gradio_api/info"))
    assert info["named_endpoints"] == {}
    assert json.load(urlopen(f"{address}config"))["analytics_enabled"] is False
