"""Every example of a setting as numbers: what the page shows, sorts and filters.

Result rows hold ids, positions and numbers, and no text. Sentences come from the corpus, where the
report has it and was asked to show them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.constructions import CONSTRUCTIONS
from unmask.evaluation.reports.html.sentences import SentencePiece, sentence
from unmask.evaluation.reports.tables import shown_setting
from unmask.evaluation.rows import Group, ResultRow, grouped

# where these differ it is because the model's conditionals contradict each other
SOUND = tuple(name for name, one in CONSTRUCTIONS.items() if one.sound)
# examples that are shown at first, and without a script
_FIRST = 200
_METRICS = {"pairwise_nll": "P-NLL", "unary_nll": "U-NLL"}


@dataclass(frozen=True)
class Example:
    """One masked example: its result rows by construction, or the error of those that failed."""

    id: str
    token_distance: int
    incompatibility: float | None
    rows: Mapping[str, ResultRow]
    errors: Mapping[str, str]
    sentence: tuple[SentencePiece, ...]

    @property
    def spread(self) -> float | None:
        """The highest pairwise NLL minus the lowest among the sound constructions, if two have one.

        In nats per token.
        """
        rows = self.sound()
        return rows[-1].metric("pairwise_nll") - rows[0].metric("pairwise_nll") if rows else None

    def sound(self) -> list[ResultRow]:
        """Those of the sound constructions from the lowest pairwise NLL, none if there is one."""
        rows = [self.rows[label] for label in SOUND if label in self.rows]
        return sorted(rows, key=lambda row: row.metric("pairwise_nll")) if len(rows) > 1 else []


@dataclass(frozen=True)
class Setting:
    """The examples of one corpus, mask, model and support, in order of their ids."""

    group: Group
    constructions: tuple[str, ...]
    examples: tuple[Example, ...]

    @property
    def title(self) -> str:
        """What a reader calls it."""
        return shown_setting(self.group)

    def has(self, group: Group) -> bool:
        """Whether this group is one of its constructions."""
        return group.setting == self.group

    def disagreements(self, count: int) -> list[Example]:
        """The examples of the largest spread, the largest first, ties in order of ids."""
        spread = [(-one.spread, one.id, one) for one in self.examples if one.spread is not None]
        return [one for _, _, one in sorted(spread, key=lambda entry: entry[:2])[:count]]

    def failures(self) -> list[Example]:
        """The examples that have an error instead of some numbers."""
        return [one for one in self.examples if one.errors]


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: under which construction, if any, and with how many digits."""

    title: str
    construction: str | None
    digits: int
    number: Callable[[Example], float | None]

    def rounded(self, example: Example) -> float | None:
        """The number as the table shows it, and as the script gets it."""
        number = self.number(example)
        # adding zero: a rounded -0.0 is 0.0
        return None if number is None else round(number, self.digits) + 0


def number_columns(setting: Setting) -> list[NumberColumn]:
    """Distance, J and spread where there are any, then two NLLs per construction."""
    columns = [
        NumberColumn("distance", None, 0, lambda one: one.token_distance),
        NumberColumn("J", None, 4, lambda one: one.incompatibility),
        NumberColumn("spread", None, 3, lambda one: one.spread),
    ]
    return [
        *(one for one in columns if any(one.number(e) is not None for e in setting.examples)),
        *(
            NumberColumn(title, label, 3, _metric(label, metric))
            for label in setting.constructions
            for metric, title in _METRICS.items()
        ),
    ]


def script_data(setting: Setting, columns: Sequence[NumberColumn]) -> dict[str, Any]:
    """By column, since names of numbers need not be repeated for every example."""
    with_text = any(one.sentence for one in setting.examples)
    return {
        "first": _FIRST,
        "ids": [one.id for one in setting.examples],
        **({"sentences": [one.sentence for one in setting.examples]} if with_text else {}),
        "digits": [one.digits for one in columns],
        "numbers": [[one.rounded(example) for example in setting.examples] for one in columns],
    }


def settings_of(
    rows: Iterable[ResultRow], texts: Mapping[str, Mapping[str, str]] | None = None
) -> list[Setting]:
    """Result rows by setting, settings and constructions as they first appear.

    `texts` are sentences to show, by corpus and id.
    """
    text_by_id = texts or {}
    by_group: dict[Group, tuple[list[str], dict[str, list[ResultRow]]]] = {}
    for group, of_group in grouped(rows).items():
        constructions, by_id = by_group.setdefault(group.setting, ([], {}))
        constructions.append(group.construction)
        for row in of_group:
            by_id.setdefault(row.example_id, []).append(row)
    return [
        Setting(
            group,
            tuple(constructions),
            tuple(_example(by_id[one], text_by_id.get(group.corpus, {})) for one in sorted(by_id)),
        )
        for group, (constructions, by_id) in by_group.items()
    ]


def _example(rows: Sequence[ResultRow], texts: Mapping[str, str]) -> Example:
    # of the two tables, so that all constructions of an example share it
    shared = (row.incompatibility for row in rows if row.incompatibility is not None)
    return Example(
        id=rows[0].example_id,
        token_distance=rows[0].token_distance,
        incompatibility=next(shared, None),
        rows={row.construction: row for row in rows if not row.failed},
        errors={row.construction: row.reason for row in rows if row.reason is not None},
        sentence=sentence(rows[0], texts),
    )


def _metric(label: str, metric: str) -> Callable[[Example], float | None]:
    return lambda one: one.rows[label].metric(metric) if label in one.rows else None
