"""What the checks of queues require of a request: for the tests of this folder."""

from typing import Any

from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import PartitionBuilder
from queuegate_server.admission.queues.checks import requirements
from queuegate_server.admission.queues.model import QueueReview, Requirements
from queuegate_server.admission.queues.names import QueueNames
from queuegate_server.admission.queues.places import build_places
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.settings.queue_schedulers import FLAT
from tests.support.long_work import finish

KUEUE = "kueue.x-k8s.io/queue-name"


YUNIKORN = "yunikorn.apache.org/queue"


VOLCANO = "scheduling.volcano.sh/queue-name"


BUILDER = PartitionBuilder("default")


BUILDER.add(
    QueueAcls(path, "", "")
    for path in (
        *("root", "root.dev"),
        *(f"root.{name}{below}" for name in FLAT for below in ("", ".dev", ".dev.train")),
    )
)


PARTITION = BUILDER.build()


SCHEDULERS: dict[str, Any] = {
    "yunikorn": {},
    "kueue": {},
    **{name: {"below": f"root.{name}"} for name in FLAT},
}


EMPTY = Requirements()


def required(
    kind: str,
    new: Any,
    old: Any = None,
    *,
    operation: str = "",
    subresource: str = "",
    is_processed: bool = True,
    **settings: Any,
) -> Requirements:
    """Return what must hold before a request about an object in the namespace `ml`."""
    checks = QueueChecks.model_validate({"schedulers": SCHEDULERS, **settings})
    group, _, name = kind.rpartition("/")
    review = QueueReview(
        uid="1",
        group=group,
        kind=name,
        subresource=subresource,
        operation=operation or ("CREATE" if old is None else "UPDATE"),
        namespace="ml",
        name="x",
        user="bob",
        groups=(),
        new=new,
        old=old,
    )
    names = QueueNames(PARTITION, checks.schedulers)
    places = build_places(checks)
    steps = requirements(review, checks, places, lambda: names, lambda _: is_processed)
    required: Requirements = finish(steps)
    return required


def paths(requirements: Requirements) -> list[str]:
    """Return the paths to check; there must be no obstacle."""
    assert requirements.obstacles == ()
    return [check.path for check in requirements.checks]


def labels(**values: str) -> dict[str, Any]:
    """Return an object with labels; `kueue`, `yunikorn` and `volcano` stand for their keys."""
    keys = {"kueue": KUEUE, "yunikorn": YUNIKORN, "volcano": VOLCANO}
    return {"metadata": {"labels": {keys[name]: value for name, value in values.items()}}}


def template(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a template."""
    return {"spec": {"template": value}}


def cron(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a template of objects with a template."""
    return {"spec": {"jobTemplate": template(value)}}


def embedded(version: str, kind: str, spec: Any) -> dict[str, Any]:
    """Return an object within another one."""
    return {"apiVersion": version, "kind": kind, "spec": spec}


VOLCANO_JOB = ("batch.volcano.sh/v1alpha1", "Job", {"queue": "dev"})


BARE: dict[str, Any] = {"metadata": {}, "spec": {}}


ANNOTATED: dict[str, Any] = {"metadata": {"annotations": {KUEUE: "a"}}}


OWNED = {"ownerReferences": [{"kind": "ConfigMap", "name": "c", "uid": "1"}]}


OTHERS = {"ownerReferences": [{"kind": "ConfigMap", "name": "d", "uid": "2"}]}
