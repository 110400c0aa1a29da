"""Tables in a safetensors file: elicited where the GPU is, studied on another machine.

No pickle: tensors plus one JSON header with the token names, where the tables came from and a
checksum over all of it.
"""

import json
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from unmask.durable import replacing
from unmask.errors import TablesFileError, UnmaskError
from unmask.printable import printable, quoted
from unmask.settings import DEFAULT_MEMORY_LIMIT, Settings
from unmask.tables.conditional import ConditionalTable, DenseLogits
from unmask.tables.file_checks import CHECKSUM, check_contents, checked_source, digest
from unmask.tables.pair_tables import PairTables

FORMAT = "unmask.tables.pair_tables/1"


def save_tables(tables: PairTables, path: str | Path) -> None:
    """Write both tables, the doubly masked distributions and the supports.

    The file is either complete or absent: it is written to a temporary file and renamed.

    Args:
        tables: What `LanguageModel.tables` gives; what was not computed yet is.
        path: The file.
    Examples:
        >>> tables = lm.tables("Two [MASK] are [MASK].", support=20)
        >>> unmask.save_tables(tables, "dogs.safetensors")
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
    header = {
        "format": FORMAT,
        "aliases": json.dumps(aliases),
        "names": json.dumps([list(axis.names) for axis in tables.supports]),
        "captured": json.dumps(masked.captured if masked else None),
        "provenance": json.dumps({**tables.diagnostics(), "versions": _versions()}, default=str),
    }
    header[CHECKSUM] = digest(own, header)
    try:
        with replacing(target) as unfinished:
            save_file(own, unfinished, metadata=header)
    except (OSError, SafetensorError) as error:
        raise TablesFileError(f"cannot write {quoted(str(path), limit=150)}: {error}") from None


def load_tables(
    path: str | Path,
    *,
    device: str | torch.device = "cpu",
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
) -> PairTables:
    """Read tables that `save_tables` wrote; nothing in the file can run code.

    Checks the checksum of everything that was saved, and that the parts fit each other.

    Args:
        path: The file.
        device: Where the tables go.
        memory_limit: Bytes that dense tables may take; larger ones are computed in blocks.
    Returns:
        The tables, without their model.
    Raises:
        TablesFileError: The file is damaged, changed, or not of this kind.
    Examples:
        >>> unmask.save_tables(lm.tables("Two [MASK] are [MASK].", support=20), "dogs.safetensors")
        >>> unmask.load_tables("dogs.safetensors").shape
        (20, 20)
    """
    shown = quoted(str(path), limit=150)
    tensors, texts = _read(path, torch.device(device), shown)
    if texts.get("format") != FORMAT:
        raise TablesFileError(
            f"{shown} is not a file of tables (format {quoted(texts.get('format'))}, this version"
            f" reads {quoted(FORMAT)}); give one that save_tables wrote"
        )
    try:
        check_contents(tensors, texts)
        return PairTables(checked_source(tensors, texts), Settings(memory_limit=memory_limit))
    except UnmaskError as error:
        raise TablesFileError(
            f"{shown} is damaged: {error}; take another copy of the file, or save the tables again"
        ) from None


def _read(
    path: str | Path, device: torch.device, shown: str
) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            tensors = {name: file.get_tensor(name).to(device) for name in names}
            return tensors, file.metadata() or {}
    except Exception as error:  # the library fails in many ways; all mean the same to the caller
        raise TablesFileError(
            f"cannot read tables from {shown}: {printable(str(error) or type(error).__name__)};"
            " give a file that save_tables wrote"
        ) from None


def _versions() -> dict[str, str]:
    return {"unmask": version("unmask"), "torch": torch.__version__}


def _parts(table: ConditionalTable) -> dict[str, Tensor]:
    logits = table.logits
    if isinstance(logits, DenseLogits):
        return {"log_normalizer": table.log_normalizer, "dense": logits.values}
    factors = {
        "left": logits.left,
        "right": logits.right,
        "bias_a": logits.bias_a,
        "bias_b": logits.bias_b,
    }
    kept = {name: tensor for name, tensor in factors.items() if tensor is not None}
    return {"log_normalizer": table.log_normalizer, **kept}


def _unshared(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Every storage once, and its other names: both tables share an embedding."""
    first: dict[tuple[object, ...], str] = {}
    storages: set[int] = set()
    own, aliases = {}, {}
    for name, tensor in tensors.items():
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if key in first:
            aliases[name] = first[key]
        else:
            first[key] = name
            plain = tensor.detach().contiguous()
            # views that overlap are written apart
            overlaps = plain.untyped_storage().data_ptr() in storages
            own[name] = plain.clone() if overlaps else plain
            storages.add(plain.untyped_storage().data_ptr())
    return own, aliases
