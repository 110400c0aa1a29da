"""A model wherever it lies, as a value, and whether two descriptions are of the same one.

Two descriptions are of one model if the hashes of weights and vocabulary are equal. Of
configuration and tokenizer the parts that both descriptions have must be: another version of a
library names more of them, or fewer. What the model says of a fixed row of tokens may differ by
rounding, so it is kept as numbers and not as a hash.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from unmask.jobs.canonical import changes_between

# how far log-probabilities of one model may be apart on two machines, for each nat and one more
_ROUNDING = {"float32": 5e-4, "float16": 1e-2, "bfloat16": 5e-2}
# what runs that were begun by earlier versions do not have
_LATER = ("config", "tokenizer", "probe")


@dataclass(frozen=True, kw_only=True)
class ModelIdentity:
    """A model wherever it lies: its name in tables, and whatever decides what it computes.

    `weights` and `vocabulary` are hashes; `config` and `tokenizer` are settings without names,
    paths and versions; `probe` has log-probabilities that the model gives to some tokens.
    """

    name: str
    revision: str | None
    weights: str
    vocabulary: str
    dtype: str
    # of an option of earlier versions: kept, since the hash of a plan is over it
    compiled: bool = False
    config: Mapping[str, Any] | None = None
    tokenizer: Mapping[str, Any] | None = None
    probe: tuple[float, ...] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether another function with the same weights would be noticed."""
        return all(getattr(self, name) is not None for name in _LATER)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; what an earlier version did not know is left out, as it left it out."""
        values = asdict(self)
        return {name: v for name, v in values.items() if v is not None or name not in _LATER}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelIdentity":
        """Read back what `to_dict` made."""
        probe = values.get("probe")
        return cls(**{**values, "probe": probe if probe is None else tuple(map(float, probe))})


def reconciled(stored: ModelIdentity, here: ModelIdentity) -> ModelIdentity:
    """`here`, with `stored`'s own wherever the difference does not make another model."""
    return replace(
        here,
        # another commit with the same content is the same model
        revision=stored.revision,
        config=None if stored.config is None else _overlaid(stored.config, here.config),
        tokenizer=None if stored.tokenizer is None else _overlaid(stored.tokenizer, here.tokenizer),
        probe=stored.probe if _agree(stored, here) else here.probe,
    )


def same_function(one: ModelIdentity, other: ModelIdentity) -> bool:
    """Whether two models compute the same, as far as both are known."""
    if one.weights != other.weights or not (one.is_whole and other.is_whole):
        return one.weights == other.weights
    here = reconciled(one, other)
    return all(getattr(here, name) == getattr(one, name) for name in _LATER)


def nats_apart(one: ModelIdentity, other: ModelIdentity) -> float:
    """The largest difference between the log-probabilities of two models for the same tokens."""
    return max((abs(a - b) for a, b in _both_probes(one, other)), default=float("inf"))


def model_changes(stored: ModelIdentity, here: ModelIdentity) -> dict[str, str]:
    """In what a model is another one than the stored one: sentences by what they are of."""
    wanted = reconciled(stored, here)
    changes = dict(changes_between(stored.to_dict(), wanted.to_dict(), "model"))
    if changes.pop("model.probe", None) is not None:
        changes["model.probe"] = (
            f"its probabilities for the same tokens are up to {nats_apart(stored, here):.2g} nats"
            " apart there and here"
        )
    return changes


def _agree(stored: ModelIdentity, here: ModelIdentity) -> bool:
    if stored.probe is None:
        return True
    share = _ROUNDING.get(stored.dtype, _ROUNDING["float32"])
    pairs = _both_probes(stored, here)
    # not `>`: what is not a number does not agree
    return bool(pairs) and all(abs(a - b) <= share * (1 + abs(a)) for a, b in pairs)


def _both_probes(one: ModelIdentity, other: ModelIdentity) -> list[tuple[float, float]]:
    if one.probe is None or other.probe is None or len(one.probe) != len(other.probe):
        return []
    return list(zip(one.probe, other.probe, strict=True))


def _overlaid(stored: Any, here: Any) -> Any:
    """`here`, with the names that `stored` has and no others."""
    if isinstance(stored, Mapping) and isinstance(here, Mapping):
        return {
            name: _overlaid(value, here[name]) if name in here else value
            for name, value in stored.items()
        }
    return here
