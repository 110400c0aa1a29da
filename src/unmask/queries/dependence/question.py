"""A text whose places are mapped, and how: what every measure starts from."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.arguments import check_numbers
from unmask.errors import ClozeError, MethodError, SupportError
from unmask.model.row_reader import Outcomes, RowReader, UseDistributions
from unmask.names import ALPHABETS, MEASURES
from unmask.printable import quoted
from unmask.queries.dependence.dependence_map import DependenceMap, Place, numbers_of
from unmask.queries.joint_model import JointModel, read_cloze
from unmask.text.candidates import Candidates
from unmask.text.cloze import Blank, Cloze, checked_text
from unmask.text.residues import residues_as_blanks
from unmask.text.spans import checked_blanks
from unmask.text.support import Support
from unmask.text.words import every_word

Matrix = Float[Tensor, "places places"]

DEFAULT_MEASURE = "mutual-information"
DEFAULT_SAMPLES = 32


@dataclass(frozen=True)
class MapQuestion:
    """A text with its places: words or residues, or the blanks of a cloze.

    In a whole text (`is_whole`) the tokens of all places are known. Otherwise the places are
    blanks, and each is masked unless a measure writes something into it.
    """

    text: str
    ids: tuple[int, ...]
    places: tuple[Place, ...]
    is_whole: bool

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of tokens of each place."""
        return tuple(len(place.positions) for place in self.places)


# the number of a text, and places of it that are masked together while the others keep their tokens
Opening = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class MapOptions:
    """The measure, its support, the number of samples, and the largest distance of places.

    `by_head` is the measure `head`, of the model's own head.
    """

    measure: str
    support: Support
    samples: int = DEFAULT_SAMPLES
    window: int | None = None
    seed: int = 0
    by_head: "MeasureMaps | None" = None
    model: str = "masked LM"

    def __post_init__(self) -> None:
        """Reject what cannot be measured."""
        if self.measure not in MEASURES:
            raise MethodError(f"no measure {quoted(self.measure)}; measures: {', '.join(MEASURES)}")
        check_numbers(samples=self.samples, seed=self.seed)
        if self.window is not None:
            check_numbers(window=self.window)

    def map_of(
        self, question: MapQuestion, values: Matrix, passes: int, errors: Matrix | None = None
    ) -> DependenceMap:
        """The map of a text, from its numbers."""
        return DependenceMap(
            text=question.text,
            places=question.places,
            measure=self.measure,
            values=values,
            standard_errors=errors,
            forward_passes=passes,
            samples=min(self.samples, len(self.support)),
            model=self.model,
        )

    def pairs(self, question: MapQuestion) -> Iterator[tuple[int, int]]:
        """Every two places that are near enough."""
        for place in range(len(question.places)):
            yield from ((place, other) for other in self.near(question, place) if other > place)

    def openings(self, questions: Sequence[MapQuestion]) -> list[Opening]:
        """Places that are masked together: every two of a whole text, all blanks of another."""
        openings: list[Opening] = []
        for number, question in enumerate(questions):
            every = [tuple(range(len(question.places)))]
            together = self.pairs(question) if question.is_whole else every
            openings += [(number, places) for places in together]
        return openings

    def within(
        self, question: MapQuestion, values: Float[Tensor, "*maps places places"]
    ) -> Float[Tensor, "*maps places places"]:
        """The values of places that are near enough; the others are not a number."""
        positions = torch.tensor(numbers_of(question.places))
        distances = (positions[:, None] - positions).abs()
        far = distances > (distances.max() if self.window is None else self.window)
        return values.masked_fill(far.fill_diagonal_(True), math.nan)

    def near(self, question: MapQuestion, place: int) -> range:
        """The places that are near enough to one, itself included."""
        positions = numbers_of(question.places)
        if self.window is None:
            return range(len(positions))
        first = bisect_left(positions, positions[place] - self.window)
        return range(first, bisect_right(positions, positions[place] + self.window))

    def check(self, question: MapQuestion, name: str = "the text") -> None:
        """Reject a text that this measure has no number for."""
        if len(question.places) < 2:
            advice = "; for the residues of a protein, give support='amino-acids'"
            raise ClozeError(
                f"{name} has {len(question.places)} place; dependence is between two or more"
                + (advice if question.text.isalpha() and question.text.isupper() else "")
            )
        if self.measure == "pmi" and not question.is_whole:
            raise ClozeError(
                f"pmi is of the words that stand in a text, and {name} has blanks; give a whole "
                "text, or take the measure 'mutual-information'"
            )

    def forward_passes(self, question: MapQuestion) -> int:
        """The number of forward passes of a text, at most: of equal ones, one runs."""
        size, tokens = len(question.places), len(self.support)
        if self.measure == "jacobian":
            return size + size * min(self.samples, tokens)
        if self.measure == "pmi":
            return size + sum(1 for _ in self.pairs(question))
        if self.measure == "head":
            return sum(1 for _ in self.pairs(question)) if question.is_whole else 1
        # the pieces of a word are filled together: over few tokens there are more fills than tokens
        fills = [self.fills(width) for width in question.widths]
        if not question.is_whole:
            return 1 + sum(fills)
        return sum(1 + fills[first] + fills[second] for first, second in self.pairs(question))

    def fills(self, width: int) -> int:
        """The number of fills of a place of so many pieces that run, at most."""
        return min(self.samples, int(len(self.support) ** width))

    def is_counted(self, question: MapQuestion) -> bool:
        """True if just so many forward passes run, because no two of them can be equal."""
        if self.measure == "mutual-information":
            return self.is_exact(question)
        return self.measure in ("pmi", "head")

    def is_exact(self, question: MapQuestion) -> bool:
        """True if every token of every place is tried, so that nothing is estimated."""
        return len(self.support) <= self.samples and max(question.widths) == 1


