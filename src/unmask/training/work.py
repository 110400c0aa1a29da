"""Tuning from beginning to end: texts and options checked, a run, and the finished folder."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from unmask.errors import ModelError
from unmask.jobs.identify import identify
from unmask.jobs.model_source import SOFTWARE, device_name
from unmask.language_model import LanguageModel
from unmask.printable import printable
from unmask.progress import Shown, bar
from unmask.training.card import card
from unmask.training.folder import TuningFolder
from unmask.training.record import Evaluation, TrainingRecord
from unmask.training.run import TrainingRun
from unmask.training.state import load_state
from unmask.training.texts import Texts, ordinary_tokens, read_texts
from unmask.training.tuning import PASSES_PER_TEXT, Tuning


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The result of a tuning: the folder, every evaluation, and which evaluation was saved.

    Forward passes are those of training; `pair_passes` are those among them that the penalties
    took. `steps` counts batches.
    """

    folder: Path
    evaluations: tuple[Evaluation, ...]
    kept: Evaluation
    steps: int
    passes: int
    pair_passes: int
    stopped_early: bool
    seconds: float

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "folder": str(self.folder)}


def tune(
    lm: LanguageModel,
    texts: Iterable[str],
    output: str | Path,
    tuning: Tuning | None = None,
    *,
    without: Iterable[str] = (),
    name: str | None = None,
    corpora: Iterable[str] = (),
    progress: Shown = None,
    say: Callable[[str], object] = lambda line: None,
    stop: Callable[[], bool] = lambda: False,
) -> Tuned:
    """Train a copy of a model on texts, into a folder; the same call continues after a kill.

    Args:
        lm: The model, which is not changed.
        texts: Texts to learn from, some of which are held out.
        output: The folder of the result; if it is complete, what it holds is returned.
        tuning: How to train. Default: `Tuning()`.
        without: Texts that are not learnt from, apart from case and punctuation.
        name: How the result names the model.
        corpora: How the result names the texts.
        progress: A bar on stderr, with rate and time left; None: only on a terminal.
        say: Called with the cost, and with a line per evaluation.
        stop: Called between steps; once it returns True, everything is saved and a
            `KeyboardInterrupt` raised.
    Returns:
        The folder, every evaluation, and the one whose weights were kept.
    Raises:
        ModelError: The model cannot be trained so.
        CorpusError: There are too few texts.
    Examples:
        >>> texts = [f"{n} dogs are running." for n in ("One", "Two", "Three", "Some", "Many")] * 4
        >>> tuned = unmask.tune(lm, texts, "tuned", unmask.Tuning(passes=8, evaluations=1))
        >>> tuned.passes, tuned.folder.name
        (8, 'tuned')
    """
    folder = TuningFolder(output)
    folder.check()
    read, tuning = _prepared(lm, texts, without, tuning or Tuning())
    plan = _plan(lm, name or lm.name, tuning, read, list(corpora))
    if not folder.is_complete(plan):
        with folder.held(plan):
            run = TrainingRun(lm, read, tuning, folder, say)
            if not run.record.passes:
                say(run.announcement())
            with bar("training", unit="pass", total=tuning.passes, shown=progress) as shown:
                run.train(shown, stop)
            _finish(lm, run, plan)
    folder.clear()
    return _tuned(folder)


def tuning_cost(
    lm: LanguageModel,
    texts: Iterable[str],
    output: str | Path,
    tuning: Tuning,
    without: Iterable[str] = (),
) -> str:
    """What `tune` would cost, in a line; nothing is trained or written."""
    read, tuning = _prepared(lm, texts, without, tuning)
    return TrainingRun(lm, read, tuning, TuningFolder(output), lambda _: None).announcement()


def _prepared(
    lm: LanguageModel, texts: Iterable[str], without: Iterable[str], tuning: Tuning
) -> tuple[Texts, Tuning]:
    _check_tokens(lm, tuning)
    read = read_texts(lm, texts, without)
    if tuning.passes is None:
        tuning = replace(tuning, passes=PASSES_PER_TEXT * len(read.training))
    return read, tuning


def _check_tokens(lm: LanguageModel, tuning: Tuning) -> None:
    count = int(ordinary_tokens(lm).sum())
    if tuning.has_penalty and tuning.tokens > count:
        raise ModelError(
            f"tokens is at most {count}, the ordinary tokens of {printable(lm.name)}, not "
            f"{tuning.tokens}"
        )


def _plan(
    lm: LanguageModel, name: str, tuning: Tuning, texts: Texts, corpora: list[str]
) -> dict[str, Any]:
    """All that determines the weights, except for the machine."""
    return {
        "version": 1,
        "model": identify(lm, name=name, dtype="float32").to_dict(),
        "corpora": corpora,
        "texts": {
            "digest": texts.digest,
            "training": len(texts.training),
            "held_out": len(texts.held_out),
            "left_out": dict(texts.left_out),
        },
        "tuning": asdict(tuning),
    }


def _finish(lm: LanguageModel, run: TrainingRun, plan: Mapping[str, Any]) -> None:
    """Write the model that is kept, with how it was made."""
    record, best = run.record, run.tuning.keep == "best"
    kept = asdict(record.evaluations[-1])
    if best:
        # the stored measurement: a resumed run may not have reached these weights again
        kept = load_state(run.folder.best, run.network.module)["evaluation"]
    result = {
        "plan": dict(plan),
        "record": record.to_dict(),
        "kept": kept,
        "stopped_early": record.passes < run.total,
        "device": device_name(lm),
        "threads": torch.get_num_threads(),
        "software": SOFTWARE,
    }
    run.folder.finish(run.network, lm.tokenizer, card(result), result)


def _tuned(folder: TuningFolder) -> Tuned:
    result = folder.result()
    record = TrainingRecord.from_dict(result["record"])
    return Tuned(
        folder=folder.path,
        evaluations=tuple(record.evaluations),
        kept=Evaluation(**result["kept"]),
        steps=record.step,
        passes=record.passes,
        pair_passes=record.pair_passes,
        stopped_early=result["stopped_early"],
        seconds=record.seconds,
    )
