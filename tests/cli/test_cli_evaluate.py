"""`unmask evaluate` and `unmask report` on a tiny BERT: what they write, say and refuse."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import unmask
import unmask.evaluation.kind as kind
from unmask.cli import main
from unmask.constructions.registered import REGISTERED
from unmask.evaluation.request import EvaluationRequest, evaluate
from unmask.evaluation.run import read_run
from unmask.jobs.model_source import ModelSource
from unmask.records.corpora import CorpusSpec

pytestmark = pytest.mark.usefixtures("read_once")

WORDS = ("cat", "dog", "man", "woman")
TEXTS = [f"the {WORDS[i % 4]} sat on a {WORDS[i // 4 % 4]}" for i in range(16)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("corpus") / "cats.txt"
    path.write_text("\n".join([*TEXTS, "cat", "the " * 600]) + "\n")
    return str(path)


@pytest.fixture
def run(folder: str, corpus: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple]:
    """Run `unmask evaluate`; exit code and what was said."""

    def run(output: Path, *more: str) -> tuple[int, str, str]:
        code = main(["evaluate", corpus, "-m", folder, "-o", str(output), *more])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run `unmask report`, which must succeed."""

    def report(*arguments: str | Path) -> str:
        capsys.readouterr()
        assert main(["report", *map(str, arguments)]) == 0
        return capsys.readouterr().out

    return report


@pytest.fixture(scope="module")
def done(folder: str, corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("done") / "run"
    request = EvaluationRequest(
        corpus=CorpusSpec(corpus), model=ModelSource(place=folder), examples=12, corpus_name="cats"
    )
    evaluate(request, output, progress=False, rows_per_unit=2)
    return output


@pytest.mark.slow
def test_every_construction_of_every_example(run, tmp_path: Path) -> None:
    code, out, err = run(tmp_path / "run", "--examples", "3", "--rows-per-unit", "2")
    assert (code, out) == (0, "")
    said = err.replace("\r", "\n").splitlines()
    assert said[0] == (
        "tiny-bert on cats.txt: 18 distinct sentences, 6 examples (contiguous, random)"
    )
    assert said[-1].startswith("6 examples are in ")
    found = read_run(tmp_path / "run")
    assert len(found.rows) == 6 * len(unmask.CONSTRUCTIONS)
    assert found.missing == 0
    assert set(pd.read_parquet(tmp_path / "run")["mask"]) == {"contiguous", "random"}
    assert all(row.software and row.device == "cpu" and row.spans for row in found.rows)
    assert all(row.converged for row in found.rows if row.construction == "log-pool")
    names = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    others = {name for name in names if not name.startswith(("part-", "_part-"))}
    assert others == {"_plan.json", "_lock-0-of-1"}


@pytest.mark.slow
def test_a_failed_example_is_recorded_tried_again_and_counted(
    run, report, tmp_path: Path, monkeypatch
) -> None:
    real = kind.pair_metrics

    def sometimes(joints, tables, gold):
        if tables.diagnostics()["text"] == TEXTS[0]:
            raise RuntimeError("no\nluck \x1b[31m")
        return real(joints, tables, gold)

    arguments = ("--examples", "16", "--mask", "random", "--method", "mlm,mrf")
    with monkeypatch.context() as patch:
        patch.setattr(kind, "pair_metrics", sometimes)
        code, _, err = run(tmp_path / "run", *arguments)
    assert code == 1
    assert "15 examples are in" in err
    assert "1 failed: run again to try them again" in err
    failed = [row for row in read_run(tmp_path / "run").rows if row.failed]
    assert [row.reason for row in failed] == ["RuntimeError: no luck \\x1b[31m"] * 2
    for table in ("results", "differences", "distance-differences"):
        said = report(tmp_path / "run", "--table", table)
        assert "1 examples failed, 1 of them with: RuntimeError" in said
    code, _, _ = run(tmp_path / "run", *arguments)
    assert code == 0
    assert not any(row.failed for row in read_run(tmp_path / "run").rows)


@pytest.mark.slow
def test_a_device_is_written_to_and_not_replaced(report, done: Path, tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    report(done, "--resamples", "50", "--output", tmp_path / "null")
    assert (tmp_path / "null").is_symlink()
    assert not Path("/dev/null").is_file()


@pytest.mark.slow
def test_runs_that_must_not_be_mixed_are_not(
    run, done: Path, tmp_path: Path, folder: str, capsys
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("\n".join(TEXTS[:8]) + "\n")
    request = EvaluationRequest(
        corpus=CorpusSpec(str(other)),
        model=ModelSource(place=folder),
        examples=2,
        methods=["mlm"],
        corpus_name="cats",
    )
    evaluate(request, tmp_path / "run", progress=False)
    assert main(["report", str(done), str(tmp_path / "run")]) == 2
    assert "two runs name different corpora 'cats'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--output", "--figures"])
@pytest.mark.parametrize(
    "place", ["_plan.json", "_part-000000-3f.json", "part-000000-3f.parquet", "_lock-0-of-1"]
)
def test_a_report_is_not_written_over_its_run(
    done: Path, capsys, option: str, place: str, monkeypatch
) -> None:
    before = {path: path.read_bytes() for path in done.rglob("*") if path.is_file()}
    monkeypatch.chdir(done.parent)
    written = str(Path(done.name) / ".." / done.name / place)
    assert main(["report", str(done), "--resamples", "50", option, written]) == 2
    err = capsys.readouterr().err
    assert "belongs to the job" in err or "give a file in a folder that exists" in err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in done.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_a_copy_can_be_published(report, done: Path, tmp_path: Path) -> None:
    report(done, "--copy-to", tmp_path / "copy")
    content = b"".join(
        path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file()
    )
    assert not any(text.encode() in content for text in TEXTS)
    assert report(tmp_path / "copy", "--resamples", "50") == report(done, "--resamples", "50")


@pytest.mark.slow
def test_a_function_of_ones_own_is_measured_by_where_it_is_imported_from(
    run, report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_joints.py").write_text(
        "from unmask.joints.forms import Product\n\n\n"
        "def both(tables, *, power=1.0):\n"
        '    """Both conditionals multiplied."""\n'
        "    return Product((power, power))\n"
    )
    monkeypatch.chdir(tmp_path)
    code, _, err = run(tmp_path / "run", "--examples", "2", "--method", "mrf,my_joints:both")
    assert code == 0, err
    found = {(row.example_id, row.construction): row for row in read_run(tmp_path / "run").rows}
    assert len(found) == 8
    for (example, name), row in found.items():
        if name == "my_joints:both":
            right = found[example, "mrf"]
            assert row.metric("pairwise_nll") == pytest.approx(right.metric("pairwise_nll"))
    # as in a process that has not imported it
    monkeypatch.delitem(REGISTERED, "my_joints:both")
    assert "my_joints:both" in report(tmp_path / "run")
    code, _, err = run(tmp_path / "other", "--method", "my_joints:nothing")
    assert code == 2
    assert err.startswith("unmask: 'my_joints:nothing' is not a function that can be imported")
    assert err.count("\n") == 1
