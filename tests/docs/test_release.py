"""What a stranger meets: addresses, versions, extras, what is packed, and the public workflows."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from reading_pages import ROOT, pages, text_of

import unmask

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
URLS = PROJECT["urls"]
REPOSITORY, SITE = URLS["Repository"], URLS["Documentation"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
INSTALL = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# an address of a repository or site whose name is this project's, under whatever owner
OURS = re.compile(
    r"https://(?:(?:raw\.)?github(?:usercontent)?\.com/[\w.-]+/unmask|[\w-]+\.github\.io/unmask)\b"
)


def texts() -> dict[str, str]:
    """Everything that is written for readers, by its path."""
    found = [*ROOT.glob("*.md"), ROOT / "CITATION.cff", ROOT / "pyproject.toml"]
    for folder, pattern in ((".github", "*.yml"), ("docs", "*.py")):
        found += (ROOT / folder).rglob(pattern)
    return {path.relative_to(ROOT).as_posix(): text_of(path) for path in [*found, *pages()]}


# --- addresses and versions --------------------------------------------------------------------


def test_all_addresses_are_those_of_the_project() -> None:
    raw = REPOSITORY.replace("https://github.com", "https://raw.githubusercontent.com")
    allowed = {REPOSITORY, SITE.rstrip("/"), raw}
    assert {URLS["Issues"], URLS["Changelog"]} == {
        f"{REPOSITORY}/issues",
        f"{REPOSITORY}/blob/main/CHANGELOG.md",
    }
    for path, text in texts().items():
        assert set(OURS.findall(text)) <= allowed, path
    assert OURS.findall("see https://github.com/someone/unmask/issues") != []


def test_the_citation_is_of_this_repository_and_version() -> None:
    assert CITATION["repository-code"] == REPOSITORY
    assert CITATION["url"] == SITE
    assert CITATION["version"] == unmask.__version__
    assert CITATION["license"] == PROJECT["license"]
    # it would be shown in place of the software
    assert "preferred-citation" not in CITATION


def test_the_page_cites_what_the_file_cites() -> None:
    page = (ROOT / "docs" / "cite.md").read_text(encoding="utf-8")
    (paper,) = CITATION["references"]
    for said in (
        *(paper["title"], paper["doi"], paper["url"], f"{paper['start']}--{paper['end']}"),
        *(CITATION["title"], f"version = {{{unmask.__version__}}}", REPOSITORY),
        *(author["family-names"] for author in paper["authors"]),
    ):
        assert f"{said}" in page


def test_images_are_of_this_version() -> None:
    pages = [*(ROOT / "docs" / "how-to").rglob("*.yaml"), *(ROOT / "docs").rglob("Dockerfile")]
    pages.append(ROOT / "docs" / "how-to" / "scale.md")
    tags = {tag for page in pages for tag in re.findall(r"/unmask:([\d.]+\d)", page.read_text())}
    assert tags == {unmask.__version__}


# --- installing --------------------------------------------------------------------------------


def test_every_extra_is_explained() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", INSTALL, re.MULTILINE)
    assert sorted(listed) == sorted(PROJECT["optional-dependencies"])


def test_messages_and_pages_name_extras_that_there_are() -> None:
    source = {str(path): path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py")}
    named = {
        extra
        for text in [*texts().values(), *source.values()]
        for extras in re.findall(r"pip install [^\n]*?['\"](?:unmask|\.)\[([\w,]+)\]", text)
        for extra in extras.split(",")
    }
    assert {"plots", "demo", "ray"} <= named <= PROJECT["optional-dependencies"].keys()


def test_every_python_is_tested_and_named() -> None:
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    (tested,) = (
        yaml.safe_load(path.read_text("utf-8"))["jobs"]["gate"]["strategy"]["matrix"]
        for path in WORKFLOWS
        if path.name == "ci.yml"
    )
    assert tested["python-version"] == classified
    assert all(version in INSTALL for version in classified)
    assert PROJECT["requires-python"] == f">={classified[0]}"


def test_lower_bounds_are_those_of_the_page() -> None:
    for name in ("torch", "transformers"):
        (bound,) = (
            dependency.removeprefix(f"{name}>=")
            for dependency in PROJECT["dependencies"]
            if dependency.startswith(f"{name}>=")
        )
        assert f"{name} {bound} or newer" in INSTALL


# --- what is packed ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive."""
    place = tmp_path_factory.mktemp("dist")
    for kind in ("wheel", "sdist"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(place)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return place


@pytest.mark.slow
def test_the_wheel_holds_the_package_alone(packed: Path) -> None:
    (path,) = packed.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        page = wheel.read(metadata).decode("utf-8")
    version = unmask.__version__
    assert {name.split("/")[0] for name in names} == {"unmask", f"unmask-{version}.dist-info"}
    source = {path.relative_to(ROOT / "src").as_posix() for path in package_files()}
    assert {name for name in names if name.startswith("unmask/")} == source
    # on PyPI there are no files to link to
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert len(links) > 5
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert f"{REPOSITORY}/blob/v{version}/CHANGELOG.md" in links


def package_files() -> list[Path]:
    found = (ROOT / "src" / "unmask").rglob("*")
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


@pytest.mark.slow
def test_the_source_archive_has_the_tests_and_no_models(packed: Path) -> None:
    (path,) = packed.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    tops = {name.split("/")[0] for name in names}
    assert {"src", "tests", "docs", "runs", "benchmarks", "README.md", "CITATION.cff"} <= tops
    assert {"LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", ".ci"} <= tops
    assert "models" not in tops
    assert [name for name in names if name.endswith((".safetensors", ".pyc"))] == []
    # rows of results and tutorials with their outputs are most of it
    assert path.stat().st_size < 7_000_000


# --- the workflows -----------------------------------------------------------------------------


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_fixed_actions_and_few_rights(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    uses = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert len(uses) > 1
    for action in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
        assert re.search(rf"{action} # v\d+\.\d+\.\d+$", text, re.MULTILINE), action
    # the same version everywhere
    assert len(set(uses)) == len({action.partition("@")[0] for action in uses})
    for job in workflow["jobs"].values():
        rights = job.get("permissions", {})
        assert rights.get("id-token") is None or "environment" in job
        assert {right for right, kind in rights.items() if kind == "write"} <= {"id-token", "pages"}


def test_a_release_is_tried_before_it_is_published() -> None:
    (path,) = (path for path in WORKFLOWS if path.name == "release.yml")
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    assert jobs["publish"]["needs"] == ["build", "try"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    (tried,) = (step["run"] for step in jobs["try"]["steps"] if " fill " in step.get("run", ""))
    # the command of the page that explains how to install
    assert tried.removeprefix("fresh/bin/") in INSTALL
    (check,) = (step["run"] for step in jobs["build"]["steps"] if "tag" in step.get("name", ""))
    for tag, code in ((f"v{unmask.__version__}", 0), ("v99.0.0", 1), (unmask.__version__, 1)):
        assert release_check(check, tag) == code


def release_check(script: str, tag: str) -> int:
    python = Path(sys.executable).parent.as_posix()
    environment = {"GITHUB_REF_NAME": tag, "PATH": f"{python}:/usr/bin:/bin"}
    command = ["bash", "-e", "-c", script]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, check=False
    ).returncode
