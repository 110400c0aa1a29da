"""The plan of a job, as a value: all that determines its rows, and nothing about where it runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unmask.errors import StoreError
from unmask.jobs.canonical import canonical, changes_between, sha256
from unmask.jobs.model_identity import ModelIdentity, model_changes
from unmask.printable import quoted

FORMAT = 2
_SHOWN_CHANGES = 5


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

    @property
    def digest(self) -> str:
        """The name of the plan in everything that it leaves."""
        return sha256([self.to_dict()])

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"format": FORMAT, **vars(self), "model": vars(self.model)}

    def to_json(self) -> str:
        """The same text for the same plan."""
        return canonical(self.to_dict())


def read_plan(text: str, shown: str) -> JobPlan:
    """Read back what `to_json` wrote; anything else is a `StoreError`."""
    try:
        values = json.loads(text)
        if values.pop("format") != FORMAT:
            raise ValueError("another version of unmask wrote it")
        return JobPlan(**{**values, "model": ModelIdentity(**values["model"])})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{shown} is not the plan of a job: {quoted(str(error))}") from None


def check_same(stored: JobPlan, wanted: JobPlan, shown: str) -> None:
    """Reject a plan that is not the stored one, and name the differences."""
    there, here = stored.to_dict(), wanted.to_dict()
    files = [_by_name(one.pop("input")) for one in (there, here)]
    for one in (there, here):
        del one["model"]
    changes = [
        *changes_between(there, here),
        *(_changed_files(*files) or _changed_namesakes(stored.input, wanted.input)),
        *model_changes(stored.model, wanted.model),
    ]
    if changes:
        more = len(changes) - _SHOWN_CHANGES
        listed = "; ".join(changes[:_SHOWN_CHANGES]) + (f"; and {more} more" if more > 0 else "")
        raise StoreError(
            f"{shown} holds the rows of another job: {listed}. Give another output, or request"
            " the same again"
        )


def _by_name(files: list[list[object]]) -> dict[str, list[object]]:
    return {str(name): [size, identity] for name, size, identity in files}


def _changed_namesakes(there: list[list[object]], here: list[list[object]]) -> list[str]:
    """Files in two folders may have one name; these are compared in their order."""
    for (name, *one), (_, *other) in zip(there, here, strict=False):
        if one != other:
            return [f"a file {quoted(str(name))} of the input has changed"]
    return [] if len(there) == len(here) else ["the input has another number of files"]


def _changed_files(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    changes = []
    for name in sorted({*there, *here}):
        if name not in here:
            changes.append(f"the input had {quoted(name)}, which is gone")
        elif name not in there:
            changes.append(f"the input did not have {quoted(name)}")
        elif there[name] != here[name]:
            changes.append(f"{quoted(name)} of the input has changed")
    return changes or ([] if list(there) == list(here) else ["the files have another order"])
