"""An evaluation: the request, the job made from it, and the rows that it writes to a folder."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.arguments import whole_number
from unmask.constructions import CONSTRUCTIONS, check_methods, construction, is_importable
from unmask.errors import CorpusError, MethodError, SupportError
from unmask.evaluation.kind import EXAMPLE, Evaluate
from unmask.evaluation.masks import MASKS, MaskedPair, examples
from unmask.evaluation.rows import WHOLE_VOCABULARY, LabelledMethod
from unmask.evaluation.run import CorpusIdentity
from unmask.jobs.folder import Shard
from unmask.jobs.model_source import ModelSource
from unmask.jobs.plan import canonical, sha256
from unmask.jobs.running import Job, Result, Say, run_job
from unmask.language_model import LanguageModel
from unmask.names import model_name
from unmask.printable import printable, quoted
from unmask.queries.sketched import check_sketched, sketchable
from unmask.records.corpora import Corpus, CorpusSpec, read_corpus
from unmask.records.files import InputRows
from unmask.records.rows import Record
from unmask.settings import Settings, Sketch
from unmask.tables.proposals import AUTO, is_auto, resolved

if TYPE_CHECKING:
    from unmask.jobs.ray_workers import RayWorkers

_INSTEAD = "leave it out, or give support='vocabulary', which runs all of it"
# all constructions that can be computed
ALL = "all"
# rows that the size of a unit is computed from
_SAMPLE = 8


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """An evaluation: a model, a corpus, which examples, and which constructions.

    At most `examples` per mask. `support` is that of `LanguageModel.joint`: by default examples are
    estimated from some contexts of the vocabulary, as a `Sketch` says, but for a vocabulary of at
    most 500 tokens, which is run whole; "vocabulary" always is, and other names and lists are exact
    too. `methods` are names; "all", the default, are those that can be computed so. `options` are
    those of a method, by its name. The `seed` decides examples and estimates. `corpus_name` and
    `model_name` are the names in tables; by default their own names, and for folders the last part
    of the path.

    Examples:
        >>> corpus = unmask.records.corpora.CorpusSpec("corpus.txt")
        >>> model = unmask.jobs.model_source.ModelSource(place="models/tiny-english")
        >>> from unmask.evaluation.request import EvaluationRequest
        >>> request = EvaluationRequest(corpus=corpus, model=model, examples=1)
    """

    corpus: CorpusSpec
    model: ModelSource
    masks: Sequence[str] = MASKS
    examples: int = 1000
    seed: int = 0
    support: str | Sequence[str] | Sketch = AUTO
    methods: Sequence[str] = (ALL,)
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    corpus_name: str | None = None
    model_name: str | None = None

    def constructions(self, every: Sequence[str]) -> tuple[LabelledMethod, ...]:
        """The constructions, of which `every` can be computed, with options unlike the defaults."""
        names = [n for name in self.methods for n in (every if name == ALL else [name])]
        methods, options = check_methods(names, self.options)
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
                    if construction(method).options.get(name, ...) != value
                },
            )
            for method in methods
        )

    def job(self, *, say: Say = lambda _: None, **options: Any) -> Job:
        """Read the corpus, load the model, and draw the examples, of which `say` gets a line.

        The examples are rows of an input, which is known by the corpus; `options` are those of
        `Job`.
        """
        if not isinstance(self.support, str | Sequence | Sketch):
            raise SupportError(
                f"support is a name, a list of tokens or a Sketch, not {quoted(self.support)}"
            )
        if (whole_number(self.examples) or 0) < 1:
            raise CorpusError(f"examples is a whole number from 1, not {quoted(self.examples)}")
        if not self.masks:
            raise CorpusError(f"masks is empty; give {' or '.join(MASKS)}")
        # what can be rejected before the corpus is read
        self.constructions(list(CONSTRUCTIONS))
        drawn_by = Sketch(seed=self.seed)
        corpus = read_corpus(self.corpus)
        corpus = replace(corpus, name=self.corpus_name or corpus.name)
        lm = self.model.load()
        spec, sketch = resolved(self.support, 2, lm.model.vocabulary_size), None
        if isinstance(spec, Sketch):
            sketch = replace(spec, seed=drawn_by.seed)
        methods = self.constructions(list(CONSTRUCTIONS) if sketch is None else sketchable())
        if sketch is not None:
            check_sketched([name for name, _ in methods], _INSTEAD)
        support: str | Sequence[str] = WHOLE_VOCABULARY
        if not (isinstance(self.support, Sketch) or is_auto(self.support)):
            support = self.support
        name = self.model_name or model_name(self.model.place)
        pairs, draw, facts = self._drawn(lm, corpus, support)
        say(printable(f"{name} on {corpus.name}: {facts}"))
        kind = Evaluate(
            corpus=corpus.name,
            model_name=name,
            draw=draw,
            support=support if isinstance(support, str) else tuple(support),
            constructions=methods,
            support_size=len(lm.support(support).ids),
            sketch=sketch,
            settings=replace(self.settings, progress=False, announce=False),
        )
        records = [Record({EXAMPLE: pair}) for pair in pairs]
        identity = CorpusIdentity(corpus.name, len(corpus.sentences), corpus.digest)
        sample = [record.row for record in records[:_SAMPLE]]
        return Job(
            kind=kind,
            input=InputRows([EXAMPLE], sample, records=records, identity=list(identity)),
            lm=lm,
            model_name=name,
            dtype=self.model.dtype,
            **options,
        )

    def _drawn(
        self, lm: LanguageModel, corpus: Corpus, support: str | Sequence[str]
    ) -> tuple[list[MaskedPair], dict[str, Any], str]:
        """The examples, masks taking turns since a run may be stopped; `Evaluate.draw`; in words.

        The words tell how many there are, why others were rejected, and how many have unknown ones.
        """
        limit, seed = self.examples, self.seed
        by_mask = {
            mask: examples(lm, corpus.sentences, mask=mask, limit=limit, seed=seed, support=support)
            for mask in dict.fromkeys(self.masks)
        }
        turns = chain(*zip_longest(*(drawn.pairs for drawn in by_mask.values())))
        pairs = [pair for pair in turns if pair is not None]
        refused = {mask: dict(sorted(drawn.refused.items())) for mask, drawn in by_mask.items()}
        every = [(mask, *each) for mask, reasons in refused.items() for each in reasons.items()]
        rejected = ", ".join(f"{count} {reason} ({mask})" for mask, reason, count in every)
        if not pairs:
            raise CorpusError(
                f"no sentence of {corpus.name} can be an example with this model: {rejected}"
            )
        facts = f"{len(corpus.sentences):,} distinct sentences"
        if skipped := [f"{count:,} {why}" for why, count in corpus.refused.items() if count]:
            facts += f" (and {', '.join(skipped)})"
        facts += f", {len(pairs):,} examples ({', '.join(by_mask)})"
        if rejected:
            facts += f"; rejected before the last: {rejected}"
        unk, clozes = lm.tokenizer.unk_token_id, [pair.cloze for pair in pairs]
        if unknown := sum(unk in (*cloze.ids, *(cloze.gold or ())) for cloze in clozes):
            mark = lm.tokenizer.convert_ids_to_tokens([unk])[0]
            facts += (
                f"; {unknown:,} of them hold words that the vocabulary has no token for ({mark})"
            )
        tokens = [
            [pair.id, pair.cloze.ids, pair.cloze.positions, pair.cloze.gold] for pair in pairs
        ]
        draw = {"masks": list(by_mask), "limit": limit, "seed": seed, "count": len(pairs)}
        return pairs, {**draw, "digest": sha256(tokens), "refused": refused}, facts


def evaluate(
    request: EvaluationRequest,
    output: str | Path,
    *,
    shard: Shard | None = None,
    workers: "RayWorkers | None" = None,
    rows_per_unit: int | None = None,
    strict: bool = False,
    progress: bool | None = None,
    say: Say = lambda _: None,
) -> Result:
    """Measure the missing examples of a run's folder, which is created if it does not exist.

    Args:
        request: What to measure.
        output: The folder; the same call continues a run that was interrupted.
        shard: The share of this process when several work on one folder.
        workers: Those of a cluster. Default: this process.
        rows_per_unit: Results are saved by so many examples. Default: by some seconds of work.
        strict: End the run at the first example that fails.
        progress: A bar on stderr, with rate and time left; None: only on a terminal.
        say: Called with a line on the examples, on what a long run takes, and on damaged parts.
    Returns:
        How many units are done and have failed.
    Raises:
        CorpusError: No sentence of the corpus can be an example.
        StoreError: The folder holds another run, or is in use.
    Examples:
        >>> unmask.evaluate(request, "results", progress=False).done
        1
    """
    job = request.job(say=say, shard=shard or Shard(), rows_per_unit=rows_per_unit, strict=strict)
    announce = None if progress is False else say
    place = os.fspath(output)
    return run_job(job, place, workers=workers, progress=progress, say=say, announce=announce)


def _as_stored(method: str, name: str, value: object) -> object:
    """An option as it is read back from a plan: a label must be the same in every process."""
    try:
        return json.loads(canonical(value))
    except (TypeError, ValueError):
        raise MethodError(
            f"option {quoted(name)} of {quoted(method)} goes into the plan of the run: a number, a"
            f" text or a list of them, not {quoted(type(value).__name__)}"
        ) from None
