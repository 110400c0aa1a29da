"""`unmask dependence` on tiny models: what is printed, written and drawn, and how it ends."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from counted_rows import counted_rows

import unmask
from unmask.cli import main
from unmask.jobs import estimate

pytestmark = pytest.mark.usefixtures("read_once")

TEXT = "the unhappy man saw cats"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def esm(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_models.saved("esm", tmp_path_factory.mktemp("esm"))


@pytest.fixture
def depend(folder: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `unmask dependence`, by pmi unless a measure is given."""

    def run(*arguments: str, model: str = folder, measure: str = "pmi") -> tuple[int, str, str]:
        code = main(["dependence", *arguments, "-m", model, "--measure", measure])
        return code, *capsys.readouterr()

    return run


# --- figures -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_figures(depend: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "map.svg"
    code, _, err = depend(TEXT, "--figure", str(place))
    assert code == 0
    assert f"wrote '{place}'" in err
    assert place.stat().st_size > 5000
    drawn: list[Any] = []
    plot = unmask.DependenceMap.plot
    monkeypatch.setattr(
        unmask.DependenceMap, "plot", lambda self, **how: (drawn.append(how), plot(self, **how))[1]
    )
    arcs = tmp_path / "arcs.png"
    assert depend(TEXT, "--tree", "--figure", str(arcs))[0] == 0
    assert arcs.exists()
    assert drawn == [{"tree": True}]


# --- many texts --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_long_run_announces_its_cost(
    depend: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "_FEW_PASSES", 1)
    monkeypatch.setattr(estimate, "LONG_SECONDS", 0.0)
    place = tmp_path / "texts.txt"
    place.write_text("the cat sat\na dog ran\n", encoding="utf-8")
    _, _, err = depend(str(place))
    first, _ = err.splitlines()
    said = "dependence: 12 forward passes for 2 texts, about "
    assert first.startswith(said)
    _, _, err = depend(str(place), "-o", f"{tmp_path}/parts/")
    assert err.startswith(said)
    assert depend(str(place), "--quiet")[2] == ""


def test_a_dry_run_prints_the_cost_and_runs_nothing(
    depend: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = counted_rows(monkeypatch)
    place, output = tmp_path / "texts.txt", tmp_path / "parts"
    place.write_text("the cat sat\na dog ran\n", encoding="utf-8")
    assert depend(TEXT, "--dry-run") == (0, "dependence: 15 forward passes for 1 text\n", "")
    said = "dependence: 12 forward passes for 2 texts\n"
    for more in ([], ["-o", f"{output}/"]):
        assert depend(str(place), *more, "--dry-run") == (0, said, "")
    assert (sum(rows), output.exists()) == (0, False)


BLANKS = "the [MASK] saw a [MASK]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "measure", "options", "least"),
    [
        (TEXT, "pmi", [], 1),
        (TEXT, "pmi", ["--window", "2"], 1),
        ("the man saw a cat", "mutual-information", ["--support", "the,man,cat,dog"], 1),
        (BLANKS, "mutual-information", ["--support", "the,man,cat,dog"], 1),
        # draws may be equal, and of equal rows one runs
        (TEXT, "mutual-information", [], 0.5),
        (BLANKS, "mutual-information", ["--samples", "8"], 0.5),
        # over few tokens, a word of three pieces has more fills than there are tokens
        (TEXT, "mutual-information", ["--support", "the,man,cat,dog"], 0.5),
        (TEXT, "mutual-information", ["--support", "the,man", "--samples", "100"], 0.5),
        # the text as it stands is a row of every place
        (TEXT, "jacobian", [], 0.9),
        (TEXT, "jacobian", ["--support", "the,man,cat,dog"], 0.8),
        (BLANKS, "jacobian", [], 0.9),
    ],
)
def test_no_more_runs_than_is_announced(
    text: str,
    measure: str,
    options: list[str],
    least: float,
    depend: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, out, _ = depend(text, *options, "--dry-run", measure=measure)
    at_most = "at most " if least < 1 else ""
    found = re.match(rf"dependence: {at_most}([\d,]+) forward passes for 1 text", out)
    rows = counted_rows(monkeypatch)
    assert depend(text, *options, measure=measure)[0] == 0
    announced = int(found[1].replace(",", ""))
    assert least * announced <= sum(rows) <= announced


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "dependence.md"


@pytest.mark.real
def test_the_page_counts_forward_passes(tiny_english: unmask.LanguageModel) -> None:
    page, text = PAGE.read_text(encoding="utf-8"), "Two dogs are running through the snow."
    for measure in ("mutual-information", "pmi", "jacobian"):
        passes = tiny_english.dependence(text, measure=measure).forward_passes
        assert f"| `{measure}` | {passes:,} |" in page


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([TEXT, "--samples", "2"], "samples is a whole number from 4"),
        ([TEXT, "--measure", "pmi", "--support", "man,dog"], "pmi is of the tokens that stand in"),
        ([TEXT, "-o", "no/pairs.csv"], "cannot write 'no/pairs.csv'"),
        ([TEXT, "--figure", "map.gif"], "a figure is a file in .svg, .png, .pdf"),
        (["-", "--figure", "map.svg"], "--figure is of one text"),
        (["none.fasta"], "there is no file 'none.fasta'"),
    ],
)
def test_options_are_checked_before_the_model_loads(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["dependence", *arguments, "-m", "no-such-model"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_a_text_too_long_for_arcs_is_refused_before_the_model_runs(
    depend: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unmask.plots.dependence._MOST_WORDS", 4)
    monkeypatch.setattr("unmask.jobs.kinds.dependence.DependenceKind.maps", None)
    code, out, err = depend(TEXT, "--tree", "--figure", str(tmp_path / "arcs.svg"))
    assert (code, out) == (2, "")
    assert "arcs are drawn over 4 places at most, and this text has 5; draw the map instead" in err
