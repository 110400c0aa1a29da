"""The picture of docs/how-to/demo.md: a real visit in a real browser.

    python runs/demo_picture.py --model FOLDER [--output docs/figures/demo.png]

Needs the system's Chromium and Playwright (the extra dev).
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import unmask
from unmask.demo import serve

_DEFAULT = Path(__file__).parent.parent / "docs" / "figures" / "demo.png"
_ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def photographed(address: str, output: Path) -> None:
    """Click the first example, wait for the answer, and take a picture of the page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=_ARGUMENTS)
        page = browser.new_page(viewport={"width": 1000, "height": 900})
        page.goto(address)
        page.locator("button.example").first.click()
        finished = "document.querySelector('#status').innerText.trim() == 'Done.'"
        page.wait_for_function(finished, timeout=600_000)
        page.wait_for_timeout(500)
        # down to the cards
        end = page.locator("#cards").bounding_box()
        assert end is not None
        high = end["y"] + end["height"] + 10
        page.screenshot(
            path=output, full_page=True, clip={"x": 80, "y": 0, "width": 840, "height": high}
        )
        browser.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the model for as long as the picture takes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", required=True, help="folder of a masked language model")
    parser.add_argument("--output", type=Path, default=_DEFAULT)
    chosen = parser.parse_args(arguments)
    with serve(unmask.load(chosen.model)) as demo:
        photographed(demo.address, chosen.output)


if __name__ == "__main__":
    main()
