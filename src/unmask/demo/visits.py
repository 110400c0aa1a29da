"""What happens when a visitor clicks: handlers that take and give plain values."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import unmask
from unmask.demo import panels
from unmask.demo.answers import Answer, exact, quick
from unmask.demo.jobs import Desk, Job
from unmask.demo.question import Question, check, from_query, methods_for, numbers, toggled
from unmask.demo.words import pieces
from unmask.markup import Markup

# seconds between two looks at a long computation
_EVERY = 0.25


@dataclass(frozen=True)
class Shown:
    """What an answer changes on the page; None leaves a part as it is."""

    status: Markup | None = None
    cards: Markup | None = None
    trust: Markup | None = None
    picture: Markup | None = None


class Visits:
    """Answers questions about one model, for many visitors, of whom nothing is kept."""

    def __init__(
        self, lm: unmask.LanguageModel, *, settings: unmask.Settings, default: Question, places: int
    ) -> None:
        self.lm, self.default = lm, default
        self.mask = str(lm.tokenizer.mask_token)
        self._how = replace(settings, progress=False, announce=False)
        self._desk, self.places = Desk(places), places
        self._running: dict[str, Job[Answer]] = {}

    def warm_up(self, question: Question) -> None:
        """Answer something small, so that the first visitor does not wait for what is done once.

        What solvers need compiled is compiled beside the page.
        """
        found = check(question, self.mask)
        small = replace(question, methods=("orders",))
        self._desk.at_once(lambda: quick(self.lm, small, found, self._how))
        self._desk.long.submit(self._compile, found.text)

    def _compile(self, text: str) -> None:
        joints = self.lm.joints(text, methods=["log-pool", "ag"], support=4, settings=self._how)
        for joint in joints.values():
            joint.top(1)
            joint.agreement()
            joint.entropy()

    # --- what is asked -------------------------------------------------------------------------

    def edited(self, text: str, before: str, chosen: str) -> Question:
        """The question after the text was changed: words that are still there stay blank."""
        old, new = ([piece.text for piece in pieces(whole, self.mask)] for whole in (before, text))
        kept = {
            block.b + at
            for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
            for at in range(block.size)
            if block.a + at in numbers(chosen)
        }
        return Question(text, tuple(sorted(kept)))

    def clicked(self, text: str, chosen: str, place: object, word: object) -> Question:
        """The question after a word was clicked, which may be one of the text before this."""
        return toggled(Question(text, numbers(chosen)), place, word, self.mask)

    def restored(self, query: str) -> Question | None:
        """The question of a link, if it asks one."""
        return from_query(query, self.default)

    # --- what is answered ----------------------------------------------------------------------

    def first_answer(self, question: Question) -> Shown:
        """By constructions that need no tables, while the others are still to come."""
        try:
            found = check(question, self.mask)
        except unmask.UnmaskError as error:
            asked = question.blanked(self.mask).words if len(question.text) < 10_000 else ("",)
            return _refused(str(error)) if asked else _nothing()
        cheap, to_come = methods_for(question, len(found.words))
        try:
            answer = self._desk.at_once(lambda: quick(self.lm, question, found, self._how))
        except unmask.UnmaskError as error:
            return _refused(str(error))
        stand_in = bool(to_come) and not set(cheap) & set(question.methods)
        said = "The exact answer follows." if to_come else "Done."
        return Shown(
            panels.line(said, "waiting" if to_come else "done"),
            panels.cards(answer, to_come, quick_look=stand_in),
            panels.trust(answer),
            panels.picture(answer),
        )

    def exact_answer(self, question: Question, visitor: str = "") -> Iterator[Shown]:
        """How far it is, again and again, and then by all constructions; ends when nobody looks.

        `visitor` is whoever may cancel it.
        """
        try:
            found = check(question, self.mask)
        except unmask.UnmaskError:
            # the first answer has said so
            yield Shown()
            return
        if not methods_for(question, len(found.words))[1]:
            yield Shown()
            return
        if not self._desk.room.enter():
            yield Shown(panels.line(panels.BUSY, "busy"))
            return
        job: Job[Answer] = Job(
            self._desk, lambda job: exact(self.lm, question, found, self._how, job)
        )
        # one at a time is what a page has room for
        self.cancel(visitor)
        self._running[visitor] = job
        try:
            while not job.wait(_EVERY):
                if job.is_cancelled():
                    # it ends by itself soon, but nobody has to wait for that
                    break
                yield Shown(panels.progress(job))
            yield _shown(job)
        finally:
            job.cancel()
            if self._running.get(visitor) is job:
                del self._running[visitor]

    def cancel(self, visitor: str) -> Shown:
        """End what a visitor waits for."""
        job = self._running.get(visitor)
        if job is None:
            return Shown()
        job.cancel()
        return Shown(panels.line(panels.CANCELLED, "done"))


def _shown(job: Job[Answer]) -> Shown:
    if job.is_cancelled():
        return Shown(panels.line(panels.CANCELLED, "done"))
    try:
        answer = job.result()
    except unmask.UnmaskError as error:
        return _refused(str(error))
    return Shown(
        panels.line("Done.", "done"),
        panels.cards(answer),
        panels.trust(answer),
        panels.picture(answer),
    )


def _refused(said: str) -> Shown:
    return Shown(panels.line(said, "refused"), panels.NOTHING, panels.NOTHING, panels.NOTHING)


def _nothing() -> Shown:
    return Shown(panels.line(panels.HINT), panels.NOTHING, panels.NOTHING, panels.NOTHING)
