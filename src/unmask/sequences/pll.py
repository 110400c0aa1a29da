"""Pseudo-log-likelihoods: every token read with itself masked, one forward pass each.

`pll` is Salazar et al. (2020). `pll-word-l2r` is Kauf & Ivanova (2023): the later pieces of a
token's word are masked with it, so that a word's own ending does not give its beginning away.
"""

from collections.abc import Sequence

import torch

from unmask.model.row_reader import RowReader
from unmask.sequences.passes import masked_rows, scores_of
from unmask.sequences.scores import TextScore
from unmask.sequences.texts import TokenisedText


def pseudo_log_likelihoods(
    reader: RowReader, texts: Sequence[TokenisedText], *, method: str
) -> list[TextScore]:
    """Scores of texts of one length by either method."""
    ranks = torch.arange(len(texts[0].places))
    hidden = ranks == ranks[:, None]
    if method == "pll-word-l2r":
        words = [[(w.last, w.last - w.first) for w in text.words] for text in texts]
        ends = torch.tensor([[end for end, size in ws for _ in range(size)] for ws in words])
        # of every token, itself and the pieces of its word that follow it
        hidden = (ranks >= ranks[:, None]) & (ranks < ends[:, :, None])
    rows, places, tokens = masked_rows(reader.model, texts, hidden)
    read = reader.token_log_probs(rows, places.view(-1, 1), tokens.view(-1, 1, 1))
    return scores_of(texts, read, method)
