"""What a model says of the blanks of texts while sets of them are filled: one row for each set."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.joints.lazy_orders import Set
from unmask.model.row_reader import Outcomes, RowReader
from unmask.text.cloze import Cloze
from unmask.text.support import Support


def read_steps(
    reader: RowReader,
    clozes: Sequence[Cloze],
    places: Int[Tensor, "texts blanks"],
    sets: Sequence[Set],
    supports: Sequence[Support] | None = None,
) -> dict[Set, Float[Tensor, "texts blanks"]]:
    """log q(x_t | x of a set) for every set, t not in it; zeros elsewhere.

    Clozes have one length. The tokens of their blanks are places on the supports, or ids.
    """
    ids = torch.tensor([cloze.ids for cloze in clozes])
    positions = torch.tensor([cloze.positions for cloze in clozes])
    tokens, outcomes = places, None
    if supports is not None:
        columns = zip(supports, places.unbind(dim=1), strict=True)
        tokens = torch.stack([axis.ids.cpu().long()[at] for axis, at in columns], dim=1)
        outcomes = Outcomes.of_each(reader.model, supports)
    filled = torch.tensor([[t in some for t in range(places.shape[1])] for some in sets])
    words = torch.where(filled, tokens[:, None], reader.model.mask_id)
    at = positions[:, None].expand(words.shape)
    rows = ids[:, None].repeat(1, len(sets), 1).scatter_(2, at, words)
    log_probs = reader.token_log_probs(
        rows.flatten(0, 1),
        at.flatten(0, 1),
        places[:, None].expand(words.shape).flatten(0, 1)[..., None],
        wanted=(~filled).expand(words.shape).flatten(0, 1),
        outcomes=outcomes,
    ).log_probs
    return dict(zip(sets, log_probs.view(words.shape).unbind(dim=1), strict=True))
