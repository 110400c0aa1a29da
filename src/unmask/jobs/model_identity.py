"""A model wherever it lies, as a value, and whether two descriptions are of the same one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unmask.jobs.canonical import changes_between


@dataclass(frozen=True, kw_only=True)
class ModelIdentity:
    """A model wherever it lies: its name in tables, and whatever decides what it computes.

    `weights` and `vocabulary` are hashes; `config` and `tokenizer` are settings without names,
    paths and versions; None in runs that did not keep them.
    """

    name: str
    revision: str | None
    weights: str
    vocabulary: str
    dtype: str
    config: Mapping[str, Any] | None = None
    tokenizer: Mapping[str, Any] | None = None


def model_changes(stored: ModelIdentity, here: ModelIdentity) -> Iterator[str]:
    """Sentences about what makes a model another one than the stored one."""
    # another commit with the same content is the same model
    wanted = {**vars(here), "revision": stored.revision}
    for part in ("config", "tokenizer"):
        known = getattr(stored, part)
        wanted[part] = None if known is None else _overlaid(known, wanted[part])
    return changes_between(vars(stored), wanted, "model")


def same_function(one: ModelIdentity, other: ModelIdentity) -> bool:
    """Whether two models compute the same, as far as both are known."""
    pairs = [(getattr(one, part), getattr(other, part)) for part in ("config", "tokenizer")]
    return one.weights == other.weights and not any(
        list(changes_between(here, _overlaid(here, there)))
        for here, there in pairs
        if here is not None and there is not None
    )


def _overlaid(stored: Any, here: Any) -> Any:
    """`here`, with the names that `stored` has and no others: versions of libraries have others."""
    if isinstance(stored, Mapping) and isinstance(here, Mapping):
        return {
            name: _overlaid(value, here[name]) if name in here else value
            for name, value in stored.items()
        }
    return here
