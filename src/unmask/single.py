"""One blank: there is nothing to construct, the model's own distribution is the joint."""

from collections.abc import Mapping
from functools import partial

from unmask.cloze import Cloze
from unmask.elicit import one_blank
from unmask.joint import Joint, rows_of
from unmask.masked_lm import MaskedLM
from unmask.support import Support


def own_distribution(
    model: MaskedLM,
    cloze: Cloze,
    support: Support,
    provenance: Mapping[str, object],
    *,
    passes_before: int = 0,
) -> Joint:
    """The model's distribution at a single blank, over a support."""
    log_p, captured = one_blank(model, cloze, support)
    return Joint(
        partial(rows_of, log_p),
        (support,),
        method="mlm",
        diagnostics={
            **provenance,
            "forward_passes": passes_before + 1,
            "length": len(cloze),
            "captured_mass": [captured],
        },
        device=log_p.device,
    )
