"""Answers to a question, as a page shows them: fills by construction, trust, cost, a picture.

Joints and their tables end with the call that made them; a page that stays open holds only text.
"""

import base64
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import unmask
from unmask import plots
from unmask.constructions import DEFAULT_METHOD
from unmask.demo import panels
from unmask.demo.panels import Shown
from unmask.demo.question import QUICK, Offer, Question, left_out, methods_for
from unmask.demo.scheduler import Job
from unmask.demo.words import Blanked
from unmask.text.unknown_tokens import note

# tokens per side of a heat map
MAP = 8
# what is less is shown as 0.000
_LEAST_SHARED = 5e-4


def quick(
    lm: unmask.LanguageModel, question: Question, found: Blanked, how: unmask.Settings
) -> Shown:
    """By the constructions that need no tables, while the others are still to come."""
    methods, to_come = methods_for(question, len(found.words))
    return _answer(lm, question, found, [methods], how, to_come)


def exact(
    lm: unmask.LanguageModel,
    question: Question,
    found: Blanked,
    how: unmask.Settings,
    offer: Offer,
    job: Job,
) -> Shown:
    """By all that were chosen: those that need no tables then read the ones that are there."""
    groups = [[*question.methods]]
    if len(found.words) > 2:
        # the quick one has no candidates then, and shares nothing with the others
        groups = [[QUICK]] * (QUICK in question.methods)
        groups.append(methods_for(question, len(found.words))[1])
    cost = lm.cost(
        lm.read(found.text),
        methods=groups[-1],
        support=_support(question, found),
        settings=how,
        timed=False,
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
    to_come: Sequence[str] = (),
) -> Shown:
    began = time.monotonic()
    cloze, support = lm.read(found.text), _support(question, found)
    joints: dict[str, unmask.Joint] = {}
    for methods in groups:
        joints |= lm.joints(cloze, methods=methods, support=support, settings=how)
    # of others it would take more passes
    free = {name: one for name, one in joints.items() if len(one.shape) == 2 and one.is_tabulated()}
    shared = {name: joint.mutual_information() for name, joint in free.items()}
    stood = _tokens_that_stood(lm, question, found, cloze)
    cards = panels.cards(joints, shared, found.words, stood, to_come, set(question.methods))
    # what is unknown is said on the page: a warning would put a visitor's text into the log
    unknown = note(lm.tokenizer, cloze) or ""
    said = [unknown[:1].upper() + unknown[1:], *_trust(lm, shared, [*joints.values()][-1])]
    said += [f"{name} is for two blanks." for name in left_out(question, len(found.words))]
    done: dict[str, Any] = {name: one.diagnostics["forward_passes"] for name, one in joints.items()}
    passes = sum(max(done[name] for name in each) for each in groups)
    seconds = time.monotonic() - began
    said.append(f"Cost: {passes:,} forward pass{'es' * (passes != 1)}, {seconds:.1f} s.")
    # drawing takes longer than answering: not for a picture that is soon replaced
    is_drawn = len(found.words) == 2 and not to_come
    return Shown(
        panels.line("The exact answer follows.", "waiting") if to_come else panels.DONE,
        cards,
        panels.trust(said),
        panels.picture(_figure(joints), joints) if is_drawn else "",
    )


def _support(question: Question, found: Blanked) -> int | str:
    """More blanks than two have as many candidates as some thousand passes allow."""
    return question.candidates if len(found.words) == 2 and question.candidates else "auto"


def _tokens_that_stood(
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


def _trust(
    lm: unmask.LanguageModel, shared: Mapping[str, float], last: unmask.Joint
) -> Iterator[str]:
    """J, the mutual information and the part that candidates hold, in plain words."""
    if (agreement := last.agreement()) is not None:
        rough = "" if agreement.converged else " (its solver has not converged: rough)"
        yield f"{agreement}{rough}"
    # of the default construction, or else of one that has some at all
    some = [method for method, nats in shared.items() if nats >= _LEAST_SHARED]
    if DEFAULT_METHOD in shared or some:
        method = DEFAULT_METHOD if DEFAULT_METHOD in shared else some[-1]
        nats = shared[method]
        yield f"Mutual information {nats:.3f} nats ({method}): {_meaning_of_shared(nats)}"
    sizes = [len(axis) for axis in last.supports]
    captured: Any = last.diagnostics.get("captured_mass")
    if captured and min(sizes) < lm.model.vocabulary_size:
        held = math.floor(1000 * min(captured)) / 10
        yield (
            f"Probabilities are given {max(sizes):,} candidates per blank, which hold "
            f"{held:.1f}% of the blank's own distribution or more."
        )


def _meaning_of_shared(nats: float) -> str:
    if nats < 0.035:
        return "knowing one blank tells little about the other"
    if nats < 0.35:
        return "the blanks lean on each other, and independent guesses mislead for some pairs"
    return "the blanks depend on each other strongly, and independent guesses mislead"


def _figure(joints: Mapping[str, unmask.Joint]) -> str:
    """A picture as the address of an image: a browser runs nothing that is in one."""
    figure = plots.compare(joints, MAP, title="")
    written = BytesIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(written.getvalue()).decode("ascii")
