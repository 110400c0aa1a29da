"""Write docs/figures/two-blanks.svg: independent blanks next to their joint, with tiny-english.

python runs/joint_figure.py [--output FILE] [--threads N]
"""

import argparse
from pathlib import Path

import torch

import unmask
from unmask.plots import compare, save_figure

MODEL = Path(__file__).parents[1] / "models" / "tiny-english"
TEXT = "The [MASK] [MASK] at the casino."
METHODS = ("mlm", "log-pool")
# so few that a telephone shows their names and numbers at a size that can be read
TOKENS = 4
OUTPUT = Path(__file__).parent.parent / "docs" / "figures" / "two-blanks.svg"


def write(model: Path, output: Path) -> None:
    """Draw both joints of the text, as `unmask fill --figure` does with more tokens."""
    joints = unmask.load(model).joints(TEXT, methods=list(METHODS))
    output.parent.mkdir(parents=True, exist_ok=True)
    save_figure(compare(joints, TOKENS), output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--threads", type=int, default=1, help="the same number, the same file")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    write(MODEL, chosen.output)


if __name__ == "__main__":
    main()
