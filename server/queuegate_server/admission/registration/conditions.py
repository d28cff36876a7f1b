"""The matchConditions of the webhooks for /queues, in CEL. Pure.

The API server evaluates them before it calls a webhook, so that objects that do not name a queue do
not depend on the webhook. They need CEL's optional types, available since Kubernetes 1.29.

The chart combines the same expressions; see `docs/generate/webhooks.py`.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from queuegate_server.admission.queues.kinds import Kind
from queuegate_server.admission.queues.listed_kinds import (
    POD_RESOURCES,
    REVISIONS,
    ListedKinds,
    Resource,
)
from queuegate_server.admission.queues.places import Places
from queuegate_server.admission.queues.positions import ANNOTATIONS, LABELS
from queuegate_server.files.toml import read_toml
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.settings.queue_schedulers import Mode

Condition = dict[str, str]
"""A condition's name and expression."""

_TEMPLATE: Final = ".?spec.?template.?metadata"
METADATA: Final = (".?metadata",)
TEMPLATES: Final = (
    _TEMPLATE,
    f".?spec.?jobTemplate{_TEMPLATE}",
    ".?spec.?jobTemplate.?metadata",
    ".?template.?metadata",
    ".?spec.?metadata",
)
"""The metadata of templates in built-in kinds: workloads, CronJobs, PodTemplates and
ResourceClaimTemplates. In other kinds, these members may have other types, which would cause
errors.
"""
_MAX_LINE: Final = 70
_MAPS: Final = (LABELS, ANNOTATIONS)
_RESOURCE: Final = 'request.resource.group + "/" + request.resource.resource'
_KIND: Final = 'request.kind.group + "/" + request.kind.kind'
REVISION_CREATED: Final = (
    f'request.operation == "CREATE"\n&& {_RESOURCE} == {json.dumps("/".join(REVISIONS))}'
)
UNQUEUED_CREATED: Final = (
    'request.operation == "CREATE" && !has(request.subResource)\n'
    '&& !(request.resource.resource in ["bindings", "namespaces"])'
)
"""An object that may need a queue, although it does not name one, is created."""
CONTENT_CHANGES: Final = (
    "(oldObject == null\n"
    "|| [object, oldObject].exists(either, either.exists(member,\n"
    '!(member == "metadata" || member == "status" && has(request.subResource))\n'
    "&& object[?member] != oldObject[?member])))"
)
"""A member of an object other than its metadata changes. A change to its status is included unless
the status has its own subresource: some operators, such as Argo's, take pod templates from the
status."""
_OWNERS: Final = ".?metadata.?ownerReferences"
OWNERS_CHANGE: Final = (
    f"oldObject != null && object{_OWNERS}.hasValue()\n&& object{_OWNERS} != oldObject{_OWNERS}"
)
"""The owners of an object change, but are not all removed."""

PODLESS_GROUPS: Final[Sequence[str]] = read_toml(__file__, "podless_groups.toml")["groups"]
"""The API groups whose unlisted kinds do not contain pods."""
_SECRETS: Final = "credential|kubeconfig|password|secret|token"
"""Matches the names of resources that hold secrets in any group, such as Rancher's tokens and
kubeconfigs, Pinniped's TokenCredentialRequests, KubeVirt's UploadTokenRequests, and SealedSecrets.
"""
MAY_HOLD_PODS: Final = (
    "!(request.resource.group in [\n"
    + ",\n".join(map(json.dumps, PODLESS_GROUPS))
    + f"])\n&& !request.resource.resource.matches({json.dumps(_SECRETS)})"
)
"""The request is about an unlisted kind that may contain pods, and whose name does not suggest that
it holds secrets.
"""


NOT_A_SECRET: Final[Condition] = {
    "name": "not-a-secret",
    "expression": '!(request.resource.group == "" && request.resource.resource == "secrets")',
}
"""The request is not about a Secret, whose content the webhook must not see."""


def requester(settings: QueueChecks) -> list[Condition]:
    """Return a condition that tests whether the requester is checked.

    CEL matches regular expressions with the same library as Go.
    """
    patterns = [user_matches(pattern) for pattern in (*settings.controllers, *settings.exempt)]
    if not patterns:
        return []
    expression = "\n|| ".join(patterns)
    return [{"name": "the-requester-is-checked", "expression": f"!({expression})"}]


def user_matches(pattern: str) -> str:
    """Return an expression that tests whether a pattern matches the requester's name."""
    return f"request.userInfo.username.matches({json.dumps(pattern, ensure_ascii=False)})"


def is_listed(kinds: ListedKinds) -> str:
    """Return an expression that tests whether a request is about a listed kind."""
    return f"{is_resource(_joined(kinds.resources))}{_or_own(kinds)}"


def is_resource(resources: Iterable[str]) -> str:
    """Return an expression that tests whether a request is about one of the resources."""
    return f"{_RESOURCE} in {_list(resources)}"


def is_kind(kinds: Iterable[str]) -> str:
    """Return an expression that tests whether a request is about one of the kinds."""
    return f"{_KIND} in {_list(kinds)}"


