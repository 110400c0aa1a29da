"""`fill`: the likeliest fills of every text."""

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unmask.constructions import METHOD_WITHOUT_TABLES, method_name
from unmask.errors import ClozeError, MethodError, SupportError, UnmaskError
from unmask.jobs.kinds import Kind, Work
from unmask.language_model import LanguageModel
from unmask.printable import quoted
from unmask.queries.fill_mask_output import of_tokens
from unmask.queries.joints import default_method, default_methods
from unmask.settings import Settings
from unmask.tables.proposals import resolved
from unmask.text.cloze import Cloze
from unmask.text.pieces import one_blank_for_each
from unmask.text.typed import blank, candidates, piece_prior

# all constructions that can be computed
ALL = "all"
# fields of a line that are read in place of the options
FIELDS = ("blanks", "method", "piece_prior", "support", "targets")
# the diagnostics that a reader of many lines needs
_DIAGNOSTICS = (
    *("forward_passes", "candidates", "captured_mass", "captured_mass_given_others"),
    *("search", "searched", "searched_mass", "converged", "pieces", "unknown_tokens"),
)

# how blanks were filled together
_STEPS = ("rule", "threshold", "groups", "forward_passes")

Row = dict[str, Any]
# the options of each method, by its name
MethodOptions = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class FillRequest:
    """The request for a text, from options or from the fields of its line."""

    blanks: Any = None
    method: Any = None
    support: Any = "auto"
    targets: Any = None
    piece_prior: Any = None

    def with_fields(self, fields: Row) -> "FillRequest":
        """The same with the fields of a line; its words replace candidates, and vice versa."""
        # an empty cell of a table is a field that is not there
        values = {n: _value(n, fields[n]) for n in FIELDS if fields.get(n) not in (None, "")}
        if "support" in values:
            values.setdefault("targets", None)
        elif "targets" in values:
            values["support"] = "auto"
        request = replace(self, **values)
        if "piece_prior" in values and request.targets is None:
            raise SupportError("the field piece_prior ranks targets, and there are none; give both")
        return request


def _value(name: str, value: object) -> object:
    """A value of JSON, or the text of a cell, which is read as an option is."""
    if not isinstance(value, str):
        return _keyed(value)
    match name:
        case "blanks":
            return [blank(value)]
        case "piece_prior":
            return piece_prior(value, name)
        case "support":
            return candidates(value)
        case "targets":
            return [word.strip() for word in value.split(",")]
    return value


def _keyed(value: object) -> object:
    """A value of JSON, whose keys are strings, with the keys of blanks or pieces as numbers."""
    if not isinstance(value, dict):
        return value
    return {int(k) if re.fullmatch("[0-9]{1,9}", k) else k: one for k, one in value.items()}


@dataclass(frozen=True)
class Together:
    """One fill per text, several blanks in a step: by a rule with its threshold, or in so many
    passes. Without a rule the dependence head decides, or if there is none what is measured.
    """

    rule: str | None = None
    threshold: float | None = None
    passes: float | None = None

    def fill(
        self, lm: LanguageModel, clozes: Sequence[Cloze], support: Any, settings: Settings
    ) -> list[Row]:
        """The fill of each text; all have one support."""
        by_head = self.passes is not None or lm.head is not None
        return lm.fill_together(
            clozes,
            rule=self.rule or ("head" if by_head else "mutual-information"),
            threshold=self.threshold,
            passes=self.passes,
            support=support,
            settings=settings,
        )


@dataclass(frozen=True)
class Answerer:
    """A model, and the request for every text that has none of its own."""

    lm: LanguageModel
    request: FillRequest
    how: MethodOptions
    top: int
    settings: Settings

    def read(self, fields: Row) -> tuple[Cloze, FillRequest]:
        """What a row asks for."""
        if not isinstance(fields.get("text"), str):
            raise ClozeError(f"its field 'text' is a string, not {quoted(fields.get('text'))}")
        request = self.request.with_fields(fields)
        return self.lm.cloze(fields["text"], blanks=request.blanks), request

    def answer(self, cloze: Cloze, request: FillRequest) -> Row:
        """The likeliest fills of a text, and how they were computed."""
        if request.targets is not None:
            return self._answer_words(cloze, request)
        cloze, _ = one_blank_for_each(cloze)
        name = self.method(cloze, request)
        joint = self.lm.joint(
            cloze,
            method=name,
            support=request.support,
            settings=self.settings,
            **self.how.get(name, {}),
        )
        fills = of_tokens(self.lm.tokenizer, cloze, joint.top(self.top), joint.method)
        agreement, diagnostics = joint.agreement(), joint.diagnostics
        return {
            "fills": fills,
            "method": diagnostics["method"],
            "incompatibility": None if agreement is None else agreement.bits,
            "diagnostics": {key: diagnostics[key] for key in _DIAGNOSTICS if key in diagnostics},
        }

    def method(self, cloze: Cloze, request: FillRequest) -> str:
        """The construction that answers it."""
        if request.method is None:
            return default_method(len(cloze.positions), request.support)
        return method_name(request.method)

    def _answer_words(self, cloze: Cloze, request: FillRequest) -> Row:
        name = method_name(request.method or METHOD_WITHOUT_TABLES)
        prior = {} if request.piece_prior is None else {"piece_prior": request.piece_prior}
        did = {**prior, "unknown_tokens": list(cloze.unknown)}
        fills = self.ranked_words(cloze, request, name)
        return {"fills": fills, "method": name, "incompatibility": None, "diagnostics": did}

    def ranked_words(self, cloze: Cloze, request: FillRequest, method: str) -> list[Row]:
        """The targets in the order of their probabilities, by one method with its options."""
        return self.lm.fill(
            cloze,
            top=self.top,
            method=method,
            support=request.support,
            targets=request.targets,
            piece_prior=request.piece_prior,
            settings=self.settings,
            **self.how.get(method, {}),
        )


