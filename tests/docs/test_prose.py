"""The phrases that CONTRIBUTING's section on prose rules out occur nowhere that users read."""

import re
from collections.abc import Iterator
from pathlib import Path

from reading_pages import pages as all_pages
from reading_pages import text_of

ROOT = Path(__file__).parents[2]
# what to write instead is in CONTRIBUTING, under "Prose"
RULED_OUT = (
    r"\bbut for\b",
    r"\b(?:can|cannot|could|could not) be told (?:from|apart)\b",
    r"\b(?:leave|leaves|leaving|left) out zero\b",
    r"\bat home (?:in|for|there)\b",
    r"\b[Ll]ess (?:`|\*|those\b|that of\b|its\b|what\b|right\b|exact\b|single\b|smallest\b)",
    r"\bthat no joint has both of\b",
    r"\bworkers that only play\b",
    r"\b(?:stands?|stood) at (?:place|position)\b|\bat place \$?[a-z]\b",
    r"\bOf [^.|]{1,40} there (?:is|are) none\b",
    r"\b(?:rows|numbers|tables|figures) (?:say|said) (?:of|about|against)\b",
    r"\bis said against\b",
    r"\b[Bb]elow zero the finding\b",
    r"\bcounts? what ties\b",
    r"\bWhy was not\b",
)
PATTERNS = [re.compile(phrase) for phrase in RULED_OUT]


def _read() -> Iterator[tuple[Path, str]]:
    """Pages, changelog, cards, scripts of results and the command line, each as one line."""
    pages = [ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md")]
    pages += [*all_pages(), *ROOT.glob("docs/results/**/reading.*")]
    pages += [*ROOT.glob("models/*/README.md"), *ROOT.glob("runs/*.py")]
    pages += [
        *ROOT.glob("src/unmask/cli/*.py"),
        *ROOT.glob("src/unmask/evaluation/reports/**/*.py"),
    ]
    for path in pages:
        yield path.relative_to(ROOT), " ".join(text_of(path).split())
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    before, rest = contributing.split("## Prose\n")
    yield Path("CONTRIBUTING.md"), before + rest.split("\n## ")[1]


def _phrases(text: str) -> list[str]:
    return [
        text[max(0, one.start() - 40) : one.end() + 30]
        for pattern in PATTERNS
        for one in pattern.finditer(text)
    ]


def test_no_phrase_that_is_ruled_out() -> None:
    assert {path: phrases for path, text in _read() if (phrases := _phrases(text))} == {}


def test_the_phrases_of_the_guide_are_seen() -> None:
    """Every wrong example of the guide is one that the test rules out."""
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Prose\n")[1]
    wrong = re.findall(r"✗ \"(.*?)\"", guide.split("\n## ")[0], flags=re.DOTALL)
    assert len(wrong) >= 10
    # inside the section, code marks are part of the example
    assert [one for one in wrong if not _phrases(" ".join(f"x that {one}".split()))] == []
