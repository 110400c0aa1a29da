"""The table of a setting's examples, its numbers once more for the page's script, and the list of
those where constructions disagree most.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unmask.evaluation.reports.html.examples import SOUND, Example, Setting
from unmask.evaluation.reports.html.tables import captioned, construction, scrolled
from unmask.markup import Markup, element, joined, name, paragraph, text

FIRST = 200
MOST = 10
RULE = (
    "The rule: the highest pairwise NLL of the true pair less the lowest, in nats per token, among"
    f" {', '.join(SOUND[:-1])} and {SOUND[-1]} as far as they were measured without options. All"
    " of them give back the joint that has the model's conditionals, where there is one. So where"
    " they differ there is none, and each is a compromise (or a solver did not converge, which the"
    " notes above would say)."
)
_TOO_FEW = "Fewer than two of these constructions were measured here, so there is no spread."
_METRICS = {"pairwise_nll": "P-NLL", "unary_nll": "U-NLL"}


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: under which construction, if any, and with how many digits."""

    title: str
    construction: str | None
    digits: int
    number: Callable[[Example], float | None]

    def rounded(self, example: Example) -> float | None:
        """The number as the table shows it, and as the script gets it."""
        found = self.number(example)
        # adding zero: a rounded -0.0 is 0.0
        return None if found is None else round(found, self.digits) + 0


def number_columns(setting: Setting) -> list[NumberColumn]:
    """Distance, J and spread where there are any, then two NLLs a construction."""
    columns = [NumberColumn("distance", None, 0, lambda one: one.token_distance)]
    if any(one.incompatibility is not None for one in setting.examples):
        columns.append(NumberColumn("J", None, 4, lambda one: one.incompatibility))
    if any(one.spread is not None for one in setting.examples):
        columns.append(NumberColumn("spread", None, 3, lambda one: one.spread))
    return columns + [
        NumberColumn(title, label, 3, _metric(label, metric))
        for label in setting.constructions
        for metric, title in _METRICS.items()
    ]


def example_table(setting: Setting, colours: Mapping[str, str], *, key: str) -> Markup:
    """The first examples, as they are read without a script, and all of them for the script."""
    columns = number_columns(setting)
    count = len(setting.examples)
    caption = f"Examples: {setting.title}"
    body = joined(_row(columns, one) for one in setting.examples[:FIRST])
    table = element(
        "table",
        captioned(caption),
        element("thead", *_heads(columns, colours)),
        element("tbody", body),
    )
    shown = f"{min(FIRST, count):,} of {count:,} examples are shown."
    return element(
        "div",
        _controls(key, count),
        element("p", text(shown), class_="shown", role="status"),
        scrolled(table, label=caption),
        _data(setting, columns),
        class_="examples",
    )


def disagreement_table(setting: Setting, colours: Mapping[str, str]) -> Markup:
    """The examples of the largest spread, with what was lowest and highest."""
    found = setting.disagreements(MOST)
    if not found:
        return paragraph(_TOO_FEW)
    caption = f"Where constructions disagree most: {setting.title}"
    heads = ("example", "distance", "J", "spread", "lowest P-NLL", "highest P-NLL")
    table = element(
        "table",
        captioned(caption),
        element("thead", element("tr", *(element("th", text(h), scope="col") for h in heads))),
        element("tbody", joined(_disagreement(one, colours) for one in found)),
    )
    return scrolled(table, label=caption)


def script_data(values: object) -> Markup:
    """JSON for a script element: no `</script>`, no comment, nothing but ASCII."""
    written = json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for ch in "<>&":
        written = written.replace(ch, f"\\u{ord(ch):04x}")
    return Markup(written)


def _metric(label: str, metric: str) -> Callable[[Example], float | None]:
    return lambda one: one.rows[label].metric(metric) if label in one.rows else None


def _controls(key: str, count: int) -> Markup:
    """Hidden until the script that they need has run."""
    fields = [
        _field(f"{key}-filter", "ids with", "filter", type="search"),
        _field(f"{key}-from", "distance from", "from", type="number", min="0"),
        _field(f"{key}-to", "to", "to", type="number", min="0"),
    ]
    button = element("button", text(f"Show all {count:,}"), type="button", class_="all")
    return element("div", *fields, button, class_="controls", hidden=True)


def _field(key: str, label: str, class_: str, **attributes: str) -> Markup:
    said = element("label", text(label), for_=key)
    more = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return Markup(f'{said} <input id="{key}" class="{class_}"{more}>')


def _heads(columns: Sequence[NumberColumn], colours: Mapping[str, str]) -> list[Markup]:
    """Two rows: constructions over their two NLLs, everything else over both rows."""
    single = [(place, one) for place, one in enumerate(columns) if one.construction is None]
    above = [_head(0, "example", "example id", rowspan="2", sort="ascending")]
    above += [_head(at + 1, one.title, one.title, rowspan="2") for at, one in single]
    labels = dict.fromkeys(one.construction for one in columns if one.construction is not None)
    above += [
        element("th", construction(label, colours), colspan="2", scope="colgroup")
        for label in labels
    ]
    below = [
        _head(place + 1, one.title, f"{one.title} of {one.construction}")
        for place, one in enumerate(columns)
        if one.construction is not None
    ]
    return [element("tr", *above), element("tr", *below)]


def _head(
    column: int, title: str, label: str, *, rowspan: str = "1", sort: str | None = None
) -> Markup:
    button = element(
        "button", text(title), type="button", data_column=str(column), aria_label=label
    )
    return element("th", button, scope="col", rowspan=rowspan, aria_sort=sort or "none")


def _row(columns: Sequence[NumberColumn], example: Example) -> Markup:
    cells = [text(_shown(one.rounded(example), one.digits)) for one in columns]
    head = element("th", name(example.id), scope="row")
    return element("tr", head, *(element("td", cell) for cell in cells))


def _shown(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _disagreement(example: Example, colours: Mapping[str, str]) -> Markup:
    found = example.sound()
    ends = [
        Markup(f"{construction(row.construction, colours)} {row.metric('pairwise_nll'):.3f}")
        for row in (found[0], found[-1])
    ]
    numbers = [
        str(example.token_distance),
        _shown(example.incompatibility, 4),
        _shown(example.spread, 3),
    ]
    return element(
        "tr",
        element("th", name(example.id), scope="row"),
        *(element("td", text(one)) for one in numbers),
        *(element("td", one) for one in ends),
    )


def _data(setting: Setting, columns: Sequence[NumberColumn]) -> Markup:
    """By column, since names of numbers need not be repeated for every example."""
    values = {
        "first": FIRST,
        "ids": [one.id for one in setting.examples],
        "digits": [one.digits for one in columns],
        "numbers": [[one.rounded(example) for example in setting.examples] for one in columns],
    }
    return Markup(f'<script type="application/json">{script_data(values)}</script>')
