"""The page of a report in a real browser, from a file and without network, whatever names hold."""

import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from browser import browser, fits, opened, screenshot
from plans import a_plan

from unmask import cli
from unmask.constructions import CONSTRUCTIONS
from unmask.evaluation.reports.html.frontier import passes_by_label
from unmask.evaluation.run import LabelledMethod
from unmask.printable import printable
from unmask.queries.costs.passes import forward_passes

__all__ = ["browser"]

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

TABLE1 = Path(__file__).parents[2] / "docs" / "results" / "table1-caption-bert"
# what would tell that a text was run; __said notes what the usual payloads call
TRAP = "window.__said = []; window.alert = window.print = (what) => window.__said.push(what);"
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; alert(1); '",
    "</script><script>alert(1)</script>",
    "</td></tr></table><h1>big</h1>",
    "<!-- <b>",
    "]]> &amp; &lt;i&gt;",
    "${alert(1)} {{alert(1)}} `alert(1)`",
    "javascript:alert(1)//",
    "\u202egnp.exe \u2067\u05d0\u05d1\u2069",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea",
    "e" + "\u0301" * 30 + "\u0338",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308",
    "\x01\x02\x1b[31m\x7f\x85",
    "two\nlines\tand\u2028more",
    "x" * 400,
]
# Windows refuses most of these in names
FOLDER = "run \"'<b>&amp;" if sys.platform != "win32" else "run '&amp;"
METHODS = "mlm,hcb,ag,log-pool,orders"


def quiet(*arguments: object) -> None:
    assert cli.main([*map(str, arguments)]) == 0


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run whose texts, ids, names and folder all try to be markup."""
    folder = tmp_path_factory.mktemp("hostile")
    tiny_models.saved("bert", folder / "model")
    lines = [
        {
            "gold_label": "neutral",
            "pairID": text,
            "sentence1": f"the cat sat on {place} {text[:12]}",
            "sentence2": "",
        }
        for place, text in enumerate(HOSTILE)
    ]
    corpus = folder / "<i>corpus's.jsonl" if sys.platform != "win32" else folder / "corpus.jsonl"
    corpus.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    run, page = folder / FOLDER, folder / "page.html"
    names = ["--corpus-name", HOSTILE[0] + HOSTILE[9], "--model-name", HOSTILE[1] + HOSTILE[11]]
    quiet(
        "evaluate",
        corpus,
        "-m",
        folder / "model",
        "-o",
        run,
        "--method",
        METHODS,
        "--quiet",
        *names,
    )
    quiet("report", run, "--resamples", "20", "--html", page)
    text = ["--with-text", "--corpus", corpus]
    quiet("report", run, "--resamples", "20", "--html", folder / "text.html", *text)
    assert page.stat().st_size < 5_000_000
    return page


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the rows in the repository."""
    page = tmp_path_factory.mktemp("published") / "page.html"
    quiet("report", TABLE1 / "snli", TABLE1 / "xsum", "--resamples", "50", "--html", page)
    assert page.stat().st_size < 5_000_000
    return page


def count(page: Any, selector: str) -> int:
    return int(page.locator(selector).count())


