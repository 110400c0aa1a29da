"""One Gibbs update: both tokens of a pair of blanks, drawn given the tokens of all others.

By "orders" a draw takes two rows of the model, whatever the vocabulary: one blank, chosen at
random, is drawn with both masked, then the other with it filled in. That is an exact draw from the
even mixture of both orders. Every other construction takes tables of the pair, and a joint over
them, for each context that the other blanks make.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.constructions import build, construction
from unmask.joints.joint import Joint
from unmask.model.row_reader import RowReader
from unmask.queries.sampling.conditionals import Conditionals, DrawnTokens, Recent
from unmask.queries.sampling.target import Target
from unmask.tables.elicited import ElicitedSource
from unmask.tables.pair_tables import PairTables
from unmask.text.cloze import Cloze

Pair = tuple[int, int]

# of pair joints whose context may come back
_REMEMBERED_BYTES = 2**27


class OrdersBlock:
    """The even mixture of both orders of filling, from two rows per chain."""

    # it has neither tables nor solvers
    table_rows = unsolved = 0

    def __init__(self, conditionals: Conditionals, generator: torch.Generator) -> None:
        self._conditionals, self._generator = conditionals, generator

    def draw(self, tokens: Int[Tensor, "chains blanks"], pair: Pair) -> DrawnTokens:
        """One blank with both masked, then the other given it: all chains in one batch each."""
        chains = len(tokens)
        uniforms = torch.rand(3, chains, dtype=torch.float64, generator=self._generator)
        earlier = (uniforms[0] < 0.5).long()
        places = torch.stack([earlier, 1 - earlier])
        blanks = torch.tensor(pair)[places]
        rows, every = tokens.clone(), torch.arange(chains)
        rows[:, list(pair)] = self._conditionals.mask_id
        drawn = DrawnTokens(torch.empty(chains, 2).long(), torch.empty(chains, 2).double())
        for turn in (0, 1):
            new = self._conditionals.draw(rows, blanks[turn], uniforms[1 + turn])
            rows[every, blanks[turn]] = new.tokens
            drawn.tokens[every, places[turn]] = new.tokens
            drawn.log_probs[every, places[turn]] = new.log_probs
        return drawn


@dataclass(frozen=True, eq=False)
class _Kept:
    """A joint of a pair in one context, and the source that it may still read."""

    joint: Joint
    source: ElicitedSource


class TablesBlock:
    """Any construction, over tables of the pair in the context of each chain.

    Counts the rows that the model ran for tables, and joints whose solver did not converge.
    """

    def __init__(self, target: Target, generator: torch.Generator) -> None:
        self.table_rows = self.unsolved = 0
        self._target, self._generator = target, generator
        # its own bars would come and go with every context
        settings = target.settings
        shown = target.is_one_block or callable(settings.progress)
        self._settings = settings if shown else replace(settings, progress=False)
        # two dense float32 tables; factored ones take less
        each = 8 * math.prod(sorted(map(len, target.supports))[-2:])
        self._remembered: Recent[_Kept] = Recent(_REMEMBERED_BYTES // each)

    def draw(self, tokens: Int[Tensor, "chains blanks"], pair: Pair) -> DrawnTokens:
        """Independent draws for the chains of each context, contexts in the order of their ids."""
        masked = tokens.clone()
        masked[:, list(pair)] = self._target.model.mask_id
        contexts, which = torch.unique(masked, dim=0, return_inverse=True)
        drawn = DrawnTokens(
            torch.empty(len(tokens), 2).long(), torch.empty(len(tokens), 2).double()
        )
        for place, context in enumerate(contexts.tolist()):
            mine = torch.nonzero(which == place)[:, 0]
            part = self._sampled(tuple(context), pair, len(mine))
            drawn.tokens[mine], drawn.log_probs[mine] = part.tokens, part.log_probs
        return drawn

    def _sampled(self, context: tuple[int, ...], pair: Pair, n: int) -> DrawnTokens:
        kept = self._remembered.get((pair, context))
        before = kept.source.forward_passes if kept else 0
        kept = kept or self._built(context, pair)
        fills = kept.joint.sample(n, seed=self._generator)
        # a mixture reads more contexts as it is sampled
        self.table_rows += kept.source.forward_passes - before
        log_probs = torch.tensor([fill.log_prob for fill in fills], dtype=torch.float64)
        # a half for each blank, so that a sum over blanks counts the pair once
        halves = (log_probs / 2)[:, None].repeat(1, 2)
        return DrawnTokens(torch.tensor([fill.ids for fill in fills]), halves)

    def _built(self, context: tuple[int, ...], pair: Pair) -> _Kept:
        target, (i, j) = self._target, pair
        filled, at = tuple(target.cloze.filled(context)), target.cloze.positions
        here = Cloze(target.cloze.text, filled, (at[i], at[j]))
        axes = (target.supports[i], target.supports[j])
        source = ElicitedSource(RowReader(target.model, self._settings), here, axes)
        tables = PairTables(source, self._settings)
        lazy = construction(target.method).needs(tables.shape, target.options).only_contexts()
        if lazy and target.rows_per_update() > sum(map(len, axes)):
            # small supports: cheaper once and for all than a few contexts at every draw
            tables.both()
        kept = _Kept(build(target.method, tables, target.options), source)
        self.unsolved += kept.joint.diagnostics.get("converged") is False
        self._remembered.keep((pair, context), kept)
        return kept


PairBlock = OrdersBlock | TablesBlock
