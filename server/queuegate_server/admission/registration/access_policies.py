"""ValidatingAdmissionPolicies that check queues against Kubernetes RBAC, without a webhook. Pure.

They see the names in an object's own labels and annotations, in the templates of built-in kinds,
and in fields that are not below a list. They require Kubernetes 1.30, which provides `authorizer`
and `variables`.

A question to the authorizer costs 350,000 units; an expression may cost 1,000,000 units, and a
policy 10,000,000 (`apis/cel/config.go` and `cel/library/cost.go` of `k8s.io/apiserver`). Therefore,
each expression asks one question, and a policy asks a bounded number of them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from queuegate.policy.named_grants import KINDS, Kind
from queuegate_server.admission.queues.kinds import RESOURCES
from queuegate_server.admission.queues.listed_kinds import (
    BINDINGS,
    FINALIZE,
    POD_RESOURCES,
    Resource,
    rule,
)
from queuegate_server.admission.queues.model import LOCAL_QUEUES
from queuegate_server.admission.queues.places import KeyPlace, Places, build_places, enforced_mode
from queuegate_server.admission.queues.rbac_names import (
    LEVELS,
    NAMESPACE_PREFIX,
    OF_NAMESPACE,
)
from queuegate_server.admission.registration import conditions
from queuegate_server.admission.registration.annotation_webhooks import API_VERSION
from queuegate_server.admission.registration.configurations import EXCLUDED
from queuegate_server.admission.registration.yaml_writer import COMMENT
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.settings.queue_schedulers import KUEUE, KUEUE_TEMPLATES, Mode

MAX_NAMES: Final = 6
"""How many new names in an object a policy checks: a CronJob has three sets of labels and
annotations. An object with more names is refused.
"""
_SCHEDULERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(KUEUE_TEMPLATES, KUEUE),
    **{level: scheduler for scheduler, level in LEVELS.items()},
}
"""The scheduler for each path level that holds queues."""
_BELOW_LISTS: Final = frozenset(
    {("flow.volcano.sh", "JobFlow"), ("training.volcano.sh", "HyperJob")}
)
"""Kinds in which the field that names the queue is below a list."""
_LINE: Final = ",\n"
_NAMESPACE: Final = "variables.objectNamespace"


def access_policies(
    settings: QueueChecks, rbac: RbacOptions, name: str
) -> Iterator[dict[str, Any]]:
    """Yield a policy and its binding for each kind of queue that the settings check.

    Args:
        settings: The `admission.queues` section of the settings.
        rbac: How RBAC grants access to queues.
        name: The name prefix of all objects.
    """
    places = build_places(settings)
    for kind in KINDS:
        scheduler = _SCHEDULERS.get(kind.level, "")
        mode = places.modes.get(scheduler, Mode.OFF)
        if enforced_mode(settings, places) is not Mode.OFF and mode is not Mode.OFF:
            metadata = {"name": f"{name}-{kind.level}"}
            template = kind.level if scheduler == KUEUE else LOCAL_QUEUES
            yield {
                COMMENT: f"Who may {rbac.verb} {kind.resource}.{kind.group}.",
                "apiVersion": API_VERSION,
                "kind": "ValidatingAdmissionPolicy",
                "metadata": metadata,
                "spec": {
                    "failurePolicy": "Fail" if mode is Mode.DENY else "Ignore",
                    "matchConstraints": _CONSTRAINTS,
                    "matchConditions": conditions.requester(settings),
                    "variables": _variables(_stated(places, scheduler, template)),
                    "validations": [*_validations(kind, rbac)],
                },
            }
            yield {
                "apiVersion": API_VERSION,
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": metadata,
                "spec": {
                    "policyName": metadata["name"],
                    "validationActions": ["Deny" if mode is Mode.DENY else "Warn"],
                },
            }


_CONSTRAINTS: Final = {
    "namespaceSelector": {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [*EXCLUDED]}
        ]
    },
    "resourceRules": [
        rule(["CREATE", "UPDATE"], "*", ["*", "*/status"]),
        rule(["UPDATE"], "", [FINALIZE[1]]),
        rule(["CREATE"], "", [name for _, name in BINDINGS]),
    ],
}


def _variables(stated: str) -> list[dict[str, str]]:
    expressions = {
        "objectNamespace": 'has(request.namespace) ? request.namespace : ""',
        "stated": f"[object, oldObject].map(each, each == null ? [] :\n{stated})",
        "names": 'variables.stated[0].filter(name, name != "" && !(name in variables.stated[1]))',
    }
    return [{"name": name, "expression": text} for name, text in expressions.items()]


def _stated(places: Places, scheduler: str, template: str) -> str:
    """Return an expression for the names in the object `each`."""
    keys = sorted(
        (key, map_name)
        for map_name, by_key in places.keys.items()
        for key, found in by_key.items()
        if template == LOCAL_QUEUES and any(_is_visible(each, scheduler) for each in found)
    )
    parts = []
    if keys:
        parts.append(_values(keys, conditions.METADATA))
        parts.append(_if(POD_RESOURCES, _values(keys, conditions.TEMPLATES)))
    fields: dict[str, list[Resource]] = {}
    for kind, found in places.fields.items():
        for each in found:
            if (each.scheduler, each.template) != (scheduler, template) or kind in _BELOW_LISTS:
                continue
            value = _member(each.path)
            if each.scheduler_field:
                chosen = f"{_member(each.scheduler_field)} in {json.dumps(['', scheduler])}"
                value = f'{chosen} ? {value} : ""'
            fields.setdefault(f"[{value}]", []).append((kind[0], RESOURCES[kind]))
    parts += (_if(sorted(resources), values) for values, resources in fields.items())
    return "\n+ ".join(parts)


def _is_visible(place: KeyPlace, scheduler: str) -> bool:
    """Return whether a value is the name of a scheduler's queue in objects of all kinds."""
    return place.scheduler == scheduler and place.kinds is None and place.groups is None


