"""What an evaluation is, as a value: whatever decides its numbers, and nothing about where it runs.

A plan is written as canonical JSON and known by the SHA-256 of that text, so that two machines
agree on it, and a run that was begun is not continued as another one. Knows nothing of models,
corpora and files beyond what identifies them.

Two descriptions are of one model if the hashes of weights and vocabulary are equal. Of
configuration and tokenizer the parts that both descriptions have must be: another version of a
library names more of them, or fewer. What the model says of a fixed row of tokens may differ by
rounding, so it is kept as numbers and not as a hash.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from unmask import __version__
from unmask.errors import StoreError
from unmask.evaluation.rows import SKETCHED_VOCABULARY
from unmask.printable import quoted
from unmask.settings import Sketch

FORMAT = 1
_SHOWN_CHANGES = 5
_DIGEST_SHOWN = 12
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


@dataclass(frozen=True, kw_only=True)
class CorpusIdentity:
    """A corpus wherever it lies: its name in tables, and a hash of its sentences."""

    name: str
    digest: str
    sentences: int


@dataclass(frozen=True, kw_only=True)
class ExampleSelection:
    """Which examples: what was requested, and what came of it with this model and corpus.

    At most `limit` examples per mask; `count` of all masks together, and `digest` over their tokens
    and blanks. `refused` counts the sentences that came before the last example of a mask and
    could not be one, by mask and reason.
    """

    masks: tuple[str, ...]
    limit: int
    seed: int
    count: int
    digest: str
    refused: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Batch:
    """How many texts run together: a number, or as many as have so many tokens."""

    rows: int | None = None
    tokens: int | None = None

    def rows_for(self, length: int) -> int:
        """Texts of this length."""
        return self.rows if self.rows is not None else max(1, (self.tokens or 1) // length)


@dataclass(frozen=True)
class Construction:
    """A method and its options, under the label that result rows carry."""

    method: str
    options: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The method's name, with the options that were given."""
        listed = ", ".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        return f"{self.method}({listed})" if listed else self.method


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that decides the result rows of a run.

    A plan whose `batch` is None is a draft: its batch size is yet to be found, once for all.
    `support_size` is how many tokens a blank may have; plans of earlier versions have None.
    With a `sketch` examples are estimated from some contexts of the vocabulary.
    """

    model: ModelIdentity
    corpus: CorpusIdentity
    draw: ExampleSelection
    support: str | tuple[str, ...]
    constructions: tuple[Construction, ...]
    memory_limit: int
    half_tables: bool
    batch: Batch | None
    software: str = f"unmask {__version__}"
    support_size: int | None = None
    sketch: Sketch | None = None

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical JSON: the plan's name in every result row."""
        return hashlib.sha256(canonical(self.to_dict()).encode()).hexdigest()

    @property
    def support_name(self) -> str:
        """How result rows and tables name the support."""
        if isinstance(self.support, str):
            # another name, so that estimates and exact numbers are never averaged together
            return self.support if self.sketch is None else SKETCHED_VOCABULARY
        # a list of one token must not be taken for a name
        return ",".join(self.support) + ("," if len(self.support) == 1 else "")

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values."""
        values = {"format": FORMAT, **asdict(self), "model": self.model.to_dict()}
        for later in ("support_size", "sketch"):
            if values[later] is None:
                # the digest of a plan that was written without it is of a text without it
                del values[later]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Plan":
        """Read back what `to_dict` made; anything else is a `StoreError`."""
        found = values.get("format") if isinstance(values, Mapping) else None
        if found != FORMAT:
            raise StoreError(
                f"the plan has format {quoted(found)}, and this version reads {FORMAT}; use the"
                " version of unmask that wrote it"
            )
        try:
            return _plan({name: value for name, value in values.items() if name != "format"})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise StoreError(f"the plan is damaged: {quoted(str(error))}") from None


def canonical(values: Any) -> str:
    """JSON that is the same text for the same values: keys sorted, no spaces, ASCII."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(parts: Sequence[Any]) -> str:
    """The hash of JSON values."""
    return hashlib.sha256(canonical(parts).encode()).hexdigest()


def check_same(stored: Plan, draft: Plan) -> None:
    """Reject a plan that is not the stored one, and say what differs.

    A draft takes whatever batch size the stored plan has: it is found once.
    """
    others = replace(
        draft,
        model=stored.model,
        batch=draft.batch or stored.batch,
        # support and vocabulary, which are compared, decide it
        support_size=stored.support_size,
    )
    changes = [
        *(said for _, said in _changes(stored.to_dict(), others.to_dict())),
        *model_changes(stored.model, draft.model).values(),
    ]
    if changes:
        more = len(changes) - _SHOWN_CHANGES
        listed = "; ".join(changes[:_SHOWN_CHANGES]) + (f"; and {more} more" if more > 0 else "")
        raise StoreError(
            f"the output holds a run with another plan: {listed}. Give another --output, or request"
            " the same again"
        )


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
    """How far apart what two models say of the same tokens is at most."""
    return max((abs(a - b) for a, b in _both_probes(one, other)), default=float("inf"))


def model_changes(stored: ModelIdentity, here: ModelIdentity) -> dict[str, str]:
    """In what a model is another one than the stored one: sentences by what they are of."""
    wanted = reconciled(stored, here)
    found = dict(_changes(stored.to_dict(), wanted.to_dict(), "model"))
    if found.pop("model.probe", None) is not None:
        found["model.probe"] = (
            f"its probabilities for the same tokens are up to {nats_apart(stored, here):.2g} nats"
            " apart there and here"
        )
    return found


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


def _changes(stored: Any, wanted: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        for name in sorted({*stored, *wanted}):
            inner = f"{path}.{name}" if path else name
            yield from _changes(stored.get(name), wanted.get(name), inner)
    elif canonical(stored) != canonical(wanted):
        yield path, f"{path} is {_brief(stored)} there, {_brief(wanted)} here"


def _brief(value: Any) -> str:
    if isinstance(value, str) and len(value) == 64:
        return value[:_DIGEST_SHOWN]
    return quoted(value if isinstance(value, str) else canonical(value), limit=80)


def _plan(values: dict[str, Any]) -> Plan:
    draw, support, batch = values["draw"], values["support"], values["batch"]
    sketch = values.get("sketch")
    return Plan(
        **{
            **values,
            "model": ModelIdentity.from_dict(values["model"]),
            "corpus": CorpusIdentity(**values["corpus"]),
            "draw": ExampleSelection(**{**draw, "masks": tuple(draw["masks"])}),
            "support": support if isinstance(support, str) else tuple(support),
            "constructions": tuple(Construction(**one) for one in values["constructions"]),
            "batch": None if batch is None else Batch(**batch),
            "sketch": None if sketch is None else Sketch(**sketch),
        }
    )
