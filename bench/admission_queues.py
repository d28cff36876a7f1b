"""Measures the checks of queues at a real API server: added time, reviews a second, memory."""

import http.client
import itertools
import json
import random
import ssl
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import trustme
import yaml

from bench import processes
from bench.command import CannotMeasure, Scale, main
from bench.peers.install import go_program
from bench.results import Part, Table, Target, middle, spread
from bench.webhook import HEY, throughput
from tests.e2e.kube.cluster import ApiServer, program, running_cluster
from tests.e2e.kube.queue_checks import (
    JOBS,
    KUEUE,
    NAMESPACE,
    enforced_by,
    job,
    write_settings,
)

_USERS: Final = 10_000
_QUEUES: Final = 1_000
_CONNECTIONS: Final = (1, 8, 64)
_ADDED_GOAL: Final = 1.5
"""In milliseconds."""
_RATE_GOAL: Final = 1_500
_MEMORY_GOAL: Final = 90
"""In MiB."""
_ROWS: Final = ("without a webhook", "with the check", "with a bare handler")
_PROBE: Final = "probe"
"""The name of the Job that both webhooks refuse."""
_CREATIONS: Final = 400
_WARM_UP: Final = 50
_SETTINGS: Final[dict[str, Any]] = {
    "mode": "deny",
    "groups": "kubernetes",
    "schedulers": {"kueue": {}},
}


def measure(scale: Scale, folder: Path) -> Part:
    """Create Jobs with and without the webhook, and then review as fast as possible."""
    hey = go_program(HEY)
    etcd, kube_apiserver = program("etcd"), program("kube-apiserver")
    if etcd is None or kube_apiserver is None:
        raise CannotMeasure("etcd and kube-apiserver are missing: run make kube-tools")
    folder.mkdir(exist_ok=True)
    config, ca = write_settings(folder / "settings", _SETTINGS, _policy())
    command = [sys.executable, *processes.PRODUCT, "admission", "--config", str(config)]
    command += ["--set=admission.listen=127.0.0.1:0", "--set=ops.listen=127.0.0.1:0"]
    bare = [sys.executable, "-m", "bench.bare_webhook", str(config.parent), _PROBE]
    with processes.running(command, folder / "server", on_own_core=True) as server:
        (folder / "cluster").mkdir()
        with (
            processes.running(bare, folder / "bare", on_own_core=True) as yardstick,
            running_cluster(folder / "cluster", etcd, kube_apiserver) as cluster,
        ):
            creations, added = _creations(scale, cluster, config, ca, (server, yardstick))
        rates, per_core = _rates(scale, hey, folder, ca, server)
        memory = server.resident_mib()
    targets = [
        Target(
            "a Job's creation, added at p50",
            f"{_ADDED_GOAL} ms",
            f"{added:.2f} ms",
            added <= _ADDED_GOAL,
        ),
        Target(
            "reviews of queues on one core",
            f"{_RATE_GOAL:,}/s",
            f"{per_core:,.0f}/s",
            per_core >= _RATE_GOAL,
        ),
        Target(
            f"memory of the webhook with {_QUEUES:,} queues",
            f"{_MEMORY_GOAL} MiB",
            f"{memory:.0f} MiB",
            memory < _MEMORY_GOAL,
        ),
    ]
    return Part([creations, rates], targets)


def _creations(
    scale: Scale,
    cluster: ApiServer,
    config: Path,
    ca: trustme.CA,
    webhooks: Sequence[processes.Running],
) -> tuple[Table, float]:
    """Return the table, and the milliseconds that the first webhook adds at p50."""
    cluster.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    names = itertools.count()
    count = _CREATIONS // 4 if scale.is_quick else _CREATIONS
    _create(cluster, names, _WARM_UP)
    without: list[list[float]] = []
    asked: list[list[list[float]]] = [[] for _ in webhooks]
    for _ in range(scale.rounds):
        without.append(_create(cluster, names, count))
        for webhook, rounds in zip(webhooks, asked, strict=True):
            address = webhook.address.removeprefix("https://")
            with enforced_by(cluster, config, ca, address, _is_asked):
                _create(cluster, names, _WARM_UP)
                rounds.append(_create(cluster, names, count))
    table = Table(
        "Checks of queues: creating Jobs",
        "A Job that names a LocalQueue, created at a real kube-apiserver with etcd, one after the "
        f"other, {count} in each of {scale.rounds} rounds; the same with the webhook, which allows "
        f"it by an ACL of {_QUEUES:,} queues, and with a *bare handler* in aiohttp, registered in "
        "the same way, which allows everything. All share the machine.",
        ("creation", "median, ms", "p99, ms", "added at the median, ms"),
    )
    added = [
        [median(after) - median(before) for before, after in zip(without, rounds, strict=True)]
        for rounds in asked
    ]
    rows = (without, *asked)
    for name, rounds, more in zip(_ROWS, rows, ([], *added), strict=True):
        table.add(
            name,
            spread([median(each) for each in rounds], ".2f"),
            spread([_p99(each) for each in rounds], ".2f"),
            spread(more, ".2f") if more else "",
        )
    return table, median(added[0])


