"""Pictures of joints: what they show, which tokens, in which fonts, and what they reject."""

import io
import math
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn import notes, overlapping
from matplotlib import rc_context
from matplotlib.image import imread
from matplotlib.text import Text
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask import Joint, UnmaskError
from unmask.cli import main
from unmask.errors import SupportError
from unmask.plots import STYLES, compare, plot, save_figure
from unmask.plots.fonts import BASE, Fonts, fonts_for, installed
from unmask.plots.panels import percent_writer
from unmask.text.support import Support

PAIR = "the [MASK] sat on the [MASK]."
SIZE = 20
HOSTILE = ["$x$", "$\\frac{", "a\nb", "\x1b[31m", "[unused1]", "_x", "", " ", "x" * 60, "\u202ey"]


def joint(
    names: list[str] | None = None, *, method: str = "log-pool", seed: int = 0, **about: object
) -> Joint:
    names = names or [f"t{place}" for place in range(SIZE)]
    table = torch.tensor(toy_joint(len(names), 2, seed)).log()
    return Joint.from_scores(table, (Support.of(names),) * 2, method=method, diagnostics=about)


def lazy_joint() -> tuple[Joint, ToyMaskedLM]:
    model = ToyMaskedLM(toy_joint(SIZE, 2), noise=0.3)
    lm = unmask.LanguageModel(model, ToyTokenizer(SIZE))
    return lm.joint("[MASK] [MASK]", method="orders"), model


def mesh(panel: object) -> object:
    return panel.collections[0]


def values(panel: object) -> np.ndarray:
    return np.ma.filled(mesh(panel).get_array(), np.nan)


def ticks(panel: object) -> tuple[list[str], list[str]]:
    # of the axes themselves: a panel that shares them has no labels of its own
    rows, columns = (
        axis.get_major_formatter().format_ticks(axis.get_ticklocs())
        for axis in (panel.yaxis, panel.xaxis)
    )
    return rows, columns


def written(panel: object) -> dict[tuple[int, int], str]:
    return {
        (int(y), int(x)): one.get_text() for one in panel.texts for x, y in [one.get_position()]
    }


def table(of: Joint, panel: object) -> np.ndarray:
    """The probabilities of the shown tokens, one by one through the public interface."""
    rows, columns = ticks(panel)
    return np.array([[math.exp(of.log_prob(a, b)) for b in columns] for a in rows])


def test_cells_are_the_probabilities_and_bars_the_marginals() -> None:
    one = joint(text="a [MASK] b [MASK]")
    figure = one.plot(6)
    top, panel, side, bar = figure.axes
    rows, columns = ticks(panel)
    assert len(rows) == len(columns) == 6
    drawn = values(panel)
    assert drawn == pytest.approx(table(one, panel))
    assert mesh(panel).get_clim() == (0, drawn.max())
    expected = [math.exp(one.marginal(0).log_prob(name)) for name in rows]
    assert [patch.get_width() for patch in side.patches] == pytest.approx(expected)
    expected = [math.exp(one.marginal(1).log_prob(name)) for name in columns]
    assert [patch.get_height() for patch in top.patches] == pytest.approx(expected)
    # rows go down, as one reads
    assert panel.get_ylim() == (5.5, -0.5)
    assert (panel.get_ylabel(), panel.get_xlabel()) == ("first blank", "second blank")
    assert bar.get_ylabel() == "probability of the pair"
    assert figure._suptitle.get_text() == "a [MASK] b [MASK]"
    assert top.get_title(loc="left") == "log-pool"
    assert top.title.get_color() != STYLES["log-pool"].colour == top._left_title.get_color()
    assert f"have {100 * drawn.sum():.3g}% of the probability" in notes(figure)


def test_cells_say_their_percentages() -> None:
    one = joint()
    panel = one.plot(5).axes[1]
    said = written(panel)
    for place, probability in np.ndenumerate(values(panel)):
        number = f"{100 * probability:.1f}"
        assert said.get(place, "0.0") == number
    # as many decimals as the largest needs, none where nothing would fit
    assert [percent_writer(0.3)(p) for p in (0.3, 0.0004, 0.0005001)] == ["30.0", "", "0.1"]
    assert percent_writer(0.003)(0.003) == "0.30"
    assert percent_writer(1e-6)(1e-6) == ""


def test_tokens_are_of_the_likeliest_pairs_and_of_the_marginals() -> None:
    # a pair of tokens that are rare alone but for each other, and common tokens apart
    size = 30
    p = np.full((size, size), 1e-6)
    p[:20, :20] += np.outer(np.arange(20, 0, -1), np.arange(20, 0, -1)) / 44100
    p[29, 28] = 0.02
    support = Support.of(f"t{place}" for place in range(size))
    one = Joint.from_scores(torch.tensor(p).log(), (support, support), method="ag")
    rows, columns = ticks(one.plot(4).axes[1])
    assert "t29" in rows
    assert "t28" in columns
    for axis, shown in enumerate((rows, columns)):
        marginal = [one.marginal(axis).log_prob(name) for name in shown]
        assert marginal == sorted(marginal, reverse=True)
        assert shown[0] == "t0"
        assert len(set(shown)) == 4


