"""Where examples are measured: examples in, the result rows of each out, in whatever order.

An executor never raises for an example: what fails becomes rows that say why. It may raise when
it cannot go on at all. Here also the plainest one; the other is in `ray_cluster`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.plan import Batch, Plan
from unmask.evaluation.rows import Row
from unmask.evaluation.worker import measure, resolve_batch
from unmask.language_model import LanguageModel
from unmask.settings import Settings


class Executor(Protocol):
    """A place with the model."""

    def resolve_batch(
        self, examples: Sequence[MaskedPair], support: str | Sequence[str], settings: Settings
    ) -> Batch:
        """The batch size of a whole run, found where it will run."""

    def run(self, plan: Plan, examples: Iterable[MaskedPair]) -> Iterator[list[Row]]:
        """The result rows of every example, as they come; examples are taken as there is room."""


class LocalExecutor:
    """This process, with a model that is loaded already."""

    def __init__(self, lm: LanguageModel) -> None:
        self._lm = lm

    def resolve_batch(
        self, examples: Sequence[MaskedPair], support: str | Sequence[str], settings: Settings
    ) -> Batch:
        """The batch size that suits this machine."""
        return resolve_batch(self._lm, examples, support, settings)

    def run(self, plan: Plan, examples: Iterable[MaskedPair]) -> Iterator[list[Row]]:
        """The result rows of one example after the other."""
        for example in examples:
            yield measure(self._lm, plan, example)
