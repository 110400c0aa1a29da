"""A page in the browser: blank some words, and see what fills them together.

It is made of the public names of `unmask` alone. `serve(lm)` is the whole of it from Python.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

if TYPE_CHECKING:
    from unmask.demo.serving import Demo as Demo
    from unmask.demo.serving import Limits as Limits
    from unmask.demo.serving import serve as serve

__all__, __getattr__ = lazy_names(__name__)