def rows(part: Any) -> list[list[str]]:
    """What stands in the table of examples, as a person sees it."""
    found: list[list[str]] = part.locator("tbody").first.evaluate(
        "body => [...body.rows].map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    return found


@pytest.mark.slow
def test_nothing_of_a_text_becomes_markup(hostile: Path, browser: Any) -> None:
    with opened(browser, hostile, before=TRAP) as page:
        # the page's own script, and one of data for each of two masks
        assert count(page, "script") == 3
        assert count(page, "script:not([type])") == 1
        for tag in (
            "img",
            "iframe",
            "object",
            "embed",
            "link",
            "form",
            "base",
            "i",
            "b",
            "body h1 h1",
        ):
            assert count(page, tag) == 0, tag
        assert count(page, "h1") == 1
        assert count(page, "[onerror], [onclick], [onload], [style]") == 0
        ids = [row[0] for row in rows(page.locator(".examples").first)]
        # innerText makes one space of several
        wanted = {" ".join(printable(text).split()) for text in HOSTILE}
        assert {text for text in wanted if any(one.startswith(text) for one in ids)} == wanted
        assert page.title().startswith("Evaluation: ")
        for box in page.locator("th button").all()[:12]:
            box.click()
        page.locator(".examples .filter").first.fill("<img src=x onerror=alert(1)>")
        assert page.evaluate("window.__said") == []
        screenshot(page, "report-hostile-1200")


@pytest.mark.slow
def test_sentences_are_text_too(hostile: Path, browser: Any) -> None:
    assert "cat sat" not in hostile.read_text(encoding="utf-8")
    with opened(browser, hostile.with_name("text.html"), before=TRAP) as page:
        part = page.locator(".examples").first
        sentences = part.locator("tbody th .sentence")
        before = sentences.all_inner_texts()
        assert len(before) == len(rows(part)) > 10
        assert all("on " in one for one in before)
        assert part.locator("tbody tr").first.locator("mark").count() == 2
        # as the script writes them
        part.locator("th button").first.click()
        assert sentences.all_inner_texts() == before[::-1]
        for tag in ("img", "i", "b"):
            assert count(page, tag) == 0, tag
        assert count(page, "script:not([type])") == 1
        assert page.evaluate("window.__said") == []
        screenshot(page, "report-text-1200")


WIDTHS = "all => all.map((one) => [one.ariaLabel, one.scrollWidth, one.clientWidth])"
SCROLL = "all => all.every((one) => getComputedStyle(one).overflowX === 'auto')"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 400])
def test_no_table_is_clipped(published: Path, hostile: Path, browser: Any, width: int) -> None:
    for address in (published, hostile, hostile.with_name("text.html")):
        with opened(browser, address, width=width) as page:
            page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
            assert fits(page)
            # every table is in a box that is no wider than the window, and moves within it
            assert count(page, "table") == count(page, ".scroll > table")
            boxes = page.locator(".scroll")
            assert boxes.evaluate_all(SCROLL)
            found = boxes.evaluate_all(WIDTHS)
            assert all(seen <= width for _, _, seen in found)
            # every number of every example is wider than any window; all others fit a desk
            wide = {label for label, whole, seen in found if whole > seen}
            assert width < 1200 or all(label.startswith("Examples: ") for label in wide), wide


@pytest.mark.slow
def test_a_filter_is_text_and_no_pattern(hostile: Path, browser: Any) -> None:
    with opened(browser, hostile, before=TRAP) as page:
        part = page.locator(".examples").first
        part.locator(".filter").press_sequentially("<SCR")
        found = [row[0] for row in rows(part)]
        assert len(found) == 2
        assert all("<script>" in one for one in found)
        part.locator(".filter").fill(".*")
        assert rows(part) == []
        assert part.locator(".shown").inner_text().startswith("0 of ")


@pytest.mark.slow
def test_it_fits_a_phone_in_the_dark(hostile: Path, browser: Any) -> None:
    with opened(browser, hostile, width=420, dark=True) as page:
        assert fits(page)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert sum(map(int, paper.removeprefix("rgb(").rstrip(")").split(","))) < 200
        for details in page.locator("summary").all():
            details.click()
        assert fits(page)
        screenshot(page, "report-hostile-420-dark")


@pytest.mark.slow
def test_hostile_folders_are_quoted_in_commands(hostile: Path, browser: Any) -> None:
    with opened(browser, hostile) as page:
        commands = page.locator("pre").all_inner_texts()
    evaluate, report = map(shlex.split, commands)
    assert evaluate[:3] == ["unmask", "evaluate", "CORPUS"]
    assert report[:3] == ["unmask", "report", FOLDER]
    assert cli._parser().parse_args(report[1:]).runs == [FOLDER]


@pytest.mark.slow
def test_the_published_rows_have_all_parts(published: Path, browser: Any) -> None:
    with opened(browser, published) as page:
        assert fits(page)
        for link in page.locator("nav a").all():
            assert count(page, link.get_attribute("href") + " h2") == 1
        # the distances of the one setting that has several; these plans were written before a
        # plan kept the size of its support, so there is no frontier
        assert count(page, "figure") == 1
        assert page.locator("figure svg").last.bounding_box()["width"] > 300
        captions = page.locator("caption").all_inner_texts()
        for wanted in ("Results", "Paired differences to mlm", "Where constructions disagree most"):
            assert sum(one.startswith(wanted) for one in captions) == 3
        assert count(page, "#provenance dl") == 2
        commands = page.locator("#provenance pre").all_inner_texts()
        assert [one.split()[:2] for one in commands] == [
            ["unmask", "evaluate"],
            ["unmask", "evaluate"],
            ["unmask", "report"],
        ]
        assert "[" in page.locator("#results td").nth(3).inner_text()
        screenshot(page, "report-published-1200")


