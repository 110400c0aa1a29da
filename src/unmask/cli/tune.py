"""`unmask tune`: continue the training of a masked LM on one's own text, into a model folder."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from unmask.cli import options
from unmask.cli.command import group, option, required
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.training.tuning import Tuning
    from unmask.training.work import Tuned


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What the model is to learn."""

    GROUP = "what is learnt"

    masks: str = option(
        "blanks (in every sentence one token, two adjacent, two random or a span), plain (15% of "
        "the tokens, as BERT was trained) or any (a share uniform in (0, 1], as masked diffusion "
        "trains) (default: {default})",
        "NAME",
        default="blanks",
    )
    compatibility: float = option(
        "weight of the penalty on incompatible conditionals of two blanks, such as 10 "
        "(default: {default})",
        "WEIGHT",
        default=0.0,
    )
    marginals: float = option(
        "weight of the divergence between answers with both blanks masked and the mean of those "
        "with the other blank filled (default: {default})",
        "WEIGHT",
        default=0.0,
    )
    tokens: int = option(
        "with a penalty: tokens per blank, 2K + 1 forward passes per pair (default: {default})",
        "K",
        default=8,
    )
    every: int = option(
        "with a penalty: measure it in every N-th batch (default: {default})", "N", default=2
    )


@dataclass(frozen=True, kw_only=True)
class Training:
    """How long and how fast it learns."""

    GROUP = "training"

    passes: int | None = option(
        "forward passes, the model on one sentence each, those of penalties included (default: 3 "
        "per sentence)",
        "N",
    )
    learning_rate: float = option(
        "highest learning rate, after a rise over 6% of the passes and before a fall to 0; small "
        "models learn faster with more (default: 5e-5)",
        "RATE",
        default=5e-5,
    )
    batch_tokens: int = option(
        "tokens per batch, padding included (default: {default})", "N", default=2048
    )
    evaluations: int = option(
        "how often the held-out sentences are measured (default: {default})", "N", default=10
    )
    patience: int = option(
        "stop after so many evaluations without an improvement; 0 never stops early (default: "
        "{default})",
        "N",
        default=3,
    )
    keep: str = option(
        "weights of the result: best (on the held-out sentences) or last (default: {default})",
        "NAME",
        default="best",
    )


@dataclass(frozen=True, kw_only=True)
class TuneCommand:
    """A masked LM trained further on text of the user."""

    SUMMARY = "continue the training of a masked LM on your own text"
    DESCRIPTION = (
        "Train a copy of MODEL further on the sentences of CORPUS and save it as an ordinary "
        "Hugging Face folder. Penalties make the model's answers about two blanks fit together: "
        "--compatibility for its two conditionals, --marginals for its answers with both blanks "
        "masked. Some sentences, chosen by a hash, are held out; what is measured on them is "
        "printed. If a run is interrupted or killed, repeat the command and it continues from the"
        " last checkpoint, to the same weights. Exit codes: 2 on bad input, 130 when interrupted "
        "and 143 when terminated, with everything saved."
    )
    EXAMPLE = "unmask tune bert-base-cased reviews.txt -o my-bert --compatibility 10"

    model: str = options.TRAINED_MODEL()
    corpus: tuple[str, ...] = options.SENTENCES()
    output: str = required("folder for the tuned model", "FOLDER", short="-o")
    without: tuple[str, ...] = option(
        "leave out the sentences of this corpus, such as the one to be evaluated on; case and "
        "punctuation do not count; may be repeated",
        "CORPUS",
        default=(),
    )
    seed: int = options.SEED()
    dry_run: bool = options.DRY_RUN()
    quiet: bool = options.QUIET()
    objective: Objective = group(Objective())
    training: Training = group(Training())
    reading: options.CorpusOptions = group(options.CorpusOptions())
    running: options.Running = group(
        options.Running(), without=("dtype", "batch_size", *options.TABLES)
    )
    bfloat16: bool = option(
        "compute in bfloat16 where torch considers it safe; for GPUs (weights stay float32)",
        default=False,
        group="running",
    )

    def run(self) -> int:
        """Read the corpora, load the model, train and save."""
        tuning = self._tuning()

        from unmask import progress
        from unmask.records.corpora import read_corpus
        from unmask.training.folder import TuningFolder
        from unmask.training.work import tune, tuning_cost

        TuningFolder(self.output).check()
        corpora = [read_corpus(self.reading.spec(place)) for place in self.corpus]
        others = [read_corpus(self.reading.spec(place)) for place in self.without]
        texts = (one.text for corpus in corpora for one in corpus.sentences)
        left_out = [one.text for corpus in others for one in corpus.sentences]
        lm = self.running.load(self.model)
        if self.dry_run:
            print(tuning_cost(lm, texts, self.output, tuning, left_out))
            return 0
        with _stopping() as stop:
            tuned = tune(
                lm,
                texts,
                self.output,
                tuning,
                without=left_out,
                name=options.model_name(self.model),
                corpora=[corpus.name for corpus in corpora],
                progress=False if self.quiet else None,
                say=(lambda line: None) if self.quiet else progress.say,
                stop=stop,
            )
        if not self.quiet:
            progress.say(_conclusion(tuned, self.output))
        return 0

    def _tuning(self) -> "Tuning":
        from unmask.training.tuning import Tuning

        return Tuning(
            **vars(self.objective), **vars(self.training), seed=self.seed, bfloat16=self.bfloat16
        )


def _conclusion(tuned: "Tuned", output: str) -> str:
    first, kept = tuned.evaluations[0], tuned.kept
    if not kept.passes:
        early = " and stopped early" if tuned.stopped_early else ""
        return (
            f"training ran {tuned.passes:,} forward passes{early}: no evaluation was better than"
            f" that of the model it began with (held-out loss {first.loss:.3f}), so"
            f" {quoted(output, limit=200)} holds the weights it began with"
        )
    early = ", stopped early" if tuned.stopped_early else ""
    single = penalty = ""
    if first.single_blanks is not None and kept.single_blanks is not None:
        single = f" (of single blanks {first.single_blanks:.3f} to {kept.single_blanks:.3f})"
    if first.compatibility is not None and kept.compatibility is not None:
        penalty = f", compatibility {first.compatibility:.3f} to {kept.compatibility:.3f}"
    return (
        f"the model after {kept.passes:,} of {tuned.passes:,} forward passes{early} is in"
        f" {quoted(output, limit=200)}: held-out loss {first.loss:.3f} to {kept.loss:.3f}"
        f"{single}{penalty}"
    )


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM let a step end and be saved; a second one ends at once.

    Gives a function that says whether one has come.
    """
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    before = {which: signal.signal(which, note) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(came)
    except KeyboardInterrupt as error:
        message = str(error) or "repeat the command to continue from the last checkpoint"
        if came == [signal.SIGTERM]:
            options.say(f"terminated; {message}")
            raise SystemExit(128 + signal.SIGTERM) from None
        raise KeyboardInterrupt(message) from None
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
