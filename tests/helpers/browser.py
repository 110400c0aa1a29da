"""A real browser for tests of pages: the system's Chromium, driven as a person would."""

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

_ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_TROUBLE = ("error", "warning", "assert")


def _missing(what: str) -> None:
    if os.environ.get("CI") or os.environ.get("UNMASK_TEST_ASSETS"):
        pytest.fail(f"pages are tried in a browser: {what} is not here", pytrace=False)
    pytest.skip(f"needs {what}")


# not of the session: while it is there, asyncio.run fails in every other test of the process
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, as long as the tests of a module last."""
    where = shutil.which("chromium")
    if where is None:
        _missing("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=where, args=_ARGUMENTS)
        yield started
        started.close()


@contextmanager
def opened(
    browser: Any,
    address: str | Path,
    *,
    width: int = 1200,
    height: int = 900,
) -> Iterator[Any]:
    """A page; at the end nothing may have been complained of, asked for elsewhere, or popped up.

    A path is opened as a file, without network.
    """
    url = address.resolve().as_uri() if isinstance(address, Path) else address
    allowed = {urlsplit(url).netloc} - {""}
    context = browser.new_context(viewport={"width": width, "height": height})
    trouble: list[str] = []
    # milliseconds: a machine that others use too may be slow
    context.set_default_timeout(90_000)
    context.set_offline(not allowed)
    _close(context, url, allowed, trouble)
    page = context.new_page()
    _listen(page, trouble)
    # after the page of this test, whatever else opens is a surprise
    context.on("page", lambda other: trouble.append(f"another page: {other.url}"))
    try:
        page.goto(url)
        yield page
        assert not trouble, "\n".join(trouble)
    finally:
        context.close()


def _close(context: Any, url: str, allowed: Collection[str], trouble: list[str]) -> None:
    """No request but of the page itself, and of what its host serves."""

    def answer(route: Any) -> None:
        asked = route.request.url
        scheme, host = urlsplit(asked)[:2]
        if asked == url or scheme in ("data", "blob") or host in allowed:
            route.continue_()
            return
        trouble.append(f"a request: {asked}")
        route.abort()

    context.route("**/*", answer)


def _listen(page: Any, trouble: list[str]) -> None:
    def dialog(one: Any) -> None:
        trouble.append(f"a dialog: {one.message}")
        one.dismiss()

    def said(message: Any) -> None:
        if message.type in _TROUBLE:
            trouble.append(f"the console has a {message.type}: {message.text}")

    page.on("console", said)
    page.on("pageerror", lambda error: trouble.append(f"an exception: {error}"))
    page.on("requestfailed", lambda one: _failed(one, trouble))
    page.on("dialog", dialog)
    page.on("download", lambda one: trouble.append(f"a download: {one.url}"))


def _failed(request: Any, trouble: list[str]) -> None:
    # the stream of a demo's answers, which the page itself ends when it has them
    if request.failure == "net::ERR_ABORTED" and "/queue/data" in request.url:
        return
    trouble.append(f"failed: {request.url}: {request.failure}")


def fits(page: Any) -> bool:
    """Whether nothing but frames of its own is wider than the window."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def screenshot(page: Any, name: str) -> None:
    """The whole page as a picture, for people: in the folder that UNMASK_SCREENSHOTS names."""
    if folder := os.environ.get("UNMASK_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
