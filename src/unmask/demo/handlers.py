"""What happens when a visitor clicks: handlers that take and give plain values."""

from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from typing import NamedTuple

import unmask
from unmask.constructions import DEFAULT_METHOD
from unmask.demo import failures, panels
from unmask.demo.answers import Answer, exact, quick
from unmask.demo.markup import Markup
from unmask.demo.question import (
    LONGEST_TEXT,
    LOOKED_AT,
    QUICK,
    Offer,
    Question,
    check,
    from_query,
    methods_for,
    numbers,
    toggled,
)
from unmask.demo.scheduler import Job, Scheduler
from unmask.demo.words import pieces

# seconds between two looks at an exact answer
_EVERY = 0.25
_MOST_REMEMBERED = 1000


class Shown(NamedTuple):
    """What an answer changes on the page; None leaves a part as it is."""

    status: Markup | None = None
    cards: Markup | None = None
    trust: Markup | None = None
    picture: Markup | None = None


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
        self._running: dict[str, Job[Answer]] = {}
        # visitors that have cancelled an exact answer before it began
        self._unwanted: set[str] = set()

    def warm_up(self, question: Question) -> None:
        """Answer something small, so that the first visitor does not wait for what is done once.

        The model runs in its turn, as for any question; what solvers need compiled is compiled
        beside the page.
        """
        found = check(question, self.offer)
        small = replace(question, methods=(QUICK,))
        try:
            self._scheduler.run(lambda: quick(self.lm, small, found, self._settings))
        except unmask.UnmaskError as error:
            # no example may mean anything to this model, which can still answer
            failures.say("warm up", error)
            return
        self._scheduler.exact.submit(self._compile, found.text)

    def _compile(self, text: str) -> None:
        try:
            with self._scheduler.lock:
                tables = self.lm.tables(text, support=4, settings=self._settings)
                tables.both()
                _ = tables.masked
            for method in (DEFAULT_METHOD, "ag"):
                joint = unmask.construct(method, tables)
                joint.top(1)
                joint.agreement()
                joint.entropy()
        except Exception as error:
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

    def restored(self, query: str) -> Question | None:
        """The question of a link, if it has one."""
        return from_query(query, self.default, self.offer)

    # --- answers -------------------------------------------------------------------------------

    def first_answer(self, question: Question, visitor: str = "") -> Shown:
        """By constructions that need no tables, while the others are still to come."""
        self._unwanted.discard(visitor)
        self._cancel_running(visitor)
        fits = len(question.text) <= LONGEST_TEXT
        if fits and not question.blanked(self.offer.mask).words:
            return _emptied(panels.NO_BLANK)
        try:
            found = check(question, self.offer)
            answer = self._scheduler.run(lambda: quick(self.lm, question, found, self._settings))
        except Exception as error:
            return _failed(error)
        cheap, to_come = methods_for(question, len(found.words))
        if not to_come:
            return _answered(answer)
        stand_in = not set(cheap) & set(question.methods)
        return _answered(answer)._replace(
            status=panels.line("The exact answer follows.", "waiting"),
            cards=panels.cards(answer, to_come, quick_look=stand_in),
        )

    def exact_answer(self, question: Question, visitor: str = "") -> Iterator[Shown]:
        """How far it is, again and again, and then by all constructions; ends when nobody looks.

        `visitor` is the one that may cancel it.
        """
        try:
            found = check(question, self.offer)
        except unmask.UnmaskError:
            # the first answer has said so
            yield Shown()
            return
        if not methods_for(question, len(found.words))[1]:
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

    def _watched(self, job: Job[Answer], visitor: str) -> Iterator[Shown]:
        self._running[visitor] = job
        try:
            while not job.has_ended(_EVERY) and not job.is_cancelled:
                yield Shown(panels.progress(job))
            if self._running.get(visitor) is not job:
                # the visitor looks at the answer to another question
                yield Shown()
            elif job.is_cancelled:
                # it ends by itself soon, but nobody has to wait for that
                yield _CANCELLED
            else:
                yield _result(job)
        finally:
            job.cancel()
            if self._running.get(visitor) is job:
                del self._running[visitor]

    def _cancel_running(self, visitor: str) -> None:
        if job := self._running.pop(visitor, None):
            job.cancel()


def _result(job: Job[Answer]) -> Shown:
    try:
        return _answered(job.result())
    except Exception as error:
        return _failed(error)


def _answered(answer: Answer) -> Shown:
    return Shown(
        panels.line("Done.", "done"),
        panels.cards(answer),
        panels.trust(answer),
        panels.picture(answer),
    )


def _failed(error: Exception) -> Shown:
    """What a visitor can mend is said; of anything else only that it happened."""
    if isinstance(error, unmask.UnmaskError):
        return _emptied(str(error))
    failures.say("answer", error)
    return _emptied(panels.FAILED)


def _emptied(said: str) -> Shown:
    return Shown(panels.line(said, "rejected"), *3 * [panels.NOTHING])
