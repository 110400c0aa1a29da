"""Samples of any number of blanks from a masked LM, by block Gibbs sampling over pairs.

A chain holds a token for every blank. An update takes a random pair of blanks and draws both from
their joint given all other blanks, by one of the constructions; where the model's conditionals
contradict each other, so do these joints, and what the chains settle on depends on the method.
Two blanks are one pair: every update draws both anew, so that draws are exact and independent, and
one update of many chains gives them all. One blank is drawn from the model's own distribution.
"""

from collections.abc import Mapping

import torch

from unmask.arguments import whole_number
from unmask.constructions import method_name
from unmask.errors import UnmaskError
from unmask.model.masked_lm import MaskedLM
from unmask.printable import quoted
from unmask.queries.sampling.chains import Schedule, Trace, generator, mixing_of, run, start
from unmask.queries.sampling.conditionals import Conditionals
from unmask.queries.sampling.pair_blocks import OrdersBlock, PairBlock, TablesBlock
from unmask.queries.sampling.samples import Draw, Samples
from unmask.queries.sampling.target import Target
from unmask.settings import Settings
from unmask.text.cloze import Cloze
from unmask.text.support import Support

DEFAULT_CHAINS = 4
# sweeps; R-hat shows where they were too few
DEFAULT_WARM_UP = 50


def sample_blanks(
    model: MaskedLM,
    cloze: Cloze,
    supports: tuple[Support, ...],
    n: int,
    *,
    method: str = "orders",
    chains: int = DEFAULT_CHAINS,
    warm_up: int = DEFAULT_WARM_UP,
    thin: int = 1,
    seed: int = 0,
    settings: Settings | None = None,
    options: Mapping[str, object] | None = None,
) -> Samples:
    """`n` draws of all blanks together, over `chains` chains, with R-hat and effective sample size.

    Chains start from the model's distributions with all blanks masked, make `warm_up` sweeps that
    are thrown away, and keep a state every `thin` sweeps; a sweep is as many updates of pairs as
    draw each blank once on average. `method` is "orders" (two rows per update, any vocabulary) or
    another construction, with its `options`, over tables of at most some thousand rows. Over
    candidates that leave out much of the vocabulary prefer tables: what "orders" draws first, it
    draws with the other blank free to be any token. The same seed and batch size give the same
    draws.
    """
    check_counts(n=(n, 1), chains=(chains, 1), warm_up=(warm_up, 0), thin=(thin, 1), seed=(seed, 0))
    name, run_settings = method_name(method), settings or Settings()
    target = Target(model, cloze, supports, name, dict(options or {}), run_settings)
    several = min(chains, n)
    schedule = Schedule(several, -(-n // several), warm_up, thin, seed)
    if target.is_one_block:
        # nothing to warm up or to agree on: each draw is a chain of one update
        schedule = Schedule(chains=n, draws=1, warm_up=0, thin=1, seed=seed)
    return _sampled(target, schedule, n)


def _sampled(target: Target, schedule: Schedule, n: int) -> Samples:
    conditionals, tokens = Conditionals(target), generator(schedule.seed, "tokens")
    block = (
        TablesBlock(target, tokens) if target.needs_tables else OrdersBlock(conditionals, tokens)
    )
    trace = _trace(target, conditionals, block, schedule)
    return Samples(
        fills=_named(trace, target.supports, n),
        mixing=() if target.is_one_block else mixing_of(trace, target.supports),
        independent=target.is_one_block,
        # of one blank there is nothing to construct
        method="mlm" if target.blanks == 1 else target.method,
        seed=schedule.seed,
        chains=schedule.chains,
        warm_up=schedule.warm_up,
        thin=schedule.thin,
        updates=trace.updates,
        forward_passes=conditionals.forward_passes + block.table_rows,
        unsolved=block.unsolved,
    )


def _trace(
    target: Target, conditionals: Conditionals, block: PairBlock, schedule: Schedule
) -> Trace:
    if target.blanks == 2:
        masks = torch.full((schedule.chains, 2), target.model.mask_id)
        return Trace.of_one(block.draw(masks, (0, 1)))
    begun = start(conditionals, schedule.chains, schedule.seed)
    if target.blanks == 1:
        return Trace.of_one(begun)
    return run(block, begun, schedule, target.settings.progress)


def _named(trace: Trace, supports: tuple[Support, ...], n: int) -> tuple[Draw, ...]:
    """Chain after chain; where `n` is no multiple of the chains, the last ones give one less."""
    chains, draws, _ = trace.tokens.shape
    spare = chains * draws - n
    kept = []
    for chain, states in enumerate(trace.tokens.tolist()):
        kept += states[: draws - 1 if chain >= chains - spare else draws]
    return tuple(_draw(tuple(ids), supports) for ids in kept)


def _draw(ids: tuple[int, ...], supports: tuple[Support, ...]) -> Draw:
    named = zip(ids, supports, strict=True)
    return Draw(tuple(axis.names[axis.index(token)] for token, axis in named), ids)


def check_counts(**counts: tuple[object, int]) -> None:
    """Reject values that are not whole numbers from their minimum on."""
    for name, (value, least) in counts.items():
        number = whole_number(value)
        if number is None or number < least:
            raise UnmaskError(f"{name} is a whole number from {least}, not {quoted(value)}")
