"""Runs of lm-evaluation-harness on tasks that are written here: nothing of its own is read."""

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_METRICS = {
    "multiple_choice": "acc",
    "loglikelihood": "acc",
    "loglikelihood_rolling": "word_perplexity",
    "generate_until": "exact_match",
}


def write_task(
    folder: Path, name: str, rows: Sequence[Mapping[str, object]], kind: str, **fields: object
) -> None:
    """A task with its rows as JSON lines beside it."""
    folder.mkdir(exist_ok=True)
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {
            "data_files": {"test": str(data)},
            "cache_dir": str(folder / "datasets"),
        },
        "test_split": "test",
        "output_type": kind,
        "metric_list": [{"metric": _METRICS[kind]}],
        **fields,
    }
    # JSON is YAML
    (folder / f"{name}.yaml").write_text(json.dumps(task))


def write_choices(folder: Path, name: str, rows: Sequence[Mapping[str, object]]) -> None:
    """A task of rows with a context, choices that begin with their spaces, and the right one."""
    fields = {
        "doc_to_text": "{{context}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "right",
        "target_delimiter": "",
    }
    write_task(folder, name, rows, "multiple_choice", **fields)


def evaluate(folder: Path, tasks: Sequence[str], model: Any, **options: Any) -> dict[str, Any]:
    """The harness's results on tasks of a folder; None where this is not the first process."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    results: dict[str, Any] = simple_evaluate(
        model, tasks=list(tasks), task_manager=manager, bootstrap_iters=0, **options
    )
    return results


def log_likelihoods(results: Mapping[str, Any], task: str) -> list[list[float]]:
    """Those of every request, by item, in the order of the items."""
    samples = sorted(results["samples"][task], key=lambda sample: sample["doc_id"])
    answers = [[one[0] for one in sample["resps"]] for sample in samples]
    # a log-likelihood, and with it whether it is greedy
    return [[one[0] if isinstance(one, tuple) else one for one in some] for some in answers]


def as_one_of_two(rank: int, port: int, folder: str, tasks: Sequence[str], args: str) -> None:
    """One of two processes, as torchrun starts them; the first writes its results."""
    where = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in where.items()})
    os.environ.update(MASTER_ADDR="127.0.0.1", HF_HUB_OFFLINE="1")
    import unmask.harness  # registers the model

    results = evaluate(Path(folder), tasks, "unmask", model_args=args)
    if rank == 0:
        values = {task: log_likelihoods(results, task) for task in tasks}
        scores = {task: results["results"][task]["acc,none"] for task in tasks}
        Path(folder, "results.json").write_text(json.dumps([values, scores]))
    else:
        assert results is None
    assert unmask.harness.distributed.get_world_size() == 2


def slowly_cached(folder: str, tasks: Sequence[str], args: str, seconds: float) -> None:
    """A run with a cache that waits after each unit, so that it can be killed."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from unmask import harness

    score_texts = harness.score_texts

    def slow(lm: Any, texts: Sequence[Any], **options: Any) -> Any:
        scores = score_texts(lm, texts, **options)
        with Path(folder, "scored").open("a") as log:
            log.write("x" * len(texts))
        time.sleep(seconds)
        return scores

    harness.score_texts = slow  # type: ignore[assignment]
    cache = str(Path(folder, "cache"))
    results = evaluate(Path(folder), tasks, "unmask", model_args=args, use_cache=cache)
    values = {task: log_likelihoods(results, task) for task in tasks}
    Path(folder, "results.json").write_text(json.dumps(values))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
