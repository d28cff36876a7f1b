"""Measures how long a change to a RoleBinding takes to count in a webhook and in a gate.

Both follow the RBAC of a real API server. The time begins with the API server's answer.
"""

import http.client
import json
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trustme

import queuegate
from bench import processes
from bench.command import CannotMeasure, Scale, main
from bench.results import Part, Table, Target
from tests.e2e.kube import custom_resources
from tests.e2e.kube.account import RBAC, watcher_account
from tests.e2e.kube.cluster import ApiServer, program, running_cluster
from tests.e2e.kube.queue_checks import KUEUE, job, write_settings
from tests.e2e.kube.rbac_grants import binding
from tests.e2e.kube.rbac_webhook import follow_rbac
from tests.e2e.kube.reviews import created
from tests.support.admission_reviews import admission_review

_SIZES: Final = (200, 20_000)
_PER_NAMESPACE: Final = 100
_WEBHOOK_GOAL: Final = 200.0
_GATE_GOAL: Final = 500.0
"""In milliseconds, at the first of the sizes."""
_USER: Final = "probe"
_NAMESPACE: Final = "team-0"
_QUEUE: Final = "queue-0"
_WAIT_SECONDS: Final = 120.0
_ROLE: Final = "use-queues"
_THREADS: Final = 8
_SETTINGS: Final[dict[str, Any]] = {
    "mode": "deny",
    "groups": "kubernetes",
    "schedulers": {"kueue": {}},
}


@dataclass(frozen=True)
class _Followed:
    """A process that follows the cluster, and how to ask it whether the user may use the queue."""

    name: str
    is_allowed: Callable[[], bool]
    process: processes.Running


