"""Scripts and manifests of the how-to pages are sound; test_snippets.py runs their commands."""

import argparse
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from snippets import ROOT, blocks, commands

from unmask import cli

FOLDER = ROOT / "docs" / "how-to"
MANIFESTS = sorted((FOLDER / "kubernetes").glob("*.yaml"))
BATCH_SCRIPTS = sorted((FOLDER / "slurm").glob("*.sbatch"))


def parsed(words: list[str]) -> argparse.Namespace:
    return cli._parser().parse_args(words)


def test_shell_scripts_are_sound() -> None:
    texts = {path.name: path.read_text() for path in BATCH_SCRIPTS}
    for page in FOLDER.glob("*.md"):
        shell = [block.text for block in blocks(page) if block.language in ("sh", "bash")]
        texts[page.name] = "\n".join(shell)
    for name, text in texts.items():
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, f"{name}: {done.stderr}"


def test_batch_scripts_have_what_they_use() -> None:
    array, ray = (path.read_text() for path in BATCH_SCRIPTS)
    for script in (array, ray):
        assert script.startswith("#!/bin/bash\n#SBATCH")
        (words,) = (command.unmask for command in commands(script) if command.unmask)
        assert parsed([re.sub(r"\$\w+", "0", word).replace("0/0", "0/8") for word in words])
    # indices begin at 0, and a task that was ended in time is queued again
    assert "\n#SBATCH --array=0-" in array
    assert '--shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"' in array
    assert "--signal=TERM@" in array
    assert "-eq 143" in array
    assert "RAY_USAGE_STATS_ENABLED=0" in ray


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


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


def test_the_jobs_agree_and_one_is_ready_for_ray() -> None:
    (job,) = documents(FOLDER / "kubernetes" / "evaluate.yaml")
    cluster = job["spec"]["rayClusterSpec"]
    chosen = parsed(shlex.split(job["spec"]["entrypoint"])[1:])
    assert (chosen.ray, chosen.device) == ("auto", "cuda")
    (group,) = cluster["workerGroupSpecs"]
    assert {group[name] for name in ("replicas", "minReplicas", "maxReplicas")} == {
        int(chosen.workers)
    }
    (worker,) = group["template"]["spec"]["containers"]
    assert int(worker["resources"]["limits"]["cpu"]) >= int(chosen.cpus_per_worker)
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == "1"
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    for container in (head, worker):
        given = {one["name"]: one["value"] for one in container["env"]}
        assert given["RAY_USAGE_STATS_ENABLED"] == "0"
        assert given["HF_HUB_OFFLINE"] == "1"
    mounts = [one["mountPath"] for one in head["volumeMounts"]]
    assert any(chosen.output.startswith(f"{mount}/") for mount in mounts)
    assert cluster["authOptions"] == {"mode": "token"}
    # what fetches and what reports is of the same run
    others = {}
    for name in ("download", "report"):
        (one,) = documents(FOLDER / "kubernetes" / f"{name}.yaml")
        (container,) = one["spec"]["template"]["spec"]["containers"]
        assert container["command"] == ["unmask"]
        others[name] = parsed(container["args"])
    assert (others["download"].corpus, others["download"].model) == (chosen.corpus, chosen.model)
    assert others["download"].dry_run
    assert others["report"].runs == [chosen.output]
    recipe = (FOLDER / "kubernetes" / "Dockerfile").read_text(encoding="utf-8")
    assert f"ARG RAY_VERSION={cluster['rayVersion']}\n" in recipe


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


def test_the_tests_that_the_papers_page_names_hold_something() -> None:
    text = (ROOT / "docs" / "concepts" / "the-paper.md").read_text(encoding="utf-8")
    listed = text.split("## Where they differ")[1]
    held = re.findall(r"\*Test:\*\s+`([\w/]+\.py)`,\s+`(test_\w+)`", listed)
    assert len(held) == len(re.findall(r"^- ", listed, re.MULTILINE)) == 7
    for file, name in held:
        code = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def {name}(" in code, (file, name)
