"""`unmask evaluate` and `unmask report` on a tiny BERT: what they write, say and refuse."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from tiny_tokenizers import save_bert

import unmask
import unmask.evaluation.kind as kind
import unmask.jobs.running as running
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_bert(tmp_path_factory.mktemp("models") / "tiny-bert"))


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
def test_refused_sentences_are_counted(run, report, tmp_path: Path) -> None:
    _, _, err = run(tmp_path / "run", "--examples", "100", "--mask", "random", "--method", "mlm")
    assert "16 examples (random); rejected before the last: 1 too long (random), 1 too short" in err
    assert "sentences rejected before the last example: 1 too long, 1 too short." in report(
        tmp_path / "run"
    )


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
    for table in ("results", "differences", "distance"):
        said = report(tmp_path / "run", "--table", table)
        assert "1 examples failed, 1 of them with: RuntimeError" in said
    code, _, _ = run(tmp_path / "run", *arguments)
    assert code == 0
    assert not any(row.failed for row in read_run(tmp_path / "run").rows)


@pytest.mark.slow
def test_numbers_that_are_not_finite_are_a_failure_of_their_example(
    run, tmp_path: Path, monkeypatch
) -> None:
    real = kind.pair_metrics

    def infinite(joints, tables, gold):
        found = real(joints, tables, gold)
        if tables.diagnostics()["text"] != TEXTS[0]:
            return found
        return {name: replace(one, all_kl=float("inf")) for name, one in found.items()}

    monkeypatch.setattr(kind, "pair_metrics", infinite)
    small = ("--examples", "16", "--mask", "random", "--method", "mlm", "--quiet")
    assert run(tmp_path / "run", *small) == (1, "", "")
    (failed,) = (row for row in read_run(tmp_path / "run").rows if row.failed)
    assert "all_kl of a result row is a finite number" in failed.reason


@pytest.mark.slow
def test_a_log_gets_lines(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(running, "SECONDS_PER_LINE", 0.0)
    small = ("--examples", "3", "--method", "mlm", "--rows-per-unit", "2")
    _, _, err = run(tmp_path / "run", *small)
    assert err.splitlines()[1:-1] == [f"unmask: {n} of 6 examples done" for n in (2, 4, 6)]


@pytest.mark.slow
def test_a_device_is_written_to_and_not_replaced(report, done: Path, tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    report(done, "--resamples", "50", "--output", tmp_path / "null")
    assert (tmp_path / "null").is_symlink()
    assert not Path("/dev/null").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mlm", "orders", "hcb"])
def test_a_dry_run_counts_what_metrics_read(run, tmp_path: Path, method: str) -> None:
    """A-KL and J are of both tables, whatever the construction reads."""
    small = ("--examples", "3", "--dry-run", "--support", "the,cat,sat,on,a", "--method")
    code, out, _ = run(tmp_path / "run", *small, method)
    assert code == 0
    # two tables of five tokens, both blanks masked
    assert "66 forward passes for 6 examples" in out


@pytest.mark.slow
def test_differences_that_were_asked_for_need_a_baseline(run, tmp_path: Path, capsys) -> None:
    assert run(tmp_path / "run", "--examples", "3", "--method", "hcb,ag")[0] == 0
    given = ["report", str(tmp_path / "run"), "--resamples", "50"]
    assert main(given) == 0
    assert "Paired differences" not in capsys.readouterr().out
    assert main([*given, "--table", "differences", "--output-format", "csv"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "differences are to mlm, which was not measured; give --baseline NAME" in err


@pytest.mark.slow
def test_numbers_by_distance_are_written_where_there_is_nothing_to_draw(
    report, done: Path, tmp_path: Path
) -> None:
    report(done, "--figures", tmp_path / "figures", "--resamples", "50")
    # so few examples are one bin, and one bin is no figure
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert names == ["distance-differences.csv", "distance.csv"]


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
@pytest.mark.parametrize("place", [".", "no/out.txt"])
def test_a_report_needs_a_file_that_can_be_written(
    done: Path, capsys, place: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(done), "-o", place]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"cannot write '{place}': give a file in a folder that exists" in err
    assert err.count("\n") == 1


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
def test_a_changed_plan_is_named(done: Path, tmp_path: Path, capsys) -> None:
    changed = Path(shutil.copytree(done, tmp_path / "run"))
    plan = (changed / "_plan.json").read_text()
    (changed / "_plan.json").write_text(plan.replace('"seed":0', '"seed":1'))
    assert main(["report", str(changed)]) == 2
    err = capsys.readouterr().err
    assert "or of another plan: if _plan.json was changed since, restore it" in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_report_says_what_to_do_about_a_part_of_another_plan(
    done: Path, tmp_path: Path, report
) -> None:
    changed = Path(shutil.copytree(done, tmp_path / "run"))
    first, second, *_ = sorted(changed.glob("part-*"))
    shutil.copy(first, second)
    printed = report(changed)
    assert f"{second.name} is damaged, or of another plan: if _plan.json was changed" in printed


@pytest.mark.slow
def test_a_copy_can_be_published(report, done: Path, tmp_path: Path) -> None:
    report(done, "--copy-to", tmp_path / "copy")
    content = b"".join(
        path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file()
    )
    assert not any(text.encode() in content for text in TEXTS)
    assert report(tmp_path / "copy", "--resamples", "50") == report(done, "--resamples", "50")


@pytest.mark.slow
def test_a_rejected_report_copies_nothing(done: Path, tmp_path: Path, capsys) -> None:
    copy = tmp_path / "copy"
    assert main(["report", str(done), "--copy-to", str(copy), "--baseline", "typo"]) == 2
    assert not copy.exists()
    assert main(["report", str(done), "--copy-to", str(copy)]) == 0
    capsys.readouterr()


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
