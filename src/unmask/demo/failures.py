"""What goes wrong, printed for the operator: one line each, without what visitors wrote.

Gradio prints tracebacks, with the values that were sent, from places that cannot be wrapped. For
requests of the demo those are lines too; another page of the same process keeps its own.
"""

import sys
import traceback
from contextvars import ContextVar
from types import SimpleNamespace
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
    lines = SimpleNamespace(**{**vars(traceback), "print_exc": _print_exc})
    for module in modules:
        module.traceback = lines


def _print_exc(*given: Any, **named: Any) -> None:
    if of_the_demo.get():
        say("answer a request", sys.exc_info()[1])
    else:
        traceback.print_exc(*given, **named)
