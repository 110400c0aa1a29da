"""Rows that scripts measure: JSON lines that a script started again goes on with, and hashes."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from unmask.records.corpora import CorpusSpec, Sentence, read_corpus

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """The rows of a file; none where there is no file yet."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def extend(path: Path, rows: Iterable[Row]) -> None:
    """Append each row when it is measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            file.flush()


def hashed(*parts: object) -> int:
    """A number of 64 bits, the same on every machine."""
    key = "\x00".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big")


def in_hashed_order(corpus: str) -> list[Sentence]:
    """The sentences of a corpus in the order of a hash of their ids."""
    return sorted(read_corpus(CorpusSpec(corpus)).sentences, key=lambda one: hashed(one.id))


def hidden(positions: Sequence[int], name: str, count: int, *, run: bool) -> list[int]:
    """So many positions of a sentence, neighbours or scattered, by a hash of its id."""
    if run:
        start = hashed(name, "start") % (len(positions) - count + 1)
        return list(positions[start : start + count])
    return sorted(sorted(positions, key=lambda p: hashed(name, "place", p))[:count])
