"""Write docs/figures/two-blanks.svg: independent blanks beside their joint, with caption-bert.

    python runs/joint_figure.py [--assets DIR] [--output FILE] [--threads N]

`--assets` holds models/caption-bert; without it the environment says where, UNMASK_TEST_ASSETS.
"""

import argparse
import os
from pathlib import Path

import torch

import unmask
from unmask.plots import compare, save_figure

TEXT = "Two [MASK] are playing [MASK] on the beach."
METHODS = ("mlm", "log-pool")
TOKENS = 8
OUTPUT = Path(__file__).parent.parent / "docs" / "figures" / "two-blanks.svg"


def write(model: Path, output: Path) -> None:
    """Draw both joints of the text over the whole vocabulary, side by side."""
    joints = unmask.load(model).joints(TEXT, methods=list(METHODS), support="vocabulary")
    output.parent.mkdir(parents=True, exist_ok=True)
    save_figure(compare(joints, TOKENS), output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assets", default=os.environ.get("UNMASK_TEST_ASSETS"))
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--threads", type=int, default=1, help="the same number, the same file")
    chosen = parser.parse_args()
    if chosen.assets is None:
        parser.error("give --assets, or set UNMASK_TEST_ASSETS")
    torch.set_num_threads(chosen.threads)
    write(Path(chosen.assets) / "models" / "caption-bert", chosen.output)


if __name__ == "__main__":
    main()
