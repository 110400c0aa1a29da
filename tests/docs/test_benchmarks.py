"""The harness that times the engine: its floors, its page, and that it runs."""

import json
from pathlib import Path
from typing import Any

import engine_floors as floors
import engine_page
import pytest
import run as harness


def comparison(name: str, median: float) -> dict[str, Any]:
    kind, subject = name.split("/")
    ratio = {"median": median, "min": median / 2, "max": median * 2}
    return {"name": name, "kind": kind, "subject": subject, "ratio": ratio}


def test_a_floor_is_broken_by_the_median_on_its_wrong_side() -> None:
    bounds = {"fast/x": floors.at_least(2.0), "slow/x": floors.at_most(2.0)}
    assert floors.broken([comparison("fast/x", 2.0), comparison("slow/x", 2.0)], bounds) == []
    lines = floors.broken([comparison("fast/x", 1.9), comparison("slow/x", 2.1)], bounds)
    assert lines == ["fast/x: 1.9, must be at least 2", "slow/x: 2.1, must be at most 2"]
    assert floors.broken([comparison("other/x", 0.0)], bounds) == []


def test_check_fails_and_says_which_floor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"comparisons": [comparison("fast/x", 1.0)], "part_seconds": {}}
    monkeypatch.setattr(harness, "measure", lambda *_: found)
    monkeypatch.setattr(harness, "FLOORS", {"fast/x": floors.at_least(2.0)})
    assert harness.main(["--json"]) == 0
    assert harness.main(["--json", "--check"]) == 1
    assert "floor broken: fast/x: 1, must be at least 2" in capsys.readouterr().err


@pytest.mark.long
def test_everything_runs_on_a_tiny_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--tiny", "--json", "--repeats", "2", "--threads", "1"]
    assert harness.main([*given, "--output", str(tmp_path / "found.json")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert list(found["part_seconds"]) == list(harness.PARTS)
    kinds = {one["kind"] for one in found["comparisons"]}
    assert kinds == set(engine_page.KINDS)
    for one in found["comparisons"]:
        assert 0 < one["ratio"]["min"] <= one["ratio"]["median"] <= one["ratio"]["max"]
        assert len(one["seconds_over"]) == len(one["seconds_under"]) == 2
    page = "\n".join(engine_page.engine_table(found))
    assert page.count("| tiny-random") == 6
    assert "python benchmarks/run.py --json --tiny --repeats 2 --threads 1" in page
