"""Pictures of dependence maps: what cells and arcs show, readable labels, what is said."""

import math
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn import notes, overlapping
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.text import Text

from unmask import UnmaskError
from unmask.plots import save_figure
from unmask.queries.dependence.dependence_map import DependenceMap, Place

HOSTILE = ["$x$", "$\\frac{", "a\nb", "\x1b[31m", "_x", " ", "x" * 60, "\u202ey"]


def a_map(
    names: list[str] | int = 6, *, measure: str = "mutual-information", window: int | None = None
) -> DependenceMap:
    if isinstance(names, int):
        names = [f"w{place}" for place in range(names)]
    size = len(names)
    values = torch.from_numpy(np.random.default_rng(0).random((size, size)) ** 4)
    values = values + values.T
    apart = (torch.arange(size)[:, None] - torch.arange(size)).abs()
    values[(apart == 0) | (apart > (window or size))] = math.nan
    places = tuple(Place(name, (n,)) for n, name in enumerate(names))
    errors = values / 10 if measure == "mutual-information" else None
    return DependenceMap(" ".join(names), places, measure, values, errors, 1, 32, model="toy")


def cells(figure: Figure) -> np.ndarray:
    mesh = figure.axes[0].collections[0]
    return np.ma.filled(mesh.get_array(), np.nan)


def labels(figure: Figure) -> tuple[list[str], list[str]]:
    panel = figure.axes[0]
    return tuple(
        [one.get_text() for one in side]
        for side in (panel.get_yticklabels(), panel.get_xticklabels())
    )


def test_cells_are_the_values_with_names_at_both_sides_and_a_unit() -> None:
    found = a_map()
    figure = found.plot()
    np.testing.assert_array_equal(cells(figure), found.values.numpy())
    assert labels(figure) == ([f"w{n}" for n in range(6)],) * 2
    panel, bar = figure.axes
    assert bar.get_ylabel() == "mutual information, bits"
    assert panel.collections[0].get_clim() == (0, np.nanmax(found.values.numpy()))
    said = {(int(y), int(x)): t.get_text() for t in panel.texts for x, y in [t.get_position()]}
    assert said[0, 1] == f"{found[0, 1]:.2f}"
    # the diagonal has no number, and no colour of the scale
    assert (2, 2) not in said
    assert notes(figure) == (
        "Mutual information, bits: how far filling one place moves the model's distribution of the "
        "other, with both masked, from 32 samples. Dependence in the model toy, not in the world; "
        "it is neither cause nor syntax."
    )


def test_colours_go_both_ways_only_where_values_do() -> None:
    found = a_map(measure="pmi")
    assert found.plot().axes[0].collections[0].get_clim()[0] == 0
    corrected = found.corrected()
    most = float(corrected.values.nan_to_num().abs().max())
    assert corrected.plot().axes[0].collections[0].get_clim() == (-most, most)
    assert "average product correction" in notes(corrected.plot())
    # nor do values that are next to nothing have strong colours
    still = DependenceMap("a b", found.places[:2], "pmi", torch.full((2, 2), -1e-9), None, 1, 32)
    assert still.plot().axes[0].collections[0].get_clim() == (0, 0.01)


def test_what_a_window_leaves_out_is_empty() -> None:
    found = a_map(8, window=2)
    figure = found.plot()
    assert np.isnan(cells(figure)).sum() == 8 * 8 - 2 * (7 + 6)
    assert len(figure.axes[0].texts) == 2 * (7 + 6)
    # a map without one number is still a map
    nothing = DependenceMap(
        "a b", found.places[:2], "pmi", torch.full((2, 2), math.nan), None, 1, 4
    )
    assert np.isnan(cells(nothing.plot())).all()


@pytest.mark.parametrize("size", [2, 16, 17, 40, 120, 250])
def test_labels_thin_out_where_there_are_many(size: int, tmp_path: Path) -> None:
    figure = a_map([f"{'ACDEF'[n % 5]}{n + 1}" for n in range(size)], measure="jacobian").plot()
    assert overlapping(figure) == []
    rows, columns = labels(figure)
    assert rows == columns
    assert max(figure.get_size_inches()) < 11
    if size == 250:
        # round positions
        assert [name[1:] for name in rows[:3]] == ["5", "10", "15"]
        save_figure(figure, tmp_path / "map.svg")
        # an image and not 62,500 paths
        assert (tmp_path / "map.svg").stat().st_size < 2_000_000
    else:
        assert len(rows) >= min(size, 24)


