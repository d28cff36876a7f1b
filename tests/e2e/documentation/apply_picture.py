"""The picture of `kubectl apply` in docs/pictures: objects for four schedulers, of a real run.

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
from tests.e2e.kube.custom_resources import Resource, define
from tests.e2e.kube.queue_checks import (
    KUEUE,
    NAMESPACE,
    enforced_by,
    job,
    serving,
    write_settings,
)
from tests.e2e.kube.reviews import SPEC, created

PICTURE: Final = Path("docs/pictures/apply.svg")
_POLICY: Final = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: research
            submitacl: bob
          - name: production
            submitacl: alice
          - name: namespaces
            queues: &teams
              - name: research
                submitacl: bob
                queues:
                  - name: training
              - name: production
                submitacl: alice
                queues:
                  - name: reports
          - name: volcano
            queues: *teams
          - name: kai
            queues: *teams
"""
_QUEUES: Final[dict[str, Any]] = {
    "mode": "deny",
    "groups": "kubernetes",
    "schedulers": {
        "yunikorn": {},
        "kueue": {},
        "volcano": {"below": "root.volcano"},
        "kai": {"below": "root.kai"},
    },
}
_VOLCANO: Final = Resource("batch.volcano.sh", "Job", "jobs", "v1alpha1")


def draw(cluster: ApiServer, folder: Path) -> str:
    """Apply the objects as bob, and return the picture."""
    for name in (NAMESPACE, "research", "production"):
        path = "/api/v1/namespaces"
        created(cluster.ask("admin", "POST", path, {"metadata": {"name": name}}))
    define(cluster, [_VOLCANO])
    config, ca = write_settings(folder / "settings", _QUEUES, _POLICY)
    objects = folder / "objects"
    objects.mkdir()
    for name, documents in _files().items():
        (objects / f"{name}.yaml").write_text(yaml.safe_dump_all(documents))
    (folder / "kubeconfig").write_text(cluster.kubeconfig("bob"))
    variables = {
        "KUBECONFIG": str(folder / "kubeconfig"),
        "HOME": str(folder),
        "PATH": f"{BUILT.absolute()}{os.pathsep}{os.environ['PATH']}",
    }
    commands = tuple(f"kubectl apply -f {name}.yaml" for name in _files())
    with (
        serving(config, ca) as webhook,
        enforced_by(cluster, config, ca, webhook.address, _is_asked),
    ):
        return terminal_pictures.picture("apply", commands, objects, variables)


def _is_asked(cluster: ApiServer) -> bool:
    path = "/apis/batch/v1/namespaces/production/jobs?dryRun=All"
    probe = job("probe", {KUEUE: "serving"})
    return cluster.ask("bob", "POST", path, probe).status_code == 403


def _files() -> dict[str, list[dict[str, Any]]]:
    """Return the objects in each file: one that bob may create, and one that he may not."""
    files: dict[str, list[dict[str, Any]]] = {}
    for name, namespace, queue in (
        ("nightly", "research", "training"),
        ("report", "production", "reports"),
    ):
        kueue = job(name, {KUEUE: queue})
        volcano: dict[str, Any] = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"queue": queue},
        }
        kai = _pod(f"{name}-kai", {"kai.scheduler/queue": queue})
        path = f"root.{namespace}.{queue}"
        yunikorn = _pod(f"{name}-yunikorn", {"yunikorn.apache.org/queue": path})
        for file, thing in (
            ("kueue", kueue),
            ("volcano", volcano),
            ("kai", kai),
            ("yunikorn", yunikorn),
        ):
            thing["metadata"]["namespace"] = namespace
            files.setdefault(file, []).append(thing)
    return files


def _pod(name: str, labels: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": SPEC}


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
