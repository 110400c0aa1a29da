"""What an evaluation is, as a value: whatever decides its numbers, and nothing about where it runs.

A plan is written as canonical JSON and known by the SHA-256 of that text, so that two machines
agree on it, and a run that was begun is not continued as another one. Knows nothing of models,
corpora and files beyond what identifies them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from unmask import __version__
from unmask.errors import StoreError
from unmask.evaluation.rows import SKETCHED_VOCABULARY
from unmask.jobs.canonical import canonical, changes_between
from unmask.jobs.model_identity import ModelIdentity, model_changes
from unmask.printable import quoted
from unmask.settings import Sketch

FORMAT = 1
_SHOWN_CHANGES = 5


@dataclass(frozen=True, kw_only=True)
class CorpusIdentity:
    """A corpus wherever it lies: its name in tables, and a hash of its sentences."""

    name: str
    digest: str
    sentences: int


@dataclass(frozen=True, kw_only=True)
class ExampleSelection:
    """Which examples: what was requested, and what came of it with this model and corpus.

    At most `limit` examples per mask; `count` of all masks together, and `digest` over their tokens
    and blanks. `refused` counts the sentences that came before the last example of a mask and
    could not be one, by mask and reason.
    """

    masks: tuple[str, ...]
    limit: int
    seed: int
    count: int
    digest: str
    refused: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Batch:
    """How many texts run together: a number, or as many as have so many tokens."""

    rows: int | None = None
    tokens: int | None = None

    def rows_for(self, length: int) -> int:
        """Texts of this length."""
        return self.rows if self.rows is not None else max(1, (self.tokens or 1) // length)


@dataclass(frozen=True)
class Construction:
    """A method and its options, under the label that result rows carry."""

    method: str
    options: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The method's name, with the options that were given."""
        listed = ", ".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        return f"{self.method}({listed})" if listed else self.method


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that decides the result rows of a run.

    A plan whose `batch` is None is a draft: its batch size is yet to be found, once for all.
    `support_size` is how many tokens a blank may have; plans of earlier versions have None.
    With a `sketch` examples are estimated from some contexts of the vocabulary.
    """

    model: ModelIdentity
    corpus: CorpusIdentity
    draw: ExampleSelection
    support: str | tuple[str, ...]
    constructions: tuple[Construction, ...]
    memory_limit: int
    half_tables: bool
    batch: Batch | None
    software: str = f"unmask {__version__}"
    support_size: int | None = None
    sketch: Sketch | None = None

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical JSON: the plan's name in every result row."""
        return hashlib.sha256(canonical(self.to_dict()).encode()).hexdigest()

    @property
    def support_name(self) -> str:
        """How result rows and tables name the support."""
        if isinstance(self.support, str):
            # another name, so that estimates and exact numbers are never averaged together
            return self.support if self.sketch is None else SKETCHED_VOCABULARY
        # a list of one token must not be taken for a name
        return ",".join(self.support) + ("," if len(self.support) == 1 else "")

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values."""
        values = {"format": FORMAT, **asdict(self), "model": self.model.to_dict()}
        for later in ("support_size", "sketch"):
            if values[later] is None:
                # the digest of a plan that was written without it is of a text without it
                del values[later]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Plan":
        """Read back what `to_dict` made; anything else is a `StoreError`."""
        found = values.get("format") if isinstance(values, Mapping) else None
        if found != FORMAT:
            raise StoreError(
                f"the plan has format {quoted(found)}, and this version reads {FORMAT}; use the"
                " version of unmask that wrote it"
            )
        try:
            return _plan({name: value for name, value in values.items() if name != "format"})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise StoreError(f"the plan is damaged: {quoted(str(error))}") from None


def check_same(stored: Plan, draft: Plan) -> None:
    """Reject a plan that is not the stored one, and say what differs.

    A draft takes whatever batch size the stored plan has: it is found once.
    """
    others = replace(
        draft,
        model=stored.model,
        batch=draft.batch or stored.batch,
        # support and vocabulary, which are compared, decide it
        support_size=stored.support_size,
    )
    changes = [
        *(said for _, said in changes_between(stored.to_dict(), others.to_dict())),
        *model_changes(stored.model, draft.model).values(),
    ]
    if changes:
        more = len(changes) - _SHOWN_CHANGES
        listed = "; ".join(changes[:_SHOWN_CHANGES]) + (f"; and {more} more" if more > 0 else "")
        raise StoreError(
            f"the output holds a run with another plan: {listed}. Give another --output, or request"
            " the same again"
        )


def _plan(values: dict[str, Any]) -> Plan:
    draw, support, batch = values["draw"], values["support"], values["batch"]
    sketch = values.get("sketch")
    return Plan(
        **{
            **values,
            "model": ModelIdentity.from_dict(values["model"]),
            "corpus": CorpusIdentity(**values["corpus"]),
            "draw": ExampleSelection(**{**draw, "masks": tuple(draw["masks"])}),
            "support": support if isinstance(support, str) else tuple(support),
            "constructions": tuple(Construction(**one) for one in values["constructions"]),
            "batch": None if batch is None else Batch(**batch),
            "sketch": None if sketch is None else Sketch(**sketch),
        }
    )
