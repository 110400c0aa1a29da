"""`unmask fill` over a vocabulary that is sketched: tiny-english, 8,192 tokens."""

import json

import pytest
from assets import real_model

from unmask.cli import main

TEXT = "The [MASK] [MASK] at the casino."
pytestmark = [pytest.mark.real, pytest.mark.usefixtures("read_once")]


@pytest.fixture
def run(capsys):
    def answered(*arguments: str) -> tuple[int, str, str]:
        code = main(["fill", TEXT, "-m", str(real_model("tiny-english")), *arguments])
        return code, *capsys.readouterr()

    return answered


def test_every_probability_has_an_error_bar(run, tmp_path):
    place = tmp_path / "pairs.svg"
    code, out, err = run("--top", "3", "--method", "log-pool,mlm", "--figure", str(place))
    assert code == 0
    assert "women" in place.read_text()
    assert "at most 1,999 forward passes" in err
    first = out.splitlines()[1].split()
    assert first[1:3] == ["people", "are"]
    assert first[4] == "+-"
    assert abs(float(first[3]) - 0.1789) < 5 * float(first[5]) + 0.001
    assert "forward passes of 16,385; +- is one standard error (--exact runs all)" in out
    assert "J = 0.02" in out
    # mlm is exact as it is
    assert out.splitlines()[1].count("+-") == 1


def test_json_has_the_errors_beside_the_numbers(run):
    _, out, _ = run("--json", "--top", "2", "--precision", "0.1", "--quiet")
    found = json.loads(out)["results"]["log-pool"]
    assert set(found["standard_errors"]) == {"entropy", "mutual_information", "incompatibility"}
    assert all(fill["score_error"] > 0 for fill in found["fills"])
    assert found["diagnostics"]["precision_reached"] is True
    assert found["diagnostics"]["standard_error"] <= 0.1
