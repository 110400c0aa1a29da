"""Tables in a safetensors file: elicited where the GPU is, studied elsewhere.

No pickle: tensors plus one JSON header with the token names, where the tables came from and a
checksum over all of it, which finds whatever was damaged or changed since.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from unmask.errors import TablesFileError
from unmask.printable import printable, quoted
from unmask.settings import DEFAULT_MEMORY_LIMIT, Settings
from unmask.tables.conditional import ConditionalTable, DenseLogits, FactoredLogits, Logits
from unmask.tables.pair_tables import PairTables
from unmask.tables.source import MaskedMarginals, StoredSource
from unmask.text.support import Support

FORMAT = "unmask.tables.pair_tables/1"
CHECKSUM = "checksum"
# numbers of a digest that are on the CPU at once, where tables are on a GPU
_DIGEST_CELLS = 2**24


def save_tables(tables: PairTables, path: str | Path) -> None:
    """Write both tables, the doubly masked distributions and the supports.

    The file appears whole or not at all: it is written beside its place and renamed.
    """
    target = Path(path)
    if not target.parent.is_dir():
        # before the tables are elicited: a wrong path must not cost hours
        raise TablesFileError(f"there is no folder {quoted(str(target.parent), limit=150)}")
    tensors: dict[str, Tensor] = {}
    masked = tables.masked if tables.has_masked() else None
    if masked is not None:
        tensors |= {"masked.a": masked.log_a, "masked.b": masked.log_b}
    for side, axis in zip("ab", tables.supports, strict=True):
        tensors[f"ids.{side}"] = axis.ids
    for name, table in (("a_given_b", tables.a_given_b), ("b_given_a", tables.b_given_a)):
        tensors |= {f"{name}.{part}": tensor for part, tensor in _parts(table).items()}
    own, aliases = _unshared(tensors)
    versions = {"unmask": version("unmask"), "torch": torch.__version__}
    header = {
        "format": FORMAT,
        "aliases": json.dumps(aliases),
        "names": json.dumps([list(axis.names) for axis in tables.supports]),
        "captured": json.dumps(masked.captured if masked else None),
        "provenance": json.dumps({**tables.diagnostics(), "versions": versions}, default=str),
    }
    header[CHECKSUM] = digest(own, header)
    partial = target.with_name(target.name + ".partial")
    try:
        save_file(own, partial, metadata=header)
        os.replace(partial, target)
    except (OSError, SafetensorError) as error:
        raise TablesFileError(f"cannot write {quoted(str(path), limit=150)}: {error}") from None


def load_tables(
    path: str | Path,
    *,
    device: str | torch.device = "cpu",
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
) -> PairTables:
    """Read tables that `save_tables` wrote; what is damaged or changed is a `TablesFileError`."""
    shown = quoted(str(path), limit=150)
    tensors, texts = _read(path, str(device), shown)
    if texts.get("format") != FORMAT:
        raise TablesFileError(
            f"{shown} is not a file of tables (format {quoted(texts.get('format'))}, this version"
            f" reads {quoted(FORMAT)}); give one that save_tables wrote"
        )
    if texts.get(CHECKSUM) != digest(tensors, texts):
        raise TablesFileError(
            f"{shown} is damaged: its content does not match its checksum; take another copy of"
            " the file, or save the tables again"
        )
    return PairTables(_source(tensors, texts), Settings(memory_limit=memory_limit))


def digest(tensors: Mapping[str, Tensor], texts: Mapping[str, str]) -> str:
    """SHA-256 over all tensors, by name, type, shape and bytes, and all texts but the checksum."""
    total = hashlib.sha256()
    covered = {name: text for name, text in texts.items() if name != CHECKSUM}
    total.update(json.dumps(covered, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        total.update(f"\n{json.dumps(name)} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        for part in tensor.detach().reshape(-1).split(_DIGEST_CELLS):
            total.update(part.cpu().view(torch.uint8).numpy().data)
    return total.hexdigest()


def _source(own: Mapping[str, Tensor], texts: Mapping[str, str]) -> StoredSource:
    aliases = json.loads(texts["aliases"])
    tensors = {**own, **{name: own[same] for name, same in aliases.items()}}
    names_a, names_b = json.loads(texts["names"])
    captured = json.loads(texts["captured"])
    return StoredSource(
        (Support(tensors["ids.a"], names_a), Support(tensors["ids.b"], names_b)),
        (_table(tensors, "a_given_b", "b"), _table(tensors, "b_given_a", "a")),
        captured and MaskedMarginals(tensors["masked.a"], tensors["masked.b"], tuple(captured)),
        json.loads(texts["provenance"]),
    )


def _table(tensors: Mapping[str, Tensor], name: str, given: Literal["a", "b"]) -> ConditionalTable:
    parts = {
        full.removeprefix(f"{name}."): tensor
        for full, tensor in tensors.items()
        if full.startswith(f"{name}.")
    }
    log_normalizer = parts.pop("log_normalizer")
    dense = parts.get("dense")
    logits: Logits = FactoredLogits(**parts) if dense is None else DenseLogits(dense)
    return ConditionalTable(logits, given, log_normalizer)


def _read(path: str | Path, device: str, shown: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt", device=device) as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except Exception as error:  # the library fails in many ways; all mean the same to the caller
        raise TablesFileError(
            f"cannot read tables from {shown}: {printable(str(error) or type(error).__name__)};"
            " give a file that save_tables wrote"
        ) from None


def _parts(table: ConditionalTable) -> dict[str, Tensor]:
    """What `_table` reads back."""
    logits = table.logits
    kept = {"dense": logits.values} if isinstance(logits, DenseLogits) else vars(logits)
    parts = {"log_normalizer": table.log_normalizer, **kept}
    return {name: tensor for name, tensor in parts.items() if tensor is not None}


def _unshared(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Every storage once, and which other names stand for it: both tables share an embedding."""
    first: dict[tuple[object, ...], str] = {}
    own, aliases = {}, {}
    for name, tensor in tensors.items():
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if key in first:
            aliases[name] = first[key]
        else:
            first[key] = name
            own[name] = tensor.detach().contiguous()
    return own, aliases
