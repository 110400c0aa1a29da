"""How `unmask fill` shows joints: a table for people, JSON for programs."""

import json
from typing import TYPE_CHECKING

from unmask.printable import columns, printable

if TYPE_CHECKING:
    from unmask.cloze import Cloze
    from unmask.joint import Joint
    from unmask.language_model import LanguageModel

Joints = dict[str, "Joint"]


def as_table(joints: Joints, top: int) -> str:
    """The likeliest fills of every joint side by side, and below them how far to trust them."""
    header = ["rank"]
    for name, joint in joints.items():
        header += [name, *[""] * (len(joint.supports) - 1), "prob"]
    fills = [joint.top(top) for joint in joints.values()]
    rows = [header]
    for rank in range(max(len(ranked) for ranked in fills)):
        row = [str(rank + 1)]
        for ranked in fills:
            row += [*map(printable, ranked[rank].tokens), f"{ranked[rank].probability:.4f}"]
        rows.append(row)
    return "\n".join([columns(rows), *_notes(joints)])


def _notes(joints: Joints) -> list[str]:
    lines = []
    agreement = next(iter(joints.values())).agreement()
    if agreement is not None:
        lines.append(f"J = {agreement.bits:.3f} bits: {agreement.words()}")
    dependent = {
        name: joint.mutual_information(base_two=True)
        for name, joint in joints.items()
        if len(joint.supports) > 1 and joint.sums_are_free()
    }
    if dependent:
        said = ", ".join(f"{abs(value):.2f} bits ({name})" for name, value in dependent.items())
        lines.append(f"mutual information: {said}")
    return ["", *lines] if lines else []


def as_json(lm: "LanguageModel", cloze: "Cloze", joints: Joints, top: int) -> str:
    """Everything, with fill-mask's keys for the fills."""
    results: dict[str, object] = {}
    for name, joint in joints.items():
        agreement = joint.agreement()
        free = joint.sums_are_free()
        results[name] = {
            "fills": lm.ranked(cloze, joint, top),
            "entropy": joint.entropy() if free else None,
            "mutual_information": joint.mutual_information() if free else None,
            "incompatibility": None if agreement is None else agreement.bits,
            "verdict": None if agreement is None else agreement.words(),
            "diagnostics": joint.diagnostics,
        }
    # ASCII escapes keep every control character inert, whatever reads this next
    return json.dumps(
        {"model": lm.name, "text": cloze.text, "blanks": len(cloze.positions), "results": results},
        indent=2,
        allow_nan=False,
    )
