"""The page of tuned arms, from rows made up here."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from evaluation_rows import a_row

from unmask.evaluation.rows import ResultRow

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "runs"))

import marked_page  # noqa: E402
import tune_report  # noqa: E402

# how far every number of an arm is from the control's, and J as a part of its
ARMS = {
    "start": (0.3, 1.0),
    "control": (0.0, 1.0),
    "compatible-10": (0.2, 0.1),
    "compatible-1": (-0.1, 0.25),
    "blanks": (0.1, 1.0),
}
HOSTILE = "<b>|x"


def rows(arm: str, run: str) -> list[ResultRow]:
    gap, part = ARMS[arm]
    return [
        a_row(
            example,
            construction=construction,
            corpus=run,
            model=arm,
            pairwise_nll=2.0 + 0.1 * (example % 5) + level + gap,
            unary_nll=1.0 + 0.2 * (example % 3) + gap / 100,
            incompatibility=0.04 * part,
        )
        for example in range(20)
        for construction, level in (("mlm", 0.5), ("orders", 0.02), ("log-pool", 0.0))
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for place, arm in enumerate(ARMS):
        for run in tune_report.RUNS:
            (tmp_path / arm / run).mkdir(parents=True)
        lines = [{"id": str(n), "correct": float(n % 4 != place)} for n in range(40)]
        lines.append({"id": "none", "correct": None})
        _write(tmp_path / arm / "blimp.jsonl", lines)
        for shift, order in enumerate(tune_report.ORDERS):
            scores = [
                {"id": str(n), "score": -20.0 - n - 4 * shift / (1 + place), "tokens": 4}
                for n in range(10)
            ]
            _write(tmp_path / arm / f"order-{order}.jsonl", scores)
        fills = [
            {
                "id": str(n),
                "blanks": 4,
                "ways": {
                    "one at a time": [-4.0, 4, 4, 3],
                    "all at once": [-4.0 - 2 * (1 + place), 1, 1, 1],
                    "together, 0.2 bits": [-4.4, 2 + place, 18, 2],
                },
            }
            for n in range(6)
        ]
        _write(tmp_path / arm / "together.jsonl", fills)
        blocks = [{"id": str(n), "contradiction": 0.5 + n, "interaction": 4.0} for n in range(3)]
        _write(tmp_path / arm / "pairs.jsonl", blocks)
        said = {
            "plan": {
                "model": {"name": "tiny-english"},
                "corpora": [HOSTILE],
                "texts": {"training": 12345},
                "tuning": {
                    "masks": "blanks",
                    "compatibility": 1.0,
                    "marginals": 0.0,
                    "tokens": 8,
                    "every": 2,
                    "learning_rate": 3e-4,
                    "seed": 0,
                },
            },
            "record": {"passes": 600000, "pair_passes": 200000},
            "software": "unmask 0",
            "device": "cpu",
            "threads": 1,
        }
        if arm != "start":
            (tmp_path / arm / "tuning.json").write_text(json.dumps(said))

    def read_run(path: Path) -> SimpleNamespace:
        return SimpleNamespace(rows=tuple(rows(path.parent.name, path.name)))

    monkeypatch.setattr(tune_report, "read_run", read_run)
    return tmp_path


def _write(path: Path, lines: list[dict[str, object]]) -> None:
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")


def report(folder: Path, control: str = "control") -> str:
    """All tables, with their headings."""
    made = tune_report.tables(folder, control)
    return "\n".join(line for lines in made.values() for line in lines)


def cells(text: str, *first: str) -> list[list[str]]:
    found = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines()]
    stripped = [[cell.strip() for cell in line] for line in found]
    return [line for line in stripped if tuple(line[: len(first)]) == first]


@pytest.mark.slow
def test_arms_are_compared_with_the_control_example_by_example(folder: Path) -> None:
    text = report(folder)
    # the same gap in every example: an interval of no width, although examples differ
    (goal,) = cells(text, "compatible-1", "snli, random")
    assert goal[2:] == ["0.25", "**-0.0010 [-0.0010, -0.0010]**", "**-0.0800 [-0.0800, -0.0800]**"]
    (same,) = cells(text, "control", "snli, random")
    assert same[2:4] == ["1.00", "+0.0000 [+0.0000, +0.0000]"]
    means, gaps, more, *_ = (line for line in cells(text, "compatible-1") if len(line) == 8)
    assert means[1:4] == ["0.0100", "1.1890", "2.6000"]
    assert gaps[1:4] == [
        "**-0.0300 [-0.0300, -0.0300]**",
        "**-0.0010 [-0.0010, -0.0010]**",
        "**-0.1000 [-0.1000, -0.1000]**",
    ]
    # and with the same masks without a penalty
    assert more[3] == "**-0.2000 [-0.2000, -0.2000]**"
    # arms in the order of their weights
    assert text.index("| compatible-1 |") < text.index("| compatible-10 |")
    assert "20 examples" in text
    (goal,) = cells(report(folder, "start"), "control", "snli, random")
    assert goal[2:] == ["1.00", "**-0.0030 [-0.0030, -0.0030]**", "**-0.2800 [-0.2800, -0.2800]**"]


def test_whole_sentences(folder: Path) -> None:
    assert tune_report.order_spread(folder / "start")["3"] == pytest.approx(1.0)
    assert tune_report.order_spread(folder / "control")["3"] == pytest.approx(0.5)
    assert tune_report.left_to_right(folder / "start")["4"] == pytest.approx(6.0)
    found = tune_report.blimp(folder / "start")
    assert len(found) == 40
    assert sum(found.values()) == 30


@pytest.mark.slow
def test_blanks_filled_together(folder: Path) -> None:
    text = report(folder)
    start, control, *_ = (line for line in cells(text) if len(line) == 13 and line[0] in ARMS)
    assert start[1:7] == ["0.750", "0.250", "0.500", "0.500", "0.100", "2.000"]
    assert control[1:7] == ["0.750", "0.250", "0.500", "1.000", "0.100", "3.000"]
    assert start[10] == "**-0.5000 [-0.5000, -0.5000]**"
    assert start[12] == "**-1.0000 [-1.0000, -1.0000]**"


@pytest.mark.slow
def test_what_the_penalty_is_made_of(folder: Path, tmp_path: Path) -> None:
    text = report(folder)
    assert ["control", "0.375"] in cells(text, "control")
    assert ["start", "1.500", "4.000"] in [line[:3] for line in cells(text, "start")]
    lines = [{"id": "1", "text": "A man has a dog in the park."}, {"id": "2", "text": "Dog"}]
    _write(tmp_path / "sentences.jsonl", lines)
    made = tmp_path / "made.jsonl"
    told = ["--sentences", str(tmp_path / "sentences.jsonl"), "--output", str(made)]
    model = str(ROOT / "models" / "tiny-english")
    assert tune_report.main(["pairs", "--model", model, *told]) == 0
    (row,) = (json.loads(line) for line in made.read_text().splitlines())
    assert row["id"] == "1"
    assert 0 < row["contradiction"] < 2 * row["interaction"]


@pytest.mark.slow
def test_an_arm_measured_on_dev_alone_is_in_no_other_table(folder: Path) -> None:
    arm = folder / "compatible-1"
    for path in [*(arm / run for run in tune_report.RUNS[1:]), *arm.glob("*.jsonl")]:
        path.rmdir() if path.is_dir() else path.unlink()
    text = report(folder)
    (one,) = cells(text, "compatible-1", "snli-dev, random")
    assert one[2] == "0.25"
    assert not cells(text, "compatible-1", "snli, random")
    assert cells(text, "start", "snli, random")
    assert cells(text, "control", "exact, random, exact tables")
    made = tune_report.tables(folder)
    for name in ("blanks", "sentences", "together"):
        assert made[name]
        assert not any("| compatible-1 |" in line for line in made[name])


def test_what_is_published_has_no_more_than_the_page_needs(tmp_path: Path) -> None:
    _write(tmp_path / "blimp.jsonl", [{"id": "1", "correct": None, "text": "A secret."}])
    (tmp_path / "public").mkdir()
    assert tune_report.main(["copy", str(tmp_path), str(tmp_path / "public")]) == 0
    found = json.loads((tmp_path / "public" / "blimp.jsonl").read_text())
    assert found == {"id": "1", "correct": None}


def test_without_a_control_there_is_no_page(tmp_path: Path, capsys) -> None:
    assert tune_report.main(["page", str(tmp_path), "--output", str(tmp_path / "page.md")]) == 2
    assert "has no arm control" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()


@pytest.mark.slow
def test_the_published_page_is_made_of_rows_without_text() -> None:
    folder = ROOT / "docs" / "results" / "tuning"
    tables, page = tune_report.tables(folder), folder.parent / "tuning.md"
    files = marked_page.made(page, tune_report.blocks(tables), tables)
    assert marked_page.stale(files) == []
    text = " ".join(page.read_text(encoding="utf-8").split())
    parts = {(row[0], row[1]): row[2:] for row in cells("\n".join(tables["goal"])) if len(row) == 5}
    contiguous, random = (
        parts["compatible-10", f"SNLI test, {m}"] for m in ("contiguous", "random")
    )
    assert f"weight 10 brings it to {contiguous[0]} (contiguous) and {random[0]} (random)" in text
    rises = [float(one[1].strip("*").split()[0]) for one in (contiguous, random)]
    assert "by {:.2f} and {:.2f} nats at weight 10".format(*rises) in text
    for path in folder.rglob("*.jsonl"):
        rows = tune_report.read_lines(path)
        strings = {key for row in rows for key, value in row.items() if isinstance(value, str)}
        assert strings <= {"id", "lie"}


def test_sentences_that_are_measured_are_written_out(tmp_path: Path) -> None:
    for name in tune_report.MEASURED:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pair = {"pairID": "1", "sentence1": f"A man in {path.stem}.", "sentence2": "A dog."}
        line = {".jsonl": json.dumps(pair), ".tsv": "neutral\tA cat.\tA horse."}
        path.write_text(line.get(path.suffix, f"In {path.stem}.") + "\n")
    tune_report.main(
        ["sentences", "--assets", str(tmp_path), "--output", str(tmp_path), "--count", "1"]
    )
    lines = (tmp_path / "measured.txt").read_text().splitlines()
    assert {"A cat.", "A horse.", "A man in test.", "A dog.", "In test-1000."} == set(lines)
    (one,) = (json.loads(line) for line in (tmp_path / "sentences.jsonl").read_text().splitlines())
    assert one["text"] in {"A man in test.", "A dog."}