def listed_names_change(settings: QueueChecks, places: Places, kinds: ListedKinds) -> Condition:
    """Return a condition that tests whether the queue names in an object of a listed kind may
    change.
    """
    keys = sorted(_keys(places, bare=True))
    alternatives = []
    if keys:
        alternatives += [
            keys_change(keys, METADATA),
            templates_change(keys),
        ]
    searched = f"({is_resource(_joined(kinds.searched))}{_or_own(kinds)})"
    alternatives.append(f"{searched}\n&& {CONTENT_CHANGES}")
    pools = sorted(_node_pools(places))
    if pools:
        alternatives += [f"{searched}\n&& {OWNERS_CHANGE}", owners_of_pods_change(pools)]
    alternatives += [
        *(status_changes(resource, path) for resource, path in kinds.statuses),
        REVISION_CREATED,
    ]
    if settings.unqueued != "allow":
        alternatives.append(UNQUEUED_CREATED)
    return {"name": "a-queue-may-change", "expression": "\n|| ".join(alternatives)}


def other_names_change(places: Places) -> list[Condition]:
    """Return a condition that tests whether a top-level label or annotation names a new queue; none
    if each key that is checked applies only to certain kinds.
    """
    keys = sorted(_keys(places, bare=False))
    if not keys:
        return []
    return [{"name": "a-queue-changes", "expression": keys_change(keys, METADATA)}]


def unlisted_content_changes(places: Places) -> list[Condition]:
    """Return conditions that test whether an unlisted kind may contain pods, and whether one of its
    objects changes in any way other than by naming a queue itself, which another webhook checks.
    """
    change = f"{CONTENT_CHANGES}\n|| {OWNERS_CHANGE}" if _node_pools(places) else CONTENT_CHANGES
    return [
        {"name": "a-kind-that-may-contain-pods", "expression": MAY_HOLD_PODS},
        *(
            {"name": "no-queue-changes", "expression": f"!({each['expression']})"}
            for each in other_names_change(places)
        ),
        {"name": "the-content-changes", "expression": change},
    ]


def _keys(places: Places, *, bare: bool) -> set[str]:
    """Return the keys of labels and annotations; `bare` includes keys that only certain kinds
    have.
    """
    names: set[str] = set()
    for by_key in places.keys.values():
        for key, found in by_key.items():
            for each in found:
                is_checked = places.modes[each.scheduler] is not Mode.OFF
                if is_checked and (bare or (each.kinds is None and each.groups is None)):
                    names |= {key, each.joined_label}
    return names - {""}


def _node_pools(places: Places) -> set[str]:
    """Return the node pool labels, which KAI joins with the project of an object's owner."""
    return {
        each.joined_label
        for found in places.keys[LABELS].values()
        for each in found
        if each.joined_label and places.modes[each.scheduler] is not Mode.OFF
    }


def keys_change(keys: Sequence[str], metadata: Sequence[str]) -> str:
    """Return an expression that tests whether a key has a new value.

    An absent label counts as an empty label, which does not name a queue.
    """

    def values(root: str) -> str:
        return _values(root, metadata, _MAPS)

    none = _list([""] * (len(metadata) * len(_MAPS)))
    return (
        f"{_list(keys)}.exists(key,\n{values('object')}\n!= (oldObject == null ? {none} :\n"
        f"{values('oldObject')}))"
    )


def templates_change(keys: Sequence[str]) -> str:
    """Return an expression that tests whether a key in a template of a built-in kind has
    changed.
    """
    return f"{is_resource(_joined(POD_RESOURCES))}\n&& {keys_change(keys, TEMPLATES)}"


def owners_of_pods_change(node_pools: Sequence[str]) -> str:
    """Return an expression that tests whether the owners of an object of a built-in kind change,
    and whether the object or a template in it has a node pool label.
    """
    metadata = (*METADATA, *TEMPLATES)
    return (
        f"{is_resource(_joined(POD_RESOURCES))}\n&& {OWNERS_CHANGE}\n"
        f"&& {_list(node_pools)}.exists(key,\n{_values('object', metadata, [LABELS])}\n"
        f'.exists(value, value != ""))'
    )


def status_changes(resource: Resource, path: Sequence[str]) -> str:
    """Return an expression that tests whether a field in a resource's status changes."""
    field = "".join(f"[?{json.dumps(each)}]" for each in path)
    return (
        f"{is_resource(_joined([resource]))}\n"
        f"&& oldObject != null && object{field} != oldObject{field}"
    )


def _values(root: str, metadata: Iterable[str], maps: Sequence[str]) -> str:
    """Return an expression for the list of a key's values in all of an object's metadata."""
    items = [f'{root}{each}.?{name}[?key].orValue("")' for each in metadata for name in maps]
    return "[" + ",\n".join(items) + "]"


def _or_own(kinds: ListedKinds) -> str:
    return f"\n|| {is_kind(_joined(kinds.own))}" if kinds.own else ""


def _joined(pairs: Iterable[Kind]) -> list[str]:
    return ["/".join(pair) for pair in pairs]


def _list(texts: Iterable[str]) -> str:
    """Return a list in CEL, with one line per item if it is long."""
    items = [json.dumps(text, ensure_ascii=False) for text in texts]
    line = ", ".join(items)
    return f"[{line}]" if len(line) <= _MAX_LINE else "[" + ",\n".join(items) + "]"
