"""Answers to a question, as plain values: ranked fills by construction, trust, cost, a picture.

Joints and their tables end with the call that made them; a page that stays open holds only text.
"""

import base64
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import unmask
from unmask import plots
from unmask.constructions import DEFAULT_METHOD
from unmask.demo.question import QUICK, Offer, Question, left_out, methods_for
from unmask.demo.scheduler import Job
from unmask.demo.words import Blanked
from unmask.text.unknown_tokens import note

# fills that a card shows, and tokens per side of a heat map
TOP, MAP = 8, 8
# what is less is shown as 0.000
_LEAST_SHARED = 5e-4


@dataclass(frozen=True)
class Column:
    """What one construction says: its likeliest fills, and how it sees the words that stood there.

    `yours` is their probability, None where they are not among the candidates; `shared` the mutual
    information of two blanks in nats, None where it would take more passes.
    """

    method: str
    fills: tuple[tuple[tuple[str, ...], float], ...]
    yours: float | None = None
    shared: float | None = None
    converged: bool = True


@dataclass(frozen=True)
class Answer:
    """What a page shows: columns, the words that stood there, sentences, a picture of two blanks.

    The sentences say how far to trust it and what it cost.
    """

    columns: tuple[Column, ...]
    yours: tuple[str, ...] | None
    sentences: tuple[str, ...]
    figure: str | None = None


def quick(
    lm: unmask.LanguageModel, question: Question, found: Blanked, how: unmask.Settings
) -> Answer:
    """By the constructions that need no tables."""
    methods, to_come = methods_for(question, len(found.words))
    # drawing takes longer than answering: not for a picture that is soon replaced
    return _answer(lm, question, found, [methods], how, drawn=not to_come)


def exact(
    lm: unmask.LanguageModel,
    question: Question,
    found: Blanked,
    how: unmask.Settings,
    offer: Offer,
    job: Job,
) -> Answer:
    """By all that were chosen: those that need no tables then read the ones that are there."""
    groups = [[*question.methods]]
    if len(found.words) > 2:
        # the quick one has no candidates then, and shares nothing with the others
        groups = [[QUICK]] * (QUICK in question.methods)
        groups.append(methods_for(question, len(found.words))[1])
    support = _support(question, found)
    cost = lm.cost(
        lm.read(found.text), methods=groups[-1], support=support, settings=how, timed=False
    )
    if cost.forward_passes > offer.passes:
        raise unmask.UnmaskError(
            f"this takes {cost.forward_passes:,} forward passes, and the demo up to "
            f"{offer.passes:,}: choose fewer candidates or blanks"
        )
    job.passes_expected = cost.forward_passes
    return _answer(lm, question, found, groups, replace(how, progress=job.tick))


def _answer(
    lm: unmask.LanguageModel,
    question: Question,
    found: Blanked,
    groups: Sequence[Sequence[str]],
    how: unmask.Settings,
    *,
    drawn: bool = True,
) -> Answer:
    began = time.monotonic()
    support = _support(question, found)
    cloze = lm.read(found.text)
    joints: dict[str, unmask.Joint] = {}
    for methods in groups:
        joints |= lm.joints(cloze, methods=methods, support=support, settings=how)
    yours = _yours(lm, question, found, cloze)
    columns = tuple(_column(name, joint, yours) for name, joint in joints.items())
    # what is unknown is said on the page: a warning would put a visitor's text into the log
    unknown = note(lm.tokenizer, cloze) or ""
    sentences = [unknown[:1].upper() + unknown[1:], *_trust(lm, columns, [*joints.values()][-1])]
    sentences += [f"{name} is for two blanks." for name in left_out(question, len(found.words))]
    done: dict[str, Any] = {name: one.diagnostics["forward_passes"] for name, one in joints.items()}
    passes = sum(max(done[name] for name in each) for each in groups)
    seconds = time.monotonic() - began
    sentences.append(f"Cost: {passes:,} forward pass{'es' * (passes != 1)}, {seconds:.1f} s.")
    return Answer(
        columns,
        None if yours is None else tuple(word for word in found.words if word is not None),
        tuple(filter(None, sentences)),
        figure=_figure(joints) if drawn and len(found.words) == 2 else None,
    )


def _trust(
    lm: unmask.LanguageModel, columns: Sequence[Column], last: unmask.Joint
) -> Iterator[str]:
    """J, the mutual information and the part that candidates hold, in plain words."""
    if (agreement := last.agreement()) is not None:
        rough = "" if agreement.converged else " (its solver has not converged: rough)"
        yield f"{agreement}{rough}"
    yield from _shared({one.method: one.shared for one in columns if one.shared is not None})
    sizes = [len(axis) for axis in last.supports]
    captured: Any = last.diagnostics.get("captured_mass")
    if captured and min(sizes) < lm.model.vocabulary_size:
        held = math.floor(1000 * min(captured)) / 10
        yield (
            f"Probabilities are given {max(sizes):,} candidates per blank, which hold "
            f"{held:.1f}% of the blank's own distribution or more."
        )


def _shared(known: Mapping[str, float]) -> Iterator[str]:
    """The mutual information of the default construction, or else of one that has some at all."""
    some = [method for method, nats in known.items() if nats >= _LEAST_SHARED]
    method = DEFAULT_METHOD if DEFAULT_METHOD in known else some[-1] if some else None
    if method is None:
        return
    nats = known[method]
    if nats < 0.035:
        means = "knowing one blank tells little about the other"
    elif nats < 0.35:
        means = "the blanks lean on each other, and independent guesses mislead for some pairs"
    else:
        means = "the blanks depend on each other strongly, and independent guesses mislead"
    yield f"Mutual information {nats:.3f} nats ({method}): {means}"


def _support(question: Question, found: Blanked) -> int | str:
    """More blanks than two have as many candidates as some thousand passes allow."""
    return question.candidates if len(found.words) == 2 and question.candidates else "auto"


def _column(method: str, joint: unmask.Joint, yours: tuple[int, ...] | None) -> Column:
    ranked = joint.top(min(TOP, math.prod(joint.shape)))
    stood = None
    if yours is not None:
        # None where it is not among the candidates
        with suppress(unmask.SupportError):
            stood = math.exp(joint.log_prob(*yours))
    is_free = len(joint.shape) == 2 and joint.is_tabulated()
    return Column(
        method,
        tuple((fill.tokens, fill.probability) for fill in ranked),
        yours=stood,
        shared=joint.mutual_information() if is_free else None,
        converged=joint.diagnostics.get("converged") is not False,
    )


def _yours(
    lm: unmask.LanguageModel, question: Question, found: Blanked, cloze: unmask.Cloze
) -> tuple[int, ...] | None:
    """The tokens that stood in the blanks; None unless every blank was one token, and known."""
    if None in found.words:
        return None
    whole = [int(token) for token in lm.tokenizer(question.text)["input_ids"]]
    if len(whole) != len(cloze.ids):
        return None
    tokens = tuple(whole[at] for at in cloze.positions)
    is_known = lm.tokenizer.unk_token_id not in tokens
    return tokens if is_known and whole == cloze.filled(tokens) else None


def _figure(joints: Mapping[str, unmask.Joint]) -> str:
    """A picture as the address of an image: a browser runs nothing that is in one."""
    figure = plots.compare(joints, MAP, title="")
    written = BytesIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(written.getvalue()).decode("ascii")