@dataclass(frozen=True, kw_only=True)
class FillKind(Kind):
    """Texts with blanks, and a request for each that has none of its own.

    `settings` say how the model is run; of these, half tables change numbers.
    """

    request: FillRequest = field(default_factory=FillRequest)
    how: MethodOptions = field(default_factory=dict)
    top: int = 10
    together: Together | None = None
    settings: Settings = field(
        default_factory=lambda: Settings(progress=False, announce=False), compare=False
    )

    name, verb = "fill", "answered"
    row_seconds, runs_alone = 0.1, True
    optional_columns = FIELDS
    dropped_columns = FIELDS

    @property
    def output_columns(self) -> dict[str, str]:
        """The columns that it adds; fills and diagnostics are of no fixed shape."""
        return {
            "fills": "json",
            "method": "string",
            "incompatibility": "double",
            "diagnostics": "json",
            "reason": "string",
        }

    def options(self) -> dict[str, Any]:
        """Everything that determines the rows."""
        values = {**super().options(), "half_tables": self.settings.half_tables}
        plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
        return plain

    def _answerer(self, lm: LanguageModel) -> Answerer:
        return Answerer(lm, self.request, self.how, self.top, self.settings)

    def item(self, lm: LanguageModel, row: Mapping[str, Any]) -> tuple[Cloze, FillRequest]:
        """The cloze and the request of a row."""
        return self._answerer(lm).read(dict(row))

    def run(self, lm: LanguageModel, items: Sequence[tuple[Cloze, FillRequest]]) -> list[list[Row]]:
        """One row per text and method."""
        if self.together is not None:
            alike = itertools.groupby(items, key=lambda item: repr(item[1]))
            return [row for _, some in alike for row in self._together(lm, [*some], self.together)]
        answerer = self._answerer(lm)
        return [
            [self._row(answerer, cloze, replace(request, method=name)) for name in names]
            for cloze, request in items
            for names in [_names(lm, cloze, request)]
        ]

    def _together(self, lm: LanguageModel, items: Sequence[Any], how: Together) -> list[list[Row]]:
        """Texts with one request in the same batches; where that fails, one by one."""
        request: FillRequest = items[0][1]
        try:
            if (request.method, request.targets, request.piece_prior) != (None, None, None):
                raise MethodError("one fill of all blanks takes no method, and no targets")
            clozes = [one_blank_for_each(cloze)[0] for cloze, _ in items]
            fills = how.fill(lm, clozes, request.support, self.settings)
        except UnmaskError as error:
            if len(items) == 1:
                return [self.without(str(error))]
            return [row for one in items for row in self._together(lm, [one], how)]
        shared = {"incompatibility": None, "reason": None}
        return [
            [{"fills": [fill], "method": fill["method"], "diagnostics": did, **shared}]
            for fill in fills
            for did in [{key: fill.pop(key) for key in _STEPS if fill[key] != math.inf}]
        ]

    def _row(self, answerer: Answerer, cloze: Cloze, request: FillRequest) -> Row:
        try:
            return {**answerer.answer(cloze, request), "reason": None}
        except UnmaskError as error:
            return self.without(str(error))[0]

    @property
    def title(self) -> str:
        """The methods that were named."""
        names = self.request.method
        return ", ".join(names) if isinstance(names, list | tuple) else names or self.name

    def work(self, lm: LanguageModel, item: tuple[Cloze, FillRequest]) -> Work | None:
        """The forward passes of a text; those of words are not estimated."""
        cloze, request = item[0].one_token_each(), item[1]
        if request.targets is not None or self.together is not None:
            return None
        answerer = self._answerer(lm)
        names = [
            answerer.method(cloze, replace(request, method=name))
            for name in _names(lm, cloze, request)
        ]
        cost = lm.cost(
            cloze,
            methods=names,
            support=request.support,
            settings=self.settings,
            options={name: self.how.get(name, {}) for name in names},
            timed=False,
        )
        return Work(cost.forward_passes, len(cloze), cost.at_most)


def _names(lm: LanguageModel, cloze: Cloze, request: FillRequest) -> Sequence[Any]:
    """The methods of a text: one, several, or "all" that can be computed."""
    names = request.method if isinstance(request.method, list | tuple) else [request.method]
    blanks = len(cloze.one_token_each().positions)
    if blanks == 1 and request.targets is None:
        # every construction of one blank is the model's own distribution
        return [None if names[0] == ALL else names[0]]
    if ALL not in names:
        return names
    return default_methods(blanks, resolved(request.support, blanks, lm.model.vocabulary_size))
