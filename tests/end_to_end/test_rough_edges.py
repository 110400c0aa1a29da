"""What a first user of the library met: refusals that help, outputs that stay readable."""

from pathlib import Path

import pytest
import torch
from evaluation_rows import a_row
from plans import a_kind, a_plan, a_run
from tiny_models import build, two_blanks

import unmask
from unmask.cli.options import say
from unmask.evaluation.reports.figures import draw
from unmask.evaluation.reports.reporting import Report, report
from unmask.resampling import Resampling
from unmask.tables.pair_tables import PairTables


@pytest.fixture(scope="module")
def lm() -> unmask.LanguageModel:
    return unmask.load(build("bert"))


# --- tables ---------------------------------------------------------------------------------------


def test_tables_show_themselves_without_eliciting(lm: unmask.LanguageModel) -> None:
    text = two_blanks(lm.tokenizer)
    tables = lm.tables(text, support={0: ["cat", "dog", "man"]})
    about = f"model 'BertForMaskedLM', text '{text}'"
    size = lm.model.vocabulary_size
    assert repr(tables) == f"PairTables(3 x {size}, not elicited yet, {about})"
    assert tables.diagnostics()["forward_passes"] == 0
    _ = tables.b_given_a
    assert repr(tables) == f"PairTables(3 x {size}, dense, {about})"
    logits = torch.zeros(2, 3)
    stored = PairTables.from_logits(unmask.DenseLogits(logits), unmask.DenseLogits(logits))
    assert repr(stored) == "PairTables(2 x 3, dense)"
    hostile = lm.tables(f"the a\x1b[31m {lm.tokenizer.mask_token} {lm.tokenizer.mask_token}")
    assert repr(hostile).isprintable()


# --- reports --------------------------------------------------------------------------------------

TOKENS = ("the", "a", ",", *(f"word{i}" for i in range(73)))


def a_report(*supports: str | tuple[str, ...], distances: tuple[int, ...] = (0, 3)) -> Report:
    runs = []
    for support in supports:
        kind = a_kind(support=support)
        name_of_support = support if isinstance(support, str) else ",".join(support)
        rows = [
            a_row(i, construction=name, support=name_of_support, positions=(2, 3 + distance))
            for name in ("mlm", "ag")
            for i, distance in enumerate(d for d in distances for _ in range(35))
        ]
        runs.append(a_run(a_plan(kind), rows))
    return report(runs, resampling=Resampling(resamples=50, seed=0))


@pytest.mark.parametrize(
    ("distances", "why"),
    [
        (
            (2,),
            "all examples are in one bin, 2 tokens between the blanks; a bin takes 30 examples or"
            " more",
        ),
        (tuple(range(9)), None),
    ],
)
def test_a_figure_that_is_not_drawn_is_told(
    distances: tuple[int, ...], why: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    list(draw(a_report(TOKENS, distances=distances), tmp_path, say=say))
    lines = capsys.readouterr().err.splitlines()
    figures = [path for path in tmp_path.iterdir() if path.suffix == ".svg"]
    assert len(figures) == (why is None)
    told = [line for line in lines if line.startswith("unmask: no figure of ")]
    assert [line.split("blanks, support ")[1] for line in told] == (
        [] if why is None else [f"{','.join(TOKENS)}: {why}"]
    )


@pytest.mark.slow
def test_a_figure_is_one_file_however_often_it_was_shown(
    lm: unmask.LanguageModel, tmp_path: Path
) -> None:
    from unmask.plots import save_figure

    figure = lm.joint(two_blanks(lm.tokenizer)).plot(5)
    save_figure(figure, tmp_path / "before.svg")
    figure._repr_png_()
    save_figure(figure, tmp_path / "after.svg")
    assert (tmp_path / "before.svg").read_bytes() == (tmp_path / "after.svg").read_bytes()