def measure(scale: Scale, folder: Path) -> Part:
    """Bind and unbind a user, and ask until the answer has changed."""
    etcd, kube_apiserver = program("etcd"), program("kube-apiserver")
    if etcd is None or kube_apiserver is None:
        raise CannotMeasure("etcd and kube-apiserver are missing: run make kube-tools")
    changes = 20 if scale.is_quick else 200
    sizes = (200, 1_000) if scale.is_quick else _SIZES
    table = Table(
        "From a change to a RoleBinding to its effect",
        f"A real kube-apiserver with as many LocalQueues as RoleBindings, {_PER_NAMESPACE} in a "
        f"namespace. One RoleBinding is created or deleted, {changes} times; milliseconds from the "
        "API server's answer until a review, or a check in the gate, has the new outcome. The gate "
        "asks a server that follows RBAC. All share the machine. *Start*: processor time until "
        "the process has read and compiled everything. *Memory*: of the process, afterwards.",
        ("queues and bindings", "where", "p50, ms", "p99, ms", "longest, ms", "start, s", "MiB"),
    )
    p99: dict[tuple[str, int], float] = {}
    folder.mkdir(exist_ok=True)
    (folder / "cluster").mkdir()
    options = {"authorization-mode": "RBAC"}
    with running_cluster(folder / "cluster", etcd, kube_apiserver, options) as cluster:
        account = watcher_account(cluster, folder / "cluster")
        custom_resources.define(cluster)
        filled = 0
        for size in sizes:
            _fill(cluster, filled, size)
            filled = size
            for follow in (_webhook, _gate):
                with follow(folder / f"{follow.__name__}-{size}", account.kubeconfig) as followed:
                    followed.is_allowed()
                    seconds = followed.process.cpu_seconds()
                    taken = sorted(_effects(cluster, followed, changes))
                    memory = followed.process.resident_mib()
                p99[followed.name, size] = taken[int(len(taken) * 0.99)]
                figures = taken[len(taken) // 2], p99[followed.name, size], taken[-1]
                table.add(
                    f"{size:,}",
                    followed.name,
                    *(f"{each:.0f}" for each in figures),
                    f"{seconds:.1f}",
                    f"{memory:.0f}",
                )
    targets = [
        Target(
            f"a change to a RoleBinding counts in the {where}, p99, {size:,} queues",
            f"under {goal:.0f} ms",
            f"{p99[where, size]:.0f} ms",
            p99[where, size] < goal,
        )
        for where, size, goal in (
            ("webhook", sizes[-1], _WEBHOOK_GOAL),
            ("gate", sizes[0], _GATE_GOAL),
        )
    ]
    return Part([table], targets)


def _effects(cluster: ApiServer, followed: _Followed, changes: int) -> Iterator[float]:
    """Yield the milliseconds of each change."""
    probe = {**binding(_ROLE, user=_USER), "metadata": {"name": "probe"}}
    above = f"{RBAC}/namespaces/{_NAMESPACE}/rolebindings"
    for number in range(changes):
        is_bound = number % 2 == 0
        if is_bound:
            created(cluster.ask("admin", "POST", above, probe))
        else:
            created(cluster.ask("admin", "DELETE", f"{above}/probe"))
        start = time.perf_counter()
        while followed.is_allowed() is not is_bound:
            if time.perf_counter() - start > _WAIT_SECONDS:
                raise CannotMeasure(f"a change never counted in the {followed.name}")
            time.sleep(0.001)
        yield (time.perf_counter() - start) * 1000


@contextmanager
def _webhook(folder: Path, kubeconfig: Path) -> Iterator[_Followed]:
    config, ca = write_settings(folder, _SETTINGS)
    follow_rbac(config, kubeconfig)
    command = [sys.executable, *processes.PRODUCT, "admission", "--config", str(config)]
    command += ["--set=admission.listen=127.0.0.1:0", "--set=ops.listen=127.0.0.1:0"]
    with processes.running(command, folder / "server") as process:
        client = _client(process, ca)
        thing = job("job", {KUEUE: _QUEUE})
        body = json.dumps(admission_review(_USER, thing, namespace=_NAMESPACE)).encode()

        def is_allowed() -> bool:
            client.request("POST", "/queues", body, {"Content-Type": "application/json"})
            response = client.getresponse()
            content = response.read()
            if response.status != 200:
                raise CannotMeasure(f"a review was not answered: {content!r}")
            allowed: bool = json.loads(content)["response"]["allowed"]
            return allowed

        yield _Followed("webhook", is_allowed, process)
        client.close()


@contextmanager
def _gate(folder: Path, kubeconfig: Path) -> Iterator[_Followed]:
    folder.mkdir()
    config = folder / "queuegate.yaml"
    config.write_text(json.dumps({"policy": {"kubernetes": {"kubeconfig": str(kubeconfig)}}}))
    command = [sys.executable, *processes.PRODUCT, "serve", "--config", str(config)]
    command += ["--listen", "127.0.0.1:0"]
    with (
        processes.running(command, folder / "server") as process,
        queuegate.Gate(process.address, timeout=60) as gate,
    ):
        end = time.monotonic() + _WAIT_SECONDS
        while gate.state is not queuegate.GateState.LIVE:
            if time.monotonic() > end:
                raise CannotMeasure("a gate did not become live")
            time.sleep(0.01)
        path = f"root.localqueues.{_NAMESPACE}.{_QUEUE}"

        def is_allowed() -> bool:
            return gate.check(_USER, path, groups=["none"]).allowed

        yield _Followed("gate", is_allowed, process)


def _client(process: processes.Running, ca: trustme.CA) -> http.client.HTTPSConnection:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    host, _, port = process.address.removeprefix("https://").rpartition(":")
    return http.client.HTTPSConnection(host, int(port), context=context, timeout=60)


def _fill(cluster: ApiServer, begin: int, end: int) -> None:
    """Create LocalQueues and as many RoleBindings, of a user each."""
    if not begin:
        rule = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues"], "verbs": ["use"]}
        role = {"metadata": {"name": _ROLE}, "rules": [rule]}
        created(cluster.ask("admin", "POST", f"{RBAC}/clusterroles", role))

    def fill(number: int) -> None:
        name = f"team-{number}"
        namespace = {"metadata": {"name": name}}
        created(cluster.ask("admin", "POST", "/api/v1/namespaces", namespace))
        queues = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{name}/localqueues"
        bindings = f"{RBAC}/namespaces/{name}/rolebindings"
        for index in range(_PER_NAMESPACE):
            queue = {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "LocalQueue",
                "metadata": {"name": f"queue-{index}"},
                "spec": {"clusterQueue": "all"},
            }
            created(cluster.ask("admin", "POST", queues, queue))
            bound = binding(_ROLE, user=f"user-{number}-{index}")
            bound["metadata"] = {"name": f"binding-{index}"}
            created(cluster.ask("admin", "POST", bindings, bound))

    with ThreadPoolExecutor(_THREADS) as threads:
        for _ in threads.map(fill, range(begin // _PER_NAMESPACE, end // _PER_NAMESPACE)):
            pass


if __name__ == "__main__":
    main(measure, __doc__)
