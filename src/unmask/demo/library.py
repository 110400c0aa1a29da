"""Gradio, imported when a page is built, and set first to send nothing to anybody."""

import os
from importlib import import_module
from typing import Any

from unmask.errors import UnmaskError

# variables that would serve files, let visitors change the page, or start more processes
_UNWANTED = ("ALLOWED_PATHS", "DEBUG", "NUM_WORKERS", "SHARE", "VIBE_MODE", "WATCH_DIRS")


def gradio() -> Any:
    """The module, or an error of one line that explains how to install it."""
    for name in _UNWANTED:
        os.environ.pop(f"GRADIO_{name}", None)
    # read when the module is imported
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    try:
        return import_module("gradio")
    except ImportError:
        raise UnmaskError("the demo needs Gradio: pip install 'unmask[demo]'") from None
