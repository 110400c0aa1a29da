"""What happens when a visitor clicks: handlers that take and give plain values."""

from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import replace
from difflib import SequenceMatcher

import unmask
from unmask.demo import failures, panels
from unmask.demo.answers import answer
from unmask.demo.panels import PageUpdate
from unmask.demo.question import LONGEST_TEXT, LOOKED_AT, DemoQuestion, check, numbers, toggled
from unmask.demo.scheduler import Computation, Scheduler
from unmask.demo.words import pieces

# seconds between two looks at an answer, and at one that waits: those of many take time too
_EVERY, _WAITING = 0.25, 2.0


class Handlers:
    """Answers questions about one model, for many visitors.

    A visitor has one answer at a time: the next question cancels it.
    """

    def __init__(
        self,
        lm: unmask.LanguageModel,
        *,
        settings: unmask.Settings,
        sketch: unmask.Sketch,
        default: DemoQuestion,
        places: int,
    ) -> None:
        self.lm, self.default, self.places = lm, default, places
        self.mask = str(lm.tokenizer.mask_token)
        self._settings = replace(settings, progress=False, announce=False)
        self._sketch, self._scheduler = sketch, Scheduler(places)
        self._running: dict[str, Computation] = {}

    def warm_up(self, question: DemoQuestion) -> None:
        """Answer a question, so that the first visitor does not wait for the initialisation."""
        job = self._begun(question)
        assert job is not None, "nobody can have asked yet"
        try:
            job.future.result()
        except unmask.UnmaskError as error:
            # no example may mean anything to this model, which can still answer
            failures.say("warm up", error)

    def close(self) -> None:
        """Answer nothing more."""
        for job in list(self._running.values()):
            job.cancel()
        self._scheduler.close()

    # --- questions -----------------------------------------------------------------------------

    def edited(self, text: str, before: str, chosen: str) -> DemoQuestion:
        """The question after the text was changed: words that are still there stay blank."""
        old, new = (
            [piece.text for piece in pieces(whole[:LONGEST_TEXT], self.mask)]
            for whole in (before, text)
        )
        blank = set(numbers(chosen))
        kept = {
            block.b + at
            for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
            for at in range(block.size)
            if block.a + at in blank
        }
        return DemoQuestion(text[:LOOKED_AT], tuple(sorted(kept)))

    def clicked(self, text: str, chosen: str, place: object, word: object) -> DemoQuestion:
        """The question after a click on a word, which may be of an earlier text."""
        question = DemoQuestion(text[:LOOKED_AT], numbers(chosen))
        return toggled(question, place, word, self.mask)

    # --- answers -------------------------------------------------------------------------------

    def answer(self, question: DemoQuestion, visitor: str = "") -> Iterator[PageUpdate]:
        """How far it is, again and again, and then the answer; ends when nobody looks.

        `visitor` is the one that may cancel it.
        """
        if before := self._running.pop(visitor, None):
            before.cancel()
        try:
            job = self._begun(question)
        except Exception as error:
            yield _failed(error)
            return
        if job is None:
            yield _message_only(panels.BUSY, "busy")
        else:
            yield from self._watched(job, visitor)

    def cancel(self, visitor: str) -> PageUpdate:
        """End the answer that a visitor waits for."""
        if job := self._running.get(visitor):
            job.cancel()
            return _message_only(panels.CANCELLED, "done")
        return PageUpdate()

    def _begun(self, question: DemoQuestion) -> Computation | None:
        blanked = check(question, self.mask)
        return self._scheduler.begin(
            lambda job: answer(self.lm, question, blanked, self._settings, self._sketch, job)
        )

    def _watched(self, job: Computation, visitor: str) -> Iterator[PageUpdate]:
        self._running[visitor] = job
        try:
            while not job.is_cancelled and not job.future.done():
                yield PageUpdate(panels.progress(job))
                wait([job.future], _EVERY if job.has_begun else _WAITING)
            if self._running.get(visitor) is not job:
                # the visitor looks at the answer to another question
                yield PageUpdate()
            elif job.is_cancelled:
                # it ends by itself soon, but nobody has to wait for that
                yield _message_only(panels.CANCELLED, "done")
            else:
                error = job.future.exception()
                yield _failed(error) if error else job.future.result()
        finally:
            job.cancel()
            if self._running.get(visitor) is job:
                del self._running[visitor]


def _failed(error: BaseException) -> PageUpdate:
    """Errors that a visitor can correct are shown; all others have one general message."""
    if isinstance(error, unmask.UnmaskError):
        message = str(error)
    else:
        failures.say("answer", error)
        message = panels.FAILED
    return _message_only(message, "rejected")


def _message_only(message: str, kind: str) -> PageUpdate:
    """A line in place of an answer: one to another question would be taken for its own."""
    return PageUpdate(panels.line(message, kind), "", "", "")
