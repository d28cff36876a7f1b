"""A base of deploy/queues as `kubectl apply -k` installs it, with its containers as processes.

RBAC decides what the certificate's pod may do, with a token of its account. The API server reaches
the webhook through its Service, so it verifies the certificate for the name of the Service.
"""

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.e2e.kube.cluster import ApiServer, program, running_cluster
from tests.e2e.kube.reviews import created
from tests.support.eventually import eventually
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import RunningServer, server_command, start_command
from tests.support.servers.webhook import announced

NAMESPACE: Final = "queuegate"
REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATION: Final = f"{REGISTRATION}/validatingwebhookconfigurations/queuegate-admission-queues"
SECRET: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets/queuegate-admission-tls"
_SERVICE: Final = f"/api/v1/namespaces/{NAMESPACE}/services/queuegate-admission"
_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_MERGE: Final = "merge-patch+json"
_RBAC: Final = "rbac.authorization.k8s.io"
_VERBS_OF_PEOPLE: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]


@contextmanager
def cluster_with_rbac(folder: Path, etcd: str, kube_apiserver: str) -> Iterator[ApiServer]:
    """Run a cluster in which RBAC decides. People may do everything except use queues."""
    with running_cluster(folder, etcd, kube_apiserver, {"authorization-mode": "RBAC"}) as cluster:
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": _VERBS_OF_PEOPLE}
        people = {"metadata": {"name": "people"}}
        reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "people"}
        subjects = [{"kind": "Group", "name": "dev"}]
        for plural, content in (
            ("clusterroles", {**people, "rules": [rule]}),
            ("clusterrolebindings", {**people, "roleRef": reference, "subjects": subjects}),
        ):
            path = f"/apis/{_RBAC}/v1/{plural}"
            eventually(
                lambda path=path, content=content: (  # type: ignore[misc]
                    cluster.ask("admin", "POST", path, content).status_code in {201, 409}
                ),
                True,
            )
        yield cluster


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The command `kubectl`, as the administrator."""

    program: str
    folder: Path
    cluster: ApiServer

    def run(self, *arguments: str) -> str:
        """Return what the command prints, which must be no warning."""
        config = self.folder / "kubeconfig"
        config.write_text(self.cluster.kubeconfig())
        done = subprocess.run(
            [self.program, *arguments, f"--cache-dir={self.folder / 'cache'}"],
            env={**os.environ, "KUBECONFIG": str(config)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout


def changed(printed: str) -> list[str]:
    """Return the lines of `kubectl apply` about objects that it created or changed.

    PodDisruptionBudgets are left out. kubectl says `configured` each time, as the patch strategy of
    their selector is `replace`: it sends the whole selector again, and the API server keeps what it
    has.
    """
    return [
        line
        for line in printed.splitlines()
        if not line.endswith(" unchanged") and not line.startswith("poddisruptionbudget.policy/")
    ]


@contextmanager
def certificate_pod(cluster: ApiServer, folder: Path) -> Iterator[RunningServer]:
    """Run the container that keeps the certificate, as its account."""
    deployment = created(
        cluster.ask("admin", "GET", f"{_DEPLOYMENTS}/queuegate-admission-certificate")
    )
    pod = deployment["spec"]["template"]["spec"]
    account = _mounted_account(cluster, pod["serviceAccountName"], folder / "account")
    (container,) = pod["containers"]
    arguments = [each.replace("$(NAMESPACE)", NAMESPACE) for each in container["args"]]
    api = json.loads(cluster.kubeconfig())["clusters"][0]["cluster"]["server"]
    command = server_command(*arguments, f"--api-server={api}", f"--service-account={account}")
    with announced(start_command(command)) as (server, line):
        assert line == f"keeping the certificate for queuegate-admission.{NAMESPACE}.svc\n"
        yield server


def _mounted_account(cluster: ApiServer, name: str, folder: Path) -> Path:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token"
    token = created(cluster.ask("admin", "POST", path, {"spec": {}}))["status"]["token"]
    cluster_of = json.loads(cluster.kubeconfig())["clusters"][0]["cluster"]
    folder.mkdir(parents=True)
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(base64.b64decode(cluster_of["certificate-authority-data"]))
    return folder


def certificate_of(cluster: ApiServer) -> Mapping[str, bytes]:
    """Return the content of the Secret."""
    data = created(cluster.ask("admin", "GET", SECRET)).get("data") or {}
    return {name: base64.b64decode(text) for name, text in data.items()}


def bundles(cluster: ApiServer) -> list[str]:
    """Return the CAs that the API server trusts, for each webhook."""
    found = created(cluster.ask("admin", "GET", CONFIGURATION))
    return [each["clientConfig"].get("caBundle", "") for each in found["webhooks"]]


def is_trusted(cluster: ApiServer) -> bool:
    """Whether the API server trusts the CA of the certificate in the Secret."""
    files = certificate_of(cluster)
    wanted = base64.b64encode(files.get("ca.crt", b"")).decode()
    return bool(wanted) and set(bundles(cluster)) == {wanted}


@contextmanager
def webhook_pod(
    cluster: ApiServer, folder: Path, before: Callable[[RunningServer], None] | None = None
) -> Iterator[RunningServer]:
    """Run the container of the webhook, with the volumes of its pod, behind its Service.

    Args:
        cluster: The cluster, with the base.
        folder: For the contents of the volumes.
        before: Called while the webhook is not expected to serve yet.
    """
    deployment = created(cluster.ask("admin", "GET", f"{_DEPLOYMENTS}/queuegate-admission"))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    for mount in container["volumeMounts"]:
        here = folder / mount["name"]
        here.mkdir(parents=True)
        for name, content in _content(cluster, volumes[mount["name"]]).items():
            (here / name).write_bytes(content)
    port = free_port()
    replaced = {
        "0.0.0.0:8443": f"127.0.0.1:{port}",
        "0.0.0.0:9465": "127.0.0.1:0",
        **{each["mountPath"]: str(folder / each["name"]) for each in container["volumeMounts"]},
    }
    pattern = re.compile("|".join(map(re.escape, replaced)))
    arguments = [pattern.sub(lambda found: replaced[found[0]], each) for each in container["args"]]
    directory = replaced[container["workingDir"]]
    assert pod["automountServiceAccountToken"] is True
    kubeconfig = _kubeconfig(cluster, pod["serviceAccountName"], folder / "account")
    arguments.append(f"--set=policy.kubernetes.kubeconfig={kubeconfig}")
    _route(cluster, port)
    with ExitStack() as stack:
        process = start_command(server_command(*arguments), directory=directory)
        server, line = stack.enter_context(announced(process, before))
        assert line.startswith("serving health on "), server.errors
        yield server


def _kubeconfig(cluster: ApiServer, account: str, folder: Path) -> Path:
    """Return a kubeconfig with the token of an account, which the kubelet would mount."""
    _mounted_account(cluster, account, folder)
    content = json.loads(cluster.kubeconfig())
    content["users"][0]["user"] = {"tokenFile": "token"}
    file = folder / "kubeconfig"
    file.write_text(json.dumps(content))
    return file


def _content(cluster: ApiServer, volume: Mapping[str, Any]) -> dict[str, bytes]:
    if "secret" in volume:
        files = certificate_of(cluster)
        return {each["path"]: files[each["key"]] for each in volume["secret"]["items"]}
    found: dict[str, bytes] = {}
    for each in volume["projected"]["sources"]:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{each['configMap']['name']}"
        answer = cluster.ask("admin", "GET", path)
        if answer.status_code == 404 and each["configMap"].get("optional"):
            continue
        data = created(answer)["data"]
        found |= {name: text.encode() for name, text in data.items()}
    return found


def _route(cluster: ApiServer, port: int) -> None:
    """Have the API server connect to this machine for the Service: there is no network of pods."""
    spec = {"type": "ExternalName", "externalName": "localhost"}
    external = {"spec": {**spec, "clusterIP": None, "clusterIPs": None}}
    created(cluster.ask("admin", "PATCH", _SERVICE, external, _MERGE))
    patch = [
        {"op": "replace", "path": f"/webhooks/{number}/clientConfig/service/port", "value": port}
        for number in range(len(bundles(cluster)))
    ]
    created(cluster.ask("admin", "PATCH", CONFIGURATION, patch))


def a_checkout(folder: Path) -> Path:
    """Return a copy of deploy/, as a checkout has it."""
    return Path(shutil.copytree("deploy", folder / "deploy"))


def tools() -> tuple[str, str, str] | None:
    """Return etcd, kube-apiserver and kubectl; None if one is missing."""
    etcd, kube_apiserver, kubectl = (
        program(each) for each in ("etcd", "kube-apiserver", "kubectl")
    )
    if etcd is None or kube_apiserver is None or kubectl is None:
        return None
    return etcd, kube_apiserver, kubectl
