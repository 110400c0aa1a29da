"""The cost of scoring pairs of words beyond the forward passes that it cannot do without.

    python benchmarks/scoring.py --model DIR [--texts 1000] [--method orders] [--length N]

Prints JSON. `one_text`: the time of one pair's log-probability over that of the same forward
passes alone. `many_texts`: rows per second, as a fraction of what the bare trunk makes of the same
ids in the same batches. Both are timed in turns and come as median, minimum and maximum over the
repeats. `memory`: the peak of scoring one text and all of them, and that of the same forward passes
alone, each in a fresh process; read as Linux counts it. Texts are random tokens.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from interleaved import Run, in_turns, ratios, spread
from torch import Tensor

import unmask
from unmask.model.hugging_face import HuggingFaceMaskedLM
from unmask.model.output_layer import Positions
from unmask.queries.joint_model import JointModel
from unmask.sequences.word_pairs import WordPair, score_items
from unmask.settings import Settings
from unmask.text.cloze import Cloze

Batch = tuple[Tensor, Positions]

# What is freed goes back at once. Left alone, glibc learns from the sizes it sees what to keep: the
# same forward passes then peak 100 MB apart, in either direction.
PLAIN_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(2**20)}

# a single text is over soon: so many times as often as the repeats, to average out the machine
ONE_TEXT_ROUNDS = 4


class Recorded:
    """A model that remembers the batches it was asked for."""

    def __init__(self, model: HuggingFaceMaskedLM) -> None:
        self.vocabulary_size, self.mask_id = model.vocabulary_size, model.mask_id
        self.special_ids, self.max_length = model.special_ids, model.max_length
        self.device, self.output_embedding = model.device, model.output_embedding
        self.batches: list[Batch] = []
        self._model = model

    def readouts(self, ids: Tensor, positions: Positions) -> Tensor:
        self.batches.append((ids, positions))
        return self._model.readouts(ids, positions)


class Bench:
    """A model, its random texts, and a random pair for each."""

    def __init__(self, folder: str, texts: int, length: int | None) -> None:
        lm = unmask.load(folder)
        model = lm.model
        assert isinstance(model, HuggingFaceMaskedLM)
        self.model: HuggingFaceMaskedLM = model
        self.tokenizer = lm.tokenizer
        rng = random.Random(0)
        ordinary = [i for i in range(model.vocabulary_size) if i not in model.special_ids]
        clozes = [self._cloze(rng, ordinary, length) for _ in range(texts)]
        pairs = [tuple(rng.choices(ordinary, k=2)) for _ in range(texts)]
        self.items = [WordPair(*item) for item in zip(clozes, pairs, strict=True)]

    def _cloze(self, rng: random.Random, ordinary: list[int], length: int | None) -> Cloze:
        ids = rng.choices(ordinary, k=length or rng.randint(8, 24))
        first, second = rng.sample(range(1, len(ids) - 1), 2)
        ids[first] = ids[second] = self.model.mask_id
        return Cloze("", tuple(ids), (first, second))

    def score(self, method: str, texts: int, model: Recorded | None = None) -> None:
        lm = JointModel(model or self.model, self.tokenizer)
        settings = Settings(progress=False)
        score_items(lm, self.items[:texts], method=method, support="vocabulary", settings=settings)

    def batches(self, method: str, texts: int) -> list[Batch]:
        """What scoring asks the model for; also the warm-up of what is timed."""
        recorded = Recorded(self.model)
        self.score(method, texts, recorded)
        return recorded.batches

    def forward(self, batches: list[Batch]) -> None:
        for ids, positions in batches:
            self.model.readouts(ids, positions)

    def one_text(self, method: str, repeats: int) -> dict[str, Any]:
        batches = self.batches(method, 1)
        runs: dict[str, Run] = {
            "scored": lambda: self.score(method, 1),
            "alone": lambda: self.forward(batches),
        }
        scored, alone = in_turns(runs, repeats * ONE_TEXT_ROUNDS).values()
        return {
            "rows": sum(len(ids) for ids, _ in batches),
            "length": len(self.items[0].cloze),
            "seconds": spread(scored),
            "forward_seconds": spread(alone),
            "ratio": spread(ratios(scored, alone)),
        }

    def many_texts(self, method: str, repeats: int) -> dict[str, Any]:
        batches = self.batches(method, len(self.items))
        rows = sum(len(ids) for ids, _ in batches)

        @torch.inference_mode()
        def trunk() -> None:
            for ids, _ in batches:
                self.model.model.base_model(input_ids=ids, attention_mask=torch.ones_like(ids))

        runs: dict[str, Run] = {
            "scored": lambda: self.score(method, len(self.items)),
            "trunk": trunk,
        }
        scored, bare = in_turns(runs, repeats).values()
        return {
            "texts": len(self.items),
            "rows": rows,
            "batches": len(batches),
            "rows_per_second": spread([rows / s for s in scored]),
            "trunk_rows_per_second": spread([rows / s for s in bare]),
            "of_trunk": spread(ratios(bare, scored)),
        }


def peak_of(run: Callable[[], object]) -> int:
    """The largest resident memory while something runs; what came before, as loading, is past."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    run()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def measure_memory(chosen: argparse.Namespace) -> int:
    """Peak memory in this process, of scoring or of the forward passes that scoring wrote down."""
    bench = Bench(chosen.model, chosen.texts, chosen.length)
    if chosen.memory == "forward":
        written = json.loads(Path(chosen.batches).read_text(encoding="ascii"))
        batches: list[Batch] = [(torch.tensor(ids), torch.tensor(at)) for ids, at in written]
        return peak_of(lambda: bench.forward(batches))
    recorded = Recorded(bench.model)
    peak = peak_of(lambda: bench.score(chosen.method, chosen.texts, recorded))
    written = [(ids.tolist(), torch.as_tensor(where).tolist()) for ids, where in recorded.batches]
    Path(chosen.batches).write_text(json.dumps(written), encoding="ascii")
    return peak