def test_pmi_is_symmetric_around_zero_in_nats() -> None:
    one = joint()
    figure = one.plot(5, kind="pmi")
    panel, bar = figure.axes[1], figure.axes[3]
    rows, columns = ticks(panel)
    expected = [[one.pmi(a, b) for b in columns] for a in rows]
    drawn = values(panel)
    assert drawn == pytest.approx(np.array(expected), abs=1e-9)
    low, high = mesh(panel).get_clim()
    assert (-low, high) == (high, np.abs(drawn).max())
    assert "nats" in bar.get_ylabel()
    assert written(panel)[0, 0] == f"{drawn[0, 0]:+.1f}".replace("-", "−")


@pytest.mark.slow
def test_pairs_that_cannot_be_have_no_colour(tmp_path: Path) -> None:
    scores = torch.tensor([[0.0, -math.inf], [-1.0, 1.0]], dtype=torch.float64)
    one = Joint.from_scores(scores, (Support.of("ab"), Support.of("cd")), method="given")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = one.plot(kind="pmi")
        save_figure(figure, tmp_path / "figure.png")
    panel = figure.axes[1]
    rows, columns = ticks(panel)
    never = rows.index("a"), columns.index("d")
    assert written(panel)[never] == "never"
    assert [tuple(place) for place in np.argwhere(mesh(panel).get_array().mask)] == [never]
    assert math.isfinite(mesh(panel).get_clim()[1])
    assert not mesh(one.plot().axes[1]).get_array().mask.any()


def test_one_blank_is_bars() -> None:
    one = joint(text="a [MASK]").marginal(0)
    (panel,) = (figure := one.plot(7)).axes
    fills = one.top(7)
    assert ticks(panel)[0] == [fill.tokens[0] for fill in fills]
    widths = [patch.get_width() for patch in panel.patches]
    assert widths == pytest.approx([fill.probability for fill in fills])
    assert panel.get_xlabel() == "probability, %"
    assert figure._suptitle.get_text() == "a [MASK]"
    with pytest.raises(UnmaskError, match="one blank has no pmi"):
        one.plot(kind="pmi")


def test_sums_that_are_not_free_are_not_computed() -> None:
    one, model = lazy_joint()
    one.top(2 * 4)
    before = model.rows_asked
    figure = one.plot(4)
    # one context per token; not the tables, which are 2 x 20
    assert model.rows_asked - before <= 8
    assert not one.is_tabulated()
    panel, _bar = figure.axes
    rows, columns = ticks(panel)
    ranked = [fill.tokens for fill in one.top(8)]
    assert rows == list(dict.fromkeys(a for a, _ in ranked))[:4]
    assert columns == list(dict.fromkeys(b for _, b in ranked))[:4]
    assert values(panel) == pytest.approx(table(one, panel))
    assert "no marginals, which would take 40 forward passes" in notes(figure)
    with pytest.raises(UnmaskError, match=r"40 forward passes: call joint\.marginal\(0\)"):
        one.plot(kind="pmi")
    # and drawn like any other once they are computed
    one.marginal(0)
    assert len(one.plot(4, kind="pmi").axes) == 4


def test_what_is_rejected() -> None:
    three = Joint.from_scores(torch.zeros(2, 2, 2), (Support.of("ab"),) * 3)
    with pytest.raises(SupportError, match=r"has 3: .*joint\.marginal\(a, b\)\.plot\(\)"):
        three.plot()
    assert len(three.marginal(0, 2).plot().axes) == 4
    for bad in (0, 101, 2.5, True, "4"):
        with pytest.raises(SupportError, match="shows 1 to 100 tokens"):
            plot(joint(), bad)
    with pytest.raises(UnmaskError, match="kind is probability or pmi, not 'pim'"):
        joint().plot(kind="pim")


@pytest.mark.slow
def test_several_joints_have_the_same_tokens_and_colours() -> None:
    joints = {"mlm": joint(method="mlm"), "log-pool": joint(seed=1), "mine": joint(seed=2)}
    figure = compare(joints, 5)
    *maps, bar = figure.axes
    assert len(maps) == 3
    labels = ticks(maps[0])
    most = max(values(panel).max() for panel in maps)
    for panel, (name, one) in zip(maps, joints.items(), strict=True):
        assert ticks(panel) == labels
        assert values(panel) == pytest.approx(table(one, panel))
        assert mesh(panel).get_clim() == (0, most)
        assert panel.get_title(loc="left") == name
        assert panel._left_title.get_color() == STYLES[one.method].colour
        # everyone's likeliest pair is there
        assert one.top(1)[0].tokens[0] in labels[0]
        assert one.top(1)[0].tokens[1] in labels[1]
    assert bar.get_ylabel() == "probability of the pair"
    limits = {mesh(panel).get_clim() for panel in compare(joints, 5, kind="pmi").axes[:3]}
    ((low, high),) = limits
    assert low == -high


