"""The page of how far models contradict themselves: its tables, its numbers, its rows."""

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from test_runs_pages import check_sentences

sys.path.insert(0, str(Path(__file__).parents[2] / "runs"))

import consistency
import marked_page


@pytest.mark.slow
def test_the_page_is_made_of_rows_without_text() -> None:
    files = consistency.files()
    assert marked_page.stale(files) == []
    check_sentences(files)
    for path in consistency.ROWS.glob("*.parquet"):
        names = pq.read_schema(path).names
        assert not {"text", "contrast"} & set(names)
        if path.stem in consistency.FOREIGN:
            assert not {"first_token", "second_token"} & set(names)
