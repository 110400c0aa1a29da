"""Tasks of lm-evaluation-harness and the same items by `unmask score`: a table with both.

    python runs/harness.py --assets DIR [--model models/tiny-english] [--work DIR] [--output PAGE]

Makes task files over BLiMP (`--pairs` pairs of each paradigm, the first in the hashed order of
their ids) and two multiple-choice tasks: which of four words stands in a caption of SNLI, and which
of four orders of neighbouring words a sentence of Tatoeba has. Choices of an item of these have
equally many tokens of the model. `python -m unmask.harness` runs them with a cache, is killed once,
and is started again; `python -m unmask score` scores the same texts from a table. What is done is
kept in `--work`, and nothing is done twice. Some 15 minutes of one core in all.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import islice, permutations
from pathlib import Path
from typing import Any

from marked_page import write_blocks

import unmask
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.sequences.blimp import read_blimp

Item = dict[str, Any]
# how both tools score, by the arguments of either
METHODS = {
    "unmasking left-to-right": ("method=unmasking,order=left-to-right", ("unmasking",)),
    "unmasking surest": ("method=unmasking,order=surest", ("unmasking", "--order", "surest")),
    "pll": ("method=pll", ("pll",)),
}
TASKS = {
    "blimp": "BLiMP, the acceptable one of two sentences",
    "snli_word": "SNLI, the word of a caption among four",
    "tatoeba_order": "Tatoeba, the order of three words among four",
}
KILLED = "killed.json"
# captions after one, among whose words are its three others
OTHERS = 20


def hashed(text: str) -> bytes:
    return hashlib.sha256(f"harness\x00{text}".encode()).digest()


# --- items ---------------------------------------------------------------------------------------


def blimp_items(folder: Path, pairs: int) -> Iterator[Item]:
    for pair in read_blimp(str(folder), limit=pairs):
        choices = [pair["sentence_good"], pair["sentence_bad"]]
        yield {"id": pair["id"], "context": "", "choices": choices, "right": 0}


def sentences(file: Path) -> list[tuple[str, str]]:
    """Distinct sentences with ids, in hashed order."""
    corpus = read_corpus(CorpusSpec(str(file))).sentences
    return sorted(((one.id, one.text) for one in corpus), key=lambda pair: hashed(pair[1]))


def snli_items(lm: unmask.LanguageModel, file: Path, count: int) -> Iterator[Item]:
    """A word of the caption, and three words of the captions after it, each one token long."""
    placed = ((name, text.split(), _place(lm, text)) for name, text in sentences(file))
    usable = ((name, words, at) for name, words, at in placed if at is not None)
    items = list(islice(usable, count + OTHERS))
    for rank, (name, words, at) in enumerate(items[:count]):
        others = [other[place] for _, other, place in items[rank + 1 : rank + 1 + OTHERS]]
        four = list(dict.fromkeys([words[at], *others]))[:4]
        after = " ".join(["", *words[at + 1 :]])
        yield _item(name, " ".join(words[:at]), [f" {w}{after}" for w in four])


def _tokens(lm: unmask.LanguageModel, text: str) -> int:
    return len(lm.tokenizer(text, add_special_tokens=False)["input_ids"])


def _place(lm: unmask.LanguageModel, text: str) -> int | None:
    """Which word of a sentence is asked for: lower-case letters, one token, not the first."""
    words = text.split()
    known = [
        n
        for n, word in enumerate(words)
        if n and word.isalpha() and word.islower() and _tokens(lm, word) == 1
    ]
    return known[hashed(text)[0] % len(known)] if known else None


def tatoeba_items(lm: unmask.LanguageModel, file: Path, count: int) -> Iterator[Item]:
    """Three neighbouring words of lower-case letters, in their order and in three others."""
    made = 0
    for name, text in sentences(file):
        words = text.split()
        starts = [
            n
            for n in range(1, len(words) - 3)
            if len({*words[n : n + 3]}) == 3
            and all(w.isalpha() and w.islower() for w in words[n : n + 3])
        ]
        if made == count:
            return
        if not starts:
            continue
        at = starts[hashed(text)[0] % len(starts)]
        orders = list(permutations(words[at : at + 3]))
        four = [
            orders[0],
            *sorted(orders[1:], key=lambda order: hashed(" ".join((text, *order))))[:3],
        ]
        after = " ".join(["", *words[at + 3 :]])
        choices = [f" {' '.join(order)}{after}" for order in four]
        if len({_tokens(lm, choice) for choice in choices}) == 1:
            made += 1
            yield _item(name, " ".join(words[:at]), choices)


def _item(name: str, context: str, choices: list[str]) -> Item:
    """The choices in hashed order."""
    mixed = sorted(choices, key=lambda choice: hashed(name + choice))
    right = mixed.index(choices[0])
    return {"id": name, "context": context, "choices": mixed, "right": right}


def write_tasks(work: Path, items: dict[str, list[Item]]) -> None:
    """Items as JSON lines, a task over each, and for the other tool a row per choice."""
    for name, some in items.items():
        (work / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in some))
        task = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {
                "data_files": {"test": str(work / f"{name}.jsonl")},
                "cache_dir": str(work / "datasets"),
            },
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": "{{context}}",
            "doc_to_choice": "{{choices}}",
            "doc_to_target": "right",
            "target_delimiter": "",
            "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        }
        # JSON is YAML
        (work / f"{name}.yaml").write_text(json.dumps(task, indent=2))
        rows = [
            {"item": number, "choice": place, "context": item["context"], "text": choice}
            for number, item in enumerate(some)
            for place, choice in enumerate(item["choices"])
        ]
        (work / f"{name}-rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


# --- both tools ----------------------------------------------------------------------------------


def by_harness(work: Path, model: str, method: str, unit: int) -> None:
    """The harness's results with all samples; the first of all is killed once and started again."""
    place = work / f"harness-{method.replace(' ', '-')}"
    if place.exists():
        return
    cache, unfinished = work / f"cache-{method.replace(' ', '-')}", work / "unfinished"
    args = f"pretrained={model},{METHODS[method][0]},texts_per_unit={unit}"
    command = [sys.executable, "-m", "unmask.harness", "--model_args", args]
    command += ["--tasks", *TASKS, "--include_path", str(work), "--use_cache", str(cache)]
    command += ["--output_path", str(unfinished), "--log_samples"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    file = Path(f"{cache}_rank0.db")
    if not (work / KILLED).exists():
        process = subprocess.Popen(command, env=environment)
        while answers(file) < unit and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        code = process.wait()
        (work / KILLED).write_text(json.dumps({"code": code, "answers": answers(file)}))
    shutil.rmtree(unfinished, ignore_errors=True)
    subprocess.run(command, env=environment, check=True)
    unfinished.rename(place)


def answers(file: Path) -> int:
    """How many answers the harness's cache holds."""
    if not file.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT COUNT(*) FROM unnamed").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def by_score(work: Path, model: str, method: str, task: str) -> None:
    """The rows of `unmask score`, one per choice."""
    place = work / f"score-{method.replace(' ', '-')}-{task}.jsonl"
    if place.exists():
        return
    unfinished = work / "unfinished.jsonl"
    unfinished.unlink(missing_ok=True)
    command = [sys.executable, "-m", "unmask", "score", str(work / f"{task}-rows.jsonl")]
    command += ["--model", model, "--output", str(unfinished), "--quiet", "--method"]
    command += METHODS[method][1]
    if task != "blimp":
        command += ["--given", "context"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    unfinished.rename(place)


def harness_scores(work: Path, method: str, task: str) -> tuple[float, list[list[float]]]:
    """The harness's own accuracy, and the log-likelihoods of each item's choices."""
    folder = work / f"harness-{method.replace(' ', '-')}"
    (results,) = folder.rglob("results_*.json")
    (samples,) = folder.rglob(f"samples_{task}_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    rows.sort(key=lambda row: row["doc_id"])
    accuracy = json.loads(results.read_text())["results"][task]["acc,none"]
    return accuracy, [[float(one[0][0]) for one in row["resps"]] for row in rows]


def own_scores(work: Path, method: str, task: str) -> list[list[float]]:
    scores: dict[int, list[float]] = {}
    place = work / f"score-{method.replace(' ', '-')}-{task}.jsonl"
    for line in place.read_text().splitlines():
        row = json.loads(line)
        scores.setdefault(row["item"], []).append(row["score"])
    return [scores[number] for number in range(len(scores))]


# --- the page ------------------------------------------------------------------------------------


def compared(items: Sequence[Item], accuracy: float, theirs: Any, ours: Any) -> dict[str, Any]:
    verdicts = [
        [max(range(len(s)), key=s.__getitem__) for s in scores] for scores in (theirs, ours)
    ]
    right = sum(choice == item["right"] for choice, item in zip(verdicts[1], items, strict=True))
    apart = [
        abs(a - b) for x, y in zip(theirs, ours, strict=True) for a, b in zip(x, y, strict=True)
    ]
    return {
        "items": len(items),
        "harness": accuracy,
        "score": right / len(items),
        "other_verdicts": sum(a != b for a, b in zip(*verdicts, strict=True)),
        "largest_difference": max(apart),
    }


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of the table beside the page."""
    head = ["task", "items", "method", "acc by the harness", "acc by `unmask score`"]
    head += ["other verdicts", "largest difference, nats"]
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assets", type=Path, required=True)
    parser.add_argument("--model", default="models/tiny-english")
    parser.add_argument("--work", type=Path, default=Path("runs/rows/harness"))
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument(
        "--unit", type=int, default=500, help="answers when the first run is killed"
    )
    parser.add_argument("--output", type=Path, default=Path("docs/results/texts.md"))
    chosen = parser.parse_args()
    work, data = chosen.work.resolve(), chosen.assets / "data"
    work.mkdir(parents=True, exist_ok=True)
    lm = unmask.load(chosen.model)
    items = {
        "blimp": list(blimp_items(data / "blimp", chosen.pairs)),
        "snli_word": list(snli_items(lm, data / "snli" / "test.jsonl", chosen.items)),
        "tatoeba_order": list(tatoeba_items(lm, data / "english" / "tatoeba.txt", chosen.items)),
    }
    write_tasks(work, items)
    rows = []
    for method in METHODS:
        by_harness(work, chosen.model, method, chosen.unit)
        for task in TASKS:
            by_score(work, chosen.model, method, task)
            one = compared(
                items[task], *harness_scores(work, method, task), own_scores(work, method, task)
            )
            print(task, method, json.dumps(one), flush=True)
            rows.append(
                [
                    TASKS[task],
                    f"{one['items']:,}",
                    f"`{method}`",
                    f"{one['harness']:.4f}",
                    f"{one['score']:.4f}",
                    str(one["other_verdicts"]),
                    f"{one['largest_difference']:.1e}",
                ]
            )
    rows.sort(key=lambda row: list(TASKS.values()).index(row[0]))
    write_blocks(chosen.output, {}, {"verdicts": table(rows)}, "harness")
    print((work / KILLED).read_text())
    print(*(f"{name} {version(name)}" for name in ("lm_eval", "torch", "transformers")))


if __name__ == "__main__":
    main()
