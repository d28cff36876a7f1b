"""The picture of `kubectl apply` in docs/pictures: two Jobs for Kueue, of a real run.

`python -m tests.e2e.documentation.apply_picture` makes it, with what `make kube-tools` builds.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.documentation import terminal_pictures
from tests.e2e.kube.cluster import BUILT, ApiServer, program
from tests.e2e.kube.queue_checks import KUEUE, job
from tests.e2e.kube.rbac_grants import binding, create
from tests.e2e.kube.rbac_webhook import running_rbac_cluster
from tests.support.eventually import eventually

PICTURE: Final = Path("docs/pictures/apply.svg")
_QUEUES: Final[dict[str, Any]] = {
    "mode": "deny",
    "groups": "kubernetes",
    "schedulers": {"kueue": {}},
}
_JOBS: Final = {"training": "ml", "reports": "web"}
"""The names of the Jobs, which are also those of their LocalQueues, with their namespaces. Bob may
use the queues of the first."""
_ROLE: Final = "use-localqueues"
_RULE: Final = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues"], "verbs": ["use"]}
_COLUMNS: Final = 118
"""So wide that the longest line of the manifests in the refusal is not wrapped."""


def draw(folder: Path) -> str | None:
    """Apply the Jobs as bob, and return the picture, or None without the programs of a cluster."""
    etcd, kube_apiserver = program("etcd"), program("kube-apiserver")
    if etcd is None or kube_apiserver is None or program("kubectl") is None:
        return None
    (folder / "cluster").mkdir()
    programs, namespaces = (etcd, kube_apiserver), tuple(_JOBS.values())
    with running_rbac_cluster(
        folder / "cluster", programs, namespaces, _QUEUES, _is_asked
    ) as cluster:
        return _apply(cluster, folder)


def _apply(cluster: ApiServer, folder: Path) -> str:
    create(cluster, "ClusterRole", {"metadata": {"name": _ROLE}, "rules": [_RULE]})
    create(cluster, "RoleBinding", binding(_ROLE, "ml"))
    eventually(lambda: _status_of_a_job(cluster, "training"), 201)
    objects = folder / "objects"
    objects.mkdir()
    documents = [job(name, {KUEUE: name}) for name in _JOBS]
    for document, namespace in zip(documents, _JOBS.values(), strict=True):
        document["metadata"]["namespace"] = namespace
    (objects / "jobs.yaml").write_text(yaml.safe_dump_all(documents))
    (folder / "kubeconfig").write_text(cluster.kubeconfig("bob"))
    variables = {
        "KUBECONFIG": str(folder / "kubeconfig"),
        "HOME": str(folder),
        "PATH": f"{BUILT.absolute()}{os.pathsep}{os.environ['PATH']}",
    }
    commands = ("kubectl apply -f jobs.yaml",)
    return terminal_pictures.picture("apply", commands, objects, variables, _COLUMNS)


def _is_asked(cluster: ApiServer) -> bool:
    return _status_of_a_job(cluster, "reports") == 403


def _status_of_a_job(cluster: ApiServer, queue: str) -> int:
    """Return the status of bob's Job in a LocalQueue, which is not created."""
    path = f"/apis/batch/v1/namespaces/{_JOBS[queue]}/jobs?dryRun=All"
    return cluster.ask("bob", "POST", path, job("probe", {KUEUE: queue})).status_code


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as name:
        picture = draw(Path(name))
    if picture is None:
        sys.exit("etcd, kube-apiserver or kubectl is missing: run make kube-tools")
    PICTURE.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
