"""The run that publishes the model: what it lists, what it refuses, and what it would upload."""

import hashlib
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snippets

sys.path.insert(0, str(Path(__file__).parents[2] / "runs"))

import publish_model as run

CARD = "---\nlicense: apache-2.0\n---\n\n# A model\n"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(snippets.save_models(tmp_path_factory.mktemp("models"))["words"])


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A model with its card, the checkpoint of its training, and a file of the system's."""
    place = tmp_path / "model"
    shutil.copytree(saved, place)
    (place / "README.md").write_text(CARD, encoding="utf-8")
    (place / "training").mkdir()
    (place / "training" / "config.json").write_text("{}", encoding="utf-8")
    (place / ".DS_Store").write_bytes(b"0")
    return place


@pytest.mark.slow
def test_a_dry_run_lists_and_publishes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "HfApi", lambda **_: pytest.fail("the Hub was asked"))
    assert run.main(["--folder", str(folder), "--dry-run"]) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    names = ["README.md", "config.json", "model.safetensors", "tokenizer.json"]
    assert [line[-1] for line in lines] == [*names, "tokenizer_config.json"]
    assert lines[0] == [hashlib.sha256(CARD.encode()).hexdigest(), f"{len(CARD)}", "B", "README.md"]
    assert "would go to unmask-lm/tiny-english; nothing was published" in err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda place: shutil.rmtree(place), "there is no folder"),
        (lambda place: (place / "README.md").unlink(), "there is no card"),
        (lambda place: (place / "README.md").write_text("# A model\n"), "names no licence"),
        (lambda place: (place / "README.md").write_text("---\na: [\n---\n"), "the metadata of"),
        (lambda place: (place / "model.safetensors").unlink(), "has no weights"),
    ],
)
def test_what_cannot_be_published_is_refused_in_one_line(
    folder: Path, change: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(folder)
    assert run.main(["--folder", str(folder), "--dry-run"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_only_the_listed_files_are_uploaded(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: dict[str, Any] = {}

    def upload(**options: Any) -> SimpleNamespace:
        calls.update(options)
        return SimpleNamespace(commit_url="https://example.org/commit")

    def create(name: str, **options: Any) -> None:
        calls["created"] = (name, options)

    api = SimpleNamespace(create_repo=create, upload_folder=upload)
    monkeypatch.setattr(run, "HfApi", lambda token: api if token is True else None)
    assert run.main(["--folder", str(folder), "--to", "me/mine"]) == 0
    out, err = capsys.readouterr()
    assert calls["created"] == ("me/mine", {"exist_ok": True})
    assert (calls["repo_id"], calls["folder_path"]) == ("me/mine", folder)
    assert calls["allow_patterns"] == [line.split()[-1] for line in out.splitlines()]
    assert "published: https://example.org/commit" in err


def test_the_hubs_errors_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("401\nno such token")

    monkeypatch.setattr(run, "HfApi", lambda token: SimpleNamespace(create_repo=refuse))
    assert run.main(["--folder", str(folder)]) == 2
    said = "publish_model: 'unmask-lm/tiny-english' was not published: 401\\nno such token\n"
    assert capsys.readouterr().err.endswith(said)
