"""`fill`: the likeliest fills of every text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unmask.constructions import METHOD_WITHOUT_TABLES, method_name
from unmask.errors import SupportError, UnmaskError
from unmask.jobs.kinds import InputColumns, Kind, Row, Rows, Work
from unmask.language_model import LanguageModel
from unmask.queries.fill_mask_output import of_tokens
from unmask.queries.joints import default_method, default_methods
from unmask.tables.proposals import resolved
from unmask.text.cloze import Cloze
from unmask.text.pieces import one_blank_for_each
from unmask.text.typed import field_value

# all constructions that can be computed
ALL = "all"
# fields of a line that are read in place of the options
FIELDS = ("blanks", "method", "piece_prior", "support", "targets")
# the diagnostics that a reader of many lines needs
_DIAGNOSTICS = (
    *("forward_passes", "candidates", "captured_mass", "captured_mass_given_others"),
    *("search", "searched", "searched_mass", "converged", "pieces", "unknown_tokens"),
)
_COLUMNS = {
    "fills": "json",
    "method": "string",
    "incompatibility": "double",
    "diagnostics": "json",
    "reason": "string",
}


@dataclass(frozen=True, kw_only=True)
class FillKind(Kind):
    """Texts with blanks, and how they are filled where a line does not say it.

    `method` is a name or several, `how` the options of each method by its name.
    """

    blanks: Any = None
    method: Any = None
    support: Any = "auto"
    targets: Any = None
    piece_prior: Any = None
    how: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    top: int = 10

    name, verb = "fill", "answered"
    row_seconds, runs_alone = 0.1, True
    input_columns = InputColumns(optional=FIELDS, dropped=FIELDS)
    output_columns = _COLUMNS

    def with_fields(self, fields: Mapping[str, Any]) -> "FillKind":
        """The same with the fields of a line; its words replace candidates, and vice versa."""
        # an empty cell of a table is a field that is not there
        names = [name for name in FIELDS if fields.get(name) not in (None, "")]
        values: dict[str, Any] = {name: field_value(name, fields[name]) for name in names}
        if "support" in values:
            values.setdefault("targets", None)
        elif "targets" in values:
            values["support"] = "auto"
        kind = replace(self, **values)
        if "piece_prior" in values and kind.targets is None:
            raise SupportError("the field piece_prior ranks targets, and there are none; give both")
        return kind

    def item(self, lm: LanguageModel, row: Row) -> tuple[Cloze, "FillKind"]:
        """The cloze of a row, and what it asks for."""
        kind = self.with_fields(row)
        return lm.cloze(row["text"] or "", blanks=kind.blanks), kind

    def run(self, lm: LanguageModel, items: Sequence[tuple[Cloze, "FillKind"]]) -> list[Rows]:
        """One row per text and method."""
        results = []
        for cloze, kind in items:
            results.append(rows := Rows())
            for name in kind.names(lm, cloze):
                try:
                    rows.append(kind.answer(lm, cloze, name))
                except UnmaskError as error:
                    # by another method there may be an answer
                    rows += self.without(str(error))
        return results

    def names(self, lm: LanguageModel, cloze: Cloze) -> list[str]:
        """The constructions of a text: one, several, or "all" that can be computed."""
        blanks, is_words = len(cloze.one_token_each().positions), self.targets is not None
        requested = list(self.method) if isinstance(self.method, list | tuple) else [self.method]
        if blanks == 1 and not is_words:
            # every construction of one blank is the model's own distribution
            requested = [None if requested[0] == ALL else requested[0]]
        elif ALL in requested:
            support = resolved(self.support, blanks, lm.model.vocabulary_size)
            requested = [*default_methods(blanks, support)]
        default = METHOD_WITHOUT_TABLES if is_words else default_method(blanks, self.support)
        return [default if name is None else method_name(name) for name in requested]

    def answer(self, lm: LanguageModel, cloze: Cloze, name: str) -> dict[str, Any]:
        """The row of a text and a construction; of words, if there are targets."""
        options: dict[str, Any] = {"support": self.support, "settings": self.settings}
        options |= {"method": name, **self.how.get(name, {})}
        if self.targets is not None:
            prior = {} if self.piece_prior is None else {"piece_prior": self.piece_prior}
            fills = lm.fill(cloze, top=self.top, targets=self.targets, **prior, **options)
            diagnostics = {**prior, "unknown_tokens": list(cloze.unknown)}
            return {"fills": fills, "method": name, "diagnostics": diagnostics}
        cloze, _ = one_blank_for_each(cloze)
        joint = lm.joint(cloze, **options)
        agreement, facts = joint.agreement(), joint.diagnostics
        return {
            "fills": of_tokens(lm.tokenizer, cloze, joint.top(self.top), joint.method),
            "method": facts["method"],
            "incompatibility": None if agreement is None else agreement.bits,
            "diagnostics": {key: facts[key] for key in _DIAGNOSTICS if key in facts},
        }

    def work(self, lm: LanguageModel, item: tuple[Cloze, "FillKind"]) -> Work | None:
        """The forward passes of a text; those of words are not estimated."""
        cloze, kind = item[0].one_token_each(), item[1]
        if kind.targets is not None:
            return None
        names = kind.names(lm, cloze)
        options: Any = {name: self.how.get(name, {}) for name in names}
        cost_options: Any = {"support": kind.support, "settings": self.settings, "timed": False}
        cost = lm.cost(cloze, methods=names, options=options, **cost_options)
        return Work(cost.forward_passes, len(cloze), cost.at_most)