MeasureMaps = Callable[[RowReader, Sequence[MapQuestion], MapOptions], Sequence[DependenceMap]]


def check_support(measure: str, support: object) -> None:
    """Reject candidates of a measure that takes none."""
    if measure == "pmi" and not isinstance(support, str):
        raise SupportError(
            "pmi is of the tokens that stand in the text, out of the whole vocabulary; leave "
            "support out, or take another measure"
        )


def read_question(
    lm: JointModel,
    text: str | Cloze,
    *,
    places: Sequence[Blank] | None = None,
    support: Candidates = "vocabulary",
) -> MapQuestion:
    """A text with the places that `dependence` is between, checked; the model does not run."""
    if places is not None:
        places = checked_blanks(places, "places")
        if isinstance(text, Cloze) or lm.tokenizer.mask_token in checked_text(text):
            raise ClozeError("the blanks of a text are its places; leave places out")
    if isinstance(text, Cloze):
        # its blanks were chosen, as places are
        return question_of(read_cloze(lm, text), lm.tokenizer, is_chosen=True)
    is_whole = lm.tokenizer.mask_token not in checked_text(text)
    if is_whole and isinstance(support, str) and support in ALPHABETS and support != "digits":
        written, blanks, names = residues_as_blanks(lm.tokenizer, text, lm.support().names, places)
        cloze = lm.cloze(written, blanks=blanks)
        return question_of(cloze, lm.tokenizer, names, is_chosen=places is not None)
    every = every_word(text, lm.tokenizer) if places is None and is_whole else places
    cloze = lm.cloze(text, blanks=every)
    return question_of(cloze, lm.tokenizer, is_chosen=places is not None)


def question_of(
    cloze: Cloze,
    tokenizer: Any = None,
    names: Sequence[str] | None = None,
    *,
    is_chosen: bool = False,
) -> MapQuestion:
    """The places of a cloze: what its blanks covered, or, if it was written with masks, blanks.

    Of places that were chosen (`is_chosen`), neighbours may be far apart in the text.
    """
    whole = cloze.gold is not None
    ids = tuple(cloze.filled(cloze.gold)) if cloze.gold is not None else cloze.ids
    spans = cloze.spans or ((None, None),) * len(cloze.blank_widths)
    places: list[Place] = []
    for n, (run, span) in enumerate(zip(cloze.positions_by_blank, spans, strict=True)):
        if names is not None:
            name = names[n]
        elif not whole:
            name = f"blank {n}"
        elif span[0] is not None:
            name = cloze.text[span[0] : span[1]]
        else:
            # its tokens, where characters are not known
            name = " ".join(map(str, tokenizer.convert_ids_to_tokens([ids[p] for p in run])))
        places.append(Place(name, run, *span, run[0] if whole and is_chosen else None))
    if whole:
        # in the order of the text, not of the names
        places.sort(key=lambda place: place.positions)
    return MapQuestion(cloze.text, ids, tuple(places), whole)


# --- rows --------------------------------------------------------------------------------------


def positions_of(question: MapQuestion, places: Iterable[int]) -> list[int]:
    """The positions of some places of a text, one place after another."""
    return [p for place in places for p in question.places[place].positions]


def masked_places(
    questions: Sequence[MapQuestion], openings: Sequence[Opening], mask_id: int
) -> tuple[
    Int[Tensor, "openings length"], Int[Tensor, "openings read"], Int[Tensor, "openings read"]
]:
    """A row per opening with its places masked, their positions, and the tokens that stood there.

    Texts have one length, and openings equally many positions.
    """
    ids = torch.tensor([questions[number].ids for number, _ in openings])
    positions = torch.tensor([positions_of(questions[n], places) for n, places in openings])
    return ids.scatter(1, positions, mask_id), positions, ids.gather(1, positions)


def read_places(
    reader: RowReader,
    ids: Int[Tensor, "rows length"],
    positions: Int[Tensor, "rows read"],
    outcomes: Outcomes,
    use: UseDistributions,
) -> None:
    """Show `use` the distributions at every position, some rows of one column at a time."""
    wanted, each = torch.ones(positions.shape, dtype=torch.bool), [outcomes] * positions.shape[1]
    reader.distributions(ids, positions, wanted, each, use)
