"""The harness that times the engine: its arithmetic, its floors, its page, and that it runs."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import engine_floors as floors  # noqa: E402
import engine_page  # noqa: E402
import interleaved  # noqa: E402
import run as harness  # noqa: E402


def comparison(name: str, median: float) -> dict[str, Any]:
    kind, subject = name.split("/")
    ratio = {"median": median, "min": median / 2, "max": median * 2}
    return {"name": name, "kind": kind, "subject": subject, "ratio": ratio}


def test_ratios_are_taken_within_a_repeat() -> None:
    # a machine twice as slow in the second repeat changes no ratio
    found = interleaved.Comparison("k", "s", "a", "b", ([2.0, 4.0, 9.0], [1.0, 2.0, 3.0]), {})
    assert found.to_dict()["ratio"] == {"median": 2.0, "min": 2.0, "max": 3.0}
    assert found.name == "k/s"


def test_both_sides_of_a_ratio_have_the_same_repeats() -> None:
    with pytest.raises(ValueError, match="shorter"):
        interleaved.ratios([1.0, 2.0], [1.0])


@pytest.mark.slow
def test_runs_take_turns_in_an_order_that_is_turned_round() -> None:
    order: list[str] = []
    runs = {name: lambda name=name: order.append(name) for name in ("a", "b")}
    seconds = interleaved.in_turns(runs, 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3}


def test_a_floor_is_broken_by_the_median_on_its_wrong_side() -> None:
    bounds = {"fast/x": floors.at_least(2.0), "slow/x": floors.at_most(2.0)}
    assert floors.broken([comparison("fast/x", 2.0), comparison("slow/x", 2.0)], bounds) == []
    lines = floors.broken([comparison("fast/x", 1.9), comparison("slow/x", 2.1)], bounds)
    assert lines == ["fast/x: 1.9, must be at least 2", "slow/x: 2.1, must be at most 2"]
    assert floors.broken([comparison("other/x", 0.0)], bounds) == []


def test_floors_and_targets_are_of_kinds_that_the_page_names() -> None:
    assert {name.split("/")[0] for name in floors.FLOORS} <= set(engine_page.KINDS)
    assert {name.split("/")[0] for name in floors.TARGETS} <= set(engine_page.KINDS)


def test_no_floor_asks_for_more_than_its_target() -> None:
    for name, floor in floors.FLOORS.items():
        aim = floors.TARGETS.get(name, floors.TARGETS.get(name.split("/")[0]))
        if aim is None:
            continue
        assert aim.at_least == floor.at_least
        assert not aim.holds(floor.value) or aim.value == floor.value


def test_check_fails_and_says_which_floor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"comparisons": [comparison("fast/x", 1.0)], "part_seconds": {}}
    monkeypatch.setattr(harness, "measure", lambda *_: found)
    monkeypatch.setattr(harness, "FLOORS", {"fast/x": floors.at_least(2.0)})
    assert harness.main(["--json"]) == 0
    assert harness.main(["--json", "--check"]) == 1
    assert "floor broken: fast/x: 1, must be at least 2" in capsys.readouterr().err


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        harness.arguments(["--only", "elicitation,nothing"])
    assert "no part 'nothing'; parts: elicitation, examples" in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_that_is_not_there_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UNMASK_TEST_ASSETS", "UNMASK_TEST_MODELS"):
        monkeypatch.delenv(name, raising=False)
    report = harness.Report(1)
    assert list(report.subjects(("caption-bert",))) == []
    assert report.left_out == ["caption-bert"]


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
