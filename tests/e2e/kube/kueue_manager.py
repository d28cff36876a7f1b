"""A real Kueue manager beside a real API server.

Like the kubelet of its pod, the test mounts the manager's certificate; because the API server
reaches the manager by another address here, it is one for 127.0.0.1 of the manager's own CA.
"""

import base64
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme
import yaml
from cryptography.utils import CryptographyDeprecationWarning

from tests.e2e.kube.cluster import BUILT, KUEUE_MANAGER, ApiServer, running
from tests.e2e.kube.queue_checks import NAMESPACE
from tests.e2e.kube.reviews import created
from tests.support.eventually import eventually
from tests.support.rows import table
from tests.support.servers.free_ports import free_port

MANIFESTS = BUILT / "kueue-manifests"
SYSTEM = "kueue-system"
FRAMEWORK = "batch/job"
"""The only kind of job that it manages by default here, since the definitions of most others are
missing."""
API = "/apis/kueue.x-k8s.io/v1beta2"
LOCAL = f"{API}/namespaces/{NAMESPACE}/localqueues"
WORKLOADS = f"{API}/namespaces/{NAMESPACE}/workloads"
_SECRET = f"/api/v1/namespaces/{SYSTEM}/secrets"
_SECRET_NAME = "kueue-webhook-server-cert"
_PATHS = {"workload", "clusterqueue", "cohort", "resourceflavor"}
"""The kinds whose webhooks are registered besides those of jobs."""

POLICY: str = table(__file__, "POLICY")
"""A ClusterQueue and a LocalQueue that bob may use, and others that he may not."""


@contextmanager
def running_manager(
    folder: Path, cluster: ApiServer, program: str, frameworks: Sequence[str] = (FRAMEWORK,)
) -> Iterator[Path]:
    """Install Kueue and run its manager, until it serves its webhooks. Yields its log.

    Args:
        folder: For its files.
        cluster: The API server.
        program: The manager.
        frameworks: The kinds of jobs that it manages.
    """
    created(cluster.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": SYSTEM}}))
    port, health = free_port(), free_port()
    address = f"https://127.0.0.1:{port}"
    secret = {"metadata": {"name": _SECRET_NAME, "namespace": SYSTEM}}
    created(cluster.ask("admin", "POST", _SECRET, secret))
    for definition in _definitions(address):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        created(cluster.ask("admin", "POST", path, definition))
    for configuration in _webhooks(address, frameworks):
        plural = f"{configuration['kind'].lower()}s"
        path = f"/apis/admissionregistration.k8s.io/v1/{plural}"
        created(cluster.ask("admin", "POST", path, configuration))
    certificates = folder / "certificates"
    certificates.mkdir()
    (folder / "kubeconfig").write_text(cluster.kubeconfig(KUEUE_MANAGER))
    settings = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": SYSTEM,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": port, "host": "127.0.0.1", "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "integrations": {"frameworks": list(frameworks)},
    }
    (folder / "kueue.yaml").write_text(yaml.safe_dump(settings))
    arguments = {
        "config": folder / "kueue.yaml",
        "kubeconfig": folder / "kubeconfig",
        "feature-gates": "VisibilityOnDemand=false",
    }
    log = folder / "kueue.log"
    with running(folder, program, arguments) as process:
        _mount_certificate(cluster, certificates)

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            flavor = {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "ResourceFlavor",
                "metadata": {"name": "probe"},
            }
            path = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors?dryRun=All"
            return cluster.ask("admin", "POST", path, flavor).status_code == 201

        eventually(is_ready, True)
        yield log


def add_cluster_queues(cluster: ApiServer) -> None:
    """Create a flavor, and two ClusterQueues with 100 processors each."""
    flavor = kueue_object("ResourceFlavor", "any", {})
    created(cluster.ask("admin", "POST", f"{API}/resourceflavors", flavor))
    for name in ("cluster-open", "cluster-closed"):
        queue = kueue_object("ClusterQueue", name, cluster_queue())
        created(cluster.ask("admin", "POST", f"{API}/clusterqueues", queue))


def kueue_object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    version = "kueue.x-k8s.io/v1beta2"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def cluster_queue() -> dict[str, Any]:
    resource = {"name": "cpu", "nominalQuota": "100"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": [resource]}]}
    return {"namespaceSelector": {}, "resourceGroups": [group]}


def local_queue(name: str, target: str) -> dict[str, Any]:
    return kueue_object("LocalQueue", name, {"clusterQueue": target})


def ensure_local_queues(cluster: ApiServer) -> None:
    for suffix in ("open", "closed"):
        queue = local_queue(f"team-{suffix}", f"cluster-{suffix}")
        assert cluster.ask("admin", "POST", LOCAL, queue).status_code in {201, 409}


def refusals(log: Path) -> int:
    """Return how often the manager was refused."""
    return len(re.findall(r"queuegate\.io[^\n]{0,20} denied the request", log.read_text()))


def _mount_certificate(cluster: ApiServer, folder: Path) -> None:
    def has_authority() -> bool:
        secret = created(cluster.ask("admin", "GET", f"{_SECRET}/{_SECRET_NAME}"))
        return "ca.key" in secret.get("data", {})

    eventually(has_authority, True)
    data = created(cluster.ask("admin", "GET", f"{_SECRET}/{_SECRET_NAME}"))["data"]
    with warnings.catch_warnings():
        # The manager numbers its own CA 0.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        ca = trustme.CA.from_pem(base64.b64decode(data["ca.crt"]), base64.b64decode(data["ca.key"]))
    issued = ca.issue_cert("127.0.0.1")
    (folder / "tls.key").write_bytes(issued.private_key_pem.bytes())
    (folder / "tls.crt").write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))


def _definitions(address: str) -> Iterator[dict[str, Any]]:
    for file in sorted((MANIFESTS / "crd/bases").glob("*.yaml")):
        definition = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
        # The conversion webhooks whose CA the manager maintains.
        if (
            MANIFESTS / f"crd/patches/webhook_in_{definition['spec']['names']['plural']}.yaml"
        ).exists():
            definition["spec"]["conversion"] = {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"url": f"{address}/convert"},
                    "conversionReviewVersions": ["v1"],
                },
            }
        yield definition


def _webhooks(address: str, frameworks: Sequence[str]) -> Iterator[dict[str, Any]]:
    served = _PATHS | {each.rpartition("/")[2] for each in frameworks}
    file = MANIFESTS / "webhook/manifests.yaml"
    for configuration in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        configuration["metadata"]["name"] = f"kueue-{configuration['metadata']['name']}"
        configuration["webhooks"] = [
            each
            for each in configuration["webhooks"]
            if each["name"].removesuffix(".kb.io")[1:] in served
        ]
        for each in configuration["webhooks"]:
            path = each["clientConfig"]["service"]["path"]
            each["clientConfig"] = {"url": f"{address}{path}"}
        yield configuration
