"""Pseudo-log-likelihoods: every token read with itself masked, one forward pass each.

`pll` is Salazar et al. (2020). `pll-word-l2r` is Kauf & Ivanova (2023): the later pieces of a
token's word are masked with it, so that a word's own ending does not give its beginning away.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.model.row_reader import RowReader, TokenLogProbs
from unmask.model.shapes import Shape, run_by_shape
from unmask.sequences.scores import TextScore, WordScore
from unmask.sequences.texts import TokenisedText


def pseudo_log_likelihoods(
    reader: RowReader, texts: Sequence[TokenisedText], *, method: str
) -> list[TextScore]:
    """Scores of texts by either method."""

    def log_probs(some: list[TokenisedText]) -> TokenLogProbs:
        return _log_probs(reader, some, later_too=method == "pll-word-l2r")

    return scores_by_length(reader, texts, log_probs, method=method)


def scores_by_length(
    reader: RowReader,
    texts: Sequence[TokenisedText],
    log_probs: Callable[[list[TokenisedText]], TokenLogProbs],
    *,
    method: str,
    order: str | None = None,
) -> list[TextScore]:
    """Scores from the log-probabilities of all tokens; texts of equal length are read together.

    One forward pass per token.
    """

    def scores(some: list[TokenisedText]) -> Iterator[TextScore]:
        by_text = log_probs(some)
        likeliest = by_text.are_likeliest.sum(dim=1).tolist()
        for text, by_token, count in zip(some, by_text.log_probs.tolist(), likeliest, strict=True):
            yield score_of(text, by_token, method, order, likeliest=count)

    return run_by_shape(
        reader, texts, lambda text: Shape(len(text.ids), rows=len(text.places)), scores
    )


def _log_probs(reader: RowReader, texts: list[TokenisedText], *, later_too: bool) -> TokenLogProbs:
    tokens = len(texts[0].places)
    hidden = _with_later_pieces(texts) if later_too else torch.eye(tokens).bool()
    ids, places, tokens_at = rows_by_token(reader, texts, hidden)
    return reader.token_log_probs(ids, places, tokens_at[:, :, None]).view(-1, tokens)


def rows_by_token(
    reader: RowReader, texts: list[TokenisedText], hidden: Bool[Tensor, "*texts tokens tokens"]
) -> tuple[Int[Tensor, "rows length"], Int[Tensor, "rows 1"], Int[Tensor, "rows 1"]]:
    """A row per token with some masked, the position of the token, and the token itself."""
    ids = torch.tensor([text.ids for text in texts])
    places = torch.tensor([text.places for text in texts])
    masks = at_places(hidden.expand(len(texts), -1, -1), places, ids.shape[1])
    rows = torch.where(masks, reader.model.mask_id, ids[:, None]).flatten(0, 1)
    return rows, places.view(-1, 1), ids.gather(1, places).view(-1, 1)


def at_places(
    chosen: Bool[Tensor, "texts passes tokens"], places: Int[Tensor, "texts tokens"], length: int
) -> Bool[Tensor, "texts passes length"]:
    """The positions chosen in every forward pass, from the tokens of the text that are."""
    masked = torch.zeros(*chosen.shape[:2], length, dtype=torch.bool)
    return masked.scatter_(2, places[:, None].expand(chosen.shape), chosen)


def _with_later_pieces(texts: list[TokenisedText]) -> Bool[Tensor, "texts tokens tokens"]:
    """Of every token, itself and the pieces of its word that follow it."""
    ends = torch.tensor(
        [[word.last for word in text.words for _ in range(word.first, word.last)] for text in texts]
    )
    other = torch.arange(ends.shape[1])
    return (other >= other[:, None]) & (other < ends[:, :, None])


def score_of(
    text: TokenisedText,
    log_probs: list[float],
    method: str,
    order: str | None = None,
    likeliest: int | None = None,
) -> TextScore:
    """The score of a text from the parts of its tokens."""
    words = tuple(
        WordScore(
            word.text,
            word.start,
            word.end,
            word.last - word.first,
            math.fsum(log_probs[word.first : word.last]),
            number in text.unknown_words,
        )
        for number, word in enumerate(text.words)
    )
    score, tokens = math.fsum(log_probs), len(log_probs)
    unknown = len(text.unknown) - text.unknown_given
    numbers = (score, tokens, words, tokens, unknown, order)
    return TextScore(
        text.text,
        method,
        *numbers,
        likeliest_tokens=likeliest,
        special_tokens=len(text.special),
    )
