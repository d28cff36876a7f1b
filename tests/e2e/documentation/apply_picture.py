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
from tests.e2e.kube.cluster import BUILT, ApiServer, program, running_cluster
from tests.e2e.kube.queue_checks import (
    KUEUE,
    NAMESPACE,
    enforced_by,
    job,
    serving,
    write_settings,
)
from tests.e2e.kube.reviews import created

PICTURE: Final = Path("docs/pictures/apply.svg")
_POLICY: Final = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: namespaces
            queues:
              - name: ml
                submitacl: bob
              - name: web
                submitacl: alice
"""
_QUEUES: Final[dict[str, Any]] = {
    "mode": "deny",
    "groups": "kubernetes",
    "schedulers": {"kueue": {}},
}
_JOBS: Final = {"training": "ml", "reports": "web"}
"""The names of the Jobs, which are also those of their LocalQueues, with their namespaces. Bob may
use the queues of the first."""
_COLUMNS: Final = 102
"""So wide that all takes six lines."""


def draw(cluster: ApiServer, folder: Path) -> str:
    """Apply the Jobs as bob, and return the picture."""
    for name in (NAMESPACE, *_JOBS.values()):
        path = "/api/v1/namespaces"
        created(cluster.ask("admin", "POST", path, {"metadata": {"name": name}}))
    config, ca = write_settings(folder / "settings", _QUEUES, _POLICY)
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
    with (
        serving(config, ca) as webhook,
        enforced_by(cluster, config, ca, webhook.address, _is_asked),
    ):
        return terminal_pictures.picture("apply", commands, objects, variables, _COLUMNS)


def _is_asked(cluster: ApiServer) -> bool:
    path = "/apis/batch/v1/namespaces/web/jobs?dryRun=All"
    probe = job("probe", {KUEUE: "reports"})
    return cluster.ask("bob", "POST", path, probe).status_code == 403


def main() -> None:
    """Write the picture."""
    etcd, kube_apiserver = program("etcd"), program("kube-apiserver")
    if etcd is None or kube_apiserver is None or program("kubectl") is None:
        sys.exit("etcd, kube-apiserver or kubectl is missing: run make kube-tools")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cluster").mkdir()
        with running_cluster(folder / "cluster", etcd, kube_apiserver) as cluster:
            PICTURE.write_text(draw(cluster, folder), encoding="utf-8")


if __name__ == "__main__":
    main()
