"""Write docs/results/tables/first-joints.csv: joints over two blanks of some texts, every method.

    python runs/first_joints.py [--chinese FOLDER] [--threads N] [--output FILE]

English texts run with models/tiny-english. Without --chinese, the folder of albert-tiny-chinese,
the file keeps its Chinese rows as they are.
"""

import argparse
import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

import unmask
from unmask.printable import printable

TABLES = Path(__file__).parents[1] / "docs" / "results" / "tables"
ENGLISH = Path(__file__).parents[1] / "models" / "tiny-english"
TEXTS = {
    "tiny-english": [
        "The [MASK] [MASK] at the casino.",
        "A man wearing a [MASK] [MASK] is smiling.",
        "Two [MASK] are playing [MASK] on the beach.",
    ],
    "albert-tiny-chinese": ["法國的首都是[MASK][MASK]。"],
}
# the five of the paper, then what was found beyond it
METHODS = ("mlm", "mrf", "mrf-logit", "hcb", "ag", "log-pool")
TOP = 6

COLUMNS = (
    *("text", "model", "construction", "rank", "pair", "probability"),
    *("entropy_bits", "mutual_information_bits", "J_bits"),
)


def rows(lm: unmask.LanguageModel, name: str, text: str) -> Iterator[list[str]]:
    """The likeliest pairs of a text, exact over the whole vocabulary."""
    for method, joint in lm.joints(text, methods=METHODS, support="vocabulary").items():
        shared = abs(joint.mutual_information(base_two=True))
        about = [f"{joint.entropy(base_two=True):.2f}", f"{shared:.2f}"]
        about.append(f"{joint.incompatibility():.4f}")
        for rank, fill in enumerate(joint.top(TOP), start=1):
            pair = " ".join(map(printable, fill.tokens))
            yield [text, name, method, str(rank), pair, f"{fill.probability:.3f}", *about]


def kept(file: Path, text: str) -> list[list[str]]:
    """A text's rows as they are."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [row for row in csv.reader(lines) if row[0] == text]


def main() -> None:
    parser = argparse.ArgumentParser(description="The joint of some texts by every method.")
    parser.add_argument("--chinese", metavar="FOLDER", help="of albert-tiny-chinese")
    parser.add_argument("--output", type=Path, default=TABLES / "first-joints.csv")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    folders = {"tiny-english": ENGLISH, "albert-tiny-chinese": chosen.chinese}
    lines: list[Sequence[str]] = [COLUMNS]
    for name, texts in TEXTS.items():
        lm = unmask.load(folders[name]) if folders[name] else None
        for text in texts:
            lines += kept(chosen.output, text) if lm is None else rows(lm, name, text)
    with chosen.output.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    main()
