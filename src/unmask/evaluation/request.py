"""An evaluation from a request to result rows in a folder."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import BinaryIO

from unmask.constructions import CONSTRUCTIONS, check_methods, default_options, is_importable
from unmask.errors import CorpusError, MethodError, SupportError, UnmaskError
from unmask.evaluation.kind import EXAMPLE, Evaluate
from unmask.evaluation.masks import MASKS, MaskedPair, examples
from unmask.evaluation.rows import WHOLE_VOCABULARY
from unmask.evaluation.run import (
    CorpusIdentity,
    EvaluationPlan,
    ExampleSelection,
    LabelledMethod,
)
from unmask.jobs.canonical import canonical, sha256
from unmask.jobs.executors.local import Executor, LocalExecutor
from unmask.jobs.identify import identify
from unmask.jobs.model_source import ModelSource
from unmask.jobs.running import Job, Outcome, run_job
from unmask.jobs.shards import Shard
from unmask.jobs.work import InMemoryInput
from unmask.language_model import LanguageModel
from unmask.names import model_name
from unmask.printable import quoted
from unmask.queries.sketched import check_sketched, sketchable
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.records.corpus import Corpus
from unmask.settings import Settings, Sketch

# examples of each mask; a killed process loses at most a unit, and one example may take minutes
EXAMPLES_PER_UNIT = 1


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """What to measure: a model, a corpus, which examples, and which constructions.

    At most `examples` per mask. By default `methods` are all; `options` are those of a method, by
    its name. With a `sketch`, examples are estimated from some contexts of the vocabulary, by the
    constructions that allow it. `corpus_name` and `model_name` are the names in tables; by default
    their own names, and for folders the last part of the path.
    """

    corpus: CorpusSpec
    model: ModelSource
    masks: Sequence[str] = MASKS
    examples: int = 1000
    seed: int = 0
    support: str | Sequence[str] = "vocabulary"
    sketch: Sketch | None = None
    methods: Sequence[str] | None = None
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    corpus_name: str | None = None
    model_name: str | None = None


@dataclass(frozen=True)
class Prepared:
    """A request with its corpus, model and examples, of each mask in turn, and its plan."""

    request: EvaluationRequest
    corpus: Corpus
    lm: LanguageModel
    turns: tuple[tuple[MaskedPair, ...], ...]
    plan: EvaluationPlan

    @property
    def pairs(self) -> list[MaskedPair]:
        """All examples, in the order in which they are measured."""
        return list(chain(*self.turns))

    def job(self, examples_per_unit: int = EXAMPLES_PER_UNIT) -> Job:
        """The examples in units that have so many of each mask: so has every shard."""
        if examples_per_unit < 1:
            raise UnmaskError(f"a unit has examples of each mask from 1, not {examples_per_unit}")
        starts = range(0, len(self.turns), examples_per_unit)
        units = [
            [{EXAMPLE: pair} for pair in chain(*self.turns[start : start + examples_per_unit])]
            for start in starts
        ]
        kind = Evaluate(plan=self.plan, settings=self.request.settings)
        return Job(kind, InMemoryInput(units, self.plan.input), examples_per_unit)


def prepare(request: EvaluationRequest, *, standard_input: BinaryIO | None = None) -> Prepared:
    """Read the corpus, load the model, draw the examples."""
    given = {name: dict(options) for name, options in request.options.items()}
    every = list(CONSTRUCTIONS) if request.sketch is None else sketchable()
    methods, options = check_methods(request.methods or every, given)
    _check_known_elsewhere(methods)
    _check_sketch(request, methods)
    if not request.masks:
        raise CorpusError(f"masks is empty; give {' or '.join(MASKS)}")
    corpus = read_corpus(request.corpus, standard_input=standard_input)
    lm = request.model.load()
    support = request.support if isinstance(request.support, str) else tuple(request.support)
    turns, draw = draw_examples(
        lm,
        corpus,
        masks=request.masks,
        limit=request.examples,
        seed=request.seed,
        support=support,
    )
    plan = EvaluationPlan(
        model=identify(
            lm,
            name=request.model_name or model_name(request.model.place),
            dtype=request.model.dtype,
        ),
        corpus=CorpusIdentity(
            name=request.corpus_name or corpus.name,
            sentences=len(corpus.sentences),
            digest=corpus.digest,
        ),
        draw=draw,
        support=support,
        support_size=len(lm.support(support).ids),
        constructions=constructions(methods, options),
        half_tables=request.settings.half_tables,
        sketch=request.sketch,
    )
    return Prepared(request, corpus, lm, turns, plan)


def draw_examples(
    lm: LanguageModel,
    corpus: Corpus,
    *,
    masks: Sequence[str],
    limit: int,
    seed: int,
    support: str | Sequence[str],
) -> tuple[tuple[tuple[MaskedPair, ...], ...], ExampleSelection]:
    """At most `limit` examples of every mask that this model can take, one of each mask in a turn.

    In turn, so that a run that is stopped early has as many of one as of another.
    """
    found = {
        mask: examples(lm, corpus.sentences, mask=mask, limit=limit, seed=seed, support=support)
        for mask in dict.fromkeys(masks)
    }
    in_turn = zip_longest(*(one.pairs for one in found.values()))
    turns = tuple(tuple(pair for pair in turn if pair is not None) for turn in in_turn)
    pairs = list(chain(*turns))
    refused = {mask: dict(sorted(one.refused.items())) for mask, one in found.items()}
    if not pairs:
        why = "; ".join(
            f"{mask}: " + ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            for mask, reasons in refused.items()
        )
        raise CorpusError(f"no sentence of {corpus.name} can be an example with this model: {why}")
    tokens = [[one.id, one.cloze.ids, one.cloze.positions, one.cloze.gold] for one in pairs]
    draw = ExampleSelection(
        masks=tuple(found),
        limit=limit,
        seed=seed,
        count=len(pairs),
        digest=sha256(tokens),
        refused=refused,
    )
    return turns, draw


def constructions(
    methods: Iterable[str], options: Mapping[str, Mapping[str, object]]
) -> tuple[LabelledMethod, ...]:
    """Methods with those of their options that are not what they are without."""

    def changed(method: str) -> dict[str, object]:
        own, given = default_options(method), options.get(method, {})
        return {
            name: _as_kept(method, name, value)
            for name, value in given.items()
            if own.get(name, ...) != value
        }

    return tuple(LabelledMethod(method, changed(method)) for method in methods)


def _as_kept(method: str, name: str, value: object) -> object:
    """An option as it is read back from a plan: a label must be the same in every process."""
    try:
        return json.loads(canonical(value))
    except (TypeError, ValueError):
        raise MethodError(
            f"option {quoted(name)} of {quoted(method)} goes into the plan of the run: a number, a"
            f" text or a list of them, not {quoted(type(value).__name__)}"
        ) from None


def evaluate(
    prepared: Prepared,
    output: str | Path,
    *,
    shard: Shard | None = None,
    executor: Executor | None = None,
    examples_per_unit: int = EXAMPLES_PER_UNIT,
    progress: bool | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> Outcome:
    """Measure what is missing from a run's folder, which is created if it does not exist.

    Without an `executor` it runs in this process. `shard` is the share of this process when several
    work on one folder. Results are saved by `examples_per_unit` of each mask. `progress` is a bar
    on stderr with rate and time left, a line now and then where stderr is not a terminal; False for
    none. `say` is called with one line if a run continues with other versions than before, or if
    parts of it are damaged.
    """
    job = prepared.job(examples_per_unit)
    return run_job(
        job,
        prepared.plan.job(examples_per_unit=examples_per_unit, units=job.source.unit_count or 0),
        os.fspath(output),
        executor or LocalExecutor(prepared.lm),
        shard=shard,
        progress=progress,
        say=say,
    )


def _check_sketch(request: EvaluationRequest, methods: Sequence[str]) -> None:
    if request.sketch is None:
        return
    if request.support != WHOLE_VOCABULARY:
        raise SupportError(
            "a sketch covers the whole vocabulary and takes no other support; leave out one of "
            "the two"
        )
    check_sketched(methods, "leave it out, or leave out the sketch (--sketch)")


def _check_known_elsewhere(methods: Sequence[str]) -> None:
    # other processes know the library's names, and what they can import
    for method in methods:
        if method not in CONSTRUCTIONS and not is_importable(method):
            raise MethodError(
                f"{method} exists only in this process; for a run, name the function by where "
                "it can be imported from, as package.module:function"
            )
