"""A store for tests of reading."""

import pyarrow.fs as pafs
import pytest

from unmask.records import places


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store behind the scheme `disk`, which is this machine's."""
    monkeypatch.setattr(
        places, "_system", lambda place: (pafs.LocalFileSystem(), place.removeprefix("disk://"))
    )
