"""Mode `warn` with all that the command prints for the settings of the page, and no webhook."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kube.cluster import ApiServer, program
from tests.e2e.kube.queue_checks import (
    DRY,
    JOBS,
    KUEUE,
    NAMESPACE,
    REGISTRATION,
    enforced_by,
    job,
    printed,
    serving,
    write_settings,
)
from tests.e2e.kube.reviews import PODS, SPEC, created, make_namespaces, pod
from tests.support.documents import fenced_blocks
from tests.support.eventually import eventually

pytestmark = pytest.mark.timeout(300)
PAGE = "docs/how-to/introduce-queue-checks.md"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
LABELS = {KUEUE: "team-closed", "yunikorn.apache.org/queue": "root.batch"}
"""Two queues that the page's policy does not open to bob."""
ANNOTATION = [{"user_info": {}}, {"yunikorn": {"enabled": True}}]
"""With one of these, the annotation of users is registered as well."""

FAILING = ("mutate", "validate", "subresources")
"""The webhooks for the annotation."""


@pytest.fixture(scope="module", autouse=True)
def namespaces(cluster: ApiServer) -> None:
    make_namespaces(cluster)


def write(folder: Path, added: dict[str, Any]) -> Any:
    """Write the page's settings and policy, with the certificate that a webhook needs."""
    files = {each.file: each.text for each in fenced_blocks(Path(PAGE).read_text(encoding="utf-8"))}
    page = yaml.safe_load(files["queuegate.yaml"])
    config, ca = write_settings(folder, page["admission"]["queues"], files["queues.yaml"])
    settings = yaml.safe_load(config.read_text())
    settings["partitions"] = page["partitions"]
    settings["admission"] |= added
    config.write_text(yaml.safe_dump(settings))
    return config, ca


def objects(labels: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Return a pod, a Job and a Deployment with labels, each with the path to create it."""
    metadata = {"name": "a", "labels": {"a": "b", **labels}}
    template = {"metadata": metadata, "spec": SPEC}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return [
        (PODS, {**pod("a"), "metadata": metadata}),
        (JOBS, job("a", labels)),
        (DEPLOYMENTS, {"metadata": metadata, "spec": spec}),
    ]


def answers(cluster: ApiServer) -> set[int]:
    """Return the statuses of new objects of bob, with queues and without."""
    return {
        cluster.ask("bob", "POST", f"{path}{DRY}", thing).status_code
        for labels in (LABELS, {})
        for path, thing in objects(labels)
    }


def registered(cluster: ApiServer) -> list[dict[str, Any]]:
    """Return the webhooks that the API server calls."""
    found = [
        created(cluster.ask("admin", "GET", f"{REGISTRATION}/{kind}")) for kind in CONFIGURATIONS
    ]
    return [webhook for each in found for item in each["items"] for webhook in item["webhooks"]]


def is_warned(cluster: ApiServer) -> bool:
    return "Warning" in cluster.ask("bob", "POST", f"{JOBS}{DRY}", job("probe", LABELS)).headers


def emergency_command() -> str:
    """Return the command of the page."""
    (found,) = re.findall(
        r"^kubectl delete .+$", Path(PAGE).read_text(encoding="utf-8"), re.MULTILINE
    )
    return str(found)


def run_emergency_command(cluster: ApiServer, folder: Path) -> None:
    kubectl = program("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl here: `make kube-tools` builds it (Go, 15 min)")
    (folder / "kubeconfig").write_text(cluster.kubeconfig())
    done = subprocess.run(
        [kubectl, *shlex.split(emergency_command())[1:], f"--cache-dir={folder / 'cache'}"],
        env={**os.environ, "KUBECONFIG": str(folder / "kubeconfig")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_warn_mode_stops_nothing(cluster: ApiServer, tmp_path: Path) -> None:
    config, ca = write(tmp_path / "webhook", {})
    with (
        serving(config, ca) as webhook,
        enforced_by(cluster, config, ca, webhook.address, is_warned),
    ):
        assert {each["failurePolicy"] for each in registered(cluster)} == {"Ignore"}
        webhook.server.process.kill()
        webhook.server.process.wait(30)
        assert answers(cluster) == {201}
        assert not is_warned(cluster)
        run_emergency_command(cluster, tmp_path)
        assert registered(cluster) == []
        assert answers(cluster) == {201}


@pytest.mark.parametrize("added", ANNOTATION, ids=lambda added: next(iter(added)))
def test_the_annotation_needs_an_answer(
    cluster: ApiServer, tmp_path: Path, added: dict[str, Any]
) -> None:
    """With Ignore, anybody could name anybody during an outage. The command removes it, too."""
    config, ca = write(tmp_path / "webhook", added)
    text = printed(config)
    assert "With Ignore, anyone could name any user during an outage." in " ".join(
        text.split("\n# ")
    )
    assert f"#   {emergency_command()}\n" in text
    with (
        serving(config, ca) as webhook,
        enforced_by(cluster, config, ca, webhook.address, is_warned),
    ):
        policies = {each["name"]: each["failurePolicy"] for each in registered(cluster)}
        failing = {f"{name}.queuegate.yunikorn.apache.org" for name in FAILING}
        assert {name for name, policy in policies.items() if policy == "Fail"} == failing
        webhook.server.process.kill()
        webhook.server.process.wait(30)
        assert answers(cluster) == {500}
        run_emergency_command(cluster, tmp_path)
        assert registered(cluster) == []
        eventually(lambda: answers(cluster), {201})


@pytest.mark.parametrize(
    "page", ["docs/how-to/admission-webhook.md", "docs/runbook/queuegate-webhook-down.md"]
)
def test_other_pages_have_the_same_command(page: str) -> None:
    text = Path(page).read_text(encoding="utf-8")
    assert re.findall(r"kubectl delete [^`\n]+", text) == [emergency_command()]
