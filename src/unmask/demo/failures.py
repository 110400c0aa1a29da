"""What goes wrong, printed for the operator: one line each, without what visitors wrote.

Gradio prints tracebacks, with the values that were sent, from places that cannot be wrapped. For
requests of the demo those are lines too; another page of the same process keeps its own.
"""

import sys
from contextvars import ContextVar
from typing import Any

# set by the door, for the task of one request and those that begin in it
of_the_demo: ContextVar[bool] = ContextVar("of_the_demo", default=False)


def say(what: str, error: BaseException | None) -> None:
    """Its kind alone: the message might hold what a visitor wrote."""
    while isinstance(error, BaseExceptionGroup):
        # a stream that fails comes as a group of one
        error = error.exceptions[0]
    kind = type(error).__name__ if error else "unknown"
    print(f"unmask: the demo could not {what}: {kind}", file=sys.stderr)


def quieten(*modules: Any) -> None:
    """Let the modules of Gradio that print tracebacks print lines for requests of the demo."""
    for module in modules:
        if not isinstance(module.traceback, _Lines):
            module.traceback = _Lines(module.traceback)


class _Lines:
    """The module `traceback`, but for what it prints."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def print_exc(self, *given: Any, **named: Any) -> None:
        if of_the_demo.get():
            say("answer a request", sys.exc_info()[1])
        else:
            self._real.print_exc(*given, **named)
