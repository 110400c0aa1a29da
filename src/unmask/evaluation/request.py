"""An evaluation from a request to result rows in a folder."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from unmask.constructions import CONSTRUCTIONS, check_methods, is_importable
from unmask.corpora import CorpusSpec, read_corpus
from unmask.corpora.corpus import Corpus
from unmask.errors import CorpusError, MethodError
from unmask.evaluation.executors import Executor
from unmask.evaluation.executors.local import LocalExecutor
from unmask.evaluation.identity import identify
from unmask.evaluation.masks import MASKS
from unmask.evaluation.plan import Batch, Plan
from unmask.evaluation.planning import Drawn, constructions, draw_examples, identify_corpus
from unmask.evaluation.running import SAVE_EVERY, complete
from unmask.evaluation.software import change
from unmask.evaluation.store.run_writer import RunWriter, finished, writing
from unmask.evaluation.store.shards import Shard
from unmask.evaluation.worker import SOFTWARE, ModelSource
from unmask.language_model import LanguageModel
from unmask.settings import Settings

WEAKLY_KNOWN = (
    "this run was begun by an earlier version, which kept hashes of weights and vocabulary alone:"
    " that the model's settings and tokenizer are the same is not checked"
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be measured: a model, a corpus, which examples, and which constructions.

    At most `examples` per mask. `options` are those of a method, by its name. Tables name corpus
    and model by `corpus_name` and `model_name`; without them by their own, folders by their last
    part.
    """

    corpus: CorpusSpec
    model: ModelSource
    masks: Sequence[str] = MASKS
    examples: int = 1000
    seed: int = 0
    support: str | Sequence[str] = "vocabulary"
    methods: Sequence[str] = tuple(CONSTRUCTIONS)
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    corpus_name: str | None = None
    model_name: str | None = None


@dataclass(frozen=True)
class Prepared:
    """A request with its corpus, model and examples, and its plan but for a batch size."""

    request: Request
    corpus: Corpus
    lm: LanguageModel
    drawn: Drawn
    draft: Plan


@dataclass(frozen=True)
class Outcome:
    """What the share of one process came to; `damaged` says which saved parts were unreadable."""

    plan: Plan
    done: int
    failed: int
    damaged: Sequence[str] = ()


def prepare(request: Request, *, standard_input: BinaryIO | None = None) -> Prepared:
    """Read the corpus, load the model, draw the examples."""
    methods, options = check_methods(request.methods, _plain(request.options))
    _check_known_elsewhere(methods)
    if not request.masks:
        raise CorpusError(f"masks is empty; give {' or '.join(MASKS)}")
    corpus = read_corpus(request.corpus, standard_input=standard_input)
    lm = request.model.load()
    support = request.support if isinstance(request.support, str) else tuple(request.support)
    drawn = draw_examples(
        lm,
        corpus,
        masks=request.masks,
        limit=request.examples,
        seed=request.seed,
        support=support,
    )
    size = request.settings.batch_size
    draft = Plan(
        model=identify(
            lm,
            name=request.model_name or _model_name(request.model.place),
            dtype=request.model.dtype,
            compiled=False,
        ),
        corpus=identify_corpus(corpus, request.corpus_name),
        draw=drawn.draw,
        support=support,
        support_size=len(lm.support(support).ids),
        constructions=constructions(methods, options),
        memory_limit=request.settings.memory_limit,
        half_tables=request.settings.half_tables,
        batch=None if size is None else Batch(rows=size),
    )
    return Prepared(request, corpus, lm, drawn, draft)


def evaluate(
    prepared: Prepared,
    output: str | Path,
    *,
    shard: Shard | None = None,
    executor: Executor | None = None,
    save_every: float = SAVE_EVERY,
    progress: bool | None = None,
    say: Callable[[str], None] | None = None,
) -> Outcome:
    """Measure what a run's folder lacks; the folder is made if there is none.

    Without an `executor`, in this process. `shard` is the share of this process where several
    work on one folder; `save_every` and `progress` as in `complete`. `say` is given a line where a
    run goes on with other versions than before, or with a model that is known by less.
    """
    place, share = executor or LocalExecutor(prepared.lm), shard or Shard()
    pairs, request = prepared.drawn.pairs, prepared.request
    if (plan := finished(Path(output), prepared.draft, share, pairs)) is not None:
        return Outcome(plan, done=len(share.of(pairs)), failed=0)

    def resolve() -> Batch:
        return place.resolve_batch(pairs, prepared.draft.support, request.settings)

    with writing(Path(output), prepared.draft, share, resolve) as writer:
        for line in _to_be_said(writer):
            (say or _nothing)(line)
        complete(writer, pairs, place, save_every=save_every, progress=progress)
        return Outcome(writer.plan, len(writer.done), len(writer.failed), writer.set_aside)


def _to_be_said(writer: RunWriter) -> Iterator[str]:
    if (changed := change(writer.software, SOFTWARE)) is not None:
        yield changed
    if not writer.plan.model.is_whole:
        yield WEAKLY_KNOWN


def _nothing(_: str) -> None:
    pass


def _check_known_elsewhere(methods: Sequence[str]) -> None:
    # other processes know the library's names, and what they can import
    for method in methods:
        if method not in CONSTRUCTIONS and not is_importable(method):
            raise MethodError(
                f"{method} is known to this process alone; for a run, name the function by where "
                "it can be imported from, as package.module:function"
            )


def _plain(options: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    return {name: dict(given) for name, given in options.items()}


def _model_name(place: str) -> str:
    """A hub name as it is; of a folder the last part, for the rest is of one machine alone."""
    folder = os.path.expanduser(place)
    return Path(folder).resolve().name if os.path.isdir(folder) else place
