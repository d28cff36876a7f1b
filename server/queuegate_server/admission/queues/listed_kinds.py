"""The resources of the kinds that the API server always asks the webhook about. Pure.

A rule of a webhook names resources (`jobs`), while objects and settings name kinds (`Job`).

The rules contain the subresources that can write labels, annotations or a field that is searched
(`PrepareForUpdate` of each strategy in `kube-apiserver`): `status` of all kinds; `finalize` of
Namespaces, which restores only the status; and `binding` of pods, whose metadata becomes the pod's.
They do not contain `resize` and `ephemeralcontainers`, which restore the pod's metadata; `scale`,
`eviction` and `token`, whose objects are of other kinds; and `exec`, `attach`, `portforward`,
`proxy` and `log`, which do not write an object.
"""

from collections.abc import Sequence
from typing import Final

from queuegate_server.admission.queues.kinds import (
    NAMESPACE,
    POD_KINDS,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCES,
    TEMPLATE_KINDS,
    WORKLOAD_KINDS,
    Kind,
)
from queuegate_server.admission.queues.places import FieldPlace, Places
from queuegate_server.settings.queue_schedulers import Mode

Resource = tuple[str, str]
"""An API group, empty for the core group, and the plural name of a resource."""

TEMPLATES: Final[Sequence[Resource]] = tuple(
    sorted(
        ((kind[0], RESOURCES[kind]) for kind in (*WORKLOAD_KINDS, *TEMPLATE_KINDS)), key="/".join
    )
)
"""Custom resources with pod templates, whose labels a matchCondition cannot search."""

REVISIONS: Final[Resource] = ("apps", "controllerrevisions")
"""Objects with the templates of StatefulSets and DaemonSets. Their data cannot change."""
BINDINGS: Final[Sequence[Resource]] = (("", "bindings"), ("", "pods/binding"))
"""Objects whose annotations are written into the pod."""
FINALIZE: Final[Resource] = ("", "namespaces/finalize")
"""The subresource that writes a Namespace's labels and annotations."""
_STATUS: Final = "status"
POD_RESOURCES: Final[Sequence[Resource]] = tuple(
    (kind[0], RESOURCES[kind]) for kind in (*POD_KINDS, NAMESPACE, RESOURCE_CLAIM_TEMPLATE)
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
        """The kinds of custom places whose resources are unknown, sorted."""
        self.statuses: list[tuple[Resource, tuple[str, ...]]] = []
        """Status fields that name a queue, sorted. They change far less often than other status
        fields.
        """
        searched = set(TEMPLATES)
        for kind, fields in places.fields.items():
            served = [each for each in fields if places.modes[each.scheduler] is not Mode.OFF]
            if not served:
                continue
            self.statuses += [
                ((kind[0], RESOURCES[kind]), each.path) for each in served if in_status(each)
            ]
            if kind in RESOURCES:
                searched.add((kind[0], RESOURCES[kind]))
            else:
                self.own.append(kind)
        self.searched = sorted(searched, key="/".join)
        self.own.sort(key="/".join)
        self.statuses.sort()

    @property
    def resources(self) -> list[Resource]:
        """All resources, sorted, without subresources."""
        return sorted({*self.searched, *POD_RESOURCES, REVISIONS, ("", "bindings")}, key="/".join)

    def includes(self, kind: Kind) -> bool:
        """Return whether the webhook is asked about each object of a kind whose template or field
        names a queue.
        """
        resource = RESOURCES.get(kind)
        return kind in self.own or (resource is not None and (kind[0], resource) in self.resources)

    def rules(self) -> list[dict[str, list[str] | str]]:
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
        rules.append(rule(["UPDATE"], "", [FINALIZE[1]]))
        rules.append(rule(["CREATE"], "", [name for _, name in BINDINGS]))
        return rules


def in_status(place: FieldPlace) -> bool:
    """Return whether a field is part of a built-in kind's status. Only a scheduler writes it."""
    return place.path[0] == _STATUS and place.kind in RESOURCES


def rule(operations: list[str], group: str, resources: list[str]) -> dict[str, list[str] | str]:
    """Return a rule for all versions of resources in a group."""
    return {
        "operations": operations,
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": resources,
        # The default. If it were absent, `kubectl diff` would always show a change.
        "scope": "*",
    }