def _create(cluster: ApiServer, names: Iterator[int], count: int) -> list[float]:
    """Create Jobs, and return the milliseconds of each."""
    taken = []
    for number in itertools.islice(names, count):
        thing = job(f"job-{number}", {KUEUE: "queue-0"})
        start = time.perf_counter()
        answer = cluster.ask("bob", "POST", JOBS, thing)
        taken.append((time.perf_counter() - start) * 1000)
        if answer.status_code != 201:
            raise CannotMeasure(f"the API server did not create a Job: {answer.text}")
    return taken


def _is_asked(cluster: ApiServer) -> bool:
    thing = job(_PROBE, {KUEUE: "absent"})
    return cluster.ask("bob", "POST", f"{JOBS}?dryRun=All", thing).status_code == 403


def _rates(
    scale: Scale, hey: Path, folder: Path, ca: trustme.CA, server: processes.Running
) -> tuple[Table, float]:
    """Return the table, and the reviews per second on one core with many users and queues."""
    table = Table(
        "Checks of queues: reviews a second",
        "One `AdmissionReview` of a Job per request, over HTTPS/1.1 with keep-alive; the clients "
        "and the webhook share the machine, one core each. *Denied* is also logged. *Many*: "
        f"{_USERS:,} users and {_QUEUES:,} queues at random, one connection; the rate is that of "
        "the processor time that the webhook takes for each review.",
        ("review, connections", "reviews/s", "median, ms", "p99, ms"),
    )
    seconds = max(scale.seconds, 1.0)  # hey computes p99 of at least 100 requests
    for name, queue in (("allowed", "queue-0"), ("denied", "queue-1")):
        file = folder / f"{name}.json"
        file.write_bytes(_review("bob", "group-0", queue))
        for connections in _CONNECTIONS:
            found = [
                throughput(hey, f"{server.address}/queues", file, connections, seconds)
                for _ in range(scale.rounds)
            ]
            table.add(
                f"{name}, {connections}",
                spread([each.per_second for each in found]),
                spread([each.p50 for each in found], ".1f"),
                spread([each.p99 for each in found], ".1f"),
            )
    reviews = list(_random_reviews(1_000 if scale.is_quick else 5_000))
    per_core = [_per_core(reviews, ca, server) for _ in range(scale.rounds)]
    table.add("many, 1", spread(per_core), "", "")
    return table, float(middle(per_core, ".0f"))


def _per_core(reviews: Sequence[bytes], ca: trustme.CA, server: processes.Running) -> float:
    """Return the number of reviews for each second of the webhook's processor time."""
    context = ssl.create_default_context()
    ca.configure_trust(context)
    host, _, port = server.address.removeprefix("https://").rpartition(":")
    client = http.client.HTTPSConnection(host, int(port), context=context, timeout=30)
    before = server.cpu_seconds()
    for body in reviews:
        client.request("POST", "/queues", body, {"Content-Type": "application/json"})
        response = client.getresponse()
        content = response.read()
        if response.status != 200:
            raise CannotMeasure(f"a review was not answered: {content!r}")
    client.close()
    return len(reviews) / (server.cpu_seconds() - before)


def _random_reviews(count: int) -> Iterator[bytes]:
    chosen = random.Random(1)
    for _ in range(count):
        user = chosen.randrange(_USERS)
        queue = f"queue-{chosen.randrange(_QUEUES)}"
        yield _review(f"user-{user}", f"group-{user % _QUEUES}", queue)


def _review(user: str, group: str, queue: str) -> bytes:
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "5bd1ad9c-6a19-4a25-a0c5-3d4e0e1b6b0e",
            "kind": {"group": "batch", "version": "v1", "kind": "Job"},
            "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
            "operation": "CREATE",
            "namespace": NAMESPACE,
            "name": "job",
            "userInfo": {"username": user, "groups": [group, "system:authenticated"]},
            "object": job("job", {KUEUE: queue}),
        },
    }
    return json.dumps(review).encode()


def _policy() -> str:
    """Return queues of which each is for one group; bob may use the first."""
    queues = [
        {"name": f"queue-{number}", "submitacl": f"{'bob' if not number else ''} group-{number}"}
        for number in range(_QUEUES)
    ]
    namespaces = {"name": "namespaces", "queues": [{"name": NAMESPACE, "queues": queues}]}
    return yaml.safe_dump(
        {"partitions": [{"name": "default", "queues": [{"name": "root", "queues": [namespaces]}]}]}
    )


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


if __name__ == "__main__":
    main(measure, __doc__)