def _values(keys: Sequence[tuple[str, str]], metadata: Sequence[str]) -> str:
    values = [
        f'each{each}.?{map_name}[?{json.dumps(key)}].orValue("")'
        for each in metadata
        for key, map_name in keys
    ]
    return f"[{_LINE.join(values)}]"


def _member(path: Sequence[str]) -> str:
    return f'each{"".join(f"[?{json.dumps(name)}]" for name in path)}.orValue("")'


def _if(resources: Sequence[Resource], values: str) -> str:
    """Return an expression for values that only objects of some resources have."""
    return f"({conditions.is_resource(map('/'.join, resources))}\n? {values} : [])"


def _validations(kind: Kind, rbac: RbacOptions) -> Iterator[dict[str, str]]:
    for at in range(MAX_NAMES):
        name = f"variables.names[{at}]"
        resource, namespace = json.dumps(kind.resource), _namespace(kind, rbac)
        if kind.level == LEVELS["volcano"]:
            # Volcano 1.16 reads `namespace/NAME` as a NamespaceQueue.
            is_own = f"{name}.startsWith({json.dumps(NAMESPACE_PREFIX)})"
            resource = f"({is_own} ? {json.dumps(OF_NAMESPACE)} : {resource})"
            namespace = f"({is_own} ? {_NAMESPACE} : {namespace})"
            name = f"({is_own} ? {name}.substring({len(NAMESPACE_PREFIX)}) : {name})"
        yield {
            "expression": (
                f"variables.names.size() <= {at} || authorizer.group({json.dumps(kind.group)})\n"
                f".resource({resource})\n.namespace({namespace})\n.name({name})\n"
                f".check({json.dumps(rbac.verb)}).allowed()"
            ),
            "messageExpression": (
                f'request.userInfo.username + " may not {rbac.verb} " + {resource}\n'
                f"+ {json.dumps(f'.{kind.group}/')} + {name}\n"
                f'+ ({namespace} == "" ? "" : " in " + {namespace})\n'
                '+ ": no binding grants it"'
            ),
            "reason": "Forbidden",
        }
    yield {
        "expression": f"variables.names.size() <= {MAX_NAMES}",
        "message": f"the object names queues in more than {MAX_NAMES} places: name them in fewer",
        "reason": "Forbidden",
    }


def _namespace(kind: Kind, rbac: RbacOptions) -> str:
    """Return an expression for the namespace whose RoleBindings count.

    Koordinator's names have no namespace, so the quota with that name may be in any namespace.
    """
    if kind.may_be_namespaced:
        return _NAMESPACE if rbac.namespaced_grants else '""'
    return _NAMESPACE if kind.is_namespaced and kind.level != LEVELS["koordinator"] else '""'
