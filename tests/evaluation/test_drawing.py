"""Distance figures of a report as files: one a setting, and their numbers."""

import csv
from pathlib import Path

import pytest
from evaluation_rows import a_row
from plans import a_kind, a_plan, a_run

from unmask.cli.options import say
from unmask.errors import StoreError
from unmask.evaluation.reports.figures import draw
from unmask.evaluation.reports.reporting import Report, report
from unmask.evaluation.rows import ResultRow
from unmask.resampling import Resampling

QUICK = Resampling(resamples=50, seed=0)


def rows(corpus: str) -> list[ResultRow]:
    """Two constructions, 35 examples at distance 0 and 35 at distance 3."""
    return [
        a_row(i, corpus=corpus, construction=name, positions=(2, 3 if i < 35 else 6))
        for name in ("mlm", "ag")
        for i in range(70)
    ]


def a_report(*corpora: str) -> Report:
    runs = [a_run(a_plan(corpus=name, digest=name * 64), rows(name)) for name in corpora]
    return report(runs, resampling=QUICK)


def test_runs_that_mask_other_tokens_are_not_paired() -> None:
    """Examples are known by sentence and mask: those of another seed have the same names."""
    first, second = (
        a_run(a_plan(), some)
        for some in (
            [a_row(i, construction="mlm", positions=(2, 3)) for i in range(5)],
            [a_row(i, construction="ag", positions=(2, 5)) for i in range(5)],
        )
    )
    with pytest.raises(StoreError, match="two runs mask different tokens of 's0000/random'"):
        report([first, second], resampling=QUICK)


@pytest.mark.slow
def test_a_figure_a_setting_and_one_table(tmp_path: Path) -> None:
    written = list(draw(a_report("a", "b"), tmp_path))
    names = [path.name for path in written]
    assert names[0] == "distance-differences.csv"
    assert names[1:] == [
        f"distance-bert-base-cased-{name}-random-vocabulary.svg" for name in ("a", "b")
    ]
    with written[0].open() as file:
        drawn = list(csv.DictReader(file))
    # ag minus mlm in two bins of two settings
    assert [(row["construction"], row["minus"], row["to"], row["examples"]) for row in drawn] == [
        ("ag", "mlm", "0", "35"),
        ("ag", "mlm", "3", "35"),
    ] * 2
    assert all(path.read_text().count("<svg") == 1 for path in written[1:])


@pytest.mark.slow
def test_names_that_no_file_name_holds_do_not_replace_each_other(tmp_path: Path) -> None:
    written = list(draw(a_report("\u65b0", "\u5c0f"), tmp_path))
    assert len(written) == len(set(written)) == 3
    assert all(path.name.isascii() for path in written)


def test_a_figure_that_is_not_drawn_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        a_row(i, construction=name, positions=(2, 5), support="the,a")
        for name in ("mlm", "ag")
        for i in range(35)
    ]
    run = a_run(a_plan(a_kind(support=("the", "a"))), rows)
    list(draw(report([run], resampling=QUICK), tmp_path, say=say))
    assert not list(tmp_path.glob("*.svg"))
    (told,) = (one for one in capsys.readouterr().err.splitlines() if "no figure of " in one)
    assert told.startswith("unmask: no figure of ")
    why = (
        "all examples are in one bin, 2 tokens between the blanks; a bin takes 30 examples or more"
    )
    assert told.endswith(f"blanks, support the,a: {why}")
