"""The resources of the kinds that the API server always asks about. Pure.

A rule of a webhook names resources (`jobs`), while objects and settings name kinds (`Job`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from queuegate_server.admission.queues.places import NAMESPACE, POD_KINDS, Kind, Places
from queuegate_server.settings.admission import Mode

Resource = tuple[str, str]
"""An API group, empty for the core group, and the plural name of a resource."""

RESOURCES: Final[Mapping[Kind, str]] = {
    ("", "Namespace"): "namespaces",
    ("", "Pod"): "pods",
    ("", "PodTemplate"): "podtemplates",
    ("", "ReplicationController"): "replicationcontrollers",
    ("apps", "DaemonSet"): "daemonsets",
    ("apps", "Deployment"): "deployments",
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "StatefulSet"): "statefulsets",
    ("batch", "CronJob"): "cronjobs",
    ("batch", "Job"): "jobs",
    ("batch.volcano.sh", "CronJob"): "cronjobs",
    ("batch.volcano.sh", "Job"): "jobs",
    ("flow.volcano.sh", "JobTemplate"): "jobtemplates",
    ("kueue.x-k8s.io", "ClusterQueue"): "clusterqueues",
    ("kueue.x-k8s.io", "Cohort"): "cohorts",
    ("kueue.x-k8s.io", "LocalQueue"): "localqueues",
    ("kueue.x-k8s.io", "Workload"): "workloads",
    ("scheduling.run.ai", "PodGroup"): "podgroups",
    ("scheduling.run.ai", "Queue"): "queues",
    ("scheduling.volcano.sh", "PodGroup"): "podgroups",
    ("scheduling.volcano.sh", "Queue"): "queues",
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): "scheduledsparkapplications",
    ("sparkoperator.k8s.io", "SparkApplication"): "sparkapplications",
}
"""The resource of each kind in the places of the schedulers."""

TEMPLATES: Final[Sequence[Resource]] = (
    ("argoproj.io", "clusterworkflowtemplates"),
    ("argoproj.io", "cronworkflows"),
    ("argoproj.io", "workflows"),
    ("argoproj.io", "workflowtemplates"),
    ("flink.apache.org", "flinkdeployments"),
    ("jobset.x-k8s.io", "jobsets"),
    ("kubeflow.org", "jaxjobs"),
    ("kubeflow.org", "mpijobs"),
    ("kubeflow.org", "paddlejobs"),
    ("kubeflow.org", "pytorchjobs"),
    ("kubeflow.org", "tfjobs"),
    ("kubeflow.org", "xgboostjobs"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets"),
    ("ray.io", "rayclusters"),
    ("ray.io", "rayjobs"),
    ("ray.io", "rayservices"),
    ("sparkoperator.k8s.io", "scheduledsparkapplications"),
    ("sparkoperator.k8s.io", "sparkapplications"),
    ("trainer.kubeflow.org", "trainjobs"),
    ("workload.codeflare.dev", "appwrappers"),
)
"""Custom resources with templates of pods, whose labels a matchCondition cannot search."""

REVISIONS: Final[Resource] = ("apps", "controllerrevisions")
"""Contain templates of StatefulSets and DaemonSets; their data cannot change."""
BINDINGS: Final[Sequence[Resource]] = (("", "bindings"), ("", "pods/binding"))
"""Write their annotations into the pod."""
POD_RESOURCES: Final[Sequence[Resource]] = tuple(
    (kind[0], RESOURCES[kind]) for kind in (*POD_KINDS, NAMESPACE)
)
"""Resources whose labels and annotations are all in places that a matchCondition can name."""


class ListedKinds:
    """The kinds that one of the two webhooks is asked about.

    Args:
        places: The places of the schedulers that the settings list.
    """

    def __init__(self, places: Places) -> None:
        self.searched: list[Resource] = []
        """The resources whose whole specification may name a queue, sorted."""
        self.own: list[Kind] = []
        """The kinds of own places whose resources are unknown, sorted."""
        self.members: list[str] = []
        """The top-level members of objects that may name a queue."""
        searched = set(TEMPLATES)
        members = {"spec"}
        for kind, fields in places.fields.items():
            served = [each for each in fields if places.modes[each.scheduler] is not Mode.OFF]
            if not served:
                continue
            members.update(each.path[0] for each in served)
            if kind in RESOURCES:
                searched.add((kind[0], RESOURCES[kind]))
            else:
                self.own.append(kind)
        self.searched = sorted(searched, key="/".join)
        self.own.sort(key="/".join)
        self.members = sorted(members)

    @property
    def resources(self) -> list[Resource]:
        """All resources, sorted, without subresources."""
        return sorted({*self.searched, *POD_RESOURCES, REVISIONS, ("", "bindings")}, key="/".join)

    def rules(self) -> list[dict[str, list[str]]]:
        """Return the rules of the webhook for listed kinds."""
        by_group: dict[str, list[str]] = {}
        for group, resource in self.resources:
            if resource != "bindings":
                by_group.setdefault(group, []).append(resource)
        rules = []
        own_groups = {group for group, _ in self.own}
        for group in sorted({*by_group, *own_groups}):
            resources = ["*"] if group in own_groups else by_group[group]
            resources = [name for each in resources for name in (each, f"{each}/status")]
            rules.append(rule(["CREATE", "UPDATE"], group, resources))
        rules.append(rule(["UPDATE"], "", ["pods/resize"]))
        rules.append(rule(["CREATE"], "", [name for _, name in BINDINGS]))
        return rules


def rule(operations: list[str], group: str, resources: list[str]) -> dict[str, list[str]]:
    """Return a rule for all versions of resources in a group."""
    return {
        "operations": operations,
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": resources,
    }
