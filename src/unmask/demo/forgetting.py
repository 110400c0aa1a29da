"""Gradio keeps what pages last showed, and answers that nobody fetched; here it is made to forget.

This is the one place that reaches into Gradio's own tables. What a running question needs stays
until it is answered, and the answer until its page has it, but no longer than `KEPT_SECONDS`.
"""

import asyncio
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from unmask.demo import failures, panels
from unmask.demo.library import gradio

# how long an answer waits for a page to fetch it
KEPT_SECONDS = 30.0
_NAME_OF_A_PAGE = re.compile(r"[0-9A-Za-z_-]{1,64}")


class NoSessions:
    """In place of Gradio's memory of pages: each request finds the page as it was built."""

    def __init__(self, blocks: Any) -> None:
        from gradio.state_holder import SessionState

        self._new = partial(SessionState, blocks)
        # what Gradio looks into when a page is left
        self.session_data: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """A state that ends with the request. Names are checked, as other tables keep them."""
        if not _NAME_OF_A_PAGE.fullmatch(name):
            from fastapi import HTTPException

            raise HTTPException(400, "That is not the name of a page.")
        return self._new()

    def __contains__(self, name: object) -> bool:
        return False

    def delete_all_expired_state(self) -> None:
        """There is none."""


def forget_pages(blocks: Any) -> None:
    """Keep neither the values of pages, nor a history of their events, nor the last event."""
    blocks.app.state_holder = blocks.state_holder = NoSessions(blocks)
    queue = blocks._queue
    queue.ANALYTICS_MAX_EVENTS = 1
    process = queue.process_events

    async def process_and_forget(events: list[Any], *given: Any) -> None:
        try:
            await process(events, *given)
        finally:
            # loops of Gradio's queue hold the last event until the next comes
            for event in events:
                event.data = event.request = None

    queue.process_events = process_and_forget


async def forget_answers(queue: Any) -> None:
    """Again and again, drop the answers that were not fetched, and what names their pages."""
    idle_since: dict[str, float] = {}
    while True:
        await asyncio.sleep(min(1.0, KEPT_SECONDS / 4))
        idle_since = _forget(queue, idle_since)


def _forget(queue: Any, idle_since: dict[str, float]) -> dict[str, float]:
    tables = (queue.pending_messages_per_session, queue.pending_event_ids_session)
    busy = {event.session_hash for event in queue.event_ids_to_events.values()}
    idle = {name for table in tables for name in table} - busy
    now = time.monotonic()
    since = {name: idle_since.get(name, now) for name in idle}
    for name in idle:
        if now - since[name] >= KEPT_SECONDS:
            for table in tables:
                table.pop(name, None)
    return since


def plain_values_only(process: Callable[..., Any]) -> Callable[..., Any]:
    """Gradio's way to a handler, for plain values alone, and whose failures are one line.

    A visitor may send a file in place of a text, and Gradio would fetch it from wherever it is.
    """

    async def checked(*given: Any, **named: Any) -> Any:
        try:
            for value in named.get("inputs") or []:
                parts = value if isinstance(value, list) else [value]
                if not all(part is None or isinstance(part, str | int | float) for part in parts):
                    raise TypeError("the page sends texts, numbers and lists of them")
            return await process(*given, **named)
        except Exception as error:
            failures.say("answer a request", error)
            raise gradio().Error(panels.FAILED, print_exception=False) from None

    return checked
