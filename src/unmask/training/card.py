"""The README.md of a tuned model: its source, its options and its evaluations."""

import json
from collections.abc import Mapping
from typing import Any

from unmask.markup import markdown
from unmask.printable import printable

_MEASURED = (
    ("loss", "loss, nats per masked token"),
    ("single_blanks", "that of texts with one blank"),
    ("compatibility", "compatibility penalty"),
    ("marginals", "divergence of marginals"),
)


def card(result: Mapping[str, Any]) -> str:
    """A model card, from what tuning.json will hold."""
    plan, record = result["plan"], result["record"]
    name, texts, tuning = plan["model"]["name"], plan["texts"], plan["tuning"]
    revision = plan["model"]["revision"]
    kept, first = result["kept"], record["evaluations"][0]
    corpora = plan["corpora"] or ["a corpus without a name"]
    head = {"library_name": "transformers", "pipeline_tag": "fill-mask", "tags": ["unmask"]}
    if revision is not None:
        head["base_model"] = name
    # JSON is YAML, and quotes any name
    front = "\n".join(f"{key}: {json.dumps(value)}" for key, value in head.items())
    options = ", ".join(f"{key} {_shown(value)}" for key, value in tuning.items())
    measured = "\n".join(
        f"| {what} | {_number(first[key])} | {_number(kept[key])} |" for key, what in _MEASURED
    )
    return f"""\
---
{front}
---

# {markdown(printable(name))}, tuned

{_model(plan["model"])}, trained further by `unmask tune` on
{texts["training"]:,} texts of {", ".join(markdown(printable(one)) for one in corpora)};
{texts["held_out"]:,} other texts were held out. Licences: those of that model and of the texts.

| on the held-out texts | before | this model |
|---|---|---|
{measured}

The weights are those after {kept["passes"]:,} of {record["passes"]:,} forward passes,
{record["pair_passes"]:,} of which were for pairs of blanks. Options: {options}.
Software: {result["software"]}. Everything else is in tuning.json.
"""


def _model(model: Mapping[str, Any]) -> str:
    name = markdown(printable(model["name"]))
    return f"{name} (revision {model['revision']})" if model["revision"] else name


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