def test_a_folder_is_named_by_its_last_part() -> None:
    found = a_map()
    here = DependenceMap(
        "a b", found.places[:2], "pmi", found.values[:2, :2], None, 1, 4, model="/x/y"
    )
    assert "in the model y, not" in notes(here.plot())


# --- arcs --------------------------------------------------------------------------------------


def arcs(figure: Figure) -> list[np.ndarray]:
    return [line.get_xydata() for line in figure.axes[0].lines]


@pytest.mark.slow
def test_arcs_are_the_projective_tree_and_do_not_cross() -> None:
    found = a_map(["a", "verylongword", "b", "c", "anotherone", "d", "e", "f", "g"])
    figure = found.plot(tree=True)
    words = [one.get_position()[0] for one in figure.axes[0].texts]
    drawn = []
    for arc in arcs(figure):
        ends = [
            min(range(9), key=lambda n, x=x: abs(words[n] - x)) for x in (arc[0, 0], arc[-1, 0])
        ]
        drawn.append(tuple(ends))
        assert (arc[:, 1] > 0).all()
    assert sorted(drawn) == found.tree()
    for one, other in combinations(arcs(figure), 2):
        # of two arcs, where both are above a place, always the same one is the higher
        low, high = max(one[0, 0], other[0, 0]), min(one[-1, 0], other[-1, 0])
        xs = np.linspace(low, high, 20)[1:-1] if low < high else []
        over = [np.interp(x, *one.T) - np.interp(x, *other.T) for x in xs]
        assert all(gap > 0 for gap in over) or all(gap < 0 for gap in over)
    # the stronger the thicker
    thick = [line.get_linewidth() for line in figure.axes[0].lines]
    values = [found[edge] for edge in drawn]
    assert np.argsort(thick).tolist() == np.argsort(values).tolist()
    assert "the strongest tree whose arcs do not cross" in notes(figure)
    assert "not in the world" in notes(figure)
    assert overlapping(figure) == []


@pytest.mark.slow
def test_a_second_tree_is_below() -> None:
    found = a_map()
    above = found.tree()
    new = next(edge for edge in combinations(range(6), 2) if edge not in above)
    # in either direction
    other = [*((b, a) for a, b in above[:2]), new]
    figure = found.plot(tree=True, other=other)
    below = [line for line in figure.axes[0].lines if (line.get_ydata() < 0).all()]
    assert len(below) == 3
    both = [line for line in below if line.get_color() == figure.axes[0].lines[0].get_color()]
    assert len(both) == 2
    assert "Below: the tree to compare it with; 2 of its 3 edges are above too." in notes(figure)
    # it is what arcs are for
    assert len(arcs(found.plot(other=[]))) == 5
    assert overlapping(figure) == []


@pytest.mark.parametrize("edge", [(0, 6), (1, 1), (0,), (0, "w1"), "ab", 3, (-1, 2)])
def test_edges_that_are_none(edge: object) -> None:
    said = "an edge is two different places, as numbers from 0 to 5, not"
    with pytest.raises(UnmaskError, match=said):
        a_map().plot(other=[edge])  # type: ignore[list-item]


def test_what_has_no_arcs() -> None:
    with pytest.raises(UnmaskError, match="arcs are drawn over 60 places at most"):
        a_map(61).plot(tree=True)
    apart = a_map(4)
    apart.values[0] = apart.values[:, 0] = math.nan
    with pytest.raises(UnmaskError, match="no tree joins them all"):
        apart.plot(tree=True)


# --- both --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    found = a_map(HOSTILE)
    with rc_context({"text.usetex": True}), warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, figure in enumerate((found.plot(), found.plot(tree=True))):
            texts = figure.findobj(Text)
            assert not any(text.get_parse_math() or text.get_usetex() for text in texts)
            assert all(text.get_text().replace("\n", "").isprintable() for text in texts)
            save_figure(figure, tmp_path / f"{number}.svg")
            # the same map is the same file
            save_figure(figure, tmp_path / "again.svg")
            again = (tmp_path / "again.svg").read_bytes()
            assert again == (tmp_path / f"{number}.svg").read_bytes()
