"""lm-evaluation-harness with masked LMs: its own code, on small tasks.

It is imported by tests alone: every process that shares the tests imports this file.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import killable
import pytest
from harness_runs import (
    as_one_of_two,
    evaluate,
    free_port,
    log_likelihoods,
    slowly_cached,
    write_choices,
    write_task,
)
from test_unmasking import loop, own_logits
from tiny_models import build, saved

import unmask
from unmask import LanguageModel, UnmaskError
from unmask.names import TEXT_METHODS
from unmask.sequences.unmasking import ORDERS

CHOICES = [
    {
        "context": context,
        "choices": [f" {word} {place}" for place in ("the mat.", "his car.", "a house.")],
        "right": number % 3,
    }
    for number, (context, word) in enumerate(
        (f"the {animal}", word) for animal in ("cat", "dog", "man") for word in ("sat on", "is in")
    )
]
PAIRS = [
    {"context": "", "choices": ["the cat sat on the mat.", "the cat sat the mat."], "right": 0},
    {"context": "", "choices": ["a man ran.", "a man very."], "right": 1},
]
LONG = "the cat sat on the mat. a man ran in the house and her dog was not very big at all, he is."


def served(*arguments: Any, **options: Any) -> Any:
    return unmask.harness.UnmaskLM(*arguments, **options)


def requests(*arguments: tuple[object, ...]) -> list[Any]:
    return [SimpleNamespace(args=one) for one in arguments]


@pytest.fixture(scope="module", params=["bert", "roberta", "albert"])
def lm(request: pytest.FixtureRequest) -> LanguageModel:
    return unmask.load(build(request.param))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    write_choices(folder, "choices", CHOICES)
    write_choices(folder, "pairs", PAIRS)
    row = {"before": "the cat", "after": " sat.", "text": LONG}
    write_task(
        folder, "ends", [row], "loglikelihood", doc_to_text="{{before}}", doc_to_target="{{after}}"
    )
    rolling = {"doc_to_text": "", "doc_to_target": "{{text}}"}
    write_task(folder, "rolling", [row], "loglikelihood_rolling", **rolling)
    until = {"doc_to_text": "the", "doc_to_target": "x", "generation_kwargs": {"until": ["."]}}
    write_task(folder, "until", [row], "generate_until", **until)
    return folder


# --- the harness itself --------------------------------------------------------------------------


@pytest.mark.slow
def test_the_harness_reports_what_score_gives(tasks: Path) -> None:
    lm = unmask.load(build("bert"))
    results = evaluate(tasks, ["choices", "pairs", "ends", "rolling"], served(lm))
    for task, items in (("choices", CHOICES), ("pairs", PAIRS)):
        given = [[one["context"]] * len(one["choices"]) for one in items]
        own = [
            [one.score for one in lm.score(item["choices"], given=before, method="unmasking")]
            for item, before in zip(items, given, strict=True)
        ]
        values = log_likelihoods(results, task)
        assert [x for one in values for x in one] == pytest.approx(
            [x for one in own for x in one], abs=2e-5
        )
        likeliest_choices = [max(range(len(one)), key=one.__getitem__) for one in own]
        right = sum(
            choice == item["right"] for choice, item in zip(likeliest_choices, items, strict=True)
        )
        assert results["results"][task]["acc,none"] == right / len(items)
    whole = log_likelihoods(results, "rolling")
    assert len(whole) == 1
    config = results["config"]
    assert (config["method"], config["unmask_version"]) == ("unmasking", unmask.__version__)


@pytest.mark.slow
def test_the_model_by_name_with_its_arguments(
    tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_eval.caching.cache.PATH", str(tmp_path / "kept"))
    folder = saved("bert", tmp_path / "bert")
    args = f"pretrained={folder},method=pll,dtype=float32,batch_size=auto"
    some: dict[str, Any] = {"limit": 4, "cache_requests": True}
    named = evaluate(tasks, ["choices"], "unmask", model_args=args, batch_size=1, **some)
    direct = evaluate(tasks, ["choices"], served(folder, method="pll", batch_size=2), **some)
    assert list((tmp_path / "kept").iterdir())
    assert len(named["samples"]["choices"]) == 4
    for one, other in zip(
        log_likelihoods(named, "choices"), log_likelihoods(direct, "choices"), strict=True
    ):
        assert one == pytest.approx(other, abs=2e-5)
    assert named["results"]["choices"]["acc,none"] == direct["results"]["choices"]["acc,none"]


def test_a_run_that_broke_off_goes_on_from_its_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = requests(*((one["context"], c) for one in CHOICES for c in one["choices"]))
    whole = served(build("bert")).loglikelihood(asked)
    score_texts, scored = unmask.harness.score_texts, [0]

    def breaking(lm: Any, texts: Any, **options: Any) -> Any:
        if scored[0] == 8:
            raise KeyboardInterrupt
        scored[0] += len(texts)
        return score_texts(lm, texts, **options)

    monkeypatch.setattr("unmask.harness.score_texts", breaking)
    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path).loglikelihood(asked)
    scored += [0]
    monkeypatch.setattr(
        "unmask.harness.score_texts",
        lambda lm, texts, **options: scored.append(len(texts)) or score_texts(lm, texts, **options),
    )
    assert [value for value, _ in cached(tmp_path).loglikelihood(asked)] == pytest.approx(
        [value for value, _ in whole], abs=2e-5
    )
    # each once, whichever run did it
    assert (sum(scored), len(asked)) == (18, 18)


def cached(folder: Path) -> Any:
    from lm_eval.api.model import CachingLM

    return CachingLM(served(build("bert"), texts_per_unit=4), str(folder / "cache.db"))


@pytest.mark.long
def test_two_processes_give_what_one_gives(tasks: Path, tmp_path: Path) -> None:
    args = f"pretrained={saved('bert', tmp_path / 'bert')}"
    one = evaluate(tasks, ["choices", "pairs"], "unmask", model_args=args)
    port = free_port()
    processes = [
        killable.begin(as_one_of_two, rank, port, str(tasks), ["choices", "pairs"], args)
        for rank in range(2)
    ]
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    values, accuracies = json.loads((tasks / "results.json").read_text())
    for task in ("choices", "pairs"):
        assert accuracies[task] == one["results"][task]["acc,none"]
        expected = log_likelihoods(one, task)
        assert [x for row in values[task] for x in row] == pytest.approx(
            [x for row in expected for x in row], abs=2e-5
        )


@pytest.mark.long
def test_killed_and_started_again(tasks: Path, tmp_path: Path) -> None:
    args = f"pretrained={saved('bert', tmp_path / 'bert')},texts_per_unit=3"
    whole = evaluate(tasks, ["choices"], "unmask", model_args=args)
    log = tasks / "scored"
    given = (str(tasks), ["choices"], args)
    process = killable.begin(slowly_cached, *given, 0.5)
    deadline = time.monotonic() + 300
    while (not log.exists() or len(log.read_text()) < 6) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    before = len(log.read_text())
    assert 6 <= before < 18
    assert killable.call(slowly_cached, *given, 0.0) == 0
    values = json.loads((tasks / "results.json").read_text())["choices"]
    assert values == [
        pytest.approx(expected, abs=2e-5) for expected in log_likelihoods(whole, "choices")
    ]
    # of the killed run at most one unit was lost
    assert len(log.read_text()) <= 18 + 3


@pytest.mark.long
def test_the_command_line(tasks: Path, tmp_path: Path) -> None:
    folder = saved("bert", tmp_path / "bert")
    command = [sys.executable, "-m", "unmask.harness", "--model_args", f"pretrained={folder}"]
    command += ["--tasks", "choices", "--include_path", str(tasks), "--limit", "3"]
    command += ["--output_path", str(tmp_path / "out"), "--log_samples"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "unmask ({'pretrained'" in run.stdout
    (samples,) = (tmp_path / "out").rglob("samples_choices_*.jsonl")
    assert len(samples.read_text().splitlines()) == 3
    command[4] = "pretrained=no/such/model"
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert failed.stderr.strip().splitlines()[-1].startswith("unmask: ")


# --- likelihoods ---------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_is_greedy_by_a_loop_over_likeliest_tokens(lm: LanguageModel, order: str) -> None:
    logits = own_logits(lm)
    start, words = "the cat", " sat on the mat"
    ids = lm.tokenizer(start + words)["input_ids"]
    places = [
        place for place in range(len(ids)) if place > len(lm.tokenizer(start)["input_ids"]) - 2
    ]
    places = places[:-1]
    best = likeliest(logits, ids, places, lm.model.mask_id, order)
    score = harness_scores(lm, [best, [*ids]], places, order)
    assert [one.likeliest_tokens == one.tokens for one in score] == [True, best == [*ids]]
    worse = [*best]
    worse[places[-1]] = next(t for t in (7, 8) if t != best[places[-1]])
    (other,) = harness_scores(lm, [worse], places, order)
    assert other.likeliest_tokens < other.tokens


def likeliest(logits: Any, ids: list[int], places: list[int], mask: int, order: str) -> list[int]:
    """What greedy decoding writes in place of the tokens, one at a time."""
    row = [mask if place in places else token for place, token in enumerate(ids)]
    hidden = list(places)
    while hidden:
        probabilities = {}
        for place in hidden:
            values = logits(row, place)
            weights = [math.exp(value - max(values)) for value in values]
            probabilities[place] = [weight / sum(weights) for weight in weights]

        def certainty(place: int, known: dict[int, list[float]] = probabilities) -> float:
            first, second = sorted(known[place])[:-3:-1]
            return {"left-to-right": -place, "surest": first, "margin": first - second}[order]

        chosen = max(hidden, key=certainty)
        row[chosen] = max(range(len(probabilities[chosen])), key=probabilities[chosen].__getitem__)
        hidden.remove(chosen)
    return row


def harness_scores(lm: LanguageModel, rows: list[list[int]], places: list[int], order: str) -> Any:
    from unmask.sequences.scoring import score_texts
    from unmask.sequences.texts import TokenisedText

    texts = [TokenisedText("", tuple(row), tuple(places), ()) for row in rows]
    return score_texts(lm, texts, method="unmasking", order=order)


@pytest.mark.parametrize("method", ["pll", "pll-word-l2r"])
def test_likeliest_tokens_of_pseudo_log_likelihoods(method: str) -> None:
    lm = unmask.load(build("bert"))
    logits = own_logits(lm)
    (score,) = lm.score(["the cat sat on a mat."], method=method)
    ids = lm.tokenizer(score.text)["input_ids"]
    masked = [
        [lm.model.mask_id if place == own else token for place, token in enumerate(ids)]
        for own in range(1, len(ids) - 1)
    ]
    expected = sum(
        int(logits(row, place).argmax()) == ids[place] for place, row in enumerate(masked, start=1)
    )
    assert score.likeliest_tokens == expected


def test_spaces_between_context_and_continuation(lm: LanguageModel) -> None:
    """A token belongs to the continuation if it reaches into it, wherever the space is written."""
    model = served(lm)
    (before, _), (after, _) = model.loglikelihood(
        requests(("the cat", " sat on"), ("the cat ", "sat on"))
    )
    ids = lm.tokenizer("the cat sat on")["input_ids"]
    places = [*range(len(lm.tokenizer("the cat")["input_ids"]) - 1, len(ids) - 1)]
    naive = math.fsum(loop(own_logits(lm), ids, places, lm.model.mask_id, ORDERS[0]))
    assert before == pytest.approx(naive, abs=2e-5)
    assert after == pytest.approx(naive, abs=2e-5)


def test_numbers_do_not_depend_on_the_batch_nor_on_other_requests(lm: LanguageModel) -> None:
    asked = requests(*((one["context"], c) for one in CHOICES for c in one["choices"]))
    together = served(lm).loglikelihood(asked)
    alone = [served(lm, batch_size=1).loglikelihood([one])[0] for one in asked[::5]]
    in_units = served(lm, texts_per_unit=5, batch_size="3").loglikelihood(asked)
    assert [v for v, _ in together[::5]] == pytest.approx([v for v, _ in alone], abs=2e-5)
    assert [v for v, _ in together] == pytest.approx([v for v, _ in in_units], abs=2e-5)


@pytest.mark.slow
def test_rolling_windows_score_every_token_once(lm: LanguageModel) -> None:
    from lm_eval.utils import get_rolling_token_windows

    order = "surest"
    model = served(lm, order=order)
    short, long, nothing = model.loglikelihood_rolling(requests((LONG[:22],), (LONG,), ("",)))
    assert short == pytest.approx(lm.score(LONG[:22], method="unmasking", order=order).score)
    assert nothing == 0.0
    ids = lm.tokenizer(LONG, verbose=False)["input_ids"]
    tokens, room = ids[1:-1], (lm.max_length or 0) - 2
    assert len(tokens) > room
    expected, scored, logits = [], 0, own_logits(lm)
    for before, own in get_rolling_token_windows(tokens, -1, room - 1, 1):
        context = before[: len(before) - len(own) + 1] if before[0] != -1 else []
        row = [ids[0], *context, *own, ids[-1]]
        places = [*range(1 + len(context), 1 + len(context) + len(own))]
        expected += loop(logits, row, places, lm.model.mask_id, order)
        scored += len(own)
    assert scored == len(tokens)
    assert long == pytest.approx(math.fsum(expected), abs=1e-4)


@pytest.mark.parametrize("method", TEXT_METHODS)
def test_every_method_takes_windows(method: str) -> None:
    model = served(build("bert"), method=method)
    (value,) = model.loglikelihood_rolling(requests((LONG,)))
    assert value < 0


def test_a_context_that_is_too_long_loses_its_beginning(lm: LanguageModel) -> None:
    end = " a man ran."
    with pytest.warns(unmask.errors.UnmaskWarning, match="1 of 2 requests are longer"):
        (value, _), (short, _) = served(lm).loglikelihood(
            requests((LONG, end), ("the cat sat.", end))
        )
    ids = lm.tokenizer(LONG + end, verbose=False)["input_ids"]
    row = [ids[0], *ids[len(ids) - (lm.max_length or 0) + 1 :]]
    count = len(ids) - len(lm.tokenizer(LONG, verbose=False)["input_ids"])
    places = [*range(len(row) - 1 - count, len(row) - 1)]
    naive = loop(own_logits(lm), row, places, lm.model.mask_id, ORDERS[0])
    assert value == pytest.approx(math.fsum(naive), abs=2e-5)
    assert short == pytest.approx(
        lm.score(end, given="the cat sat.", method="unmasking").score, abs=2e-5
    )
    with pytest.raises(UnmaskError, match=r"a continuation of \d+ tokens is longer than the"):
        served(lm).loglikelihood(requests(("the", " " + LONG)))


# --- what is refused -----------------------------------------------------------------------------


def test_generation_and_chats_are_refused(tasks: Path) -> None:
    model = served(build("bert"))
    with pytest.raises(UnmaskError, match="does not say how many; choose tasks of likelihoods"):
        evaluate(tasks, ["until"], model)
    with pytest.raises(UnmaskError, match="no chat template"):
        evaluate(tasks, ["choices"], model, apply_chat_template=True)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("method=pll", "name no model"),
        ("pretrained=FOLDER,max_batch_size=4", "no model argument 'max_batch_size' here; there"),
        ("pretrained=FOLDER,method=plm", "no method 'plm'"),
        ("pretrained=FOLDER,order=random", "no order 'random'"),
        ("pretrained=FOLDER,batch_size=many", "a number from 1 or auto, not 'many'"),
        ("pretrained=FOLDER,batch_size=0", "a number from 1 or auto, not 0"),
    ],
)
def test_arguments_that_are_wrong(arguments: str, why: str, tmp_path: Path) -> None:
    folder = saved("bert", tmp_path / "bert") if "FOLDER" in arguments else ""
    with pytest.raises(UnmaskError, match=why):
        unmask.harness.UnmaskLM.create_from_arg_string(arguments.replace("FOLDER", folder))


def test_a_request_that_cannot_be_scored_is_named() -> None:
    model = served(build("bert"))
    with pytest.raises(UnmaskError, match="request 1: the text is empty: ' '"):
        model.loglikelihood(requests(("", "the cat"), ("", " ")))


def test_options_of_the_command_line_that_suit_masked_models() -> None:
    given = ["--model_args", "pretrained=x", "-t", "choices", "-b", "4"]
    own = unmask.harness._with_own_defaults(given)
    assert own == [*given, "--model", "unmask", "--device", "auto"]
    assert unmask.harness._with_own_defaults(["ls", "tasks"]) == ["ls", "tasks"]


@pytest.mark.parametrize(
    ("arguments", "rows"), [({}, None), ({"batch_size": 1}, 1), ({"batch_size": 4}, 4)]
)
def test_the_harness_default_of_one_row_at_a_time_is_not_taken(
    arguments: dict[str, Any], rows: int | None, tmp_path: Path
) -> None:
    model_args = {"pretrained": saved("bert", tmp_path / "bert"), **arguments}
    defaults = {"batch_size": 1, "max_batch_size": None, "device": None}
    assert unmask.harness.UnmaskLM.create_from_arg_obj(model_args, defaults)._batch_size == rows


@pytest.mark.slow
def test_a_scan_of_entry_points_finds_the_model() -> None:
    # a scanner puts the entry point into the registry, which loads it when the model is asked for
    code = """
import sys
from importlib.metadata import entry_points
import lm_eval.models
from lm_eval.api.model import LM
from lm_eval.api.registry import get_model, model_registry
(point,) = entry_points(group="lm_eval.models", name="unmask")
model_registry.register("unmask", target=point)
assert "unmask.harness" not in sys.modules
model = get_model("unmask")
from unmask.harness import UnmaskLM
assert model is UnmaskLM and issubclass(model, LM)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
