"""Masked pairs of SNLI sentences: distinct sentences, two blanks each, the same on every machine.

Premises and hypotheses count as separate sentences, as in the paper, and each distinct sentence
once. Which sentences come first, and which tokens are masked, follows from a hash of the seed and
the sentence's id, so a longer list begins with the shorter one.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import unmask

MASKS = ("contiguous", "random")


@dataclass(frozen=True)
class MaskedPair:
    """A sentence by its id, with the two tokens that are masked."""

    id: str
    mask: str
    cloze: unmask.Cloze


def sentences(path: Path) -> dict[str, str]:
    """Distinct sentences by the id of their first occurrence.

    The file is SNLI's JSON lines, or lines of label, premise and hypothesis between tabs.
    """
    first: dict[str, str] = {}
    for name, text in _occurrences(path):
        first.setdefault(text.strip(), name)
    return {name: text for text, name in first.items()}


def _occurrences(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if path.suffix == ".jsonl":
                row = json.loads(line)
                name, pair = row["pairID"], [row["sentence1"], row["sentence2"]]
            else:
                _, *pair = line.rstrip("\n").split("\t")
                name = f"{path.stem}:{number}"
            for part, text in zip(("premise", "hypothesis"), pair, strict=True):
                yield f"{name}/{part}", text


def masked_pairs(
    lm: unmask.LanguageModel, path: Path, mask: str, limit: int, seed: int = 0
) -> Iterator[MaskedPair]:
    """The first `limit` sentences in hashed order that this model can take, masked."""
    named = sentences(path)
    special = set(lm.tokenizer.all_special_ids) - {lm.tokenizer.unk_token_id}
    found = 0
    for name in sorted(named, key=lambda name: _hash(seed, mask, name)):
        ids = list(lm.tokenizer(named[name])["input_ids"])
        places = [place for place, token in enumerate(ids) if token not in special]
        if len(places) < 2 or len(ids) > (lm.model.max_length or len(ids)):
            continue
        blanks = _blanks(places, mask, _hash(seed, mask, name, "blanks"))
        yield MaskedPair(name, mask, lm.cloze(named[name], blanks=blanks))
        found += 1
        if found == limit:
            return


def _blanks(places: list[int], mask: str, number: int) -> list[int]:
    if mask == "contiguous":
        start = number % (len(places) - 1)
        return places[start : start + 2]
    pair, count = number, len(places)
    first, second = pair % count, (pair // count) % (count - 1)
    second += second >= first
    return [places[i] for i in sorted((first, second))]


def _hash(*parts: object) -> int:
    said = "\x00".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(said).digest()[:8], "big")
