"""Pictures of landscapes: what cells and dots show, readable names, what is said."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from unmask.plots import save_figure
from unmask.sequences.landscapes import Landscape
from unmask.sequences.residues import Mutation


def a_landscape(k: int = 4, *, model: str = "toy", scale: float = 1.0) -> Landscape:
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(2,) * k)) * scale
    values = values - values.flatten()[0]
    return Landscape(
        sequence="A" * k,
        mutations=tuple(Mutation("A", n, "C") for n in range(1, k + 1)),
        log_odds={"log-pool": values, "hcb-path": 2 * values},
        incompatibility=0.1,
        converged={"log-pool": True, "hcb-path": True},
        captured_mass=(1.0,) * k,
        forward_passes=1,
        model=model,
    )


def notes(figure: Figure) -> str:
    return " ".join(figure._supxlabel.get_text().split())


def test_cells_are_the_epistasis_of_pairs_below_the_diagonal() -> None:
    found = a_landscape()
    figure = found.plot()
    left, right, bar = figure.axes
    cells = np.ma.filled(left.collections[0].get_array(), np.nan)
    pairs = dict(zip(itertools.combinations(range(4), 2), found.epistasis(), strict=True))
    for row, column in itertools.product(range(3), repeat=2):
        if column <= row:
            assert cells[row, column] == pytest.approx(pairs[column, row + 1].mean)
        else:
            assert math.isnan(cells[row, column])
    assert [one.get_text() for one in left.get_yticklabels()] == ["A2C", "A3C", "A4C"]
    assert [one.get_text() for one in left.get_xticklabels()] == ["A1C", "A2C", "A3C"]
    assert bar.get_ylabel() == "mean epistasis, nats"
    most = max(abs(one.mean) for one in found.epistasis())
    assert left.collections[0].get_clim() == pytest.approx((-most, most))
    said = {(int(y), int(x)): t.get_text() for t in left.texts for x, y in [t.get_position()]}
    assert float(said[0, 0].replace("−", "-")) == pytest.approx(pairs[0, 1].mean, abs=0.051)
    assert set(said) == {(r, c) for r in range(3) for c in range(3) if c <= r}
    assert right.get_xlabel() == "number of mutations"
    assert right.get_ylabel() == "log-odds against the wild type, nats"


def test_dots_are_all_combinations_by_their_number_of_mutations() -> None:
    found = a_landscape()
    right = found.plot("hcb-path").axes[1]
    *dots, medians, _ = right.lines
    assert [len(one.get_ydata()) for one in dots] == [1, 4, 6, 4, 1]
    drawn = sorted(value for one in dots for value in one.get_ydata())
    assert drawn == pytest.approx(sorted(found.of("hcb-path").flatten().tolist()))
    for count, one in enumerate(dots):
        assert all(abs(x - count) < 0.5 for x in one.get_xdata())
        assert medians.get_ydata()[count] == pytest.approx(np.median(one.get_ydata()))


def test_what_is_said() -> None:
    figure = a_landscape(model="/home/me/$x$").plot("hcb-path")
    assert figure.get_suptitle() == "4 mutations by hcb-path"
    said = notes(figure)
    assert "the mean over all combinations of the others" in said
    assert "all 16 combinations" in said
    # a folder is of one machine alone, and a dollar sign is no formula
    assert "in the model $x$: what it finds usual, not a measurement" in said
    assert "/home" not in said


@pytest.mark.slow
def test_mutations_that_add_up_have_no_strong_colours() -> None:
    values = torch.stack([torch.zeros(2), torch.ones(2)]).double()
    found = Landscape(
        "AA", (Mutation("A", 1, "C"), Mutation("A", 2, "C")), {"mlm": values}, None, {"mlm": True},
        (1.0, 1.0), 1,
    )  # fmt: skip
    left = found.plot().axes[0]
    assert left.collections[0].get_clim() == (-0.1, 0.1)
    assert [one.get_text() for one in left.texts] == ["0.00"]


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 12])
@pytest.mark.parametrize("ending", ["svg", "png"])
def test_small_and_large_landscapes_are_written_the_same_every_time(
    k: int, ending: str, tmp_path: Path
) -> None:
    figure = a_landscape(k).plot()
    for name in ("one", "other"):
        save_figure(figure, tmp_path / f"{name}.{ending}")
    one, other = (tmp_path / f"{name}.{ending}" for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    # thousands of dots are an image of their own
    assert one.stat().st_size < 600_000
