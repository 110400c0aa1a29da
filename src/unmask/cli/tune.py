"""`unmask tune`: continue the training of a masked LM on one's own text, into a model folder."""

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from unmask.cli import options
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.training.tuning import Tuning
    from unmask.training.work import Tuned

SUMMARY = "continue the training of a masked LM on your own text"
DESCRIPTION = (
    "Train a copy of MODEL further on the sentences of CORPUS and save it as an ordinary Hugging "
    "Face folder. Penalties make the model's answers about two blanks fit together: "
    "--compatibility for its two conditionals, --marginals for its answers with both blanks "
    "masked. Some sentences, chosen by a hash, are held out; what is measured on them is printed. "
    "If a run is interrupted or killed, repeat the command and it continues from the last "
    "checkpoint, to the same weights. Exit codes: 2 on bad input, 130 when interrupted and 143 "
    "when terminated, with everything saved."
)
EXAMPLE = "unmask tune bert-base-cased reviews.txt -o my-bert --compatibility 10"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="masked LM: a name on the Hugging Face Hub, or a folder")
    add(
        "corpus",
        metavar="CORPUS",
        nargs="+",
        help="sentences to learn from: a file (.txt, .jsonl, .tsv, .csv), a Hugging Face dataset "
        "or its folder, or - for standard input",
    )
    add("-o", "--output", required=True, metavar="FOLDER", help="folder for the tuned model")
    add(
        "--without",
        action="append",
        default=[],
        metavar="CORPUS",
        help="leave out the sentences of this corpus, such as the one to be evaluated on; case and "
        "punctuation do not count; may be repeated",
    )
    add("--seed", type=int, default=0, metavar="N", help="seed of all random choices (default: 0)")
    add("--quiet", action="store_true", help="print no progress, only errors")
    _add_objective(parser)
    _add_training(parser)
    options.add_corpus(parser)
    _add_running(parser)


def _add_objective(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is learnt").add_argument
    add(
        "--masks",
        default="blanks",
        metavar="NAME",
        help="blanks (in every sentence one token, two adjacent, two random or a span) or plain "
        "(15%% of the tokens, as BERT was trained) (default: blanks)",
    )
    add(
        "--compatibility",
        type=float,
        default=0.0,
        metavar="WEIGHT",
        help="weight of the penalty on the two conditionals of two blanks that no joint has both "
        "of, such as 10 (default: 0)",
    )
    add(
        "--marginals",
        type=float,
        default=0.0,
        metavar="WEIGHT",
        help="weight of the divergence between answers with both blanks masked and the mean of "
        "those with the other blank filled (default: 0)",
    )
    add(
        "--tokens",
        type=int,
        default=8,
        metavar="K",
        help="with a penalty: tokens per blank, 2K + 1 forward passes per pair (default: 8)",
    )
    add(
        "--every",
        type=int,
        default=2,
        metavar="N",
        help="with a penalty: measure it in every N-th batch (default: 2)",
    )


def _add_training(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("training").add_argument
    add(
        "--passes",
        type=int,
        metavar="N",
        help="forward passes, the model on one sentence each, those of penalties included "
        "(default: 3 per sentence)",
    )
    add(
        "--learning-rate",
        type=float,
        default=5e-5,
        metavar="RATE",
        help="highest learning rate, after a rise over 6%% of the passes and before a fall to 0; "
        "small models learn faster with more (default: 5e-5)",
    )
    add(
        "--batch-tokens",
        type=int,
        default=2048,
        metavar="N",
        help="tokens per batch, padding included (default: 2048)",
    )
    add(
        "--evaluations",
        type=int,
        default=10,
        metavar="N",
        help="how often the held-out sentences are measured (default: 10)",
    )
    add(
        "--patience",
        type=int,
        default=3,
        metavar="N",
        help="stop after so many evaluations without an improvement; 0 never stops early "
        "(default: 3)",
    )
    add(
        "--keep",
        default="best",
        metavar="NAME",
        help="weights of the result: best (on the held-out sentences) or last (default: best)",
    )


def _add_running(parser: argparse.ArgumentParser) -> None:
    add = options.add_loading(parser).add_argument
    add(
        "--bfloat16",
        action="store_true",
        help="compute in bfloat16 where torch considers it safe; for GPUs (weights stay float32)",
    )


def run(chosen: argparse.Namespace) -> int:
    """Read the corpora, load the model, train and save."""
    tuning = _tuning(chosen)

    from unmask import progress
    from unmask.corpora import read_corpus
    from unmask.training.folder import TuningFolder
    from unmask.training.work import tune

    TuningFolder(chosen.output).check()
    corpora = [read_corpus(options.corpus_spec(chosen, place)) for place in chosen.corpus]
    others = [read_corpus(options.corpus_spec(chosen, place)) for place in chosen.without]
    lm = options.load_model(chosen)
    with _stopping() as stop:
        found = tune(
            lm,
            (one.text for corpus in corpora for one in corpus.sentences),
            chosen.output,
            tuning,
            without=(one.text for corpus in others for one in corpus.sentences),
            name=options.model_name(chosen.model),
            corpora=[corpus.name for corpus in corpora],
            progress=False if chosen.quiet else None,
            say=(lambda line: None) if chosen.quiet else progress.say,
            stop=stop,
        )
    if not chosen.quiet:
        progress.say(_conclusion(found, chosen.output))
    return 0


def _tuning(chosen: argparse.Namespace) -> "Tuning":
    from dataclasses import fields

    from unmask.training.tuning import Tuning

    return Tuning(**{field.name: getattr(chosen, field.name) for field in fields(Tuning)})


def _conclusion(found: "Tuned", output: str) -> str:
    first, kept = found.evaluations[0], found.kept
    if not kept.passes:
        early = " and stopped early" if found.stopped_early else ""
        return (
            f"training ran {found.passes:,} forward passes{early}: no evaluation was better than"
            f" that of the model it began with (held-out loss {first.loss:.3f}), so"
            f" {quoted(output, limit=200)} holds the weights it began with"
        )
    early = ", stopped early" if found.stopped_early else ""
    single = penalty = ""
    if first.single_blanks is not None and kept.single_blanks is not None:
        single = f" (of single blanks {first.single_blanks:.3f} to {kept.single_blanks:.3f})"
    if first.compatibility is not None and kept.compatibility is not None:
        penalty = f", compatibility {first.compatibility:.3f} to {kept.compatibility:.3f}"
    return (
        f"the model after {kept.passes:,} of {found.passes:,} forward passes{early} is in"
        f" {quoted(output, limit=200)}: held-out loss {first.loss:.3f} to {kept.loss:.3f}"
        f"{single}{penalty}"
    )


@contextmanager
def _stopping() -> "Iterator[Stop]":
    """Ctrl-C and SIGTERM let a step end and be saved; a second one ends at once."""
    stop = Stop()
    before = {which: signal.signal(which, stop.note) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    except KeyboardInterrupt as error:
        said = str(error) or "repeat the command to continue from the last checkpoint"
        if stop.signal == signal.SIGTERM:
            options.say(f"terminated; {said}")
            raise SystemExit(128 + signal.SIGTERM) from None
        raise KeyboardInterrupt(said) from None
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


class Stop:
    """Whether a signal has come, and which."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.signal is not None

    def note(self, number: int, _: FrameType | None) -> None:
        """What a signal calls: the first is noted, the second ends at once."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
