"""What a command says that one text costs, before it runs."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unmask.jobs.kinds import Kind
    from unmask.language_model import LanguageModel

# fewer forward passes are over sooner than their time would be measured
_FEW_PASSES = 512


def announce(kind: "Kind", lm: "LanguageModel", item: object, *, is_dry: bool) -> None:
    """Print the cost of an item, timed where that is worth it."""
    from unmask.queries.cost import Cost, measured
    from unmask.text.cloze import Cloze

    work = kind.work(lm, item)
    if work is None:
        return
    cost = Cost(work.passes, work.tokens, 0, at_most=work.at_most)
    if work.passes > _FEW_PASSES:
        cloze = Cloze("", (lm.model.mask_id,) * work.tokens, (work.tokens // 2,))
        cost = measured(lm.model, cloze, cost, kind.settings)
    print(f"{kind.title}: {cost}", file=sys.stdout if is_dry else sys.stderr)
