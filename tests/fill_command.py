"""Running `unmask fill` in this process, for the tests of what it prints."""

from collections.abc import Callable

import pytest

from unmask.cli import main


def runner(folder: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Run the command, which must succeed, and return what it printed on stdout and stderr."""

    def run(*arguments: str) -> tuple[str, str]:
        assert main(["fill", *arguments, "-m", folder]) == 0
        return capsys.readouterr()

    return run