def memory_in_fresh_processes(
    chosen: argparse.Namespace, method: str, texts: int
) -> dict[str, int]:
    arguments = ["--model", chosen.model, "--method", method, "--texts", str(texts)]
    arguments += ["--length", str(chosen.length)] if chosen.length else []
    arguments += ["--threads", str(chosen.threads)]
    with tempfile.TemporaryDirectory() as folder:
        arguments += ["--batches", str(Path(folder) / "batches.json")]
        command = [sys.executable, __file__, *arguments, "--memory"]
        scored, forward = (
            int(subprocess.check_output([*command, what], env={**os.environ, **PLAIN_MALLOC}))
            for what in ("score", "forward")
        )
    return {
        "texts": texts,
        "peak_bytes": scored,
        "forward_bytes": forward,
        "above_forward_bytes": scored - forward,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="What scoring costs beyond the forward passes.")
    parser.add_argument("--model", required=True, help="folder of a masked language model")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--method", default="orders", help="names, separated by commas")
    parser.add_argument("--length", type=int, help="of all texts; 8 to 24 tokens without it")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--memory", choices=("score", "forward"), help=argparse.SUPPRESS)
    parser.add_argument("--batches", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.memory:
        print(measure_memory(chosen))
        return 0
    methods = chosen.method.split(",")
    memory = {
        method: [memory_in_fresh_processes(chosen, method, texts) for texts in (1, chosen.texts)]
        for method in methods
    }
    bench = Bench(chosen.model, chosen.texts, chosen.length)
    found = {
        "model": Path(chosen.model).name,
        "vocabulary": bench.model.vocabulary_size,
        "threads": chosen.threads,
        "torch": torch.__version__,
        "memory": memory,
        "one_text": {method: bench.one_text(method, chosen.repeats) for method in methods},
        "many_texts": {method: bench.many_texts(method, chosen.repeats) for method in methods},
    }
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
