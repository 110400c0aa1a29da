"""Commands of unmask in processes that a test can kill: forked from a server that has imported all.

So a start costs a second instead of ten, and ten kills are affordable.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        *("unmask.cli", "unmask.evaluation.request", "pandas", "pyarrow.parquet"),
        *("unmask.cli.many", "unmask.jobs.running", "unmask.jobs.kinds.score"),
        *("transformers.models.bert.modeling_bert", "transformers.models.bert.tokenization_bert"),
        *("transformers.models.esm.modeling_esm", "transformers.models.esm.tokenization_esm"),
        *("transformers.models.auto.tokenization_auto", __name__),
    ]
)


def write_to(log: str) -> None:
    """Put what this process prints into a file, stdout and stderr."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)


def _run(
    arguments: list[str], log: str, environment: dict[str, str], stdin: str | None = None
) -> None:
    # processes that share the tests ignore Ctrl-C, and so would what they fork
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # the server's is that of the test which started it
    os.environ.update(environment)
    write_to(log)
    if stdin is not None:
        os.dup2(os.open(stdin, os.O_RDONLY), 0)
    import unmask.cli

    code = unmask.cli.main(arguments)
    sys.stdout.flush()
    # not sys.exit: what a test killed or not is decided by nothing that runs at exit
    os._exit(code)


def start(arguments: list[str], log: Path, stdin: Path | None = None) -> ForkServerProcess:
    """Start `unmask ARGUMENTS`, with what it says in a file; `stdin` is what it reads."""
    given = (arguments, str(log), dict(os.environ), stdin and str(stdin))
    process = _CONTEXT.Process(target=_run, args=given, daemon=True)
    process.start()
    return process


def finish(arguments: list[str], log: Path, timeout: float = 300, stdin: Path | None = None) -> int:
    """Run to the end; returns the exit code."""
    process = start(arguments, log, stdin)
    process.join(timeout)
    assert process.exitcode is not None, log.read_text()
    return process.exitcode


def begin(function: Callable[..., None], *arguments: object) -> ForkServerProcess:
    """Begin to call a function of a test's module in such a process."""
    process = _CONTEXT.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def call(function: Callable[..., None], *arguments: object, timeout: float = 300) -> int:
    """Call a function of a test's module in such a process; returns the exit code."""
    process = begin(function, *arguments)
    process.join(timeout)
    assert process.exitcode is not None
    return process.exitcode
