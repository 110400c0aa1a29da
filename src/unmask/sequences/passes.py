"""The rows of forward passes over whole texts, and scores from what the model gives there.

A row is a text with some of its tokens masked. Knows no method: which tokens, and what the numbers
mean, is decided where a method is.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import TokenLogProbs
from unmask.sequences.scores import TextScore, WordScore
from unmask.sequences.texts import TokenisedText


def masked_rows(
    model: MaskedLM, texts: Sequence[TokenisedText], hidden: Bool[Tensor, "*each passes tokens"]
) -> tuple[Int[Tensor, "rows length"], Int[Tensor, "texts tokens"], Int[Tensor, "texts tokens"]]:
    """A row per text and pass with its hidden tokens masked; positions of all tokens; their ids."""
    ids = torch.tensor([text.ids for text in texts])
    places = torch.tensor([text.places for text in texts])
    tokens = ids.gather(1, places)
    words = torch.where(hidden, model.mask_id, tokens[:, None])
    at = places[:, None].expand(words.shape)
    rows = ids[:, None].repeat(1, words.shape[1], 1).scatter_(2, at, words)
    return rows.flatten(0, 1), places, tokens


def scores_of(
    texts: Sequence[TokenisedText], read: TokenLogProbs, method: str, order: str | None = None
) -> list[TextScore]:
    """Scores of texts with equally many tokens, from what was read of each; a pass per token."""
    by_text = read.log_probs.view(len(texts), -1).tolist()
    likeliest = read.are_likeliest.view(len(texts), -1).sum(dim=1).tolist()
    scores = []
    for text, log_probs, count in zip(texts, by_text, likeliest, strict=True):
        words = tuple(
            WordScore(
                word.text,
                word.start,
                word.end,
                pieces=word.last - word.first,
                log_prob=math.fsum(log_probs[word.first : word.last]),
                is_unknown=number in text.unknown_words,
            )
            for number, word in enumerate(text.words)
        )
        score = TextScore(
            text.text,
            method,
            score=math.fsum(log_probs),
            tokens=len(log_probs),
            words=words,
            forward_passes=len(log_probs),
            unknown_tokens=len(text.unknown) - text.unknown_given,
            order=order,
            likeliest_tokens=count,
            special_tokens=len(text.special),
        )
        scores.append(score)
    return scores
