"""Configurations of the webhooks that handle YuniKorn's user annotation and ConfigMaps. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from queuegate.user_info import ANNOTATION
from queuegate_server.admission.registration.yaml_writer import COMMENT

API_VERSION: Final = "admissionregistration.k8s.io/v1"
TIMEOUT_SECONDS: Final = 5
_CONFIGURATION_TIMEOUT_SECONDS: Final = 10
"""The API server's default. Longer than for pods, because a large configuration takes longer."""
QUEUES_SUFFIX: Final = "-queues"
"""The suffix for the name of the webhook configuration for /queues."""
_DOMAIN: Final = "queuegate.yunikorn.apache.org"
_USER_LABEL: Final = "yunikorn.apache.org/username"
_APPS: Final = ["deployments", "replicasets", "daemonsets", "statefulsets"]
_JOBS: Final = ["jobs", "cronjobs"]
_CREATE: Final = ["CREATE"]
_UPDATE: Final = ["UPDATE"]
_BOTH: Final = ["CREATE", "UPDATE"]
_ABOUT: Final = """\
Failure policy Fail, whatever the modes of admission.queues are: an object that cannot be checked is
not created. With Ignore, anyone could name any user during an outage. With admission.queues, these
configurations exist only if the settings have admission.user_info or admission.yunikorn.enabled.
So that the cluster can start without the webhook:
  - the API server does not call it for kube-system and its own namespace;
  - updates of pods' status and bindings, which kubelets and schedulers make, are only reviewed if
    they change the annotation or the user label.
Timeout 5 s: an API request does not wait longer for the webhook."""


def annotation_configurations(
    name: str,
    client_config: Callable[[str], Mapping[str, Any]],
    selector: Mapping[str, Any],
    namespace: str,
) -> list[dict[str, Any]]:
    """Return the configurations for /mutate, /validate and /validate-conf.

    Args:
        name: The name of both configurations.
        client_config: Returns how the API server reaches a path.
        selector: Selects the namespaces whose objects are reviewed.
        namespace: The scheduler's namespace, which is also the webhook's.
    """

    def webhook(prefix: str, path: str) -> dict[str, Any]:
        return {
            "name": f"{prefix}.{_DOMAIN}",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "matchPolicy": "Equivalent",
            "clientConfig": client_config(path),
            "namespaceSelector": selector,
        }

    mutate = {
        COMMENT: "In a second call, it would mistake its own annotation for one from the user.",
        **webhook("mutate", "/mutate"),
        "reinvocationPolicy": "Never",
        "rules": [
            _rule(_CREATE, "", ["pods"]),
            _rule(_BOTH, "", ["replicationcontrollers"]),
            _rule(_BOTH, "apps", _APPS),
            _rule(_BOTH, "batch", _JOBS),
        ],
    }
    validate = {
        COMMENT: "Runs after all mutating webhooks, including those of others.",
        **webhook("validate", "/validate"),
        "rules": [
            _rule(_BOTH, "", ["pods", "replicationcontrollers"]),
            _rule(_BOTH, "apps", _APPS),
            _rule(_BOTH, "batch", _JOBS),
            {
                COMMENT: "The controller of a StatefulSet creates pods from the template in a "
                "revision.",
                **_rule(_BOTH, "apps", ["controllerrevisions"]),
            },
        ],
    }
    subresources = {
        COMMENT: "These also write a pod's annotations and labels: an update of the status carries "
        "them, and a binding\nadds its own. If USER_LABEL_KEY names another label, name it in the "
        "condition as well.",
        **webhook("subresources", "/validate"),
        "matchConditions": [{"name": "the-user-changes", "expression": _user_changes()}],
        "rules": [
            _rule(_UPDATE, "", ["pods/status", "pods/resize", "pods/ephemeralcontainers"]),
            _rule(_CREATE, "", ["pods/binding", "bindings"]),
        ],
    }
    configuration = {
        COMMENT: "The scheduler's configuration. An outage of the webhook must not keep anyone "
        "from repairing it.",
        **webhook("configuration", "/validate-conf"),
        "failurePolicy": "Ignore",
        "timeoutSeconds": _CONFIGURATION_TIMEOUT_SECONDS,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "matchConditions": [
            {
                "name": "scheduler-configmaps",
                "expression": 'request.name in ["yunikorn-configs", "yunikorn-defaults"]',
            }
        ],
        "rules": [_rule(_BOTH, "", ["configmaps"])],
    }
    return [
        {
            COMMENT: f"{_ABOUT}\n{emergency_command(name)}",
            **_configuration("MutatingWebhookConfiguration", name, [mutate]),
        },
        _configuration(
            "ValidatingWebhookConfiguration", name, [validate, subresources, configuration]
        ),
    ]


def emergency_command(name: str) -> str:
    """Return a comment with the command that deletes all configurations with the given name."""
    return (
        "To delete everything that queuegate registers, in an emergency:\n"
        "  kubectl delete --ignore-not-found "
        "mutatingwebhookconfiguration,validatingwebhookconfiguration "
        f"{name} {name}{QUEUES_SUFFIX}"
    )


def _configuration(kind: str, name: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": webhooks,
    }


def _rule(operations: list[str], group: str, resources: list[str]) -> dict[str, Any]:
    return {
        "operations": operations,
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "resources": resources,
        "scope": "Namespaced",
    }


def _user_changes() -> str:
    places = (("annotations", ANNOTATION), ("labels", _USER_LABEL))
    return "\n|| ".join(
        f"{_value('object', 'has(', name, key)}\n"
        f"!= {_value('oldObject', 'oldObject != null && has(', name, key)}"
        for name, key in places
    )


def _value(root: str, start: str, name: str, key: str) -> str:
    """Return the expression for a label or annotation; empty if it is absent."""
    entries = f"{root}.metadata.{name}"
    return f'({start}{entries})\n&& "{key}" in {entries}\n? {entries}["{key}"] : "")'
