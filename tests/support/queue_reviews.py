"""Reviewers of queues that decide with a real engine, and the bodies of their reviews."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from queuegate.policy.acl import AclNames, parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import PartitionBuilder, Policy
from queuegate_server.admission.queues.queues_endpoint import QueueEndpoint
from queuegate_server.admission.queues.records import QueueRecords
from queuegate_server.admission.queues.reviewer import QueueReviewer
from queuegate_server.admission.server.review import AdmissionResponse
from queuegate_server.decisions.log import DecisionLog
from queuegate_server.engine import Engine, ServedPartition, Snapshot
from queuegate_server.observe.audit import AuditLog
from queuegate_server.settings.admission import QueueChecks
from tests.support.fakes.directory import FakeDirectory
from tests.support.snapshots import groups_from, zero

TREE: Mapping[str, str] = {
    "root": "",
    "root.open": "*",
    "root.dev": "alice",
    "root.prod": " staff",
    "root.prod.night": "carol",
}
"""The submit ACLs of queues."""
PLACE = "example.com/queue"


class Audit(AuditLog):
    """Keeps records in memory, as long as it has room."""

    def __init__(self) -> None:
        self.records: list[Mapping[str, Any]] = []
        self.has_room = True

    async def append(
        self, records: Callable[[], Iterable[Mapping[str, Any]]], number: int, size: int
    ) -> bool:
        del number, size
        if self.has_room:
            self.records += records()
        return self.has_room


def snapshot(
    tree: Mapping[str, str], directory: FakeDirectory, names: AclNames = AclNames.ANY
) -> Snapshot:
    """Return a snapshot of one partition whose groups come from a directory."""
    queues = [QueueAcls(path, parse(acl, names), parse("")) for path, acl in tree.items()]
    builder = PartitionBuilder("default", "", acl_names=names)
    builder.add(queues)
    partition = builder.build()
    served = {"default": ServedPartition(partition, groups_from(directory), True)}
    return Snapshot(Policy({"default": partition}, revision=7), served, 0.0)


class Reviewing:
    """A reviewer, with its directory, audit log and metrics."""

    def __init__(
        self, tree: Mapping[str, str] = TREE, names: AclNames = AclNames.ANY, **settings: Any
    ) -> None:
        self.directory = FakeDirectory(bob=("staff",), dave=())
        self.audit = Audit()
        self.registry = CollectorRegistry()
        self.engine = Engine(zero)
        self.engine.serve(snapshot(tree, self.directory, names))
        settings = {"mode": "deny", "schedulers": {"places": [{"label": PLACE}]}} | settings
        self.reviewer = QueueReviewer(
            self.engine,
            QueueChecks.model_validate(settings),
            QueueRecords(DecisionLog(self.audit, allowed=True), self.registry, zero),
        )
        self.endpoint = QueueEndpoint(self.reviewer)

    async def review(
        self,
        user: str,
        *queues: str,
        groups: Sequence[str] = (),
        verified: bool = True,
        seconds: float = 5.0,
        **request: Any,
    ) -> AdmissionResponse:
        """Return the response to the creation of an object that names queues."""
        content = body(user, naming(*queues), groups=groups, **request)
        deadline = asyncio.get_running_loop().time() + seconds
        _, response = await self.reviewer.review(content, verified=verified, deadline=deadline)
        return response

    def counted(self) -> dict[tuple[str, str, str], float]:
        """Return the numbers of decisions by scheduler, outcome and mode."""
        return counted(self.registry)


def counted(registry: CollectorRegistry) -> dict[tuple[str, str, str], float]:
    """Return the numbers of decisions about queues by scheduler, outcome and mode."""
    return {
        (sample.labels["scheduler"], sample.labels["outcome"], sample.labels["mode"]): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }


def naming(*queues: str) -> dict[str, Any]:
    """Return an object that names queues in labels, the first one in its own."""
    templates = [{"metadata": {"labels": {PLACE: queue}}} for queue in queues]
    return (templates[0] if templates else {}) | {"spec": templates[1:]}


def body(
    user: str,
    new: Mapping[str, Any] | None,
    *,
    groups: Sequence[str] = (),
    kind: tuple[str, str] = ("example.com", "Run"),
    **request: Any,
) -> bytes:
    """Return the body of a review, by default of a creation."""
    asked = {
        "uid": "u-1",
        "kind": {"group": kind[0], "version": "v1", "kind": kind[1]},
        "operation": "CREATE",
        "namespace": "team",
        "name": "run-1",
        "userInfo": {"username": user, "groups": list(groups)},
        "object": new,
    }
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": asked | request,
    }
    return json.dumps(review).encode()
