"""An answer to a question, as a page shows it: fills by construction, trust, cost, heat maps.

Joints and their tables end with the call that made them; a page that stays open holds only text.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import unmask
from unmask.constructions import DEFAULT_METHOD, METHOD_WITHOUT_TABLES
from unmask.demo import panels
from unmask.demo.panels import PageUpdate
from unmask.demo.question import DemoQuestion, left_out
from unmask.demo.scheduler import Computation
from unmask.demo.words import Blanked
from unmask.queries.joint_model import read_cloze
from unmask.text.unknown_tokens import note

# candidates per blank for constructions that a sketch would get wrong
CANDIDATES = 100
# a vocabulary of so few tokens is run whole: a sketch would take as many forward passes
_SMALL = 500
# smaller values are shown as 0.000
_LEAST_SHARED = 5e-4
# errors are rounded up to this: 0.000 would mean that there is none
_LEAST_ERROR = 1e-3


def answer(
    lm: unmask.LanguageModel,
    question: DemoQuestion,
    blanked: Blanked,
    settings: unmask.Settings,
    sketch: unmask.Sketch,
    job: Computation,
) -> PageUpdate:
    """The answer by all chosen constructions; `job` receives the progress, and may end it."""
    began = time.monotonic()
    cloze, groups = read_cloze(lm, blanked.text), _groups(lm, question, len(blanked.words), sketch)
    costs = [
        lm.cost(cloze, methods=methods, support=support, settings=settings, timed=False)
        for methods, support in groups
    ]
    job.passes_expected = sum(cost.forward_passes for cost in costs)
    made: dict[str, unmask.Joint] = {}
    for methods, support in groups:
        watched = replace(settings, progress=job.tick)
        made |= lm.joints(cloze, methods=methods, support=support, settings=watched)
    joints = {name: made[name] for name in question.methods if name in made} or made
    # of others it would take more passes
    free = {name: one for name, one in joints.items() if len(one.shape) == 2 and one.is_tabulated()}
    shared = {name: joint.mutual_information() for name, joint in free.items()}
    stood = _original_tokens(lm, question, blanked, cloze)
    cards, maps = panels.cards(joints, shared, blanked.words, stood), panels.maps(free)
    # the page names unknown tokens: a warning would put a visitor's text into the log
    unknown = note(lm.tokenizer, cloze) or ""
    hints = [unknown[:1].upper() + unknown[1:], *_trust(lm, joints, shared)]
    hints += [f"{name} is for two blanks." for name in left_out(question, len(blanked.words))]
    done: dict[str, Any] = {name: one.diagnostics["forward_passes"] for name, one in joints.items()}
    passes = sum(max(done[name] for name in methods) for methods, _ in groups)
    seconds = time.monotonic() - began
    hints.append(f"Cost: {passes:,} forward pass{'es' * (passes != 1)}, {seconds:.1f} s.")
    return PageUpdate(panels.DONE, cards, panels.trust(hints), maps)


def _groups(
    lm: unmask.LanguageModel, question: DemoQuestion, blanks: int, sketch: unmask.Sketch
) -> list[tuple[list[str], Any]]:
    """Constructions that are computed together, and over what."""
    if blanks == 1:
        return [(["mlm"], "auto")]
    methods = [name for name in question.methods if name not in left_out(question, blanks)]
    if blanks == 2 and lm.model.vocabulary_size <= _SMALL:
        return [(methods, "vocabulary")]
    over: tuple[Any, Any] = "auto", "auto"
    if blanks == 2:
        first = [name for name in methods if not unmask.CONSTRUCTIONS[name].unsketched]
        over = sketch, CANDIDATES
    else:
        # what needs no table ranges over everything, where it is alone
        first = [name for name in methods if name == METHOD_WITHOUT_TABLES]
    parts = first, [name for name in methods if name not in first]
    return [(part, axes) for part, axes in zip(parts, over, strict=True) if part]


def _original_tokens(
    lm: unmask.LanguageModel, question: DemoQuestion, blanked: Blanked, cloze: unmask.Cloze
) -> tuple[int, ...] | None:
    """The original tokens of the blanks; None unless every blank was one known token."""
    if None in blanked.words:
        return None
    whole = [int(token) for token in lm.tokenizer(question.text)["input_ids"]]
    if len(whole) != len(cloze.ids):
        return None
    tokens = tuple(whole[at] for at in cloze.positions)
    is_known = lm.tokenizer.unk_token_id not in tokens
    return tokens if is_known and whole == cloze.filled(tokens) else None


def _trust(
    lm: unmask.LanguageModel, joints: Mapping[str, unmask.Joint], shared: Mapping[str, float]
) -> Iterator[str]:
    """J, the mutual information and what error bars are, in plain words."""
    yield next(filter(None, map(_agreement, joints.values())), "")
    # of the default construction, or else of one that has some at all
    some = [method for method, nats in shared.items() if nats >= _LEAST_SHARED]
    if DEFAULT_METHOD in shared or some:
        method = DEFAULT_METHOD if DEFAULT_METHOD in shared else some[-1]
        error = joints[method].standard_error(unmask.Joint.mutual_information)
        bar = f" ± {max(error, _LEAST_ERROR):.3f}" if joints[method].is_sketched() else ""
        nats = shared[method]
        yield f"Mutual information {nats:z.3f}{bar} nats ({method}): {_meaning_of_shared(nats)}"
    sketched: Sequence[Any] = [one.diagnostics for one in joints.values() if one.is_sketched()]
    if sketched:
        passes = max(did["forward_passes"] for did in sketched)
        yield (
            f"Estimated over the whole vocabulary from {passes:,} of its "
            f"{2 * lm.model.vocabulary_size + 1:,} forward passes; ± is one standard error."
        )
    if any(did.get("precision_reached") is False for did in sketched):
        off = max(did["standard_error"] for did in sketched)
        yield f"Less precise than wanted: likely fills may be off by {100 * off:.0f}%."


def _agreement(joint: unmask.Joint) -> str:
    if (agreement := joint.agreement()) is None:
        return ""
    rough = "" if agreement.converged else " (its solver has not converged: rough)"
    error = joint.standard_errors()["incompatibility"] if joint.is_sketched() else None
    return agreement.said(error and max(error, _LEAST_ERROR)).replace("+-", "±") + rough


def _meaning_of_shared(nats: float) -> str:
    if nats < 0.035:
        return "knowing one blank tells little about the other"
    if nats < 0.35:
        return "the blanks depend on each other, and independent guesses mislead for some pairs"
    return "the blanks depend on each other strongly, and independent guesses mislead"
