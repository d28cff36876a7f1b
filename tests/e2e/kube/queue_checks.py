"""A webhook that checks queues, registered with a real API server as its own command prints."""

import base64
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import trustme
import yaml

from queuegate_server.settings.queue_schedulers import FLAT, YUNIKORN
from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.reviews import SPEC, created
from tests.support.eventually import eventually
from tests.support.rows import table
from tests.support.servers.queuegate_server import RunningServer, start
from tests.support.servers.webhook import announced, write_certificate

NAMESPACE = "dev"
KUEUE = "kueue.x-k8s.io/queue-name"
OWN_KEY = "example.com/queue"
DRY = "?dryRun=All"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = f"{REGISTRATION}/validatingwebhookconfigurations"
_FLAT_QUEUES = """\
          - name: SCHEDULER
            queues:
              - name: open
                submitacl: bob
                adminacl: bob
              - name: closed
                submitacl: alice
                adminacl: alice
"""
POLICY: str = table(__file__, "POLICY")
SCHEDULERS: Mapping[str, Any] = {
    YUNIKORN: {},
    "kueue": {},
    **{name: {"below": f"root.{name}"} for name in FLAT},
    "places": [
        {"label": OWN_KEY},
        {"kind": "batch.example.com/TrainingRun", "field": "spec.scheduling.queue"},
    ],
}


@dataclass(frozen=True, slots=True)
class QueueWebhook:
    """A running webhook with its settings."""

    server: RunningServer
    address: str
    ops: str
    ca: trustme.CA
    config: Path


def write_settings(
    folder: Path, queues: Mapping[str, Any], policy: str = POLICY
) -> tuple[Path, trustme.CA]:
    """Write the settings of a webhook that serves a policy. Returns the file and the CA.

    The audit log is `audit.log` in the folder.
    """
    folder.mkdir(exist_ok=True)
    (folder / "queues.yaml").write_text(policy)
    ca = trustme.CA()
    write_certificate(ca, folder)
    settings = {
        "policy": {"path": str(folder / "queues.yaml")},
        "audit": {"path": str(folder / "audit.log")},
        # Names of service accounts contain colons.
        "partitions": {"default": {"acl_names": "any"}},
        "admission": {
            "tls": {
                "certificate_file": str(folder / "tls.crt"),
                "key_file": str(folder / "tls.key"),
            },
            "queues": dict(queues),
        },
    }
    file = folder / "queuegate.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file, ca


@contextmanager
def serving(config: Path, ca: trustme.CA, *arguments: str) -> Iterator[QueueWebhook]:
    """Run a webhook with its settings."""
    process = start(
        *("admission", "--config", str(config)),
        *("--set=admission.listen=127.0.0.1:0", "--set=ops.listen=127.0.0.1:0"),
        *arguments,
    )
    with announced(process) as (server, line):
        match = re.fullmatch(r"serving health on http://(\S+), reviews on https://(\S+)\n", line)
        assert match, line or "\n".join(server.errors)
        yield QueueWebhook(server, match[2], match[1], ca, config)


def printed(config: Path) -> str:
    """Return the webhook configurations that the command prints."""
    command = [sys.executable, "-m", "queuegate_server", "admission", "manifest"]
    done = subprocess.run(
        [*command, "--config", str(config)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def register(cluster: ApiServer, config: Path, ca: trustme.CA, address: str) -> list[str]:
    """Register what the command prints; only the address is another one. Returns the paths."""
    bundle = base64.b64encode(ca.cert_pem.bytes()).decode()
    paths = []
    for document in yaml.safe_load_all(printed(config)):
        for each in document["webhooks"]:
            path = each["clientConfig"]["service"]["path"]
            each["clientConfig"] = {"url": f"https://{address}{path}", "caBundle": bundle}
        plural = f"{REGISTRATION}/{document['kind'].lower()}s"
        created(cluster.ask("admin", "POST", plural, document))
        paths.append(f"{plural}/{document['metadata']['name']}")
    assert paths
    return paths


def is_asked(cluster: ApiServer) -> bool:
    """Whether the API server asks the webhook, which warns or refuses."""
    answer = submit(cluster, "probe", "team-closed")
    return answer.status_code == 403 or "Warning" in answer.headers


def submit(cluster: ApiServer, name: str, queue: str, query: str = DRY) -> httpx2.Response:
    """Submit a Job to a LocalQueue as bob, by default without storing it."""
    return cluster.ask("bob", "POST", f"{JOBS}{query}", job(name, {KUEUE: queue}))


def wait_until_enforced(cluster: ApiServer) -> None:
    """Wait until the API server asks the webhook."""
    eventually(lambda: is_asked(cluster), True)


@contextmanager
def enforced_by(
    cluster: ApiServer,
    config: Path,
    ca: trustme.CA,
    address: str,
    is_asked: Callable[[ApiServer], bool] = is_asked,
) -> Iterator[None]:
    """Have the API server ask a webhook in a block.

    Args:
        cluster: The API server.
        config: The webhook's settings.
        ca: The CA of its certificate.
        address: Its address.
        is_asked: Returns whether the API server asks the webhook.
    """
    paths = register(cluster, config, ca, address)
    try:
        eventually(lambda: is_asked(cluster), True)
        yield
    finally:
        for path in paths:
            cluster.ask("admin", "DELETE", path)
        # A webhook that has been removed is asked for a moment.
        eventually(lambda: is_asked(cluster), False)


@contextmanager
def checked(
    cluster: ApiServer,
    folder: Path,
    policy: str = POLICY,
    is_asked: Callable[[ApiServer], bool] = is_asked,
    **queues: Any,
) -> Iterator[QueueWebhook]:
    """Run a webhook in a block, and have the API server ask it.

    Args:
        cluster: The API server.
        folder: Gets the webhook's settings, and its audit log.
        policy: The policy.
        is_asked: Returns whether the API server asks the webhook.
        queues: The settings `admission.queues`, beside mode deny and the groups of the requests.
    """
    settings = {"mode": "deny", "groups": "kubernetes", **queues}
    config, ca = write_settings(folder, settings, policy)
    with (
        serving(config, ca) as running,
        enforced_by(cluster, config, ca, running.address, is_asked),
    ):
        yield running


def job(name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a suspended Job."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {
            "suspend": True,
            "template": {"spec": {**SPEC, "restartPolicy": "Never"}},
        },
    }
