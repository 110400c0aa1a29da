"""The plan of a job: all that determines its rows, and nothing about where it runs."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from unmask.errors import StoreError
from unmask.lazy import computed_once
from unmask.printable import quoted

FORMAT = 2
_DIGEST_SHOWN, _SHOWN_CHANGES = 12, 5


def canonical(values: Any) -> str:
    """JSON that is the same text for the same values: keys sorted, no spaces, ASCII."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(values: Any) -> str:
    """The hash of JSON values."""
    return hashlib.sha256(canonical(values).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ModelIdentity:
    """A model wherever it lies: its name in tables, and whatever decides what it computes.

    `weights` and `vocabulary` are hashes; `config` and `tokenizer` are settings without names,
    paths and versions; None in runs that did not keep them.
    """

    name: str
    revision: str | None
    weights: str
    vocabulary: str
    dtype: str
    config: Mapping[str, Any] | None = None
    tokenizer: Mapping[str, Any] | None = None


# what users call the parts of a plan that have other names there
_ARGUMENTS = {
    "blanks": "blank",
    "constructions": "method",
    "corrected": "apc",
    "draw.limit": "examples",
    "draw.masks": "mask",
    "draw.seed": "seed",
    "methods": "method",
    "without_text": "no_text",
}

# another commit with the same content is the same model
IDENTITY = tuple(field.name for field in fields(ModelIdentity) if field.name != "revision")
# the part of an identity that decides what is computed
FUNCTION = ("config", "tokenizer", "weights")


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """A kind with its options, a model and an input.

    The input is identified by the name, size and content of each file; without files, by its
    content. It is cut into so many `units`, of `rows_per_unit` each. `software` names the versions:
    another one of torch may change the last digits.
    """

    kind: str
    options: Mapping[str, Any]
    model: ModelIdentity
    input: list[list[object]]
    rows_per_unit: int
    units: int
    software: str

    @classmethod
    def of_json(cls, text: str, where: str) -> "JobPlan":
        """Read back what `to_json` wrote; anything else is a `StoreError`."""
        try:
            values = json.loads(text)
            if values.pop("format") != FORMAT:
                raise ValueError("another version of unmask wrote it")
            return cls(**{**values, "model": ModelIdentity(**values["model"])})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreError(f"{where} is not the plan of a job: {quoted(str(error))}") from None

    def to_json(self) -> str:
        """The same text for the same plan."""
        return canonical({"format": FORMAT, **asdict(self)})

    @computed_once
    def digest(self) -> str:
        """The name of the plan in everything that it leaves."""
        return hashlib.sha256(f"[{self.to_json()}]".encode()).hexdigest()

    def check(self, wanted: "JobPlan", where: str) -> None:
        """Reject another plan for the place of this one, and name the differences."""
        apart = {"model": None, "input": None, "options": None}
        there, here = ({**asdict(p), **apart} for p in (self, wanted))
        changes = [
            *changes_between(there, here),
            *changes_between(self.options, wanted.options),
            *_input_changes(self.input, wanted.input),
            *model_changes(self.model, wanted.model),
        ]
        if changes:
            more = len(changes) - _SHOWN_CHANGES
            listed = "; ".join(changes[:_SHOWN_CHANGES]) + f"; and {more} more" * (more > 0)
            raise StoreError(
                f"{where} holds the rows of another job: {listed}. Give another output, or request"
                " the same again"
            )


def changes_between(
    stored: Any, wanted: Any, path: str = "", *, common: bool = False
) -> Iterator[str]:
    """A sentence about each place in which two values differ; of names in `common` alone."""
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        names = stored.keys() & wanted.keys() if common else stored.keys() | wanted.keys()
        for name in sorted(names):
            inner = f"{path}.{name}" if path else name
            yield from changes_between(stored.get(name), wanted.get(name), inner, common=common)
    elif canonical(stored) != canonical(wanted):
        there, here = (
            value[:_DIGEST_SHOWN]
            if isinstance(value, str) and len(value) == 64
            else quoted(value if isinstance(value, str) else canonical(value), limit=80)
            for value in (stored, wanted)
        )
        name = _ARGUMENTS.get(path, path.removeprefix("how."))
        yield f"{name} is {there} there, {here} here"


def _input_changes(stored: Sequence[list[Any]], wanted: Sequence[list[Any]]) -> Iterator[str]:
    there, here = ({tuple(file) for file in files} for files in (stored, wanted))
    before, now = ({str(name) for name, *_ in files} for files in (there, here))
    for name in sorted({str(name) for name, *_ in there ^ here}):
        if name in before & now:
            yield f"{quoted(name)} of the input has changed"
        elif name in before:
            yield f"the input had {quoted(name)}, which is gone"
        else:
            yield f"the input did not have {quoted(name)}"
    if there == here and stored != wanted:
        yield "the files of the input are in another order, or some more than once"


def model_changes(
    stored: ModelIdentity, here: ModelIdentity, names: Sequence[str] = IDENTITY
) -> Iterator[str]:
    """Sentences about what makes a model another one than the stored one.

    Settings are compared as far as both models have them: versions of libraries add others.
    """
    first, second = (
        {name: value for name in names if (value := getattr(model, name)) is not None}
        for model in (stored, here)
    )
    return changes_between(first, second, "model", common=True)
