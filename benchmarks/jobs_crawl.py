"""A table of many rows through `unmask score` and `unmask pairs`: memory, speed, and equal rows.

    python benchmarks/jobs_crawl.py --kind score --lines 10000 100000 1000000
    python benchmarks/jobs_crawl.py --kind pairs --lines 10000 100000 1000000
    python benchmarks/jobs_crawl.py --kind score --model models/tiny-english --lines 1000

For each number of lines, a process of its own writes the output as a folder of parts, and prints
its peak memory, its rows per second, and the largest difference to the same rows from the
in-memory functions, over a sample of the lines. Without --model, the model is a BERT of one layer
and 64 dimensions with random weights, and the tokenizer of models/tiny-english.

The last line compares the job with a bare loop, in turns: the same batches through the model and
its output layer, and nothing else. Ids are made before, nothing is read, tokenised or written.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from interleaved import in_turns, ratios, spread
from torch import Tensor
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

import unmask
from unmask.jobs.executors.local import LocalExecutor
from unmask.jobs.kinds import Kind
from unmask.jobs.kinds.pairs import PairsKind
from unmask.jobs.kinds.score import ScoreKind
from unmask.jobs.running import Job, open_job, run_job
from unmask.model.output_layer import Positions
from unmask.model.row_reader import Outcomes

TINY_ENGLISH = Path(__file__).parent.parent / "models" / "tiny-english"
WORDS = ["a", "the", "man", "woman", "dog", "is", "in", "on", "park", "playing", "red", "two"]
KINDS: dict[str, Kind] = {"score": ScoreKind(), "pairs": PairsKind()}
TEXTS_PER_UNIT = 4096
# of a job: its first part and its last
PARTS_COMPARED = 2


def smallest(folder: Path) -> Path:
    """A BERT of one layer that is nearly all overhead, as a folder."""
    tokenizer = AutoTokenizer.from_pretrained(TINY_ENGLISH)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=64,
    )
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_lines(path: Path, kind: str, lines: int) -> None:
    """Sentences of 2 to 6 words, seeded; of pairs, two words with each."""
    draw = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.write("text,word1,word2\n" * (kind == "pairs"))
        for _ in range(lines):
            words = draw.choices(WORDS, k=draw.randint(2, 6))
            if kind == "pairs":
                places = sorted(draw.sample(range(len(words)), 2))
                one, other = (words[place] for place in places)
                for place in places:
                    words[place] = "[MASK]"
                file.write(f"{' '.join(words)}.,{one},{other}\n")
            else:
                file.write(" ".join(words) + ".\n")


def opened(folder: Path, kind: str, lines: int) -> Job:
    """A job over so many lines."""
    source = folder / ("in.csv" if kind == "pairs" else "in.txt")
    write_lines(source, kind, lines)
    return open_job(KINDS[kind], [str(source)], texts_per_unit=TEXTS_PER_UNIT)


def run(lm: unmask.LanguageModel, job: Job, output: Path) -> None:
    """The whole job, into a folder that is not there yet."""
    plan = job.plan(lm, name="model", dtype="float32")
    run_job(job, plan, str(output), LocalExecutor(lm), progress=False)


def measure(lm: unmask.LanguageModel, kind: str, lines: int) -> dict[str, Any]:
    """Memory and speed of one number of lines, and how its rows differ from those in memory."""
    with tempfile.TemporaryDirectory() as folder:
        job = opened(Path(folder), kind, lines)
        output = Path(folder) / "out"
        (seconds,) = in_turns({"job": lambda: run(lm, job, output)}, 1)["job"]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        parts = sorted(output.glob("**/*.parquet"))
        rows = sum(pq.read_metadata(part).num_rows for part in parts)
        compared = parts if len(parts) < PARTS_COMPARED else [parts[0], parts[-1]]
        differences = [d for part in compared for d in _differences(lm, kind, part)]
    return {
        "kind": kind,
        "lines": lines,
        "rows": rows,
        "peak_mb": round(peak / 1000),
        "rows_per_second": round(lines / seconds, 1),
        "compared": len(differences),
        "largest_difference": max(differences),
    }


def _differences(lm: unmask.LanguageModel, kind: str, part: Path) -> list[float]:
    rows = pq.read_table(part).to_pylist()
    if kind == "score":
        scores: Sequence[Any] = lm.score([row["text"] for row in rows])
        name = "score"
    else:
        items = [[row[column] for column in ("text", "word1", "word2")] for row in rows]
        scores, name = lm.pairs(items), "log_p"
    return [abs(row[name] - getattr(one, name)) for row, one in zip(rows, scores, strict=True)]


def beside_bare(lm: unmask.LanguageModel, kind: str, units: int, repeats: int) -> dict[str, Any]:
    """The job over some units, and its batches alone, in turns."""
    lines = units * TEXTS_PER_UNIT
    with tempfile.TemporaryDirectory() as folder:
        job = opened(Path(folder), kind, lines)
        runs = iter(range(repeats + 1))

        def whole() -> None:
            run(lm, job, Path(folder) / f"out-{next(runs)}")

        model, readouts_of = lm.model, lm.model.readouts
        batches: list[tuple[Tensor, Positions]] = []

        def recorded(ids: Tensor, positions: Positions) -> Tensor:
            batches.append((ids, positions))
            return readouts_of(ids, positions)

        model.readouts = recorded  # type: ignore[method-assign]
        whole()
        model.readouts = readouts_of  # type: ignore[method-assign]
        outcomes = Outcomes.every(model)

        def bare() -> None:
            with torch.inference_mode():
                for ids, positions in batches:
                    readouts = model.readouts(ids, positions).flatten(0, 1)
                    torch.log_softmax(outcomes.logits(readouts), dim=-1)

        found = in_turns({"job": whole, "bare": bare}, repeats)
    speeds = ratios(found["bare"], found["job"])
    return {
        "kind": kind,
        "lines": lines,
        "batches": len(batches),
        "rows_per_second": round(lines / statistics.median(found["job"]), 1),
        "of_bare_loop": spread(speeds),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", metavar="FOLDER")
    parser.add_argument("--kind", choices=KINDS, default="score")
    parser.add_argument("--lines", type=int, nargs="*", default=[1_000, 10_000])
    parser.add_argument("--units", type=int, default=2, help="of the bare loop; 0 leaves it out")
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = chosen.model or str(smallest(Path(folder)))
        if len(chosen.lines) == 1 and not chosen.units:
            print(json.dumps(measure(unmask.load(model), chosen.kind, *chosen.lines)), flush=True)
            return 0
        for lines in chosen.lines:
            # memory is the peak of a process: each has its own
            given = ["--model", model, "--kind", chosen.kind, "--lines", str(lines), "--units", "0"]
            subprocess.run([sys.executable, __file__, *given], check=True)
        if chosen.units:
            found = beside_bare(unmask.load(model), chosen.kind, chosen.units, chosen.repeats)
            print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
