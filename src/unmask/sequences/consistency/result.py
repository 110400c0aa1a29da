"""`Consistency`: the answers of one model, and what is made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from unmask import __version__
from unmask.errors import ClozeError
from unmask.lazy import Guessable, computed_once, to_pandas
from unmask.printable import quoted
from unmask.progress import bar
from unmask.queries.joint_model import JointModel
from unmask.resampling import DEFAULT, Resampling
from unmask.sequences.consistency import cards
from unmask.sequences.consistency.measuring import (
    ConsistencyOptions,
    ContrastedText,
    measured,
    read_texts,
)
from unmask.sequences.consistency.statistics import (
    Row,
    Statistic,
    TextAnswers,
    by_text,
    differences,
    statistics,
    worst,
)
from unmask.settings import Settings

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Consistency(Guessable):
    """How far a model contradicts itself: a row per pair of blanks and per order of unmasking.

    `facts` say where the rows are from: model, corpus, options. Intervals are of a bootstrap over
    texts, by the `resampling`.

    Examples:
        >>> lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
        <Consistency of models/tiny-english: 1 texts, J = 0.054 bits between adjacent blanks>
    """

    rows: Sequence[Row]
    facts: Mapping[str, Any]
    resampling: Resampling = field(default=DEFAULT)

    def __repr__(self) -> str:
        """The model, how many texts, and J."""
        first = next(
            (f"J = {one.estimate.value:.3f} bits" for one in self._statistics), "no number"
        )
        texts = f"{len(self.answers)} texts"
        return (
            f"<Consistency of {self.facts.get('model')}: {texts}, {first} between adjacent blanks>"
        )

    @computed_once
    def answers(self) -> list[TextAnswers]:
        """The rows by text, without those that have no numbers."""
        return by_text(self.rows)

    @computed_once
    def _statistics(self) -> list[Statistic]:
        return statistics(self.answers, self.resampling)

    def statistics(self) -> list[Statistic]:
        """Every statistic that some text has a number for.

        Returns:
            Means over texts, with intervals, units and meanings.
        Examples:
            >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
            >>> answers.statistics()[0].title
            'J, adjacent blanks'
        """
        return list(self._statistics)

    def worst(self, n: int = 5) -> list[Row]:
        """The pairs of blanks on which the conditionals disagree most.

        Args:
            n: How many.
        Returns:
            Their rows, by falling J.
        Examples:
            >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
            >>> answers.worst(1)[0]["part"]
            'adjacent'
        """
        return worst(self.answers, n)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the statistics, and where they are from; without texts."""
        results = {one.key: one.to_dict() for one in self._statistics}
        return {"results": results, "config": {"unmask": __version__, **self.facts}}

    def to_pandas(self) -> "pd.DataFrame":
        """The rows as a data frame.

        Returns:
            A row per pair of blanks and per order of unmasking.
        Raises:
            ImportError: pandas is not installed.
        Examples:
            >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
            >>> list(answers.to_pandas()["part"])
            ['adjacent', 'random', 'order', 'order', 'order', 'order', 'order']
        """
        return to_pandas([dict(row) for row in self.rows])

    def table(self) -> str:
        """The statistics in aligned columns, and what they say in words.

        Returns:
            Text for a terminal.
        Examples:
            >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
            >>> print(answers.table().splitlines()[1][:18])
            J, adjacent blanks
        """
        return cards.table(self._statistics)

    def card(self, *, picture: str | None = None) -> str:
        """A card in Markdown, for people and for model cards on the Hugging Face Hub.

        Its YAML has the statistics as evaluation results.

        Args:
            picture: The file of the picture, if the card is to show one.
        Returns:
            Markdown with YAML in front.
        Examples:
            >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
            >>> print(answers.card().splitlines()[0])
            ---
        """
        facts = {"unmask": __version__, **self.facts}
        return cards.card(self._statistics, self.worst(), facts, picture)

    def compare(self, *others: "Consistency") -> str:
        """A table of this model beside others on the same texts, with paired differences.

        Args:
            others: What other models answered.
        Returns:
            Markdown: a column per model, and for each of the others its value less this one's.
        Examples:
            >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
            >>> print(answers.compare(answers).splitlines()[0].split(" | ")[2])
            models/tiny-english
        """
        gaps = [differences(one.answers, self.answers, self.resampling) for one in others]
        every = [(str(one.facts.get("model")), one.statistics()) for one in (self, *others)]
        return cards.comparison(every, gaps)

    def plot(self) -> "Figure":
        """J by distance, and how far orders of unmasking spread.

        Returns:
            A figure of matplotlib, which notebooks show.
        Raises:
            UnmaskError: matplotlib is not installed.
        Examples:
            >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
            >>> figure = answers.plot()
        """
        from unmask.plots.consistency import plot_consistency

        return plot_consistency(self)


def consistency_of(
    lm: JointModel,
    texts: Sequence[str],
    contrasts: Sequence[str | None] | None,
    options: ConsistencyOptions,
    settings: Settings | None = None,
) -> Consistency:
    """`LanguageModel.consistency`."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise ClozeError(f"texts is a list of texts, not {quoted(texts)}")
    others = [None] * len(texts) if contrasts is None else list(contrasts)
    if len(others) != len(texts):
        raise ClozeError(f"there are {len(texts)} texts but {len(others)} contrasts; give one each")
    items = read_texts(lm, list(zip(texts, others, strict=True)))
    for number, one in enumerate(items):
        if isinstance(one, str):
            raise ClozeError(f"text {number}: {one}")
    chosen, rows = settings or Settings(), list[Row]()
    inner = replace(chosen, progress=False, announce=False)
    with bar("consistency", unit="text", total=len(items), shown=chosen.progress) as counted:
        for item in items:
            assert isinstance(item, ContrastedText)
            (some,) = measured(lm, [item], options, inner)
            rows += [{**row, "text": item.text.text} for row in some]
            counted.update(1)
    return Consistency(rows, {"model": lm.name, "revision": lm.revision, **asdict(options)})
