"""The target of sampling: blanks of a text, their tokens, the construction of a pair's joint."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from unmask.constructions import check_options, construction
from unmask.errors import MethodError
from unmask.model.masked_lm import MaskedLM
from unmask.settings import Settings
from unmask.text.cloze import Cloze
from unmask.text.support import Support

# of one update of one chain: supports of 500 tokens per blank
_ROWS_PER_UPDATE = 1001


@dataclass(frozen=True, eq=False)
class Target:
    """The blanks of one text under one model, and how pairs of them are joined."""

    model: MaskedLM
    cloze: Cloze
    supports: tuple[Support, ...]
    method: str
    options: Mapping[str, object]
    settings: Settings

    def __post_init__(self) -> None:
        """Reject options that do not fit, and updates of too many rows, before anything runs."""
        check_options(self.method, dict(self.options))
        for pair in combinations(self.supports, 2):
            construction(self.method).check_axes(self.options, pair)
        # a single pair is joined once for all draws
        rows = 0 if self.is_one_block else self.rows_per_update()
        if rows > _ROWS_PER_UPDATE:
            raise MethodError(
                f"{self.method} takes {rows:,} forward passes for one update of one chain, "
                f"above the limit of {_ROWS_PER_UPDATE:,}; use method 'orders' (2 forward "
                "passes), or give "
                "fewer candidates"
            )

    @property
    def blanks(self) -> int:
        """How many tokens are drawn together."""
        return len(self.cloze.positions)

    @property
    def is_one_block(self) -> bool:
        """Whether one update draws every blank, so that draws are independent."""
        return self.blanks <= 2

    @property
    def needs_tables(self) -> bool:
        """Whether the joint of a pair is built from tables; the plain mean of orders is not."""
        return not construction(self.method).without_tables(self.options)

    def rows_per_update(self) -> int:
        """The most rows of the model that one update of one chain takes, over all pairs."""
        if not self.needs_tables:
            return 2
        shape = tuple(sorted(map(len, self.supports), reverse=True)[:2])
        parts = construction(self.method).needs(shape, self.options)
        both = sum(shape) + 1
        if parts.only_contexts():
            # three more to draw, and to compute the probability of the draw
            return min(both, parts.rows(shape) + 3)
        return both if parts.whole else 1
