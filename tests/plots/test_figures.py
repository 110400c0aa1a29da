"""Bins by any distance, their table and their figures: what these show, and as which files."""

import math
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from evaluation_rows import HOSTILE, a_row
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from unmask import UnmaskError
from unmask.constructions import CONSTRUCTIONS
from unmask.evaluation.reports.figures import distance_figure
from unmask.evaluation.reports.summary import Summary, by_distance, summarise
from unmask.plots.ranges import axis_range
from unmask.plots.saving import save_figure
from unmask.plots.styles import STYLES, construction_styles
from unmask.resampling import Estimate, Resampling

QUICK = Resampling(resamples=50)


def bins(*names: str, far: str = "", **changes: object) -> list[Summary]:
    """Distances 0 to 4 of each construction, `far` far above the others, as if less a baseline."""
    rows = [
        a_row(
            place,
            construction=name,
            positions=(1, 2 + place % 5),
            pairwise_nll=2.0 + order / 10 + (place % 3) / 10 + 30 * (name == far),
            unary_nll=1.0 + order / 10 + (place % 4) / 10,
            **changes,
        )
        for order, name in enumerate(names)
        for place in range(20)
    ]
    return [
        replace(one, baseline="base", first=apart, last=apart)
        for apart in range(5)
        for one in summarise([row for row in rows if row.token_distance == apart], QUICK)
    ]


def drawn(found: list[Summary], title: str = "title", axis_label: str = "tokens") -> Figure:
    return distance_figure(found, title=title, axis_label=axis_label)


def legend(figure: Figure) -> list[str]:
    return [label.get_text() for label in figure.legends[0].get_texts()]


def line(figure: Figure, panel: int, name: str) -> Line2D:
    return next(one for one in figure.axes[panel].lines if one.get_label() == name)


