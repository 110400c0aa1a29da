"""Scripts end as `unmask` does: what goes wrong is one line on stderr, and the exit code is 2."""

import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import unmask
from unmask.printable import printable

Given = ParamSpec("Given")


def in_one_line(main: Callable[Given, object]) -> Callable[Given, int]:
    """A script's `main` that returns its exit code."""

    @wraps(main)
    def run(*arguments: Given.args, **options: Given.kwargs) -> int:
        try:
            main(*arguments, **options)
        except (unmask.UnmaskError, OSError, json.JSONDecodeError) as error:
            script = Path(main.__code__.co_filename).stem
            print(f"{script}: {printable(str(error))}", file=sys.stderr)
            return 2
        return 0

    return run
