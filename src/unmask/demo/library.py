"""Gradio, imported when a page is built, and told first to send nothing to anybody."""

import os
from importlib import import_module
from typing import Any

from unmask.errors import UnmaskError


def gradio() -> Any:
    """The module itself, or one line that says how to get it."""
    # read when the module is imported
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    try:
        return import_module("gradio")
    except ImportError:
        raise UnmaskError("the demo needs Gradio: pip install 'unmask[demo]'") from None
