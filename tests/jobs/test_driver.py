"""The driver of a job: little per unit, whatever workers do; and what the simulation says of it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import jobs_driver


@pytest.mark.slow
@pytest.mark.long
def test_a_hundred_thousand_units_take_little_of_the_driver() -> None:
    found = jobs_driver.driver(100_000, workers=20)
    assert found["milliseconds_per_unit"] < 1
    assert found["grown_mb"] < 200


@pytest.mark.long
def test_a_thousand_workers_of_which_some_die_lose_no_unit() -> None:
    found = jobs_driver.simulate(3_000, 1_000, seconds=60.0, lifetime=1800.0, restart=60.0)
    assert found["deaths"] > 50
    assert found["given_up"] == 0
    # at most one unit longer than the mean, where units are few
    assert found["hours_simulated"] < found["hours_by_formula"] + 0.1
