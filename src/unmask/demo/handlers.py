"""What happens when a visitor clicks: handlers that take and give plain values."""

from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import replace
from difflib import SequenceMatcher

import unmask
from unmask.demo import failures, panels
from unmask.demo.answers import exact, quick
from unmask.demo.panels import Shown
from unmask.demo.question import (
    LONGEST_TEXT,
    LOOKED_AT,
    QUICK,
    Offer,
    Question,
    check,
    methods_for,
    numbers,
    toggled,
)
from unmask.demo.scheduler import Job, Scheduler
from unmask.demo.words import pieces

# seconds between two looks at an exact answer
_EVERY = 0.25
_MOST_REMEMBERED = 1000


_CANCELLED = Shown(panels.line(panels.CANCELLED, "done"))


class Handlers:
    """Answers questions about one model, for many visitors.

    A visitor has one exact answer at a time: the next question cancels it.
    """

    def __init__(
        self,
        lm: unmask.LanguageModel,
        *,
        settings: unmask.Settings,
        offer: Offer,
        default: Question,
        places: int,
    ) -> None:
        self.lm, self.offer, self.default, self.places = lm, offer, default, places
        self._settings = replace(settings, progress=False, announce=False)
        self._scheduler = Scheduler(places)
        self._running: dict[str, Job] = {}
        # visitors that have cancelled an exact answer before it began
        self._unwanted: set[str] = set()

    def warm_up(self, question: Question) -> None:
        """Answer something small, so that the first visitor does not wait for what is done once."""
        found = check(question, self.offer)
        small = replace(question, methods=(QUICK,))
        try:
            self._scheduler.run(lambda: quick(self.lm, small, found, self._settings))
        except unmask.UnmaskError as error:
            # no example may mean anything to this model, which can still answer
            failures.say("warm up", error)

    def close(self) -> None:
        """Answer nothing more."""
        for job in list(self._running.values()):
            job.cancel()
        self._scheduler.close()

    # --- questions -----------------------------------------------------------------------------

    def edited(self, text: str, before: str, chosen: str) -> Question:
        """The question after the text was changed: words that are still there stay blank."""
        old, new = (
            [piece.text for piece in pieces(whole[:LONGEST_TEXT], self.offer.mask)]
            for whole in (before, text)
        )
        blank = set(numbers(chosen))
        kept = {
            block.b + at
            for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
            for at in range(block.size)
            if block.a + at in blank
        }
        return Question(text[:LOOKED_AT], tuple(sorted(kept)))

    def clicked(self, text: str, chosen: str, place: object, word: object) -> Question:
        """The question after a click on a word, which may be of an earlier text."""
        question = Question(text[:LOOKED_AT], numbers(chosen))
        return toggled(question, place, word, self.offer.mask)

    # --- answers -------------------------------------------------------------------------------

    def first_answer(self, question: Question, visitor: str = "") -> Shown:
        """By constructions that need no tables, while the others are still to come."""
        self._unwanted.discard(visitor)
        self._cancel_running(visitor)
        try:
            found = check(question, self.offer)
            return self._scheduler.run(lambda: quick(self.lm, question, found, self._settings))
        except Exception as error:
            return _failed(error)

    def exact_answer(self, question: Question, visitor: str = "") -> Iterator[Shown]:
        """How far it is, again and again, and then by all constructions; ends when nobody looks.

        `visitor` is the one that may cancel it.
        """
        try:
            found = check(question, self.offer)
            to_come = methods_for(question, len(found.words))[1]
        except unmask.UnmaskError:
            # the first answer has said so
            to_come = []
        if not to_come:
            yield Shown()
            return
        if visitor in self._unwanted:
            self._unwanted.discard(visitor)
            yield _CANCELLED
            return
        self._cancel_running(visitor)
        job = self._scheduler.begin(
            lambda job: exact(self.lm, question, found, self._settings, self.offer, job)
        )
        if job is None:
            yield Shown(panels.line(panels.BUSY, "busy"))
        else:
            yield from self._watched(job, visitor)

    def cancel(self, visitor: str) -> Shown:
        """End the exact answer that a visitor waits for, or that is about to begin."""
        if job := self._running.get(visitor):
            job.cancel()
            return _CANCELLED
        if len(self._unwanted) >= _MOST_REMEMBERED:
            self._unwanted.clear()
        self._unwanted.add(visitor)
        return Shown()

    def _watched(self, job: Job, visitor: str) -> Iterator[Shown]:
        self._running[visitor] = job
        try:
            while not wait([job.future], _EVERY).done and not job.is_cancelled:
                yield Shown(panels.progress(job))
            if self._running.get(visitor) is not job:
                # the visitor looks at the answer to another question
                yield Shown()
            elif job.is_cancelled:
                # it ends by itself soon, but nobody has to wait for that
                yield _CANCELLED
            else:
                error = job.future.exception()
                yield _failed(error) if error else job.future.result()
        finally:
            job.cancel()
            if self._running.get(visitor) is job:
                del self._running[visitor]

    def _cancel_running(self, visitor: str) -> None:
        if job := self._running.pop(visitor, None):
            job.cancel()


def _failed(error: BaseException) -> Shown:
    """What a visitor can mend is said; of anything else only that it happened."""
    if isinstance(error, unmask.UnmaskError):
        said = str(error)
    else:
        failures.say("answer", error)
        said = panels.FAILED
    return Shown(panels.line(said, "rejected"), "", "", "")
