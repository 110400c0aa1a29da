"""`Consistency`: the answers of one model, and what is made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from unmask import __version__
from unmask.arguments import as_list
from unmask.errors import ClozeError
from unmask.lazy import computed_once
from unmask.printable import quoted
from unmask.progress import bar
from unmask.queries.joint_model import JointModel
from unmask.resampling import DEFAULT, Resampling
from unmask.results import ModelResult, data_frame
from unmask.sequences.consistency import statistics
from unmask.sequences.consistency.measuring import (
    ConsistencyOptions,
    ContrastedText,
    measured,
    read_texts,
)
from unmask.sequences.consistency.statistics import Numbers, Row, Statistic
from unmask.settings import Settings

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# pairs of blanks that a card shows
_WORST = 5


@dataclass(frozen=True, eq=False)
class Consistency(ModelResult):
    """The contradictions of a model: a row per pair of blanks and per order of unmasking.

    `facts` name the model, the corpus and the options. Intervals are of a bootstrap over
    texts, by the `resampling`. `numbers` are what is measured of each text, by its id, `statistics`
    their means; printed, they are a table with the same in words.

    Examples:
        >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
        >>> answers
        <Consistency of models/tiny-english: 1 texts, J = 0.026 bits between adjacent blanks>
        >>> answers.statistics[0].title
        'J, adjacent blanks'
        >>> list(answers.to_pandas()["part"])
        ['adjacent', 'random', 'order', 'order']
    """

    rows: Sequence[Row]
    facts: Mapping[str, Any]
    resampling: Resampling = field(default=DEFAULT)

    def __repr__(self) -> str:
        """The model, how many texts, and J."""
        j = next(
            (f"J = {statistic.estimate.value:.3f} bits" for statistic in self.statistics),
            "no number",
        )
        about = f"{self.facts.get('model')}: {len(self.numbers)} texts"
        return f"<Consistency of {about}, {j} between adjacent blanks>"

    def __str__(self) -> str:
        """The statistics in aligned columns, and what they say in words."""
        return statistics.table(self.statistics)

    def _repr_html_(self) -> str:
        """The same as a table in HTML, for notebooks."""
        from unmask.plots.consistency import to_html

        return to_html(self)

    @computed_once
    def numbers(self) -> Numbers:
        """The numbers measured of each text, by its id."""
        return statistics.numbers_of(self.rows)

    @computed_once
    def statistics(self) -> list[Statistic]:
        """Means over texts, with intervals, units and meanings."""
        return statistics.statistics(self.numbers, self.resampling)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the statistics, and where they are from; without texts."""
        results = {statistic.key: statistic.to_dict() for statistic in self.statistics}
        return {"results": results, "config": {"unmask": __version__, **self.facts}}

    def to_pandas(self) -> "pd.DataFrame":
        """A data frame with a row per pair of blanks and per order of unmasking."""
        return data_frame(dict(row) for row in self.rows)

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
        pairs = [row for row in self.rows if row.get("incompatibility") is not None]
        worst = sorted(pairs, key=lambda row: (-row["incompatibility"], row["text_id"]))[:_WORST]
        return statistics.card(self.statistics, worst, self.to_dict()["config"], picture)

    def compare(self, *others: "Consistency") -> str:
        """A table of this model beside others on the same texts, with paired differences.

        Args:
            others: What other models answered.
        Returns:
            Markdown: a column per model, and for each of the others its value minus this one's.
        Examples:
            >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
            >>> print(answers.compare(answers).splitlines()[0].split(" | ")[2])
            models/tiny-english
        """
        gaps = [statistics.differences(o.numbers, self.numbers, self.resampling) for o in others]
        every = [
            (str(answers.facts.get("model")), answers.statistics) for answers in (self, *others)
        ]
        return statistics.comparison(every, gaps)

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
    texts, contrasts = as_list(texts), as_list(contrasts)
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise ClozeError(f"texts is a list of texts, not {quoted(texts)}")
    if isinstance(contrasts, str):
        raise ClozeError(f"contrasts is a list of texts, not {quoted(contrasts)}")
    others = [None] * len(texts) if contrasts is None else list(contrasts)
    if len(others) != len(texts):
        raise ClozeError(f"there are {len(texts)} texts but {len(others)} contrasts; give one each")
    items: list[ContrastedText] = []
    for number, item in enumerate(read_texts(lm, list(zip(texts, others, strict=True)))):
        if isinstance(item, str):
            raise ClozeError(f"text {number}: {item}")
        items.append(item)
    settings, rows = Settings.of(settings), list[Row]()
    inner = replace(settings, progress=False, announce=False)
    with bar("consistency", unit="text", total=len(items), shown=settings.progress) as counted:
        for item in items:
            of_item = measured(lm, item, options, inner)
            rows += [{**row, "text": item.text.text} for row in of_item]
            counted.update(1)
    return Consistency(rows, {"model": lm.name, "revision": lm.revision, **asdict(options)})