def in_order(numbers: Sequence[str], *, descending: bool) -> bool:
    values = [float(one) for one in numbers if one]
    return values == sorted(values, reverse=descending)


@pytest.mark.slow
def test_examples_are_sorted_and_filtered_by_hand(published: Path, browser: Any) -> None:
    with opened(browser, published) as page:
        part = page.locator(".examples").nth(1)
        labels = part.locator("th button").evaluate_all(
            "all => all.map((one) => one.getAttribute('aria-label'))"
        )
        assert labels[:4] == ["example id", "distance", "J", "spread"]
        place = labels.index("P-NLL of log-pool")
        button = part.get_by_role("button", name="P-NLL of log-pool", exact=True)
        for order in ("ascending", "descending"):
            button.click()
            assert part.locator(f"th[aria-sort={order}]").inner_text() == "P-NLL"
            numbers = [row[place] for row in rows(part)]
            assert len(numbers) == 200
            assert in_order(numbers, descending=order == "descending")
        part.get_by_role("button", name="Show all 250").click()
        assert len(rows(part)) == 250
        part.get_by_label("distance from").fill("2")
        part.get_by_label("to", exact=True).fill("3")
        assert {row[1] for row in rows(part)} == {"2", "3"}
        part.get_by_label("ids with").press_sequentially("PRE")
        kept = rows(part)
        assert 0 < len(kept) < 250
        assert all("premise" in row[0] for row in kept)
        assert f"{len(kept)} of 250 examples are shown" in part.locator(".shown").inner_text()


@pytest.mark.slow
def test_the_keyboard_reaches_everything(published: Path, browser: Any) -> None:
    with opened(browser, published) as page:
        part = page.locator(".examples").first
        part.locator(".filter").focus()
        reached = []
        for _ in range(8):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.outerHTML.slice(0, 40)"))
        assert [one.split()[0] for one in reached] == [
            *("<input", "<input", "<button", "<div"),
            *["<button"] * 4,
        ]
        page.keyboard.press("Enter")
        assert part.locator("th[aria-sort=ascending]").inner_text() == "spread"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.slow
def test_the_published_rows_fit_a_phone(published: Path, browser: Any) -> None:
    with opened(browser, published, width=420) as page:
        assert fits(page)
        # wider than the window, within a frame that moves
        frame = page.locator(".scroll").first
        wide, seen = frame.evaluate("frame => [frame.scrollWidth, frame.clientWidth]")
        assert wide > seen
        assert seen < 420
        screenshot(page, "report-published-420")


def test_costs_are_those_of_the_guide() -> None:
    guide = (TABLE1.parents[1] / "concepts" / "which-joint.md").read_text(encoding="utf-8")
    line = (
        r"^\| ([\w-]+)(?: \(the default\))? \| (?:(\d*)(V)(?: \+ )?)?(\d*)(?: per pair)? \| [*0+-]"
    )
    told = {
        name: (int(times or 1) * 5000 if tables else 0) + int(more or 0)
        for name, times, tables, more in re.findall(line, guide, re.MULTILINE)
    }
    assert told.keys() == CONSTRUCTIONS.keys()
    every = tuple(LabelledMethod(name, {}) for name in CONSTRUCTIONS)
    plan = a_plan(constructions=every, support_size=5000)
    assert passes_by_label([plan], "vocabulary") == told
    for name, passes in told.items():
        assert passes == forward_passes({name: {}}, (5000, 5000))


def test_a_plan_without_the_size_of_its_support_has_no_costs() -> None:
    assert passes_by_label([a_plan()], "vocabulary") == {}


def test_costs_over_a_support_are_numbers() -> None:
    given = (LabelledMethod("ag", {}), LabelledMethod("sweep", {"contexts": 5}))
    for support, size in (("amino-acids", 20), (("a", "b", "c"), 3)):
        plan = a_plan(constructions=given, support=support, support_size=size)
        found = passes_by_label([plan], plan.support_name)
        assert found["ag"] == 2 * size + 1
        assert found["sweep(contexts=5)"] == 2 * (1 + min(5, size)) + 1
    assert passes_by_label([plan], "vocabulary") == {}


@pytest.mark.slow
def test_what_a_page_does_wrong_is_noticed(browser: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='https://example.org/x.png'><script>alert(1); nothing()</script>")
    with pytest.raises(AssertionError) as error, opened(browser, bad) as page:
        page.wait_for_timeout(50)
    for wanted in ("a dialog: 1", "an exception: nothing is", "a request: https://example.org/x"):
        assert wanted in str(error.value)
