"""Check the English of pages: `python .ci/prose.py [PATH...]`, and `--words` for their length.

Reads Markdown and the Markdown cells of notebooks, without code, formulas and addresses. Rejects
tics of style, decimals without a leading zero, and sentences of more than 25 words. Prints one line
per finding; exit code 1 if there is one. The bounds of length hold for all pages together.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
GENERATED = {"docs/reference/commands.md"}
MOST_WORDS = 25
# words of all pages, and of some: a folder, or a page
BOUNDS = {"": 36_000, "docs/dev/": 4_500, "README.md": 900, "CHANGELOG.md": 500}

TICS = {
    r"^Of\b": "begins with 'Of': name the subject first",
    r"\band of (those|these|them|which)\b": "ellipsis: repeat the verb",
    r"^What\b[^?]*[.:]$": "a relative clause as a noun: use a noun",
    r"^(How|Whether|Which|Why)\b[^?]*\.$": "a question as a noun: use a noun",
    r"\bbut for\b": "except",
    r"\b(is|are|be|was|were) (not )?had\b": "there is, or: get",
    r"\bcannot be told from\b": "within noise of",
    r"\b(is|are|was|were) of (the|a|an|two|one|all)\b": "another verb than 'is of'",
    r"\bstands? (at|in|on|under|behind|beside|before|there)\b": "is",
    r"\blevel with\b": "no measurable difference",
    r"\bat home in\b": "in-domain",
    r"\bspare[sd]?\b": "save",
    r"\bfor want of\b|\blest\b|\banew\b|\bwhereof\b|\bthereof\b": "a plain word",
    r"\bof so (many|much)\b|\bafter so (many|much)\b": "name the number",
    r"\bthat (is|are) there\b": "existing",
    r"\bwhat (comes|stands|holds|goes|stays)\b": "a noun",
    r"\bserved? (for|to)\b": "was used to",
    r"\bin (one|the) line\b(?= *$)": "concrete words",
    r"(?<![\w.)\]/])\.\d": "a leading zero: 0.02",
    r"(?::\s[^:]*){2,}": "more than one colon in a sentence",
    r"(?:;\s[^;]*){2,}": "more than one semicolon in a sentence",
}
# long sentences that stay, by their first words
EXCEPTIONS: set[tuple[str, str]] = set()

_FENCE = re.compile(r"^\s*(`{3,}|~{3,}|:{3,})(.*)$")
# directives whose content is prose
_PROSE = re.compile(
    r"\{(note|tip|warning|important|admonition|grid|grid-item|card|dropdown|figure)"
)
_REMOVED = (
    (re.compile(r"<!--.*?-->", re.S), " "),
    (re.compile(r"`[^`]*`"), "Code"),
    (re.compile(r"\$\$.*?\$\$", re.S), " "),
    (re.compile(r"\$[^$\n]+\$"), "formula"),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), " "),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"<https?://[^>]*>|https?://\S+"), "address"),
    (re.compile(r"</?[a-z][^>]*>"), " "),
    # examples of how not to write
    (re.compile(r"✗ \"[^\"]*\""), " "),
    (re.compile(r"\\(.)"), r"\1"),
    (re.compile(r"\*+"), ""),
)
_ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|vs|cf|et al|etc|approx|no|Fig|Eq|p|pp)\.(?=\s)")
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9`*_])")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+|^\s*>\s?")


class Sentence(NamedTuple):
    """A sentence of a page, the first line of its paragraph, and True unless it is of a table."""

    line: int
    text: str
    is_prose: bool


def pages(paths: Iterable[Path]) -> Iterator[Path]:
    """Markdown files and notebooks that people write."""
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            name = file.relative_to(ROOT).as_posix()
            if file.suffix in (".md", ".ipynb") and name not in GENERATED:
                yield file


def markdown(path: Path) -> str:
    """The Markdown of a page; of a notebook, its Markdown cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        # without the metadata of a model's card
        return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def paragraphs(text: str) -> Iterator[tuple[int, str, bool]]:
    """Line, text and whether it is prose, of paragraphs, headings, items and rows of tables."""
    gathered: list[str] = []
    start, fence = 1, ""
    text = re.sub(r"<!--.*?-->", lambda match: "\n" * match[0].count("\n"), text, flags=re.S)
    for number, line in enumerate([*text.splitlines(), ""], 1):
        mark = _FENCE.match(line)
        if mark and not fence and not _PROSE.match(mark[2].strip()) and mark[1][0] != ":":
            fence = mark[1]
        elif fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
            continue
        is_row = line.lstrip().startswith("|")
        is_start = bool(_ITEM.match(line)) or line.startswith("#") or is_row or bool(mark)
        if (is_start or not line.strip()) and gathered:
            yield start, " ".join(gathered), True
            gathered = []
        if is_row or line.startswith("#"):
            yield number, line.strip("| #"), False
        elif line.strip() and not mark and not re.match(r"\s*(:\w[\w-]*:|\+\+\+|\(.*\)=$)", line):
            start = start if gathered else number
            gathered.append(_ITEM.sub("", line).strip())


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a page."""
    for line, paragraph, is_prose in paragraphs(text):
        for pattern, replacement in _REMOVED:
            paragraph = pattern.sub(replacement, paragraph)
        paragraph = _ABBREVIATIONS.sub(lambda match: match[1].replace(".", ""), paragraph)
        # cells of a row are apart
        for cell in [paragraph] if is_prose else paragraph.split("|"):
            for sentence in _END.split(cell):
                if sentence.strip():
                    yield Sentence(line, " ".join(sentence.split()), is_prose)


def findings(path: Path) -> Iterator[str]:
    """One line for each tic and each long sentence."""
    where = path.relative_to(ROOT).as_posix()
    for sentence in sentences(markdown(path)):
        begin = " ".join(sentence.text.split()[:6])
        for pattern, cure in TICS.items():
            if re.search(pattern, sentence.text):
                yield f"{where}:{sentence.line}: {begin!r}: {cure}"
        words = [word for word in sentence.text.split() if re.search(r"\w", word)]
        if sentence.is_prose and len(words) > MOST_WORDS and (where, begin) not in EXCEPTIONS:
            yield f"{where}:{sentence.line}: {begin!r}: {len(words)} words"


def main(arguments: list[str]) -> int:
    """Check all pages, or some; the exit code."""
    names = [name for name in arguments if name != "--words"]
    written = [*ROOT.glob("*.md"), ROOT / "docs", *ROOT.glob("models/*/README.md")]
    paths = sorted(pages([Path(name).resolve() for name in names] or written))
    counts = {path.relative_to(ROOT).as_posix(): len(markdown(path).split()) for path in paths}
    lines = [line for path in paths for line in findings(path)]
    if not names:
        for part, bound in BOUNDS.items():
            total = sum(count for name, count in counts.items() if name.startswith(part))
            if total > bound:
                lines.append(f"{part or 'all pages'}: {total:,} words, at most {bound:,}")
    if "--words" in arguments:
        lines = [f"{count:7,}  {name}" for name, count in counts.items()]
        print(*lines, f"{sum(counts.values()):7,}  in all", sep="\n")
        return 0
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
