"""Measures what `kinds: all` adds to the creation of custom resources at a real API server."""

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench import processes
from bench.command import CannotMeasure, Scale, main
from bench.results import Part, Table, spread
from tests.e2e.kube.cluster import ApiServer, program, running_cluster
from tests.e2e.kube.queue_checks import NAMESPACE, enforced_by, write_settings
from tests.e2e.kube.reviews import SPEC
from tests.support.eventually import eventually

_CREATIONS: Final = 400
_WARM_UP: Final = 50
_VERSION: Final = "bench.example.com/v1"
_WIDGETS: Final = f"/apis/{_VERSION}/namespaces/{NAMESPACE}/widgets"
_KINDS: Final = ("listed", "all")


def measure(scale: Scale, folder: Path) -> Part:
    """Create objects of a kind that is not listed: without a webhook, and with both values."""
    etcd, kube_apiserver = program("etcd"), program("kube-apiserver")
    if etcd is None or kube_apiserver is None:
        raise CannotMeasure("etcd and kube-apiserver are missing: run make kube-tools")
    count = _CREATIONS // 4 if scale.is_quick else _CREATIONS
    names = itertools.count()
    (folder / "cluster").mkdir(parents=True)
    without: list[float] = []
    asked: dict[str, list[float]] = {kinds: [] for kinds in _KINDS}
    with running_cluster(folder / "cluster", etcd, kube_apiserver) as cluster:
        cluster.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        _define(cluster)
        _create(cluster, names, _WARM_UP)
        for turn in range(scale.rounds):
            without.append(_create(cluster, names, count))
            for kinds, found in asked.items():
                found.append(_with(cluster, names, count, folder / f"{kinds}-{turn}", kinds))
    table = Table(
        "Checks of queues: custom resources of kinds that are not listed",
        "An object with a template of a pod that names no queue, created at a real kube-apiserver "
        f"with etcd, one after the other, {count} in each of {scale.rounds} rounds. With `listed`, "
        "only the conditions are evaluated; with `all`, the webhook searches each object. All "
        "share the machine.",
        ("`admission.queues.kinds`", "median, ms", "added at the median, ms"),
    )
    table.add("without a webhook", spread(without, ".2f"), "")
    for kinds, found in asked.items():
        added = [after - before for before, after in zip(without, found, strict=True)]
        table.add(f"`{kinds}`", spread(found, ".2f"), spread(added, ".2f"))
    return Part([table])


def _with(cluster: ApiServer, names: Iterator[int], count: int, folder: Path, kinds: str) -> float:
    """Return the median while a webhook with a value of `kinds` is registered."""
    settings = {
        "mode": "deny",
        "groups": "kubernetes",
        "schedulers": {"kueue": {}},
        "kinds": kinds,
    }
    config, ca = write_settings(folder, settings)
    command = [sys.executable, *processes.PRODUCT, "admission", "--config", str(config)]
    command += ["--set=admission.listen=127.0.0.1:0", "--set=ops.listen=127.0.0.1:0"]
    with processes.running(command, folder / "server", on_own_core=True) as server:
        address = server.address.removeprefix("https://")
        with enforced_by(cluster, config, ca, address):
            _create(cluster, names, _WARM_UP)
            return _create(cluster, names, count)


def _create(cluster: ApiServer, names: Iterator[int], count: int) -> float:
    """Create objects, and return the median of the milliseconds."""
    taken = []
    for number in itertools.islice(names, count):
        template = {"metadata": {"labels": {"app": "bench"}}, "spec": SPEC}
        thing: dict[str, Any] = {
            "apiVersion": _VERSION,
            "kind": "Widget",
            "metadata": {"name": f"widget-{number}"},
            "spec": {"template": template},
        }
        start = time.perf_counter()
        answer = cluster.ask("bob", "POST", _WIDGETS, thing)
        taken.append((time.perf_counter() - start) * 1000)
        if answer.status_code != 201:
            raise CannotMeasure(f"the API server did not create a Widget: {answer.text}")
    return median(taken)


def _define(cluster: ApiServer) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    group, _, version = _VERSION.partition("/")
    served = {"name": version, "served": True, "storage": True}
    definition = {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    cluster.ask("admin", "POST", path, definition)
    eventually(lambda: cluster.ask("admin", "GET", _WIDGETS).status_code, 200)


if __name__ == "__main__":
    main(measure, __doc__)
