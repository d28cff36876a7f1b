"""What must hold before an object is accepted: kinds, places and operations."""

from typing import Any

import pytest

from queuegate.policy.decision import Access
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import PartitionBuilder
from queuegate_server.admission.queues.checks import MAX_QUEUES, UNQUEUED, requirements
from queuegate_server.admission.queues.model import QueueReview, Requirements
from queuegate_server.admission.queues.names import QueueNames
from queuegate_server.admission.queues.places import build_places
from queuegate_server.admission.queues.walk import MAX_DEPTH, MAX_FOUND
from queuegate_server.runtime.event_loop import run_at_once
from queuegate_server.settings.admission import FLAT, Mode, QueueChecks

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
    return run_at_once(requirements(review, checks, places, lambda: names, lambda _: is_processed))


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


CLUSTER_A = "root.clusterqueues.a"
GANG = {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "dev"}}}}
VOLCANO_JOB = ("batch.volcano.sh/v1alpha1", "Job", {"queue": "dev"})
PLACES = [
    ("Pod", labels(kueue="a"), "root.namespaces.ml.a"),
    ("Pod", labels(yunikorn="root.dev"), "root.dev"),
    ("Pod", {"metadata": {"labels": {"queue": "dev"}}}, "root.dev"),
    ("Pod", {"metadata": {"labels": {"kai.scheduler/queue": "train"}}}, "root.kai.dev.train"),
    ("Pod", {"metadata": {"annotations": {VOLCANO: "train"}}}, "root.volcano.dev.train"),
    ("Binding", {"metadata": {"annotations": {YUNIKORN: "dev"}}}, "root.dev"),
    ("Namespace", {"metadata": {"annotations": {VOLCANO: "dev"}}}, "root.volcano.dev"),
    (
        "Namespace",
        {"metadata": {"annotations": {"yunikorn.apache.org/parentqueue": "root.dev"}}},
        "root.dev",
    ),
    ("apps/Deployment", template(labels(yunikorn="dev")), "root.dev"),
    ("batch/CronJob", cron(labels(volcano="dev")), "root.volcano.dev"),
    ("batch/Job", labels(kueue="a"), "root.namespaces.ml.a"),
    ("ray.io/RayCluster", labels(kueue="a"), "root.namespaces.ml.a"),
    ("example.com/Thing", {"a": [{"b": labels(volcano="train")}]}, "root.volcano.dev.train"),
    ("kueue.x-k8s.io/Workload", {"spec": {"queueName": "a"}}, "root.namespaces.ml.a"),
    ("kueue.x-k8s.io/LocalQueue", {"spec": {"clusterQueue": "a"}}, "root.clusterqueues.a"),
    ("batch.volcano.sh/Job", {"spec": {"queue": "dev"}}, "root.volcano.dev"),
    (
        "batch.volcano.sh/CronJob",
        {"spec": {"jobTemplate": {"spec": {"queue": "dev"}}}},
        "root.volcano.dev",
    ),
    ("flow.volcano.sh/JobTemplate", {"spec": {"queue": "dev"}}, "root.volcano.dev"),
    (
        "flow.volcano.sh/JobFlow",
        {"spec": {"flows": [{"name": "a"}, {"patch": {"jobSpec": {"queue": "dev"}}}]}},
        "root.volcano.dev",
    ),
    (
        "training.volcano.sh/HyperJob",
        {"spec": {"replicatedJobs": [{"templateSpec": {"queue": "dev"}}]}},
        "root.volcano.dev",
    ),
    *(
        (f"kubeflow.org/{kind}", GANG, "root.volcano.dev")
        for kind in ("JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
    ),
    *(
        (f"trainer.kubeflow.org/{kind}", template(labels(volcano="dev")), "root.volcano.dev")
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
    ),
    (
        "sparkoperator.k8s.io/SparkConnect",
        {"spec": {"server": template(labels(yunikorn="dev"))["spec"]}},
        "root.dev",
    ),
    (
        "kueue.x-k8s.io/Workload",
        {"status": {"admission": {"clusterQueue": "a"}}},
        "root.clusterqueues.a",
    ),
    *(
        ("workload.codeflare.dev/AppWrapper", {"spec": {"components": [{"template": each}]}}, path)
        for each, path in (
            (embedded("batch.volcano.sh/v1alpha1", "Job", {"queue": "dev"}), "root.volcano.dev"),
            (embedded("kubeflow.org/v1", "PyTorchJob", GANG["spec"]), "root.volcano.dev"),
            (embedded("kueue.x-k8s.io/v1beta2", "LocalQueue", {"clusterQueue": "a"}), CLUSTER_A),
            (embedded("v1", "List", {"items": [embedded(*VOLCANO_JOB)]}), "root.volcano.dev"),
        )
    ),
    ("scheduling.volcano.sh/PodGroup", {"spec": {"queue": "dev"}}, "root.volcano.dev"),
    ("scheduling.run.ai/PodGroup", {"spec": {"queue": "dev"}}, "root.kai.dev"),
    (
        "Pod",
        {"metadata": {"labels": {"quota.scheduling.koordinator.sh/name": "dev"}}},
        "root.koordinator.dev",
    ),
    (
        "Pod",
        {"metadata": {"annotations": {"slurmjob.slinky.slurm.net/account": "dev"}}},
        "root.slurm-bridge.dev",
    ),
]
PARENTS = [
    ("kueue.x-k8s.io/ClusterQueue", {"spec": {"cohortName": "a"}}, "root.cohorts.a"),
    ("kueue.x-k8s.io/Cohort", {"spec": {"parentName": "a"}}, "root.cohorts.a"),
    ("scheduling.volcano.sh/Queue", {"spec": {"parent": "dev"}}, "root.volcano.dev"),
    ("scheduling.run.ai/Queue", {"spec": {"parentQueue": "dev"}}, "root.kai.dev"),
    (
        "workload.codeflare.dev/AppWrapper",
        {"spec": [embedded("scheduling.volcano.sh/v1beta1", "Queue", {"parent": "dev"})]},
        "root.volcano.dev",
    ),
    (
        "scheduling.sigs.k8s.io/ElasticQuota",
        {"metadata": {"labels": {"quota.scheduling.koordinator.sh/parent": "dev"}}},
        "root.koordinator.dev",
    ),
]
BARE: dict[str, Any] = {"metadata": {}, "spec": {}}
ANNOTATED: dict[str, Any] = {"metadata": {"annotations": {KUEUE: "a"}}}


@pytest.mark.parametrize(("kind", "value", "path"), [*PLACES, *PARENTS])
def test_each_place_by_operation(kind: str, value: dict[str, Any], path: str) -> None:
    access = Access.ADMIN if (kind, value, path) in PARENTS else Access.SUBMIT
    created = required(kind, value)
    assert [(check.path, check.access) for check in created.checks] == [(path, access)]
    assert required(kind, value, BARE) == created
    assert required(kind, value, BARE, subresource="status") == created
    assert required(kind, value, value) == EMPTY
    assert required(kind, BARE, value) == EMPTY
    assert required(kind, None, value, operation="DELETE") == EMPTY
    assert required(kind, value, operation="CONNECT") == EMPTY
    for subresource in ("scale", "eviction", "ephemeralcontainers"):
        assert required(kind, value, BARE, subresource=subresource) == EMPTY


def test_only_new_names_of_an_update_are_checked() -> None:
    old = template(labels(kueue="a", yunikorn="dev"))
    assert paths(required("batch/Job", template(labels(kueue="a", yunikorn="b")), old)) == [
        "root.b"
    ]
    assert paths(required("batch/Job", {**old, **labels(kueue="a")}, old)) == [
        "root.namespaces.ml.a"
    ]


def test_items_of_lists_may_move() -> None:
    first, second = labels(kueue="a"), labels(kueue="b")
    old = {"spec": {"replicatedJobs": [first, second]}}
    new = {"spec": {"replicatedJobs": [second, first, labels(kueue="c")]}}
    assert paths(required("jobset.x-k8s.io/JobSet", new, old)) == ["root.namespaces.ml.c"]


def test_a_further_item_with_a_name_that_is_there_is_not_new() -> None:
    """As a higher number of replicas, it gives nobody another queue."""
    first = labels(kueue="a")
    old = {"spec": {"replicatedJobs": [first]}}
    assert required("jobset.x-k8s.io/JobSet", {"spec": {"replicatedJobs": [first] * 3}}, old) == (
        EMPTY
    )
    elsewhere = {"spec": {"replicatedJobs": [first], "other": [first]}}
    assert paths(required("jobset.x-k8s.io/JobSet", elsewhere, old)) == ["root.namespaces.ml.a"]


def test_the_type_of_an_object_within_an_object_may_change() -> None:
    """Its fields are then those of another kind."""
    old = {"spec": [embedded("batch/v1", "Job", {"queue": "dev"})]}
    new = {"spec": [embedded(*VOLCANO_JOB)]}
    assert paths(required("workload.codeflare.dev/AppWrapper", new, old)) == ["root.volcano.dev"]


def test_a_node_pool_that_is_added_names_a_new_queue() -> None:
    old = {"metadata": {"labels": {"project": "a"}}, "spec": {"template": {"metadata": {}}}}
    pool = {"metadata": {"labels": {"kai.scheduler/node-pool": "gpu"}}}
    assert paths(required("apps/Deployment", {**old, **template(pool)}, old)) == ["root.kai.a-gpu"]


@pytest.mark.parametrize(
    ("key", "scheduler"),
    [(KUEUE, "kueue"), (YUNIKORN, "yunikorn"), (VOLCANO, "volcano"), ("project", "kai")],
)
def test_a_name_from_an_expression_is_an_obstacle(key: str, scheduler: str) -> None:
    """Argo evaluates it later, so that it may become any queue."""
    source = {"expression": "workflow.parameters.queue"}
    spec = {"workflowMetadata": {"labelsFrom": {key: source, "other": source}}}
    found = required("argoproj.io/Workflow", {"spec": spec})
    assert found.checks == ()
    assert [(each.scheduler, each.where) for each in found.obstacles] == [
        (scheduler, f'spec.workflowMetadata.labelsFrom["{key}"]')
    ]
    assert "an expression gives the key or the value" in found.obstacles[0].message
    assert required("argoproj.io/Workflow", {"spec": spec}, {"spec": spec}) == EMPTY


@pytest.mark.parametrize("maps", ["labels", "annotations", "labelsFrom"])
def test_a_key_from_an_expression_is_an_obstacle_for_each_scheduler(maps: str) -> None:
    """Argo substitutes the whole template as text, keys included."""
    template = {"metadata": {maps: {"{{inputs.parameters.key}}": "root.a"}}}
    found = required("argoproj.io/Workflow", {"spec": {"templates": [template]}})
    schedulers = {each.scheduler for each in found.obstacles}
    assert {"yunikorn", "kueue", "volcano"} <= schedulers
    assert {each.where for each in found.obstacles} == {
        f'spec.templates[0].metadata.{maps}["{{{{inputs.parameters.key}}}}"]'
    }


def test_the_parent_in_a_quota_profile_needs_admin_access() -> None:
    parent = "quota.scheduling.koordinator.sh/parent"
    spec = {"quotaLabels": {parent: "a"}}
    found = required("quota.koordinator.sh/ElasticQuotaProfile", {"spec": spec})
    assert [(each.path, each.access, each.where) for each in found.checks] == [
        ("root.koordinator.a", Access.ADMIN, f'spec.quotaLabels["{parent}"]')
    ]


def test_a_label_counts_once_no_longer_overridden() -> None:
    old = {"metadata": {"labels": {YUNIKORN: "a", "queue": "b"}}}
    assert paths(required("Pod", {"metadata": {"labels": {"queue": "b"}}}, old)) == ["root.b"]


def test_an_invalid_name_is_an_obstacle_only_when_it_is_new() -> None:
    value = labels(yunikorn="root.a b")
    found = required("Pod", value)
    assert found.checks == ()
    assert [each.where for each in found.obstacles] == [f'metadata.labels["{YUNIKORN}"]']
    assert "cannot be the name of a queue" in found.obstacles[0].message
    assert required("Pod", value, value) == EMPTY


def many(count: int) -> dict[str, Any]:
    """Return an object that names many queues."""
    return {"spec": {"items": [labels(kueue=f"q{number}") for number in range(count)]}}


def test_the_number_of_queues_is_bounded() -> None:
    assert len(required("example.com/Thing", many(MAX_QUEUES)).checks) == MAX_QUEUES
    found = required("example.com/Thing", many(MAX_QUEUES + 1), mode="deny")
    assert [(each.message, each.mode) for each in found.obstacles] == [
        ("the object names more than 64 queues", Mode.DENY)
    ]
    assert required("example.com/Thing", many(100), many(100)) == EMPTY
    assert len(required("example.com/Thing", many(101), many(100)).checks) == 1


OWNED = {"ownerReferences": [{"kind": "ConfigMap", "name": "c", "uid": "1"}]}
OTHERS = {"ownerReferences": [{"kind": "ConfigMap", "name": "d", "uid": "2"}]}
TOO_COMPLEX: dict[str, Any] = {"spec": [labels(kueue="a")] * (MAX_FOUND + 1)}


def test_finalizers_of_objects_that_are_too_complex_can_be_removed() -> None:
    spec = TOO_COMPLEX["spec"]
    old = {"metadata": {"finalizers": ["a"], "resourceVersion": "1"}, "spec": spec}
    assert required("Pod", {"metadata": {"resourceVersion": "2"}, "spec": spec}, old) == EMPTY
    assert len(required("Pod", old).obstacles) == 1
    assert len(required("Pod", {**labels(kueue="a"), "spec": spec}, old).obstacles) == 1
    assert len(required("Pod", {**old, "spec": [*spec, 1]}, old).obstacles) == 1
    owned = {"metadata": {**old["metadata"], **OWNED}, "spec": spec}
    assert required("Pod", old, owned) == EMPTY
    # KAI may take the project of a new owner.
    assert len(required("Pod", owned, old).obstacles) == 1
    assert required("Pod", owned, old, schedulers={"kueue": {}}) == EMPTY


@pytest.mark.parametrize(
    ("kind", "new", "old", "is_unqueued"),
    [
        ("Pod", BARE, None, True),
        ("apps/Deployment", BARE, None, True),
        ("batch.volcano.sh/Job", BARE, None, True),
        ("kubeflow.org/PyTorchJob", BARE, None, True),
        ("ray.io/RayCluster", BARE, None, True),
        ("workload.codeflare.dev/AppWrapper", BARE, None, True),
        ("sparkoperator.k8s.io/SparkConnect", BARE, None, True),
        ("training.volcano.sh/HyperJob", BARE, None, True),
        # Their queues come from, or go into, other objects.
        ("flow.volcano.sh/JobFlow", BARE, None, False),
        ("argoproj.io/WorkflowTemplate", BARE, None, False),
        ("trainer.kubeflow.org/TrainingRuntime", BARE, None, False),
        ("Service", BARE, None, False),
        ("Namespace", BARE, None, False),
        ("scheduling.volcano.sh/Queue", BARE, None, False),
        ("Pod", BARE, BARE, False),
        ("Pod", BARE, labels(kueue="a"), True),
        ("Pod", labels(kueue=""), labels(kueue="a"), True),
        ("Pod", labels(yunikorn="b"), labels(kueue="a", yunikorn="b"), False),
        ("Service", BARE, labels(kueue="a"), False),
    ],
)
def test_objects_that_name_no_queue(kind: str, new: Any, old: Any, is_unqueued: bool) -> None:
    assert required(kind, new, old) == EMPTY
    denied = required(kind, new, old, unqueued="deny", mode="deny")
    assert [each.scheduler for each in denied.obstacles] == [UNQUEUED] * is_unqueued
    checked = required(kind, new, old, unqueued="root.default")
    assert paths(checked) == ["root.default"] * is_unqueued


@pytest.mark.parametrize(
    ("new", "old", "checked", "is_unqueued"),
    [
        (labels(volcano="dev"), None, [], True),
        (labels(volcano="dev", kueue="a"), None, ["root.namespaces.ml.a"], False),
        (ANNOTATED, None, ["root.namespaces.ml.a"], True),
        (
            {"metadata": {**ANNOTATED["metadata"], **labels(kueue="a")["metadata"]}},
            None,
            None,
            False,
        ),
        (ANNOTATED, labels(kueue="b"), ["root.namespaces.ml.a"], True),
        (ANNOTATED, ANNOTATED, [], False),
        (BARE, ANNOTATED, [], False),
        (labels(volcano="dev"), labels(kueue="a"), [], True),
        (BARE, labels(volcano="dev"), [], False),
    ],
)
def test_names_that_no_checked_scheduler_reads_are_no_queues(
    new: Any, old: Any, checked: list[str] | None, is_unqueued: bool
) -> None:
    """Volcano is off, and Kueue ignores annotations."""
    schedulers = {"kueue": {}, "volcano": {"mode": "off"}}
    checked = ["root.namespaces.ml.a"] if checked is None else checked
    assert paths(required("Pod", new, old, schedulers=schedulers)) == checked
    denied = required("Pod", new, old, schedulers=schedulers, unqueued="deny")
    assert [check.path for check in denied.checks] == checked
    assert [each.scheduler for each in denied.obstacles] == [UNQUEUED] * is_unqueued
    default = required("Pod", new, old, schedulers=schedulers, unqueued="root.default")
    assert paths(default) == checked + ["root.default"] * is_unqueued


@pytest.mark.parametrize(
    ("kind", "value", "is_unqueued"),
    [
        # YuniKorn reads only pods.
        ("apps/Deployment", labels(yunikorn="a"), True),
        ("apps/Deployment", template(labels(yunikorn="a")), False),
        ("ray.io/RayCluster", labels(yunikorn="a"), False),
        ("apps/StatefulSet", {"spec": {"volumeClaimTemplates": [labels(yunikorn="a")]}}, True),
        # Kueue passes over the pods of the objects that it queues.
        ("batch/Job", labels(kueue="a"), False),
        ("batch/Job", template(labels(kueue="a")), True),
        (
            "batch/CronJob",
            {"spec": {"jobTemplate": {**labels(kueue="a"), **template(BARE)}}},
            False,
        ),
    ],
)
def test_keys_that_no_scheduler_reads_are_no_queues(
    kind: str, value: dict[str, Any], is_unqueued: bool
) -> None:
    found = required(kind, value, unqueued="deny")
    assert len(found.checks) == 1
    assert [each.scheduler for each in found.obstacles] == [UNQUEUED] * is_unqueued


@pytest.mark.parametrize(
    ("queue", "chosen", "expected"),
    [
        (
            "root.a",
            {},
            [
                ("root.a", "spec.batchScheduler"),
                ("root.volcano.root_dot_a", "spec.batchScheduler"),
            ],
        ),
        ("a", {}, [("root.a", "spec.batchScheduler"), ("root.volcano.a", "spec.batchScheduler")]),
        ("root.a", {"batchScheduler": "volcano"}, []),
    ],
)
def test_a_place_that_names_another_queue_for_each_scheduler(
    queue: str, chosen: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    spec = {"batchSchedulerOptions": {"queue": queue}, **chosen}
    found = required("sparkoperator.k8s.io/SparkApplication", {"spec": spec})
    assert [
        (each.path, each.scheduler_field) for each in found.checks if each.is_one_of_several
    ] == expected
    assert len(found.checks) == max(len(expected), 1)
    # The driver's label is a further place of YuniKorn's queue, not of Volcano's.
    labelled = {"driver": {"labels": {YUNIKORN: queue}}, **spec}
    found = required("sparkoperator.k8s.io/SparkApplication", {"spec": labelled})
    assert [each.path for each in found.checks if each.is_one_of_several] == [
        path for path, _ in expected
    ]


def test_the_field_for_the_scheduler_of_an_object_within_an_object() -> None:
    application = embedded(
        *("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
        {"batchSchedulerOptions": {"queue": "root.a"}},
    )
    value = {"spec": {"components": [{"template": application}]}}
    found = required("workload.codeflare.dev/AppWrapper", value)
    assert {each.scheduler_field for each in found.checks} == {
        "spec.components[0].template.spec.batchScheduler"
    }


@pytest.mark.parametrize("is_checked", [True, False])
def test_the_label_project_is_checked_unless_it_is_switched_off(is_checked: bool) -> None:
    value = {"metadata": {"labels": {"project": "dev"}}}
    found = required(
        "ConfigMap", value, schedulers={"kai": {"project_label": is_checked, "below": "root.kai"}}
    )
    assert paths(found) == ["root.kai.dev"] * is_checked


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (("warn", "deny"), [("places[0]", Mode.DENY)]),
        (("deny", "warn"), [("yunikorn", Mode.DENY)]),
        (("off", "warn"), [("places[0]", Mode.WARN)]),
        (("off", "off"), []),
    ],
)
def test_schedulers_have_modes_of_their_own(
    modes: tuple[str, str], expected: list[tuple[str, Mode]]
) -> None:
    """A queue that several places name is checked once, in the stricter mode."""
    own = {"label": "example.com/queue", "mode": modes[1]}
    schedulers = {"yunikorn": {"mode": modes[0]}, "places": [own]}
    value = {"metadata": {"labels": {YUNIKORN: "dev", "example.com/queue": "root.dev"}}}
    found = required("Pod", value, schedulers=schedulers)
    assert [(check.scheduler, check.mode) for check in found.checks] == expected


@pytest.mark.parametrize(
    ("mode", "other", "unqueued", "expected"),
    [
        ("warn", "deny", "allow", [Mode.DENY]),
        ("deny", "warn", "allow", [Mode.WARN]),
        ("deny", "off", "allow", []),
        ("deny", "off", "deny", [Mode.DENY]),
    ],
)
def test_an_object_that_is_too_complex_has_the_strictest_mode(
    mode: str, other: str, unqueued: str, expected: list[Mode]
) -> None:
    value: dict[str, Any] = {}
    for _ in range(MAX_DEPTH + 1):
        value = {"x": value}
    schedulers = {"kai": {"mode": other, "below": "root.kai"}}
    found = required("Pod", value, mode=mode, schedulers=schedulers, unqueued=unqueued)
    assert [each.mode for each in found.obstacles] == expected


@pytest.mark.parametrize(
    ("where", "checked"),
    [
        ({"cliques": [{"labels": {"kai.scheduler/queue": "dev"}}]}, ["root.kai.dev"]),
        ({"cliques": [{"annotations": {"kai.scheduler/queue": "dev"}}]}, ["root.kai.dev"]),
        ({"cliques": [{"labels": {"project": "dev"}}]}, ["root.kai.dev"]),
        ({"podCliqueScalingGroups": [{"annotations": {VOLCANO: "dev"}}]}, None),
        ({"cliques": [{"name": "x"}]}, None),
    ],
)
@pytest.mark.parametrize("places", [[], [{"kind": "grove.io/PodCliqueSet", "field": "spec.queue"}]])
def test_a_place_of_an_own_kind_hides_no_other(
    where: dict[str, Any], checked: list[str] | None, places: list[Any]
) -> None:
    """With a place that the object lacks, a name elsewhere is still a name."""
    schedulers = {**SCHEDULERS, "places": places}
    value = {"spec": {"template": where}}
    found = required("grove.io/PodCliqueSet", value, schedulers=schedulers, unqueued="deny")
    if checked is None:
        assert [each.scheduler for each in found.obstacles] == [UNQUEUED]
    else:
        assert paths(found) == checked


def test_labels_anywhere_in_an_own_kind_name_a_queue() -> None:
    """Nobody knows which of its members are metadata."""
    schedulers = {**SCHEDULERS, "places": [{"kind": "example.com/Run", "field": "spec.queue"}]}
    run = {"spec": {"parts": [{"labels": {KUEUE: "dev"}}]}}
    found = required("example.com/Run", run, schedulers=schedulers, unqueued="deny")
    assert paths(found) == ["root.namespaces.ml.dev"]
    claim = {"spec": {"volumeClaimTemplates": [labels(kueue="dev")]}}
    found = required("example.com/Run", claim, schedulers=schedulers, unqueued="deny")
    assert [each.scheduler for each in found.obstacles] == [UNQUEUED]


def test_another_unknown_name_is_new() -> None:
    """Whoever changes the address of a template is checked, although names of it were unknown."""

    def spark(address: str) -> dict[str, Any]:
        return {"spec": {"sparkConf": {"spark.kubernetes.driver.podTemplateFile": address}}}

    kind = "sparkoperator.k8s.io/SparkApplication"
    assert required(kind, spark("a"), spark("a")) == EMPTY
    assert required(kind, spark("b"), spark("a")).obstacles


@pytest.mark.parametrize(
    ("kind", "specification", "other", "where", "reason"),
    [
        (
            "kubeflow.org/Experiment",
            {"trialTemplate": {"configMap": {"configMapNamespace": "a", "templatePath": "x"}}},
            {"trialTemplate": {"configMap": {"configMapNamespace": "b", "templatePath": "x"}}},
            "spec.trialTemplate.configMap.configMapNamespace",
            "the template is read from elsewhere",
        ),
        (
            "kubeflow.org/ScheduledWorkflow",
            {"workflow": {"spec": '{"podMetadata": {}}'}},
            {"workflow": {"spec": "{}"}},
            "spec.workflow.spec",
            "the object is written as text",
        ),
        *(
            (
                f"{group}.kubevirt.io/{kind}",
                {"patches": ['{"op": "remove", "path": "/spec/running"}', patch]},
                {"patches": [patch.replace("queue", "other")]},
                "spec.patches[1]",
                "the patch may change labels or annotations",
            )
            for group, kind in (
                ("clone", "VirtualMachineClone"),
                ("snapshot", "VirtualMachineRestore"),
            )
            for patch in (
                '{"op": "add", "path": "/spec/template/metadata/labels/queue", "value": "a"}',
                '{"op": "add", "path": "/spec/template/Metadata/labels/queue", "value": "a"}',
                '{"op": "add", "path": "/spec", "value": {"metadata": {"queue": {}}}}',
                '{"op": "add", "path": "/spec/template/meta\\u0064ata/labels/queue", "value": 1}',
                '{"op": "copy", "from": "/status/queue", "path": "/spec/template"}',
            )
        ),
        *(
            (
                f"workspace.devfile.io/{kind}",
                {"components": [{"name": "a"}, {type_of: {"inlined": "{}"}}]},
                {"components": [{"name": "a"}, {type_of: {"inlined": "kind: Pod"}}]},
                f"spec.components[1].{type_of}.inlined",
                "the object is written as text",
            )
            for kind in ("DevWorkspaceTemplate",)
            for type_of in ("kubernetes", "openshift")
        ),
        *(
            (
                "workspace.devfile.io/DevWorkspaceTemplate",
                {"components": [{"plugin": {"components": [{type_of: {"inlined": "a"}}]}}]},
                {"components": [{"plugin": {"components": [{type_of: {"inlined": "b"}}]}}]},
                f"spec.components[0].plugin.components[0].{type_of}.inlined",
                "the object is written as text",
            )
            for type_of in ("kubernetes", "openshift")
        ),
        *(
            (
                "workspace.devfile.io/DevWorkspace",
                {name: value({"components": [{"kubernetes": {"inlined": "a"}}]})},
                {name: value({"components": [{"kubernetes": {"inlined": "b"}}]})},
                f"spec.{where}.components[0].kubernetes.inlined",
                "the object is written as text",
            )
            for name, where, value in (
                ("template", "template", lambda each: each),
                ("template", "template.parent", lambda each: {"parent": each}),
                ("contributions", "contributions[0]", lambda each: [each]),
                # A plugin may override its components.
                (
                    "template",
                    "template.components[0].plugin",
                    lambda each: {"components": [{"plugin": each}]},
                ),
                (
                    "template",
                    "template.parent.components[0].plugin",
                    lambda each: {"parent": {"components": [{"plugin": each}]}},
                ),
            )
        ),
    ],
)
def test_a_template_that_an_operator_reads_later(
    kind: str, specification: dict[str, Any], other: dict[str, Any], where: str, reason: str
) -> None:
    """Also in an object within another one."""
    thing = {"spec": specification}
    first = required(kind, thing).obstacles[0]
    assert first.where == where
    assert first.message.startswith(reason)
    assert required(kind, thing, thing) == EMPTY
    assert required(kind, {"spec": other}, thing).obstacles
    group, _, name = kind.partition("/")
    component = {"template": {"apiVersion": f"{group}/v1", "kind": name, **thing}}
    wrapper = {"spec": {"components": [component]}}
    found = required("workload.codeflare.dev/AppWrapper", wrapper).obstacles
    assert found[0].where == f"spec.components[0].template.{where}"
    assert required("example.com/Run", thing) == EMPTY


def test_patches_of_other_members_hide_no_names() -> None:
    patches = [
        '{"op": "remove", "path": "/spec/template/spec/domain/devices/interfaces/0/macAddress"}',
        '{"op": "add", "path": "/spec/runStrategy", "value": "Halted"}',
    ]
    for kind in (
        "clone.kubevirt.io/VirtualMachineClone",
        "snapshot.kubevirt.io/VirtualMachineRestore",
    ):
        assert required(kind, {"spec": {"patches": patches}}) == EMPTY


POD_LABELS = labels(kueue="dev")["metadata"]


def test_templates_of_katib_and_kubeflow_pipelines_in_the_object() -> None:
    for kind, template_of in (
        ("Experiment", {"trialTemplate": {"trialSpec": labels(kueue="dev"), "configMap": None}}),
        ("ScheduledWorkflow", {"workflow": {"spec": {"podMetadata": POD_LABELS}}}),
    ):
        found = required(f"kubeflow.org/{kind}", {"spec": template_of})
        assert paths(found) == ["root.namespaces.ml.dev"]


POOL = "kai.scheduler/node-pool"


@pytest.mark.parametrize(
    ("owners", "labels_of_pod", "is_refused"),
    [
        # KAI prefers the project of the owner, which is another object, to that of the pod.
        (OWNED, {POOL: "gpu"}, True),
        (OWNED, {POOL: "gpu", "project": "a"}, True),
        (OWNED, {POOL: "gpu", "kai.scheduler/queue": "dev"}, False),
        (OWNED, {"project": "a"}, False),
        ({}, {POOL: "gpu"}, True),
        ({}, {POOL: "gpu", "project": "a"}, False),
        ({}, {POOL: "gpu", "kai.scheduler/queue": "dev"}, False),
    ],
)
def test_a_node_pool_whose_project_is_unknown(
    owners: dict[str, Any], labels_of_pod: dict[str, str], is_refused: bool
) -> None:
    pod = {"metadata": {**owners, "labels": labels_of_pod}}
    found = required("Pod", pod)
    assert [each.where for each in found.obstacles] == [f'metadata.labels["{POOL}"]'] * is_refused
    assert all("KAI may join the node pool" in each.message for each in found.obstacles)
    # Old objects stay editable. Another owner makes the project unknown anew.
    assert required("Pod", pod, pod) == EMPTY
    moved = required("Pod", {"metadata": {**pod["metadata"], **OTHERS}}, pod)
    has_queue = "kai.scheduler/queue" in labels_of_pod
    assert bool(moved.obstacles) is (POOL in labels_of_pod and not has_queue)
    # The garbage collector removes owners.
    both = [*OWNED["ownerReferences"], *OTHERS["ownerReferences"]]
    shared = {"metadata": {**pod["metadata"], "ownerReferences": both}}
    assert required("Pod", {"metadata": {**pod["metadata"], **OTHERS}}, shared) == EMPTY
    orphan = {"metadata": {"labels": labels_of_pod}}
    assert required("Pod", orphan, {"metadata": {**pod["metadata"], **OWNED}}) == EMPTY
    off = required("Pod", pod, schedulers={"kai": {"project_label": False, "below": "root.kai"}})
    assert off.obstacles == ()


def test_node_pools_in_the_templates_of_an_owned_object() -> None:
    pool = template({"metadata": {"labels": {POOL: "gpu"}}})
    owned = {"metadata": {**OWNED, "labels": {POOL: "cpu"}}, **pool}
    where = f'spec.template.metadata.labels["{POOL}"]'
    for kind in ("apps/Deployment", "ray.io/RayCluster"):
        assert [each.where for each in required(kind, owned).obstacles] == [where]
        assert required(kind, {"metadata": {}, **pool}).obstacles == ()


CONF = "spark.kubernetes.driver.label."
QUEUE_LABEL = "kai.scheduler/queue"
ON_POD = {"metadata": {"labels": {POOL: "gpu"}}}
QUEUED = {POOL: "gpu", QUEUE_LABEL: "dev"}
FLINK = "kubernetes.taskmanager.labels"


@pytest.mark.parametrize(
    ("kind", "value", "where"),
    [
        # The metadata of these kinds becomes that of pods.
        ("tekton.dev/TaskRun", ON_POD, f'metadata.labels["{POOL}"]'),
        ("grove.io/PodClique", ON_POD, f'metadata.labels["{POOL}"]'),
        ("apps/Deployment", ON_POD, None),
        ("x/Y", {"spec": {"sparkConf": {CONF + POOL: "gpu"}}}, f'spec.sparkConf["{CONF}{POOL}"]'),
        (
            "x/Y",
            {"spec": {"sparkConf": {CONF + POOL: "gpu", CONF + QUEUE_LABEL: "dev"}}},
            f'spec.sparkConf["{CONF}{POOL}"]',
        ),
        (
            "x/Y",
            {"flinkConfiguration": {FLINK: f"{POOL}:gpu,{QUEUE_LABEL}:dev"}},
            f'flinkConfiguration["{FLINK}"]',
        ),
        # Operators may copy only some labels, join them, or patch them.
        (
            "x/Y",
            {"template": {"metadata": {"labels": QUEUED}}},
            f'template.metadata.labels["{POOL}"]',
        ),
        ("tekton.dev/TaskRun", {"metadata": {"labels": QUEUED}}, f'metadata.labels["{POOL}"]'),
        ("apps/Deployment", {"spec": {"template": {"metadata": {"labels": QUEUED}}}}, None),
        # Metadata below selectors counts, but not the labels of other objects.
        ("x/Y", {"podselector": ON_POD}, f'podselector.metadata.labels["{POOL}"]'),
        ("x/Y", {"podselector": {"labels": {POOL: "gpu"}}}, None),
    ],
)
def test_node_pools_in_owned_objects(kind: str, value: dict[str, Any], where: str | None) -> None:
    owned = {**value, "metadata": {**value.get("metadata", {}), **OWNED}}
    found = required(kind, owned).obstacles
    assert [each.where for each in found if "node pool" in each.message] == [where] * bool(where)
    assert required(kind, value).obstacles == ()


def test_the_number_of_node_pools_is_bounded() -> None:
    owned = {"metadata": OWNED, "spec": [ON_POD] * (MAX_FOUND + 1)}
    found = required("apps/Deployment", owned).obstacles
    assert [each.where for each in found] == ["the object"]


@pytest.mark.parametrize("scheduler", ["yunikorn", "default-scheduler", None])
@pytest.mark.parametrize("is_processed", [True, False])
@pytest.mark.parametrize("key", ["queue", YUNIKORN])
def test_pods_that_yunikorn_does_not_schedule(
    scheduler: str | None, is_processed: bool, key: str
) -> None:
    """Its label without a prefix means something else there."""
    pod = {"metadata": {"labels": {key: "root.dev"}}, "spec": {"schedulerName": scheduler}}
    found = required("Pod", pod, is_processed=is_processed)
    is_checked = key == YUNIKORN or is_processed or scheduler == "yunikorn"
    assert paths(found) == ["root.dev"] * is_checked
    job = {"spec": {"template": pod}}  # its pods may get another scheduler
    assert paths(required("batch/Job", job, is_processed=is_processed)) == ["root.dev"]
