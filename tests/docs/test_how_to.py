"""The how-to pages hold: commands parse, manifests and scripts are sound, the snippets run."""

import argparse
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import yaml

from unmask import cli
from unmask.cli import evaluate, options, report
from unmask.cli.command import value
from unmask.jobs.shards import Shard
from unmask.names import COLUMNS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "how-to"
PAGES = sorted(FOLDER.glob("*.md"))
CONCEPTS = sorted((ROOT / "docs" / "concepts").glob("*.md"))
MANIFESTS = sorted((FOLDER / "kubernetes").glob("*.yaml"))
COMMANDS = {
    *("fill", "pairs", "score", "merge", "dependence"),
    *("consistency", "evaluate", "report", "head"),
}
# what variables of the pages may stand for
VARIABLES = {
    "gpu": "3",
    "gpus": "4",
    "address": "10.0.0.5:6379",
    "SLURM_ARRAY_TASK_ID": "0",
    "SLURM_ARRAY_TASK_COUNT": "8",
}

SENTENCES = [
    "the cat sat on the mat .",
    "a dog ran in the red house .",
    "he is at the old car , not her hat .",
    "they was on a big mat and it is new .",
    "the young woman sat in the house .",
]


def blocks(page: Path, *languages: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def named(paths: list[Path]) -> Any:
    return pytest.mark.parametrize("path", paths, ids=[path.name for path in paths])


def commands(script: str) -> Iterator[list[str]]:
    """The arguments of every `unmask` in a shell script, variables filled in."""
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        words.whitespace_split = True
        yield from simple_commands(list(words))


def simple_commands(words: list[str]) -> Iterator[list[str]]:
    ends = [place for place, word in enumerate(words) if re.fullmatch(r"[|&;()]+", word)]
    for start, end in zip([-1, *ends], [*ends, len(words)], strict=True):
        one = words[start + 1 : end]
        # after `srun`, `NAME=value` or `ray symmetric-run ... --` too
        places = [at for at, word in enumerate(one[:-1]) if word == "unmask"]
        if places and one[places[-1] + 1] in COMMANDS:
            yield [filled(word) for word in without_redirections(one[places[-1] + 1 :])]


def without_redirections(words: list[str]) -> list[str]:
    for place, word in enumerate(words):
        if re.fullmatch(r"[<>]+", word):
            before = words[:place]
            # the descriptor of `2>`
            return before[:-1] if before and before[-1].isdigit() else before
    return words


def filled(word: str) -> str:
    return re.sub(r"\$\{?(\w+)\}?", lambda found: VARIABLES[found[1]], word)


def check(arguments: list[str]) -> argparse.Namespace:
    """What the command itself would check before it reads anything."""
    try:
        chosen = cli._parser().parse_args(arguments)
    except SystemExit:
        pytest.fail(f"unmask {shlex.join(arguments)}: not a command")
    if chosen.command == "evaluate":
        Shard.parse(chosen.shard or "0/1")
        command = value(evaluate.EvaluateCommand, vars(chosen))
        command._check()
        command._request()
    if chosen.command == "report":
        value(report.ReportCommand, vars(chosen))._tables()
    if chosen.command == "fill":
        options.methods(chosen.method or ["log-pool"])
    return chosen


@named([page for page in PAGES if page.name != "kubernetes.md"])
def test_commands_of_pages_parse(path: Path) -> None:
    found = [words for script in blocks(path, "sh", "bash") for words in commands(script)]
    # a page is of use on the command line, in Python, or both
    assert found or blocks(path, "python")
    for words in found:
        check(words)


def test_commands_of_the_readme_parse() -> None:
    found = [words for script in blocks(ROOT / "README.md", "sh") for words in commands(script)]
    assert found
    for words in found:
        check(words)
    # the others are named in a sentence
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`unmask ([a-z]+)\b", text)) | {words[0] for words in found}
    assert named == COMMANDS | {"demo"}


def test_every_command_of_a_page_is_found() -> None:
    """That nothing is skipped which looks like a command."""
    for page in PAGES:
        scripts = "\n".join(blocks(page, "sh", "bash"))
        said = re.findall(rf"(?<![\w'\"/-])unmask (?:{'|'.join(COMMANDS)})\b", scripts)
        assert len(list(commands(scripts))) == len(said), page.name


def test_a_wrong_option_would_be_noticed() -> None:
    with pytest.raises(pytest.fail.Exception, match="not a command"):
        check(next(commands("CUDA_VISIBLE_DEVICES=0 unmask evaluate snli -m x -o y --sharp 0/2 &")))


@named(PAGES)
def test_shell_scripts_are_sound(path: Path) -> None:
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("there is no bash")
    for script in blocks(path, "sh", "bash"):
        done = subprocess.run(
            [shell, "-n"], input=script, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stderr}\n{script}"


def test_batch_scripts_have_what_they_use() -> None:
    array, ray = (one for one in blocks(FOLDER / "slurm.md", "bash") if "#SBATCH" in one)
    for script in (array, ray):
        assert script.startswith("#!/bin/bash\n#SBATCH")
    (tasks,) = re.findall(r"^#SBATCH --array=0-(\d+)", array, re.MULTILINE)
    (words,) = commands(array)
    assert check(words).shard == f"0/{int(tasks) + 1}"
    assert "--signal=TERM@" in array
    assert "-eq 143" in array
    assert "RAY_USAGE_STATS_ENABLED=0" in ray


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def test_manifests_are_of_the_kinds_named() -> None:
    kinds = {
        path.name: [(one["apiVersion"], one["kind"]) for one in documents(path)]
        for path in MANIFESTS
    }
    assert kinds == {
        "download.yaml": [("batch/v1", "Job")],
        "evaluate.yaml": [("ray.io/v1", "RayJob")],
        "namespace.yaml": [("v1", "Namespace")],
        "network-policy.yaml": [("networking.k8s.io/v1", "NetworkPolicy")] * 3,
        "report.yaml": [("batch/v1", "Job")],
        "storage.yaml": [("v1", "PersistentVolumeClaim")] * 2,
    }
    for path in MANIFESTS:
        for one in documents(path):
            assert one["kind"] == "Namespace" or one["metadata"]["namespace"] == "unmask"


def values(value: Any, key: str) -> Iterator[Any]:
    """Everything under a key, however deep."""
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from values(inner, key)
    if isinstance(value, dict) and key in value:
        yield value[key]


def pods() -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        for one in documents(path):
            yield from (spec for spec in values(one, "spec") if "containers" in spec)


def test_pods_are_confined() -> None:
    found = list(pods())
    assert len(found) == 5
    for pod in found:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        claimed = {one["name"] for one in pod.get("volumes", [])}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"].keys() == {"requests", "limits"}
            assert {one["name"] for one in container.get("volumeMounts", [])} == claimed
            assert container["image"] == "YOUR-REGISTRY/unmask:0.1.0"


def test_the_claims_exist() -> None:
    claims = {one["metadata"]["name"] for one in documents(FOLDER / "kubernetes" / "storage.yaml")}
    used = {name for pod in pods() for name in values(pod, "claimName")}
    assert used == claims == {"unmask-runs", "unmask-models"}


def test_the_job_is_ready_for_ray() -> None:
    (job,) = documents(FOLDER / "kubernetes" / "evaluate.yaml")
    cluster = job["spec"]["rayClusterSpec"]
    chosen = check(shlex.split(job["spec"]["entrypoint"])[1:])
    assert (chosen.ray, chosen.device) == ("auto", "cuda")
    (group,) = cluster["workerGroupSpecs"]
    assert {group[name] for name in ("replicas", "minReplicas", "maxReplicas")} == {
        int(chosen.workers)
    }
    (worker,) = group["template"]["spec"]["containers"]
    assert int(worker["resources"]["limits"]["cpu"]) >= chosen.cpus_per_worker
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == "1"
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    for container in (head, worker):
        given = {one["name"]: one["value"] for one in container["env"]}
        assert given["RAY_USAGE_STATS_ENABLED"] == "0"
        assert given["HF_HUB_OFFLINE"] == "1"
    mounts = [one["mountPath"] for one in head["volumeMounts"]]
    assert any(chosen.output.startswith(f"{mount}/") for mount in mounts)
    assert cluster["authOptions"] == {"mode": "token"}
    recipe = (FOLDER / "kubernetes" / "Dockerfile").read_text(encoding="utf-8")
    assert f"ARG RAY_VERSION={cluster['rayVersion']}\n" in recipe


def test_jobs_of_manifests_parse_and_agree() -> None:
    (job,) = documents(FOLDER / "kubernetes" / "evaluate.yaml")
    run = check(shlex.split(job["spec"]["entrypoint"])[1:])
    given = {}
    for name in ("download", "report"):
        (one,) = documents(FOLDER / "kubernetes" / f"{name}.yaml")
        (container,) = one["spec"]["template"]["spec"]["containers"]
        assert container["command"] == ["unmask"]
        given[name] = check(container["args"])
    assert (given["download"].corpus, given["download"].model) == (run.corpus, run.model)
    assert given["download"].dry_run
    assert given["report"].runs == [run.output]


def test_the_network_is_closed() -> None:
    inside, operator, download = documents(FOLDER / "kubernetes" / "network-policy.yaml")
    assert inside["spec"]["podSelector"] == {}
    assert inside["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert inside["spec"]["ingress"] == [{"from": [{"podSelector": {}}]}]
    (rule,) = operator["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [8265]
    selected = download["spec"]["podSelector"]["matchLabels"]
    (job,) = documents(FOLDER / "kubernetes" / "download.yaml")
    assert selected.items() <= job["spec"]["template"]["metadata"]["labels"].items()
    # no other pod has that label
    others = [
        path for path in MANIFESTS if path.name not in ("download.yaml", "network-policy.yaml")
    ]
    assert not any(
        selected.items() <= labels.items()
        for path in others
        for one in documents(path)
        for labels in values(one, "labels")
    )


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@named([*PAGES, *CONCEPTS, ROOT / "README.md", ROOT / "CHANGELOG.md"])
def test_links_resolve(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_manifest_is_explained() -> None:
    page = (FOLDER / "kubernetes.md").read_text("utf-8")
    assert all(f"(kubernetes/{manifest.name})" in page for manifest in MANIFESTS)


def test_the_tests_that_the_papers_page_names_hold_something() -> None:
    text = (ROOT / "docs" / "concepts" / "the-paper.md").read_text(encoding="utf-8")
    held = re.findall(r"^\*Tested by\* (.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    assert len(held) == len(re.findall(r"^### ", text, re.MULTILINE)) == 9
    for said in held:
        for file, names in re.findall(r"`([\w/]+\.py)`([^;]*)", said):
            code = (ROOT / "tests" / file).read_text(encoding="utf-8")
            for name in re.findall(r"`(test_\w+)`", names):
                assert f"def {name}(" in code, (file, name)


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    tiny_models.saved("bert", folder)
    return folder


@pytest.mark.slow
def test_snippets_run(
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"text": text}) for text in SENTENCES]
    Path("sentences.jsonl").write_text("\n".join(lines), encoding="utf-8")
    code = "\n".join(blocks(FOLDER / "evaluate.md", "python"))
    names: dict[str, Any] = {}
    exec(
        compile(code.replace("bert-base-cased", tiny_bert.as_posix()), "evaluate.md", "exec"), names
    )
    assert names["outcome"].counts["texts"] == len(SENTENCES)
    assert names["outcome"].counts["failed"] == 0
    assert names["run"].missing == 0
    # one row per example and construction, whoever reads them
    assert len(names["rows"]) == len(names["run"].rows) == 3 * len(SENTENCES)
    said = capsys.readouterr().out
    assert said.startswith("5 done, of these 0 failed\n0 missing\n")
    assert "| mlm |" in said


@pytest.mark.slow
def test_columns_of_the_reference_are_those_of_the_rows(tiny_bert: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    corpus = tmp_path / "sentences.txt"
    corpus.write_text("\n".join(SENTENCES), encoding="utf-8")
    run = tmp_path / "run"
    given = f"evaluate {corpus} -m {tiny_bert} -o {run} --examples 1 --method mlm --quiet"
    assert cli.main(shlex.split(given.replace("\\", "/"))) == 0
    (part,) = run.glob("*.parquet")
    told = [name for name, column in COLUMNS.items() if "evaluate" in column.commands]
    assert sorted(told) == sorted(parquet.read_schema(part).names)
