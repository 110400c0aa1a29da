"""Blanks filled with given words, of one piece or several: scored together, never cut.

A word of n pieces takes n positions, and its probability is that of all of them together, given
that the blank is n pieces wide. Probabilities given different widths do not compare, so ranking
across them needs a stated prior over the number of pieces.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.arguments import as_list, real_number, whole_number
from unmask.constructions import check_options, construction
from unmask.errors import ClozeError, MethodError, SupportError
from unmask.joints.lazy_orders import LazyOrders
from unmask.model.row_reader import RowReader
from unmask.printable import listed, quoted
from unmask.queries.joint_model import JointModel
from unmask.settings import Settings
from unmask.tables.blank_reader import BlankReader
from unmask.tables.proposals import choose_axes
from unmask.tables.sizes import rows_of_a_fill
from unmask.text.candidates import check_blanks
from unmask.text.cloze import Cloze
from unmask.text.support import Token
from unmask.text.word_pieces import Candidate, pieces_in_context

# words for the only blank, a list for each blank, or words by blank
Targets = str | Sequence[str] | Sequence[Sequence[str]] | Mapping[int, Sequence[str]]
PiecePrior = str | Mapping[int, float]

# tokens that are tried in a blank for which others have targets, and fills of all such blanks
_PROPOSALS, _PROPOSED_FILLS = 20, 400
# rows of the model that words may come to, shared ones counted once each time they are needed
_MOST_ROWS = 2_000_000


@dataclass(frozen=True)
class WordFill:
    """Words that fill the blanks together.

    `log_prob` is given the number of pieces of each; `log_prior` that of these numbers, 0 where
    all candidates are equally long and nothing has to be assumed.
    """

    words: tuple[Candidate, ...]
    cloze: Cloze
    log_prob: float
    log_prior: float


def fill_targets(
    lm: JointModel,
    cloze: Cloze,
    targets: Targets,
    *,
    method: str,
    piece_prior: PiecePrior | None,
    settings: Settings | None,
    options: Mapping[str, Any],
) -> list[WordFill]:
    """Every combination of targets, likeliest first.

    Blanks without any take tokens that the model proposes. Probabilities are over whole
    vocabularies: a word competes with everything that could stand there. `orders` scores any number
    of pieces from a few rows; `mlm` from one, as if pieces were independent; other constructions
    take two pieces in all, from the joint of each text.
    """
    check_options(method, options)
    if options and not construction(method).needs((2, 2), {}).whole:
        raise MethodError(f"{method} of targets takes no option {quoted(next(iter(options)))}")
    blanks, settings = len(cloze.blank_widths), Settings.of(settings)
    words_of = targets_by_blank(targets, blanks)
    free, count = blanks - len(words_of), _PROPOSALS
    if free > 1:
        count = max(2, int(_PROPOSED_FILLS ** (1 / free) + 1e-9))
    candidates = []
    for blank in range(blanks):
        words = words_of.get(blank)
        if not words:
            spec = {blank: min(count, lm.model.vocabulary_size)}
            axes = choose_axes(lm.model, lm.support(), cloze.one_token_each(), spec, settings)
            words = axes.supports[blank].ids.tolist()
        candidates.append(_candidates(lm, cloze, blank, words))
    _check_affordable(candidates, method)
    priors = [_log_priors(piece_prior, words, blank) for blank, words in enumerate(candidates)]
    fills: list[WordFill] = []
    for widths, together in _by_widths(candidates):
        wide = cloze.with_widths(widths)
        if lm.max_length is not None and len(wide) > lm.max_length:
            raise ClozeError(
                f"with blanks of {', '.join(map(str, widths))} tokens the text has {len(wide)}; "
                f"this model takes at most {lm.max_length}"
            )
        ids = torch.tensor([[i for word in fill for i in word.ids] for fill in together])
        log_probs = _log_probs(lm, wide, ids, method, settings, options)
        log_prior = sum(prior[width] for prior, width in zip(priors, widths, strict=True))
        fills += [
            WordFill(fill, wide, log_prob, log_prior)
            for fill, log_prob in zip(together, log_probs.tolist(), strict=True)
        ]
    return sorted(fills, key=lambda fill: -(fill.log_prob + fill.log_prior))


def _candidates(
    lm: JointModel, cloze: Cloze, blank: int, words: Sequence[Token]
) -> list[Candidate]:
    try:
        candidates = pieces_in_context(lm.tokenizer, cloze, blank, words)
    except SupportError as error:
        raise SupportError(f"blank {blank}: {error}") from None
    size = lm.model.vocabulary_size
    for word in candidates:
        if max(word.ids) >= size:
            raise SupportError(
                f"blank {blank}: the tokenizer has a token for {quoted(word.word)}, but the model "
                f"has {size:,} tokens; resize its embeddings"
            )
    return candidates


def _check_affordable(each: Sequence[Sequence[Candidate]], method: str) -> None:
    fills = math.prod(len(candidates) for candidates in each)
    pieces = sum(max(len(word.ids) for word in candidates) for candidates in each)
    one_by_one = construction(method).without_tables({})
    rows = fills * rows_of_a_fill(pieces) if one_by_one else fills
    if rows > _MOST_ROWS:
        raise SupportError(
            f"{fills:,} combinations of candidates would take up to {rows:,} forward passes, more "
            f"than {_MOST_ROWS:,}; give fewer targets per blank, or targets for more of the blanks"
        )


def _by_widths(
    each: Sequence[Sequence[Candidate]],
) -> Iterator[tuple[tuple[int, ...], list[tuple[Candidate, ...]]]]:
    """Combinations of candidates that are as many pieces wide, blank by blank."""
    widths = [sorted({len(word.ids) for word in candidates}) for candidates in each]
    for each_width in itertools.product(*widths):
        fitting = [
            [word for word in candidates if len(word.ids) == width]
            for candidates, width in zip(each, each_width, strict=True)
        ]
        yield each_width, list(itertools.product(*fitting))


def _log_probs(
    lm: JointModel,
    cloze: Cloze,
    ids: Int[Tensor, "fills positions"],
    method: str,
    settings: Settings,
    options: Mapping[str, Any],
) -> Float[Tensor, " fills"]:
    positions = len(cloze.positions)
    blanks = BlankReader(RowReader(lm.model, settings), cloze, (lm.support(),) * positions)
    if construction(method).without_tables({}) or positions == 1:
        return LazyOrders(blanks).scores_of(ids)
    if method == "mlm":
        masked = blanks.all_masked()
        each = [log_p.cpu()[ids[:, blank]] for blank, (log_p, _) in enumerate(masked)]
        return torch.stack(each).sum(dim=0)
    if positions > 2:
        raise MethodError(
            f"{method} of words takes two pieces in all, and some have {positions} together; "
            "use method 'orders', which takes any number"
        )
    joint = lm.joint(cloze, method=method, support="vocabulary", settings=settings, **options)
    return torch.tensor([joint.log_prob(*fill) for fill in ids.tolist()], dtype=torch.float64)


def _log_priors(
    prior: PiecePrior | None, candidates: Sequence[Candidate], blank: int
) -> dict[int, float]:
    """The log-probability of each number of pieces that the candidates of a blank have."""
    widths = sorted({len(word.ids) for word in candidates})
    if prior is None:
        if len(widths) == 1:
            return {widths[0]: 0.0}
        raise SupportError(
            f"blank {blank}: candidates have {listed(widths)} pieces, and probabilities given "
            "their number are not comparable; state how likely each number is by a piece prior, "
            f"such as {widths[0]}=0.8,{widths[1]}=0.2, or 'uniform'"
        )
    if isinstance(prior, str) and prior == "uniform":
        return dict.fromkeys(widths, -math.log(len(widths)))
    if not isinstance(prior, Mapping):
        raise SupportError(
            "piece_prior is 'uniform' or a dictionary from numbers of pieces to their "
            f"probabilities, not {quoted(prior)}"
        )
    by_width = {
        whole_number(pieces): real_number(weight) or 0.0 for pieces, weight in prior.items()
    }
    if None in by_width:
        raise SupportError(f"piece_prior has numbers of pieces as keys, not {quoted(dict(prior))}")
    missing = [width for width in widths if width not in by_width]
    if missing:
        raise SupportError(
            f"blank {blank}: piece_prior has no probability for candidates of {listed(missing)} "
            "pieces"
        )
    weights = by_width.values()
    if not all(0 < weight <= 1 for weight in weights) or sum(weights) > 1 + 1e-9:
        raise SupportError(
            "piece_prior gives each number of pieces a probability above 0, together at most 1, "
            f"not {quoted(dict(prior))}"
        )
    return {width: math.log(by_width[width]) for width in widths}


def targets_by_blank(targets: object, blanks: int) -> dict[int, list[str]]:
    """Words by blank, from what a caller wrote: the words of one blank, a list each, or by blank.

    Blanks that are not named are not in it.
    """
    targets = [targets] if isinstance(targets, str) else as_list(targets)
    if isinstance(targets, Mapping) and targets:
        check_blanks(targets, blanks, "targets name")
        return {int(blank): _words(words) for blank, words in targets.items()}
    if isinstance(targets, bytes) or not isinstance(targets, Sequence) or not targets:
        raise SupportError(f"targets is a list of words, or one per blank, not {quoted(targets)}")
    if all(isinstance(word, str) for word in targets):
        if blanks == 1:
            return {0: list(targets)}
        # a word for each blank, or words for all of them? a guess would answer another question
        lists = [[word] for word in targets] if len(targets) == blanks else [list(targets)] * blanks
        raise SupportError(
            f"targets is one list of words, and the text has {blanks} blanks; give words by blank, "
            f"such as {quoted(dict(enumerate(lists)), limit=100)}"
        )
    if len(targets) != blanks:
        raise SupportError(f"targets has {len(targets)} lists; the text has {blanks} blanks")
    return {blank: _words(words) for blank, words in enumerate(targets) if words is not None}


def _words(words: object) -> list[str]:
    if isinstance(words, str):
        return [words]
    if isinstance(words, bytes) or not isinstance(words, Sequence) or not words:
        raise SupportError(f"the targets of a blank are a list of words, not {quoted(words)}")
    return list(words)
