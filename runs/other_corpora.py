"""Write sentences of a Chinese and of a Korean text, one per line, for runs/table1_here.sh.

apt-get download debian-reference-zh-tw; pip download --no-deps konlpy==0.6.0
python runs/other_corpora.py zh debian-reference-zh-tw_*.deb --output debian-reference-zh-tw.txt
python runs/other_corpora.py ko konlpy-0.6.0-*.whl --output kolaw.txt

Chinese: the Debian Reference in traditional characters (GPL-2+), sentences of 8 to 40 characters,
nearly all of them Chinese. Korean: the constitution as KoNLPy carries it (`kolaw`, no rights
reserved), sentences of 5 to 20 words. Both are read where they are and not passed on.
"""

import argparse
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

HAN = re.compile("[\u4e00-\u9fff]")
HANGUL = re.compile("[\uac00-\ud7a3]")
CONSTITUTION = "konlpy/data/corpus/kolaw/constitution.txt"


class Paragraphs(HTMLParser):
    """Texts of a page's paragraphs."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "p":
            self.inside = True
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.found[-1] += data


def chinese(package: Path) -> Iterator[str]:
    """Sentences of the Debian package."""
    with TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", str(package), folder], check=True)
        for place in sorted(Path(folder).glob("usr/share/debian-reference/*.zh-tw.html")):
            page = Paragraphs()
            page.feed(place.read_text(encoding="utf-8"))
            for paragraph in page.found:
                for sentence in re.findall("[^。]+。", re.sub(r"\s+", "", paragraph)):
                    letters = len(HAN.findall(sentence))
                    if 8 <= len(sentence) <= 40 and letters >= 0.85 * len(sentence):
                        yield sentence


def korean(wheel: Path) -> Iterator[str]:
    """Sentences of the constitution in KoNLPy's wheel."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(CONSTITUTION).decode("utf-8")
    for line in text.splitlines():
        for sentence in re.findall(r"[^.]+\.", line):
            # without the number of an article or a paragraph
            told = re.sub(r"^\s*(제\d+조)?\s*[①-⑳]?\s*", "", sentence).strip()
            if HANGUL.search(told) and 5 <= len(told.split()) <= 20:
                yield told


def distinct(sentences: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(sentences))


def main() -> None:
    parser = argparse.ArgumentParser(description="Sentences of a Chinese and a Korean text.")
    parser.add_argument("language", choices=["zh", "ko"])
    parser.add_argument("package", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    try:
        read = {"zh": chinese, "ko": korean}[chosen.language]
        lines = distinct(read(chosen.package))
        chosen.output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except (OSError, KeyError, zipfile.BadZipFile, subprocess.CalledProcessError) as error:
        print(f"other_corpora: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"{len(lines)} sentences")


if __name__ == "__main__":
    main()
