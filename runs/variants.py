"""Read what a model says of two measured landscapes of antibodies, for runs/variants_report.py.

    python runs/variants.py cr6261 --model DIR --data DIR --output cr6261.jsonl
    python runs/variants.py cr9114 --model DIR --data DIR --output cr9114.jsonl

A variant is a string of bits, germline (0) or mature (1) at each mutated position, and a context
is the same with a star where the position is masked. Every method is a function of the log-odds of
mature against germline at some positions of some contexts, so that is what is read, every context
once: a row is a context with the log-odds at its masked positions, or at all positions if none is
masked. Of CR6261 all contexts with one mask, all variants, and all sets of masks in the germline;
of CR9114 variants that are drawn with a seed, and their sets of masks. Started again on the same
file, only what is missing is read.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any, TextIO

import torch
from one_line import in_one_line

import unmask
from unmask.model.row_reader import Outcomes, RowReader, Rows
from unmask.sequences.variants.reading import VariantReader

MASK = "*"
# contexts that are read and written together
CHUNK = 256
SEED = 0
About = dict[str, Any]


# --- which contexts ----------------------------------------------------------------------------


def contexts(landscape: str, positions: int, draws: int) -> Iterator[str]:
    """All that are read, the cheapest methods first; some come twice."""
    germline = "0" * positions
    yield germline
    yield from one_mask(germline)
    # the interactions of pairs in the germline
    for place in range(positions):
        yield from one_mask(with_bits(germline, [place], "1"))
    if landscape == "cr6261":
        variants = ["".join(bits) for bits in product("01", repeat=positions)]
        for variant in variants:
            yield from one_mask(variant)
    else:
        variants = drawn(positions, draws)
    yield from variants
    yield from map(all_masked, variants)


def one_mask(variant: str) -> Iterator[str]:
    """The variant with each of its positions masked in turn."""
    return (with_bits(variant, [place], MASK) for place in range(len(variant)))


def all_masked(variant: str) -> str:
    """The germline with every position masked that the variant has mutated."""
    return variant.replace("1", MASK)


def with_bits(variant: str, places: list[int], bit: str) -> str:
    return "".join(bit if place in places else old for place, old in enumerate(variant))


def drawn(positions: int, draws: int) -> list[str]:
    """Variants without replacement: all with up to two mutations, the others at random."""
    near = [
        with_bits("0" * positions, list(places), "1")
        for size in (0, 1, 2)
        for places in combinations(range(positions), size)
    ]
    numbers = random.Random(SEED).sample(range(2**positions), 2**positions)
    order = [*near, *(f"{number:0{positions}b}" for number in numbers)]
    return list(dict.fromkeys(order))[:draws]


# --- what the model says -----------------------------------------------------------------------


class Landscape:
    """The germline of a landscape as a model reads it."""

    def __init__(self, lm: unmask.LanguageModel, about: About, settings: unmask.Settings) -> None:
        places = [position - 1 for position in about["positions"]]
        both = [about[f"{kind}_residues"] for kind in ("germline", "somatic")]
        each = zip(both[0], about["positions"], both[1], strict=True)
        mutant = ":".join(f"{germline}{position}{mature}" for germline, position, mature in each)
        frame = VariantReader(lm, about["germline"]).read(mutant).frame
        self.tokens = torch.tensor(
            [list(map(frame.token, places, map(frame.letters.index, one))) for one in both]
        )
        self.places, self.ids = [frame.start + place for place in places], frame.ids.tolist()
        self.mask = lm.model.mask_id
        self.reader, self.every = RowReader(lm.model, settings), Outcomes.every(lm.model)

    def row(self, context: str) -> list[int]:
        ids = list(self.ids)
        for place, (at, content) in enumerate(zip(self.places, context, strict=True)):
            ids[at] = self.mask if content == MASK else int(self.tokens[int(content), place])
        return ids

    def log_odds(self, chunk: list[str]) -> list[list[float]]:
        """Mature against germline where each context is read; all are read at as many places."""
        read = torch.tensor([read_places(context) for context in chunk])
        found = torch.empty(read.shape, dtype=torch.float64)

        def keep(batch: slice, readouts: torch.Tensor) -> None:
            logits = self.every.logits(readouts.flatten(0, 1)).double()
            germline, mature = self.tokens[:, read[batch]].flatten(1)
            logits = logits.gather(1, torch.stack([germline, mature], dim=1))
            found[batch] = (logits[:, 1] - logits[:, 0]).view(found[batch].shape)

        rows = Rows.of(torch.tensor([self.row(context) for context in chunk]))
        self.reader.each_batch(rows, torch.tensor(self.places)[read], keep, batch_for=0)
        return found.tolist()


def read_places(context: str) -> list[int]:
    masked = [place for place, content in enumerate(context) if content == MASK]
    return masked or list(range(len(context)))


# --- running -----------------------------------------------------------------------------------


def write(landscape: Landscape, wanted: list[str], file: TextIO) -> None:
    """Read contexts in their order; those of a chunk that are read at as many places together."""
    for start in range(0, len(wanted), CHUNK):
        chunk = wanted[start : start + CHUNK]
        for size in sorted({len(read_places(context)) for context in chunk}):
            alike = [context for context in chunk if len(read_places(context)) == size]
            for context, odds in zip(alike, landscape.log_odds(alike), strict=True):
                said = {"context": context, "log_odds": [round(one, 5) for one in odds]}
                file.write(json.dumps(said) + "\n")
        file.flush()
        print(f"\r{start + len(chunk)} of {len(wanted)}", end="", file=sys.stderr)


@in_one_line
def main() -> None:
    chosen = _arguments()
    torch.set_num_threads(chosen.threads)
    about = json.loads((chosen.data / "sequences.json").read_text("utf-8"))[chosen.landscape]
    lm = unmask.load(chosen.model, device="cpu")
    settings = unmask.Settings(progress=False, announce=False, batch_size=chosen.batch_size)
    landscape = Landscape(lm, about, settings)
    lines = chosen.output.read_text("utf-8").splitlines() if chosen.output.exists() else []
    done = {json.loads(line)["context"] for line in lines}
    every = dict.fromkeys(contexts(chosen.landscape, len(about["positions"]), chosen.draws))
    with chosen.output.open("a", encoding="utf-8") as file:
        write(landscape, [context for context in every if context not in done], file)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("landscape", choices=("cr6261", "cr9114"))
    add("--model", required=True)
    add("--data", required=True, type=Path, help="folder with sequences.json")
    add("--output", required=True, type=Path)
    add("--draws", type=int, default=5000, help="variants of cr9114 (default: 5000)")
    add("--threads", type=int, default=1)
    add("--batch-size", type=int, default=16)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
