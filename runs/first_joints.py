"""Write docs/results/first-joints.md: the joint over two blanks of some texts, by every method.

    python runs/first_joints.py [--chinese FOLDER] [--threads N] [--output FILE]

English texts run with models/tiny-english. Without --chinese, the folder of albert-tiny-chinese,
the page keeps its Chinese section as it is.
"""

import argparse
import os
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import torch

import unmask
from unmask.printable import printable

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
METHODS = ("mlm", "mrf", "mrf-logit", "hcb", "ag-paper", "ag", "log-pool")
TOP = 6

HEADER = """\
# First joints

The likeliest pairs for two blanks, by each construction, exact over the whole vocabulary
(special tokens included, as in the paper). Nothing here measures quality: it shows what the
constructions do with the same two tables. Produced by `runs/first_joints.py`.

tiny-english is the small BERT of this repository (4 layers, 8,192 tokens); albert-tiny-chinese is
ckiplab's ALBERT (4 layers, 21,128 tokens, one per character). [Both](models.md). H is the entropy
of the joint and MI the mutual information of its two blanks, in bits; J measures how far the
model's two conditionals contradict each other ([trust](../concepts/trust.md)).
"""


def escaped(token: str) -> str:
    """A token as a Markdown table cell shows it, whatever characters it has."""
    return re.sub(r"([\\`*_{}\[\]<>#|&~])", r"\\\1", printable(token))


def table(joints: dict[str, unmask.Joint]) -> Iterator[str]:
    yield "| | " + " | ".join(joints) + " |"
    yield "|---" * (len(joints) + 1) + "|"
    ranked = [joint.top(TOP) for joint in joints.values()]
    for place in range(TOP):
        cells = [
            f"{' '.join(map(escaped, fills[place].tokens))} ({fills[place].probability:.3f})"
            for fills in ranked
        ]
        yield f"| {place + 1} | " + " | ".join(cells) + " |"
    bits = [
        (j.entropy(base_two=True), j.mutual_information(base_two=True)) for j in joints.values()
    ]
    yield "| H, MI | " + " | ".join(f"{h:.2f}, {abs(mi):.2f}" for h, mi in bits) + " |"


def section(lm: unmask.LanguageModel, name: str, text: str) -> Iterator[str]:
    joints = lm.joints(text, methods=METHODS, support="vocabulary")
    passes = max(int(str(j.diagnostics["forward_passes"])) for j in joints.values())
    yield f"\n## {escaped(text)}\n"
    yield f"{name}, {passes:,} forward passes for all.\n"
    yield from table(joints)
    did = {name: joint.diagnostics for name, joint in joints.items()}
    change, steps = did["ag-paper"]["last_change"], did["ag"]["passes"]
    yield f"\nJ is {joints['ag'].incompatibility():.4f} bits. `hcb` pivots on"
    yield f"{escaped(str(did['hcb']['pivot']))}; the last but one of `ag-paper`'s 50 steps moved a"
    yield f"log marginal by {change:.2g}; `ag` took {steps} passes over the tables, `log-pool`"
    yield f"{did['log-pool']['passes']}."


def kept(page: Path, text: str) -> str:
    """A text's section of the page as it is."""
    heading = f"\n## {escaped(text)}\n"
    return heading + page.read_text("utf-8").split(heading)[1].split("\n## ")[0].split("\nMade ")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="The joint of some texts by every method.")
    parser.add_argument("--chinese", metavar="FOLDER", help="of albert-tiny-chinese")
    parser.add_argument("--output", type=Path, default=Path("docs/results/first-joints.md"))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    folders = {"tiny-english": ENGLISH, "albert-tiny-chinese": chosen.chinese}
    lines = [HEADER]
    for name, texts in TEXTS.items():
        lm = unmask.load(folders[name]) if folders[name] else None
        for text in texts:
            lines += [kept(chosen.output, text)] if lm is None else section(lm, name, text)
    versions = ", ".join(f"{package} {version(package)}" for package in ("torch", "transformers"))
    lines.append(f"\nMade with unmask {unmask.__version__}, {versions}, float32, on a CPU.")
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