def test_differences_are_paired_by_example_and_shown_by_distance() -> None:
    # examples differ by far more than the two constructions do, and one has no partner
    rows = [
        a_row(
            place,
            construction=name,
            positions=(1, 2 + place // 10),
            pairwise_nll=100.0 * place + shift * (1 + place // 10),
            unary_nll=50.0 * place,
        )
        for name, shift in (("mlm", 0.0), ("ag", -0.25), ("orders", 1.0))
        for place in range(20)
    ]
    rows[25] = a_row(5, construction="ag", positions=(1, 2), reason="broken")
    found = by_distance(rows, baseline="mlm", resampling=QUICK, least_count=5)
    # orders is not among those that are drawn
    assert [(one.group.construction, one.baseline) for one in found] == [("ag", "mlm")] * 2
    assert [(one.first, one.last, one.examples) for one in found] == [(0, 0, 9), (1, 1, 10)]
    assert [one["pairwise_nll"].value for one in found] == pytest.approx([-0.25, -0.5])
    # without pairs, intervals would be hundreds of nats wide
    assert all(one["pairwise_nll"].high - one["pairwise_nll"].low < 1e-9 for one in found)
    assert [one["unary_nll"].value for one in found] == [0, 0]
    assert by_distance(rows[20:], baseline="mlm", resampling=QUICK) == []


@pytest.mark.parametrize(
    ("names", "baseline", "drawn"),
    [
        (CONSTRUCTIONS, "mlm", ["ag", "hcb", "mrf", "log-pool"]),
        (CONSTRUCTIONS, "ag", ["mlm", "hcb", "mrf", "log-pool"]),
        (["mlm", "orders", "hcb"], "mlm", ["hcb"]),
        (["mlm", "a", "b", "c", "d", "e"], "mlm", ["a", "b", "c", "d", "e"]),
    ],
)
def test_constructions_of_the_paper_and_the_default_are_drawn_if_measured(
    names: list[str], baseline: str, drawn: list[str]
) -> None:
    rows = [a_row(construction=name) for name in names]
    bins = by_distance(rows, baseline=baseline, resampling=QUICK)
    assert {one.group.construction for one in bins} == set(drawn)


def test_the_baseline_is_a_line_at_zero_that_is_always_in_sight() -> None:
    figure = drawn(bins("mrf", "ag"))
    for panel in figure.axes[:2]:
        low, high = panel.get_ylim()
        assert low < 0 < high
        assert any(list(one.get_ydata()) == [0, 0] for one in panel.lines)
    assert figure.axes[0].get_title(loc="left") == "P-NLL minus that of base"
    assert "better than base" in figure.legends[0].get_title().get_text()


def test_a_line_a_construction_over_the_same_bins() -> None:
    found = bins("mlm", "ag")
    figure = drawn(found)
    assert legend(figure) == ["mlm", "ag"]
    for panel, metric in enumerate(("pairwise_nll", "unary_nll")):
        for name in ("mlm", "ag"):
            own = [one for one in found if one.group.construction == name]
            shown = line(figure, panel, name)
            assert list(shown.get_ydata()) == [one[metric].value for one in own]
            # side by side, but every point within its own bin
            assert [round(x) for x in shown.get_xdata()] == list(range(len(own)))
    one, other = (line(figure, 0, name).get_xdata()[0] for name in ("mlm", "ag"))
    assert one < 0 < other


@pytest.mark.slow
def test_pooled_bins_and_counts_are_labelled() -> None:
    group = a_row().group
    nlls = dict.fromkeys(("pairwise_nll", "unary_nll"), Estimate(2.0, 0.1, 1.8, 2.2))
    other = group._replace(construction="ag")
    found = [
        Summary(group, 40, nlls, first=0, last=0),
        Summary(group, 31, nlls, first=5, last=7),
        Summary(other, 40, nlls, first=0, last=0),
        Summary(other, 29, nlls, first=5, last=7),
    ]
    strip = drawn(found).axes[2]
    assert [label.get_text() for label in strip.get_xticklabels()] == ["0", "5–7"]
    assert [bar.get_height() for bar in strip.patches] == [40, 31]
    # where a construction failed on some examples the bar says so
    assert [text.get_text() for text in strip.texts] == ["40", "29–31"]


def test_a_line_far_above_leaves_the_axis_and_is_named() -> None:
    names = ("mlm", "ag", "mrf", "mrf-logit")
    pairwise, unary = drawn(bins(*names, far="mrf-logit")).axes[:2]
    assert pairwise.get_ylim()[1] < 4
    said = pairwise.get_title(loc="right")
    assert said.startswith("off the axis: mrf-logit (32.")
    assert "mlm" not in said
    assert unary.get_title(loc="right") == ""
    arrows = [one for one in pairwise.lines if one.get_marker() == 6]
    assert len(arrows) == len(bins("mlm")) == 5
    assert {one.get_ydata()[0] for one in arrows} == {pairwise.get_ylim()[1]}
    assert {one.get_color() for one in arrows} == {STYLES["mrf-logit"].colour}


def estimates(*values: float) -> list[Estimate]:
    return [Estimate(value, 0.1, value - 0.5, value + 0.5) for value in values]


def test_axes_hold_what_they_can() -> None:
    near = {"a": estimates(1, 2), "b": estimates(1.5, 2.5), "c": estimates(1, 3)}
    low, high = axis_range(near)
    assert low < 0.5
    assert high > 3.5
    assert axis_range({**near, "far": estimates(1, 100)}) == (low, high)
    assert axis_range({**near, "below": estimates(-50, 1)}) == (low, high)
    # one of two is not an outlier of the other; nor is a line twice as high as the rest
    assert axis_range({"a": estimates(1), "b": estimates(100)})[1] > 100
    assert axis_range({**near, "d": estimates(5)})[1] > 5
    unknown = [Estimate(2.0, math.nan, math.nan, math.nan)]
    assert axis_range({"a": unknown}) == (1.5, 2.5)


@pytest.mark.slow
def test_a_construction_looks_the_same_in_every_figure() -> None:
    assert STYLES.keys() == CONSTRUCTIONS.keys()
    assert len(set(STYLES.values())) == len(STYLES)
    assert len({style.colour for style in STYLES.values()}) == len(STYLES)
    assert len({style.marker for style in STYLES.values()}) == len(STYLES)
    options = [f"ag steps={steps}" for steps in range(100)]
    styles = construction_styles([*options, *STYLES])
    assert len(set(styles.values())) == len(styles)
    assert construction_styles([options[7], "mlm"]) == construction_styles(["mlm", options[7]])
    for name in ("mlm", "ag"):
        for names in (("ag", "mlm"), ("mrf", "mlm", "hcb", "ag")):
            assert line(drawn(bins(*names)), 0, name).get_color() == STYLES[name].colour


@pytest.mark.slow
def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    names = [*HOSTILE, "_hidden", "$\\frac{", "a" * 300, "$x$"]
    found = bins(*names, far="$\\frac{", corpus="$x$")
    figure = drawn(found, title=" ".join(names), axis_label=" ".join(names))
    assert len(legend(figure)) == len(names)
    assert "$\\frac{ (3" in figure.axes[0].get_title(loc="right")
    assert "two\\nlines" in legend(figure)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(figure, tmp_path / "figure.png")


@pytest.mark.slow
def test_nothing_covers_the_data() -> None:
    figure = drawn(bins(*STYLES), title="a title " * 30)
    figure.draw_without_rendering()
    boxes = [axes.get_window_extent() for axes in figure.axes]
    for other in (*figure.legends, figure._suptitle):
        assert not any(other.get_window_extent().overlaps(box) for box in boxes)
    assert figure.get_figwidth() < 7


@pytest.mark.slow
def test_files_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = drawn(bins("mlm"))
    for name in ("figure.jpg", "figure", ".svg"):
        with pytest.raises(UnmaskError, match=r"in \.svg, \.png, \.pdf, not .*rename it"):
            save_figure(figure, tmp_path / name)
    with pytest.raises(UnmaskError, match=r"cannot write .*No such file"):
        save_figure(figure, tmp_path / "nowhere" / "figure.svg")
    good = tmp_path / "figure.svg"
    save_figure(figure, good)
    before = good.read_bytes()

    def full(file: Path, **_: object) -> None:
        file.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", full)
    with pytest.raises(UnmaskError, match="No space left"):
        save_figure(figure, good)
    assert good.read_bytes() == before
    assert list(tmp_path.iterdir()) == [good]


@pytest.mark.slow
def test_one_bin_of_one_sentence_is_drawn(tmp_path: Path) -> None:
    (one,) = by_distance([a_row(construction=name) for name in ("mlm", "ag")], QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(drawn([one]), tmp_path / "figure.svg")
