"""Answers to a question, as plain values: ranked fills by construction, trust, cost, a picture.

Joints and their tables end with the call that made them; a page that stays open holds only text.
"""

import base64
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import unmask
from unmask import plots
from unmask.demo.question import QUICK, Offer, Question, left_out, methods_for
from unmask.demo.scheduler import Job
from unmask.demo.words import Blanked
from unmask.text.unknown_tokens import note

# fills that a card shows, and tokens per side of a heat map
TOP, MAP = 8, 8


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
    """What a page shows: columns, J with its words, what it cost, and a picture of two blanks."""

    columns: tuple[Column, ...]
    yours: tuple[str, ...] | None
    forward_passes: int
    seconds: float
    trust: str | None = None
    candidates: tuple[int, ...] = ()
    captured: float | None = None
    left_out: tuple[str, ...] = ()
    unknown: str | None = None
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
    # what is unknown is said on the page: a warning would put a visitor's text into the log
    cloze = lm.read(found.text)
    unknown = note(lm.tokenizer, cloze)
    joints: dict[str, unmask.Joint] = {}
    for methods in groups:
        joints |= lm.joints(cloze, methods=methods, support=support, settings=how)
    yours = _yours(lm, question, found, cloze)
    columns = tuple(_column(name, joint, yours) for name, joint in joints.items())
    name, last = list(joints.items())[-1]
    agreement = last.agreement()
    is_whole = all(len(axis) == lm.model.vocabulary_size for axis in last.supports)
    did: dict[str, dict[str, Any]] = {name: one.diagnostics for name, one in joints.items()}
    held = did[name].get("captured_mass")
    is_rough = agreement is not None and not agreement.converged
    rough = " (its solver has not converged: rough)" if is_rough else ""
    return Answer(
        columns,
        None if yours is None else tuple(word for word in found.words if word is not None),
        forward_passes=sum(max(did[name]["forward_passes"] for name in group) for group in groups),
        seconds=time.monotonic() - began,
        trust=None if agreement is None else f"{agreement}{rough}",
        candidates=tuple(len(axis) for axis in last.supports),
        captured=min(held) if held and not is_whole else None,
        left_out=tuple(left_out(question, len(found.words))),
        unknown=unknown,
        figure=_figure(joints) if drawn and len(found.words) == 2 else None,
    )


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
