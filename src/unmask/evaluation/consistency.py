"""What a folder that `unmask consistency` wrote holds of a model."""

from typing import Any

from unmask.errors import StoreError, UnmaskError
from unmask.jobs.folder import place_of, read_progress, stored_plan
from unmask.jobs.kinds.consistency import ConsistencyKind
from unmask.jobs.parts import opened
from unmask.records import places
from unmask.sequences.consistency.result import Consistency


def read_consistency(folder: str) -> Consistency:
    """What a folder of parts holds of a model; one that is not whole is a `StoreError`."""
    shown, plan = places.shown(folder), stored_plan(folder)
    if plan is None or plan.kind != ConsistencyKind.name:
        raise StoreError(f"{shown} is not a folder that unmask consistency made")
    progress = read_progress(folder, plan)
    if missing := len(progress.done) - progress.count:
        raise StoreError(
            f"{missing:,} parts of {shown} are missing; repeat the command that began it"
        )
    rows: list[dict[str, Any]] = []
    for number in progress.stored:
        try:
            with places.open_file(place_of(folder, number)) as file:
                rows += opened(file.read()).read().to_pylist()
        except (UnmaskError, OSError, ValueError) as error:
            raise StoreError(f"cannot read {shown}: {error}; try again") from None
    facts = {
        "model": plan.model.name,
        "revision": plan.model.revision,
        "weights": plan.model.weights,
        "corpus": plan.options["corpus"],
        "limit": plan.options["limit"],
        "input": [str(one[-1]) for one in plan.input],
        **plan.options["measuring"],
        "software": sorted(progress.software),
    }
    return Consistency(tuple(rows), facts)
