"""`score_variants`: the scores of many variants, whose forward passes run once for all of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice

from unmask.arguments import whole_number
from unmask.errors import MethodError, UnmaskError
from unmask.lazy import Guessable
from unmask.model.row_reader import RowReader
from unmask.names import DEFAULT_VARIANT_METHOD
from unmask.printable import quoted
from unmask.queries.joint_model import JointModel
from unmask.sequences.residues import Mutation
from unmask.sequences.variants.cubes import LARGEST_BLOCK
from unmask.sequences.variants.methods import (
    Scorer,
    method_of_variants,
    requests_of,
    single_scores,
)
from unmask.sequences.variants.reading import Variant, VariantReader
from unmask.sequences.variants.rows import Answers, Requests, run_rows
from unmask.settings import Settings
from unmask.text.candidates import Candidates

DEFAULT_SUPPORT = "amino-acids"
# variants that are read together, so that they can share forward passes
VARIANTS_AT_ONCE = 4096
# forward passes whose numbers are kept at once, some kilobytes each
_ROWS_AT_ONCE = 2**16


@dataclass(frozen=True, kw_only=True)
class VariantScore(Guessable):
    """The log-odds of a variant against the wild type, in nats, by one method.

    `single_scores` are those of each mutation as a variant of its own, by the same method and in
    the same window, in the order of positions, and `interaction` (epistasis) is the score minus
    their sum: None for one mutation, and by `mutant-marginals` and `pll`, whose single mutants
    would be runs of their own.
    `spread` is the standard deviation over orders by `hcb-path`. `incompatibility` is J, from 0 to
    1, None without tables. `forward_passes` are those that the variant takes on its own, `blocks`
    into how many the mutations were cut, and `window` the first and last position that the model
    read, None if it read all. If there is a `reason`, there is no score.

    Examples:
        >>> lm.variants("MKTAYIAKQR", "A5G").reason
        'A5G: the sequence has Y at position 5, not A'
    """

    mutations: tuple[Mutation, ...] = ()
    method: str = DEFAULT_VARIANT_METHOD
    score: float | None = None
    single_scores: tuple[float, ...] | None = None
    interaction: float | None = None
    spread: float | None = None
    incompatibility: float | None = None
    forward_passes: int = 0
    blocks: int | None = None
    window: tuple[int, int] | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        listed = {
            name: None if values[name] is None else list(values[name])
            for name in ("single_scores", "window")
        }
        return {**values, **listed, "mutations": list(map(str, self.mutations))}


def score_variants(
    lm: JointModel,
    variants: Iterable[str | Mapping[str, object]],
    sequence: str | None = None,
    *,
    method: str = DEFAULT_VARIANT_METHOD,
    support: Candidates = DEFAULT_SUPPORT,
    largest_block: int = LARGEST_BLOCK,
    settings: Settings | None = None,
) -> Iterator[VariantScore]:
    """`LanguageModel.variants` of any number of variants.

    Variants are read some thousands at a time, as the scores are iterated over.
    """
    name = method_of_variants(method)
    largest = checked_block(largest_block)
    reader = VariantReader(lm, sequence, support)
    return _scored(lm, variants, reader, name, largest, settings or Settings())


def checked_block(largest: object) -> int:
    """The number of mutations of a block."""
    size = whole_number(largest)
    if size is None or not 1 <= size <= LARGEST_BLOCK:
        raise MethodError(f"a block has from 1 to {LARGEST_BLOCK} mutations, not {quoted(largest)}")
    return size


def _scored(
    lm: JointModel,
    variants: Iterable[object],
    reader: VariantReader,
    method: str,
    largest: int,
    settings: Settings,
) -> Iterator[VariantScore]:
    source = iter(variants)
    while window := list(islice(source, VARIANTS_AT_ONCE)):
        reader.forget()
        parsed = [reader.read_or_reason(one) for one in window]
        good = [one for one in parsed if isinstance(one, Variant)]
        scores = iter(scores_by_methods(lm, good, [method], largest=largest, settings=settings))
        for one in parsed:
            if isinstance(one, str):
                yield VariantScore(method=method, reason=one)
            else:
                yield next(scores)[method]


def scores_by_methods(
    lm: JointModel,
    variants: Sequence[Variant],
    methods: Sequence[str],
    *,
    largest: int = LARGEST_BLOCK,
    settings: Settings,
) -> list[dict[str, VariantScore]]:
    """The scores of variants that were read, by the names of methods; rows are shared by all."""
    scores: dict[int, dict[str, VariantScore]] = {}
    # neighbours share rows
    order = sorted(range(len(variants)), key=lambda n: _sort_key(variants[n]))
    reader = RowReader(lm.model, settings)
    with reader.counted(", ".join(methods)):
        for chunk, requests, passes in _chunks(variants, order, methods, largest):
            answers = run_rows(reader, requests)
            scores |= _score_chunk(variants, chunk, methods, largest, answers, passes)
    return [scores[number] for number in range(len(variants))]


def count_passes(
    variants: Sequence[Variant], methods: Sequence[str], largest: int
) -> tuple[int, int]:
    """The forward passes of variants that run together, and of how many: not all of very many."""
    passes = counted = 0
    order = sorted(range(len(variants)), key=lambda n: _sort_key(variants[n]))
    for chunk, requests, _ in _chunks(variants, order, methods, largest):
        passes, counted = passes + len(requests), counted + len(chunk)
        if passes >= _ROWS_AT_ONCE:
            break
    return passes, counted


def _sort_key(variant: Variant) -> tuple[object, ...]:
    frame = variant.frame
    return frame.residues, frame.first, [one.place for one in variant.changes]


# of each variant, by method
Passes = dict[tuple[int, str], int]


def _chunks(
    variants: Sequence[Variant], order: Sequence[int], methods: Sequence[str], largest: int
) -> Iterator[tuple[list[int], Requests, Passes]]:
    """Variants whose rows are run together: as many as are kept at once, and at least one."""
    chunk: list[int] = []
    requests, passes = Requests(), Passes()
    for number in order:
        own = {method: requests_of(variants[number], method, largest) for method in methods}
        more = sum(len(one) for one in own.values())
        if chunk and len(requests) + more > _ROWS_AT_ONCE:
            # all of them may be there already
            new = {row for one in own.values() for row in one.places if row not in requests.places}
            if len(requests) + len(new) > _ROWS_AT_ONCE:
                yield chunk, requests, passes
                chunk, requests, passes = [], Requests(), Passes()
        chunk.append(number)
        for method, one in own.items():
            passes[number, method] = len(one)
            requests.update(one)
    if chunk:
        yield chunk, requests, passes


def _score_chunk(
    variants: Sequence[Variant],
    chunk: Sequence[int],
    methods: Sequence[str],
    largest: int,
    answers: Answers,
    passes: Passes,
) -> dict[int, dict[str, VariantScore]]:
    scorer = Scorer(answers, largest)
    scorer.prepare([variants[number] for number in chunk], methods)
    return {
        number: {
            method: _score(scorer, variants[number], method, answers, passes[number, method])
            for method in methods
        }
        for number in chunk
    }


def _score(
    scorer: Scorer, variant: Variant, method: str, answers: Answers, passes: int
) -> VariantScore:
    unscored = VariantScore(
        mutations=variant.mutations, method=method, forward_passes=passes, window=variant.window
    )
    try:
        numbers = scorer.score(variant, method)
    except UnmaskError as error:
        return replace(unscored, reason=str(error))
    if not numbers.converged:
        return replace(unscored, reason=f"{method} has not converged")
    singles = single_scores(variant, method, answers.log_prob)
    several = len(variant.mutations) > 1
    return replace(
        unscored,
        score=numbers.score,
        single_scores=singles,
        interaction=numbers.score - sum(singles) if several and singles is not None else None,
        spread=numbers.spread,
        incompatibility=numbers.incompatibility,
        blocks=numbers.blocks,
    )