@pytest.mark.slow
def test_trust_is_said_where_it_is_known() -> None:
    model = ToyMaskedLM(toy_joint(SIZE, 2), noise=0.3)
    lm = unmask.LanguageModel(model, ToyTokenizer(SIZE))
    joints = lm.joints("[MASK] [MASK]", methods=["mlm", "ag"])
    agreement = joints["ag"].agreement()
    said = f"J = {agreement.bits:.3f} bits: {agreement.words()}."
    assert notes(compare(joints)).count(said) == 1
    assert said in notes(joints["ag"].plot())
    assert "J = " not in notes(joint().plot())
    # one text, said once
    assert compare(joints)._suptitle.get_text() == "[MASK] [MASK]"
    assert compare(joints, title="$t$")._suptitle.get_text() == "$t$"


def test_what_does_not_compare() -> None:
    with pytest.raises(SupportError, match="no joint to compare"):
        compare({})
    with pytest.raises(SupportError, match="'other' ranges over other tokens"):
        compare({"one": joint(), "other": joint(["a", "b"])})
    with pytest.raises(SupportError, match="this joint has 1"):
        compare({"one": joint().marginal(0)})
    lazy, _ = lazy_joint()
    with pytest.raises(UnmaskError, match="the pmi of orders"):
        compare({"orders": lazy}, kind="pmi")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_the_same_joint_is_the_same_file(suffix: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "other")]
    for path, settings in zip(
        paths, ({}, {"font.family": "serif", "axes.grid": True}), strict=True
    ):
        # nor do a user's settings change it
        with rc_context(settings):
            figure = joint(text="t").plot(4)
        save_figure(figure, path)
        # nor that it was shown in between
        figure._repr_png_()
        save_figure(figure, again := tmp_path / f"again{suffix}")
        assert again.read_bytes() == path.read_bytes()
    one, other = (path.read_bytes() for path in paths)
    assert one == other


@pytest.mark.slow
def test_a_notebook_shows_figures_without_pyplot() -> None:
    both = joint(text="t")
    figures = [both.plot(4), both.marginal(0).plot(4), compare({"log-pool": both})]
    for figure in figures:
        shown, about = figure._repr_png_()
        assert about == {"width": round(96 * figure.get_size_inches()[0])}
        # more pixels than a page gives it: sharp on good screens
        drawn = imread(io.BytesIO(shown), format="png")
        assert drawn.shape[1] == pytest.approx(200 / 96 * about["width"], abs=3)
        assert drawn[..., :3].min() < 0.5 < drawn[..., :3].max()


@pytest.mark.slow
def test_tokens_are_text_and_nothing_else(tmp_path: Path) -> None:
    names = [*HOSTILE, "a", "b"]
    with rc_context({"text.usetex": True}), warnings.catch_warnings():
        warnings.simplefilter("error")
        one = joint(names, text="a $x$ [MASK]\n\x1b", method="$\\m$")
        for figure in (one.plot(), one.marginal(0).plot(), compare({"$y$": one, "_z": one}, 12)):
            texts = figure.findobj(Text)
            assert not any(text.get_parse_math() or text.get_usetex() for text in texts)
            assert all(text.get_text().replace("\n", "").isprintable() for text in texts)
            save_figure(figure, tmp_path / "figure.png")
            assert figure._suptitle.get_text() == "a $x$ [MASK]\\n\\x1b"
    rows, _ = ticks(one.plot().axes[1])
    shown = {"$x$", "$\\frac{", "a\\nb", "\\x1b[31m", "[unused1]", "_x", "''", "' '", "\\u202ey"}
    assert shown | {"a", "b"} == {row for row in rows if "..." not in row}
    assert max(map(len, rows)) <= 18


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["probability", "pmi"])
def test_nothing_covers_anything(kind: str) -> None:
    one = joint(["w" * (place % 15 + 1) for place in range(SIZE)], text="a long text " * 9)
    few = joint(["a", "b"], text="a long text " * 9)
    for figure in (
        one.plot(kind=kind),
        few.plot(kind=kind),
        compare(dict.fromkeys(list(STYLES)[:5], one), 6, kind=kind),
        compare({"mlm": few}, kind=kind),
        one.marginal(0).plot(),
    ):
        assert overlapping(figure) == []


# --- fonts --------------------------------------------------------------------------------------


