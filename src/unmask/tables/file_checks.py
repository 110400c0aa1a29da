"""The checks of a saved file: all that was saved is there, and its parts fit each other.

A checksum covers every number and text, so numbers are not computed again: shapes, types and names
are checked for files that another program made.
Every check raises an `UnmaskError` that says what is wrong; which file it was is the caller's to
say. Knows nothing of files: only of tensors by name and texts of JSON.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from unmask.errors import UnmaskError
from unmask.printable import quoted
from unmask.tables.conditional import ConditionalTable, DenseLogits, FactoredLogits, Logits
from unmask.tables.source import MaskedMarginals, StoredSource
from unmask.text.support import Support

Tensors = dict[str, Tensor]
Contents = Mapping[str, str]
Shape = tuple[int, int]

CHECKSUM = "checksum"
_TEXTS = ("format", "aliases", "names", "captured", "provenance", CHECKSUM)
_INTEGERS = (torch.int32, torch.int64)
_EXACT = (torch.float32, torch.float64)
_FLOATS = (torch.float16, torch.bfloat16, torch.float64, torch.float32)

# numbers of a digest that are on the CPU at once, where tables are on a GPU
_DIGEST_CELLS = 2**24
# nobody writes a provenance this deep, and much deeper ones end Python's recursion
_DEEPEST = 32


def digest(tensors: Mapping[str, Tensor], texts: Contents) -> str:
    """SHA-256 over all tensors, by name, type, shape and bytes, and all texts but the checksum."""
    total = hashlib.sha256()
    hashed = {name: text for name, text in texts.items() if name != CHECKSUM}
    total.update(json.dumps(hashed, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        total.update(f"\n{json.dumps(name)} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        for part in tensor.detach().reshape(-1).split(_DIGEST_CELLS):
            total.update(part.cpu().view(torch.uint8).numpy().data)
    return total.hexdigest()


def check_contents(tensors: Mapping[str, Tensor], texts: Contents) -> None:
    """Reject texts that are missing or unknown, and a checksum that is not that of the rest."""
    if missing := [name for name in _TEXTS if name not in texts]:
        raise UnmaskError(f"it has no {missing[0]}")
    if unknown := sorted(texts.keys() - {*_TEXTS}):
        raise UnmaskError(f"it has {quoted(unknown[0])}, which tables do not have")
    if texts[CHECKSUM] != digest(tensors, texts):
        raise UnmaskError("its content does not match its checksum")


def checked_source(own: Mapping[str, Tensor], texts: Contents) -> StoredSource:
    """Tables of tensors and texts."""
    aliases, names, captured, provenance = (_parsed(texts, name) for name in _TEXTS[1:5])
    tensors = _with_aliases(own, aliases)
    if not (isinstance(names, list) and len(names) == 2):
        raise UnmaskError("its names are not those of two blanks")
    if not isinstance(provenance, dict):
        raise UnmaskError("its provenance does not have names")
    first, second = _support(tensors, "ids.a", names[0]), _support(tensors, "ids.b", names[1])
    shape = len(first), len(second)
    source = StoredSource(
        (first, second),
        (_table(tensors, "a_given_b", "b", shape), _table(tensors, "b_given_a", "a", shape)),
        None if captured is None else _marginals(tensors, captured, shape),
        provenance,
    )
    if tensors:
        raise UnmaskError(f"it has {quoted(min(tensors))}, which tables like these do not have")
    return source


def _parsed(texts: Contents, name: str) -> Any:
    try:
        value = json.loads(texts[name])
        too_deep = _depth(value) > _DEEPEST
    except (ValueError, RecursionError):
        raise UnmaskError(f"its {name} are not JSON that can be read") from None
    if too_deep:
        raise UnmaskError(f"its {name} is nested more than {_DEEPEST} deep")
    return value


def _depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_depth, inside), default=0) if isinstance(value, dict | list) else 0


def _with_aliases(own: Mapping[str, Tensor], aliases: Any) -> Tensors:
    """Tensors under all of their names: what two tables share is kept once."""
    are_valid = isinstance(aliases, dict) and all(
        name not in own and isinstance(same, str) and same in own for name, same in aliases.items()
    )
    if not are_valid:
        raise UnmaskError(f"its aliases {quoted(aliases)} do not name its tensors")
    return {**own, **{name: own[same] for name, same in aliases.items()}}


def _support(tensors: Tensors, part: str, names: Any) -> Support:
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise UnmaskError(f"the names of {part} are not texts")
    ids = _take(tensors, part, (len(names),), _INTEGERS)
    if bool((ids < 0).any()):
        raise UnmaskError(f"{part} does not hold ids from 0 on")
    # rejects an id that is there twice, and an axis without tokens
    return Support(ids, names)


def _table(tensors: Tensors, name: str, given: Literal["a", "b"], shape: Shape) -> ConditionalTable:
    logits, contexts = _logits(tensors, name, shape), shape[1 if given == "b" else 0]
    normalizer = _take(tensors, f"{name}.log_normalizer", (contexts,), _EXACT)
    return ConditionalTable(logits, given, normalizer)


def _logits(tensors: Tensors, name: str, shape: Shape) -> Logits:
    if f"{name}.dense" in tensors:
        return DenseLogits(_take(tensors, f"{name}.dense", shape, _FLOATS))
    (a, b), left = shape, tensors.get(f"{name}.left")
    width = left.shape[1] if left is not None and left.ndim == 2 else 0
    sizes = {"left": (a, width), "right": (b, width), "bias_a": (a,), "bias_b": (b,)}
    parts = {
        part: _take(tensors, f"{name}.{part}", size, _FLOATS)
        for part, size in sizes.items()
        if f"{name}.{part}" in tensors or not part.startswith("bias")
    }
    if len({part.dtype for part in parts.values()}) > 1:
        raise UnmaskError(f"the factors of {name} have several types")
    return FactoredLogits(**parts)


def _marginals(tensors: Tensors, captured: Any, shape: Shape) -> MaskedMarginals:
    shares = captured if isinstance(captured, list) else []
    # `type`: True is not a share; one may be rounded above 1
    if len(shares) != 2 or not all(type(one) in (int, float) and 0 <= one < 1.01 for one in shares):
        raise UnmaskError(f"its captured mass {quoted(captured)} is not two numbers from 0 to 1")
    log_a, log_b = (
        _take(tensors, f"masked.{side}", (size,), _EXACT)
        for side, size in zip("ab", shape, strict=True)
    )
    return MaskedMarginals(log_a, log_b, (float(shares[0]), float(shares[1])))


def _take(
    tensors: Tensors, name: str, shape: tuple[int, ...], types: tuple[torch.dtype, ...]
) -> Tensor:
    """Take the tensor of this name, shape and type; any that remain do not belong to tables."""
    tensor = tensors.pop(name, None)
    if tensor is None:
        raise UnmaskError(f"it has no {name}")
    if tuple(tensor.shape) != shape:
        raise UnmaskError(f"{name} has the shape {tuple(tensor.shape)}, not {shape}")
    if tensor.dtype not in types:
        held, wanted = (str(kind).removeprefix("torch.") for kind in (tensor.dtype, types[-1]))
        raise UnmaskError(f"{name} holds {held}, not {wanted}")
    return tensor
