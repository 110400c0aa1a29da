"""Examples measured one after the other, in this process."""

from collections.abc import Iterable, Iterator, Sequence

from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.plan import Batch, Plan
from unmask.evaluation.rows import Row
from unmask.evaluation.worker import measure, resolve_batch
from unmask.language_model import LanguageModel
from unmask.settings import Settings


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