def only(monkeypatch: pytest.MonkeyPatch, **families: str) -> None:
    """Nothing is installed but families with these characters."""
    faces = [(name, frozenset(map(ord, held))) for name, held in families.items()]
    monkeypatch.setattr("unmask.plots.fonts.installed", lambda: faces)


def test_fonts_are_those_that_have_the_glyphs(monkeypatch: pytest.MonkeyPatch) -> None:
    latin, greek, both = {"Latin": "abc"}, {"Greek": "αβ"}, {"Both": "abαβ"}
    only(monkeypatch, **latin, **greek, **both)
    assert fonts_for(["ab", "c"]) == Fonts(("Latin",))
    assert fonts_for(["a β"]) == Fonts(("Latin", "Greek"))
    assert fonts_for([]).families == (BASE,)
    only(monkeypatch, **both, **latin)
    assert fonts_for(["aα"]) == Fonts(("Both",))
    only(monkeypatch, **latin, **both)
    found = fonts_for(["a台北α"])
    assert found == Fonts(("Latin", "Both"), frozenset("台北"))
    assert found.shown("a台b") == "a U+53F0 b"
    assert found.shown("台北") == "U+53F0 U+5317"
    assert found.shown("ab") == "ab"
    assert [found.shown_label(one) for one in ("台北台", "a")] == ["U+53F0 U+5317 ...", "a"]


@pytest.mark.slow
def test_a_character_without_a_font_is_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, **{BASE: "abct012[]MASK"})
    with pytest.warns(UserWarning, match="fonts-noto-cjk"):
        figure = joint(["a", "台", "台北城"], text="台[MASK]").plot()
    assert sorted(ticks(figure.axes[1])[0]) == ["U+53F0", "U+53F0 U+5317 ...", "a"]
    assert figure._suptitle.get_text() == "U+53F0 [MASK]"


@pytest.mark.slow
def test_a_second_font_is_drawn_where_the_first_has_no_glyph(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    base, *others = installed()
    assert base[0] == BASE
    assert not any(re.match("Last Resort|cm|STIXSize", family) for family, _ in others)
    # matplotlib's own second family; CJK fonts are not on every machine
    stix = next(other for other in others if other[0] == "STIXGeneral")
    (rare,) = sorted(set(stix[1]) - set(base[1]) - set(range(0xE000, 0xF900)))[:1]
    monkeypatch.setattr("unmask.plots.fonts.installed", lambda: [base, stix])
    with warnings.catch_warnings():
        # a glyph that is missing is a warning of matplotlib's
        warnings.simplefilter("error")
        figure = joint(["a", chr(rare)]).plot()
        figure.savefig(io.BytesIO(), format="svg")
    (label, *_) = [one for one in figure.findobj(Text) if one.get_text() == chr(rare)]
    assert label.get_fontfamily() == [BASE, "STIXGeneral"]
    assert not caplog.records


# --- the command line ---------------------------------------------------------------------------


@pytest.mark.slow
def test_fill_draws_what_it_prints(fill, lm, tmp_path: Path) -> None:
    one, several, single = (tmp_path / name for name in ("one.svg", "two.svg", "three.PNG"))
    plain = fill(PAIR)[0]
    assert fill(PAIR, "--figure", str(one))[0] == plain
    fill(PAIR, "--figure", str(several), "--method", "mlm,log-pool")
    fill("the [MASK] sat.", "--figure", str(single), "--json")
    assert single.read_bytes().startswith(b"\x89PNG")
    again = tmp_path / "again.svg"
    save_figure(lm.joint(PAIR).plot(), again)
    assert again.read_bytes() == one.read_bytes()
    save_figure(compare(lm.joints(PAIR, methods=["mlm", "log-pool"])), again)
    assert again.read_bytes() == several.read_bytes()


@pytest.mark.parametrize(
    ("text", "arguments", "sentence"),
    [
        (PAIR, ["--figure", "f.jpg"], "a figure is a file in .svg, .png, .pdf, not 'f.jpg'"),
        (PAIR, ["--figure", "nowhere/f.svg"], "cannot write 'nowhere/f.svg': give a file in"),
        (PAIR, ["--figure", "f.svg", "--targets", "cat"], "leave out --targets"),
        ("[MASK] " * 3, ["--figure", "f.svg"], "this text has 3; leave it out"),
    ],
)
def test_figures_that_cannot_be(
    text: str, arguments: list[str], sentence: str, folder: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fill", text, "-m", folder, *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch, folder, capsys) -> None:
    one = joint()
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    for draw in (
        one.plot,
        one.marginal(0).plot,
        lambda: compare({"a": one}),
    ):
        with pytest.raises(UnmaskError, match=r"pip install 'unmask\[plots\]'"):
            draw()
    assert main(["fill", PAIR, "-m", folder, "--figure", "f.svg"]) == 2
    assert "pip install 'unmask[plots]'" in capsys.readouterr().err
