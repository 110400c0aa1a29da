"""JSON values as one text, its hash, and in what two of them differ. Knows nothing of plans."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unmask.printable import quoted

_DIGEST_SHOWN = 12


def canonical(values: Any) -> str:
    """JSON that is the same text for the same values: keys sorted, no spaces, ASCII."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(parts: Sequence[Any]) -> str:
    """The hash of JSON values."""
    return hashlib.sha256(canonical(parts).encode()).hexdigest()


def changes_between(stored: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """A sentence about each place in which two values differ."""
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        for name in sorted({*stored, *wanted}):
            inner = f"{path}.{name}" if path else name
            yield from changes_between(stored.get(name), wanted.get(name), inner)
    elif canonical(stored) != canonical(wanted):
        yield f"{path} is {_brief(stored)} there, {_brief(wanted)} here"


def _brief(value: Any) -> str:
    if isinstance(value, str) and len(value) == 64:
        return value[:_DIGEST_SHOWN]
    return quoted(value if isinstance(value, str) else canonical(value), limit=80)
