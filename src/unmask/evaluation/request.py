"""An evaluation from a request to result rows in a folder."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.constructions import CONSTRUCTIONS, check_methods, default_options, is_importable
from unmask.errors import CorpusError, MethodError, SupportError
from unmask.evaluation.kind import EXAMPLE, Evaluate
from unmask.evaluation.masks import MASKS, MaskedPair, examples
from unmask.evaluation.rows import WHOLE_VOCABULARY, LabelledMethod
from unmask.evaluation.run import CorpusIdentity
from unmask.jobs.folder import Shard
from unmask.jobs.model_source import ModelSource
from unmask.jobs.plan import canonical, sha256
from unmask.jobs.running import Job, Result, run_job
from unmask.language_model import LanguageModel
from unmask.names import model_name
from unmask.printable import quoted
from unmask.queries.sketched import check_sketched, sketchable
from unmask.records.corpora import Corpus, CorpusSpec, read_corpus
from unmask.records.files import InputRows
from unmask.records.rows import Record
from unmask.settings import Settings, Sketch
from unmask.tables.proposals import AUTO, is_auto, resolved

if TYPE_CHECKING:
    from unmask.jobs.ray_workers import RayWorkers

# all constructions that can be computed
ALL = "all"
# rows that the size of a unit is computed from
_SAMPLE = 8


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """What to measure: a model, a corpus, which examples, and which constructions.

    At most `examples` per mask. By default examples are estimated from some contexts of the
    vocabulary, until their standard error is below `precision` or `max_passes` forward passes have
    run; `exact` runs all of it, as does a vocabulary of at most 500 tokens. Another `support` is
    exact too. `methods` are names; "all", the default, are those that can be computed so. `options`
    are those of a method, by its name. The `seed` decides examples and estimates.
    `corpus_name` and `model_name` are the names in tables; by default their own names, and
    for folders the last part of the path.

    Examples:
        >>> corpus = unmask.records.corpora.CorpusSpec("corpus.txt")
        >>> model = unmask.evaluation.ModelSource(place="models/tiny-english")
        >>> request = unmask.evaluation.EvaluationRequest(corpus=corpus, model=model, examples=1)
    """

    corpus: CorpusSpec
    model: ModelSource
    masks: Sequence[str] = MASKS
    examples: int = 1000
    seed: int = 0
    support: str | Sequence[str] = AUTO
    exact: bool = False
    precision: float | None = None
    max_passes: int | None = None
    methods: Sequence[str] = (ALL,)
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    corpus_name: str | None = None
    model_name: str | None = None

    def __post_init__(self) -> None:
        """Reject tokens of blanks that are given in two ways."""
        named = {
            "support": None if is_auto(self.support) else self.support,
            "exact": self.exact or None,
            "precision": self.precision,
            "max_passes": self.max_passes,
        }
        names = [name for name, value in named.items() if value is not None]
        if len(names) > 1 and names != ["precision", "max_passes"]:
            raise SupportError(f"{' and '.join(names)} exclude each other; give one of them")

    def tokens(self, vocabulary_size: int) -> tuple[str | tuple[str, ...], Sketch | None]:
        """The tokens of blanks, and the sketch that examples are estimated by, if they are."""
        aims: dict[str, Any] = {"precision": self.precision, "max_passes": self.max_passes}
        aims = {name: value for name, value in aims.items() if value is not None}
        sketch = Sketch(seed=self.seed, **aims)
        if not is_auto(self.support):
            return self.support if isinstance(self.support, str) else tuple(self.support), None
        is_large = isinstance(resolved(AUTO, 2, vocabulary_size), Sketch)
        is_sketched = not self.exact and (is_large or bool(aims))
        return WHOLE_VOCABULARY, sketch if is_sketched else None


@dataclass(frozen=True)
class Prepared:
    """A request with its corpus, its model, its examples, and what is done with each of them.

    The examples come one of each mask in turn: so has a run that is stopped early.
    """

    request: EvaluationRequest
    corpus: Corpus
    lm: LanguageModel
    pairs: tuple[MaskedPair, ...]
    kind: Evaluate

    def job(self, *, shard: Shard | None = None, **options: Any) -> Job:
        """The examples as rows of an input, which is known by the corpus."""
        records = [Record({EXAMPLE: pair}) for pair in self.pairs]
        sample = [record.row for record in records[:_SAMPLE]]
        identity = CorpusIdentity(self.kind.corpus, len(self.corpus.sentences), self.corpus.digest)
        return Job(
            kind=self.kind,
            input=InputRows([EXAMPLE], sample, records=records, identity=list(identity)),
            lm=self.lm,
            model_name=self.kind.model_name,
            dtype=self.request.model.dtype,
            shard=shard or Shard(),
            **options,
        )


def prepare(request: EvaluationRequest) -> Prepared:
    """Read the corpus, load the model, draw the examples.

    Args:
        request: What to measure.
    Returns:
        The examples and the plan of a run, for `evaluate`.
    Raises:
        CorpusError: No sentence of the corpus can be an example.
        MethodError: There is no such construction or option.
    Examples:
        >>> len(unmask.evaluation.prepare(request).pairs)
        1
    """
    # the names and numbers; which of them can be computed depends on the model
    constructions(request, list(CONSTRUCTIONS))
    request.tokens(0)
    if not request.masks:
        raise CorpusError(f"masks is empty; give {' or '.join(MASKS)}")
    corpus = read_corpus(request.corpus)
    corpus = replace(corpus, name=request.corpus_name or corpus.name)
    lm = request.model.load()
    support, sketch = request.tokens(lm.model.vocabulary_size)
    methods = constructions(request, sketchable() if sketch else list(CONSTRUCTIONS))
    if sketch is not None:
        advice = "leave it out, or give exact=True, which runs the whole vocabulary"
        check_sketched([one.method for one in methods], advice)
    pairs, draw = draw_examples(
        lm, corpus, masks=request.masks, limit=request.examples, seed=request.seed, support=support
    )
    kind = Evaluate(
        corpus=corpus.name,
        model_name=request.model_name or model_name(request.model.place),
        draw=draw,
        support=support,
        constructions=methods,
        half_tables=request.settings.half_tables,
        support_size=len(lm.support(support).ids),
        sketch=sketch,
        settings=request.settings,
    )
    return Prepared(request, corpus, lm, pairs, kind)


def draw_examples(
    lm: LanguageModel,
    corpus: Corpus,
    *,
    masks: Sequence[str],
    limit: int,
    seed: int,
    support: str | Sequence[str],
) -> tuple[tuple[MaskedPair, ...], dict[str, Any]]:
    """At most `limit` examples of every mask that this model can take; and `Evaluate.draw`."""
    by_mask = {
        mask: examples(lm, corpus.sentences, mask=mask, limit=limit, seed=seed, support=support)
        for mask in dict.fromkeys(masks)
    }
    turns = zip_longest(*(drawn.pairs for drawn in by_mask.values()))
    pairs = tuple(pair for pair in chain(*turns) if pair is not None)
    refused = {mask: dict(sorted(drawn.refused.items())) for mask, drawn in by_mask.items()}
    if not pairs:
        why = "; ".join(
            f"{mask}: " + ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            for mask, reasons in refused.items()
        )
        raise CorpusError(f"no sentence of {corpus.name} can be an example with this model: {why}")
    tokens = [[one.id, one.cloze.ids, one.cloze.positions, one.cloze.gold] for one in pairs]
    draw = {"masks": list(by_mask), "limit": limit, "seed": seed, "count": len(pairs)}
    return pairs, {**draw, "digest": sha256(tokens), "refused": refused}


def evaluate(
    prepared: Prepared,
    output: str | Path,
    *,
    shard: Shard | None = None,
    workers: "RayWorkers | None" = None,
    rows_per_unit: int | None = None,
    strict: bool = False,
    progress: bool | None = None,
    say: Callable[[str], object] | None = None,
) -> Result:
    """Measure the missing examples of a run's folder, which is created if it does not exist.

    Args:
        prepared: What `prepare` makes of a request.
        output: The folder; the same call continues a run that was interrupted.
        shard: The share of this process when several work on one folder.
        workers: Those of a cluster. Default: this process.
        rows_per_unit: Results are saved by so many examples. Default: by some seconds of work.
        strict: End the run at the first example that fails.
        progress: A bar on stderr, with rate and time left; None: only on a terminal.
        say: Called with a line on what the run takes, if that is long, and if parts are damaged.
    Returns:
        How many units are done and have failed.
    Raises:
        StoreError: The folder holds another run, or is in use.
    Examples:
        >>> prepared = unmask.evaluation.prepare(request)
        >>> unmask.evaluate(prepared, "results", progress=False).done
        1
    """
    job = prepared.job(shard=shard, rows_per_unit=rows_per_unit, strict=strict)
    return run_job(
        job,
        os.fspath(output),
        workers=workers,
        progress=progress,
        say=say or (lambda _: None),
        announce=None if progress is False else say,
    )


def constructions(request: EvaluationRequest, every: Sequence[str]) -> tuple[LabelledMethod, ...]:
    """The constructions of a request, of which `every` can be computed.

    With those of their options that are not what they are without.
    """
    names = [n for one in request.methods for n in (every if one == ALL else [one])]
    methods, options = check_methods(names, request.options)
    # other processes know the library's names, and what they can import
    for method in methods:
        if method not in CONSTRUCTIONS and not is_importable(method):
            raise MethodError(
                f"{method} exists only in this process; for a run, name the function by where "
                "it can be imported from, as package.module:function"
            )
    return tuple(
        LabelledMethod(
            method,
            {
                name: _as_stored(method, name, value)
                for name, value in options[method].items()
                if default_options(method).get(name, ...) != value
            },
        )
        for method in methods
    )


def _as_stored(method: str, name: str, value: object) -> object:
    """An option as it is read back from a plan: a label must be the same in every process."""
    try:
        return json.loads(canonical(value))
    except (TypeError, ValueError):
        raise MethodError(
            f"option {quoted(name)} of {quoted(method)} goes into the plan of the run: a number, a"
            f" text or a list of them, not {quoted(type(value).__name__)}"
        ) from None
