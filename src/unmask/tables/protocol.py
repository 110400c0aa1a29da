"""The interface of tables for constructions, for any number of blanks.

Every tensor has one axis per blank; one that does not depend on a blank has size 1 there, so that
tensors of different contexts broadcast against each other.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from unmask.progress import Bar, bar
from unmask.settings import Settings
from unmask.tables.contexts import Contexts
from unmask.tables.law import Law
from unmask.text.support import Support

Value = TypeVar("Value")

EVERY_ROW = slice(None)


@runtime_checkable
class Tables(Protocol):
    """The conditionals of each blank, given tokens for the others.

    `supports` are the tokens of every blank and `shape` says how many they are. `law` is the
    stationary law of the conditionals, once it is known: solved, or estimated with a sketch.
    """

    supports: tuple[Support, ...]
    shape: tuple[int, ...]
    settings: Settings
    law: Law | None
    _remembered: dict[str, Any]

    def log_given_others(self, outcome: int, rows: slice = EVERY_ROW) -> Float[Tensor, "..."]:
        """log q(x_t | all other blanks), for some rows of the first axis."""

    def log_prob_of(self, outcome: int, place: int) -> Float[Tensor, "..."]:
        """The same for one token of blank t: size 1 along it."""

    def log_normalizer(self, outcome: int) -> Float[Tensor, "..."]:
        """The normaliser taken from the model's logits in each context: size 1 along blank t."""

    def log_given(self, contexts: Contexts, outcome: int) -> Float[Tensor, "..."]:
        """log q(x_t | contexts) of a blank that is masked in them."""

    def log_masked(self, outcome: int) -> Float[Tensor, "..."]:
        """log m_t: the model's distribution of a blank with every blank masked."""

    def has_masked(self) -> bool:
        """True if the distributions with every blank masked are there, or can be elicited."""

    def elicit(self, whole: Iterable[int], *, masked: bool) -> None:
        """Run the model for the whole tables of some blanks, and with every blank masked."""

    def holds_all(self) -> bool:
        """True if every whole table is there, so that reading them runs no model."""

    def remember(self, name: str, compute: Callable[[], Value]) -> Value:
        """The value computed from these tables under this name, or now: once for all joints."""
        if name not in self._remembered:
            self._remembered[name] = compute()
        value: Value = self._remembered[name]
        return value

    def bar(self, what: str, passes: int | None = None) -> Bar:
        """A counter of the sweeps of work that reads the tables many times."""
        return bar(what, unit="pass", total=passes, shown=self.settings.progress)

    def diagnostics(self) -> dict[str, object]:
        """Facts of how the tables are kept and what they have cost."""
