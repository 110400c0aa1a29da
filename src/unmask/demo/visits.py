"""What happens when a visitor clicks: handlers that take and give plain values."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import unmask
from unmask.demo import failures, panels
from unmask.demo.answers import Answer, exact, quick
from unmask.demo.jobs import CancelledError, Desk, Job
from unmask.demo.question import (
    LONGEST_TEXT,
    LOOKED_AT,
    Offer,
    Question,
    check,
    from_query,
    methods_for,
    numbers,
    toggled,
)
from unmask.demo.words import Blanked, pieces
from unmask.markup import Markup

# seconds between two looks at a long computation, and until a place that was given up is free
_EVERY, _SOON = 0.25, 1.0
_MOST_REMEMBERED = 1000


@dataclass(frozen=True)
class Shown:
    """What an answer changes on the page; None leaves a part as it is."""

    status: Markup | None = None
    cards: Markup | None = None
    trust: Markup | None = None
    picture: Markup | None = None


class Visits:
    """Answers questions about one model, for many visitors.

    A visitor has one exact answer at a time: whoever asks again no longer waits for the last.
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
        self.lm, self.offer, self.default = lm, offer, default
        self._how = replace(settings, progress=False, announce=False)
        self._desk, self.places = Desk(places), places
        self._running: dict[str, Job[Answer]] = {}
        # who has cancelled an exact answer that had not begun
        self._unwanted: set[str] = set()

    def warm_up(self, question: Question) -> None:
        """Answer something small, so that the first visitor does not wait for what is done once.

        The model runs in its turn, as for any question; what solvers need compiled is compiled
        beside the page.
        """
        found = check(question, self.offer)
        small = replace(question, methods=("orders",))
        try:
            self._desk.at_once(lambda: quick(self.lm, small, found, self._how))
        except unmask.ClozeError as error:
            # a model that knows no word of any example still has visitors who know theirs
            failures.say("warm up", error)
            return
        self._desk.long.submit(self._compile, found.text)

    def _compile(self, text: str) -> None:
        try:
            tables = self._elicited(text)
            for method in ("log-pool", "ag"):
                joint = unmask.construct(method, tables)
                joint.top(1)
                joint.agreement()
                joint.entropy()
        except Exception as error:
            failures.say("warm up", error)

    def _elicited(self, text: str) -> unmask.PairTables:
        with self._desk.turns:
            tables = self.lm.tables(text, support=4, settings=self._how)
            tables.both()
            _ = tables.masked
        return tables

    def close(self) -> None:
        """Answer nothing more."""
        for job in list(self._running.values()):
            job.cancel()
        self._desk.close()

    # --- what is asked -------------------------------------------------------------------------

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
        """The question after a word was clicked, which may be one of the text before this."""
        question = Question(text[:LOOKED_AT], numbers(chosen))
        return toggled(question, place, word, self.offer.mask)

    def restored(self, query: str) -> Question | None:
        """The question of a link, if it asks one."""
        return from_query(query, self.default, self.offer)

    # --- what is answered ----------------------------------------------------------------------

    def first_answer(self, question: Question, visitor: str = "") -> Shown:
        """By constructions that need no tables, while the others are still to come."""
        self._unwanted.discard(visitor)
        self._supersede(visitor)
        fits = len(question.text) <= LONGEST_TEXT
        if fits and not question.blanked(self.offer.mask).words:
            return _emptied(panels.line(panels.NO_BLANK, "refused"))
        try:
            found = check(question, self.offer)
            answer = self._desk.at_once(lambda: quick(self.lm, question, found, self._how))
        except Exception as error:
            return _refused(error)
        cheap, to_come = methods_for(question, len(found.words))
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
            yield Shown(panels.line(panels.CANCELLED, "done"))
            return
        self._supersede(visitor)
        if not self._place():
            yield Shown(panels.line(panels.BUSY, "busy"))
            return
        yield from self._watched(self._begun(question, found), visitor)

    def cancel(self, visitor: str) -> Shown:
        """End what a visitor waits for, or will."""
        job = self._running.get(visitor)
        if job is None:
            if len(self._unwanted) >= _MOST_REMEMBERED:
                self._unwanted.clear()
            self._unwanted.add(visitor)
            return Shown()
        job.cancel()
        return Shown(panels.line(panels.CANCELLED, "done"))

    def _begun(self, question: Question, found: Blanked) -> Job[Answer]:
        return Job(
            self._desk,
            lambda job: exact(self.lm, question, found, self._how, self.offer, job),
        )

    def _watched(self, job: Job[Answer], visitor: str) -> Iterator[Shown]:
        self._running[visitor] = job
        try:
            while not job.wait(_EVERY) and not job.is_cancelled():
                yield Shown(panels.progress(job))
            # who has asked something else is looking at that
            superseded = self._running.get(visitor) is not job
            yield Shown() if superseded else _shown(job)
        finally:
            job.cancel()
            if self._running.get(visitor) is job:
                del self._running[visitor]

    def _supersede(self, visitor: str) -> None:
        job = self._running.pop(visitor, None)
        if job is not None:
            job.cancel()

    def _place(self) -> bool:
        """A place for an exact answer; one that was just given up is free after a batch."""
        until = time.monotonic() + _SOON
        while not self._desk.room.enter():
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True


def _shown(job: Job[Answer]) -> Shown:
    if job.is_cancelled():
        # it ends by itself soon, but nobody has to wait for that
        return Shown(panels.line(panels.CANCELLED, "done"))
    try:
        answer = job.result()
    except CancelledError:
        return Shown(panels.line(panels.CANCELLED, "done"))
    except Exception as error:
        return _refused(error)
    return Shown(
        panels.line("Done.", "done"),
        panels.cards(answer),
        panels.trust(answer),
        panels.picture(answer),
    )


def _refused(error: Exception) -> Shown:
    """What a visitor can mend is said; of anything else only that it happened."""
    if isinstance(error, unmask.UnmaskError):
        return _emptied(panels.line(str(error), "refused"))
    failures.say("answer", error)
    return _emptied(panels.line(panels.FAILED, "refused"))


def _emptied(status: Markup) -> Shown:
    return Shown(status, panels.NOTHING, panels.NOTHING, panels.NOTHING)
