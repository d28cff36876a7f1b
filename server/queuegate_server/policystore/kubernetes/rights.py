"""The rights that an account needs to follow a cluster, and no others."""

from typing import Any, Final

from queuegate_server.policystore.kubernetes.resource_watch import QUEUE_RESOURCES, RBAC_RESOURCES

_VERBS: Final = ("list", "watch")
_API: Final = "rbac.authorization.k8s.io"


def documents(name: str, namespace: str, account: str) -> list[dict[str, Any]]:
    """Return a ClusterRole with these rights, and its binding.

    Args:
        name: The name of both objects.
        namespace: The namespace of the service account.
        account: The name of the service account.
    """
    resources: dict[str, list[str]] = {}
    for each in (*RBAC_RESOURCES, *QUEUE_RESOURCES):
        resources.setdefault(each.group, []).append(each.name)
    rules = [
        {"apiGroups": [group], "resources": sorted(names), "verbs": [*_VERBS]}
        for group, names in resources.items()
    ]
    version = {"apiVersion": f"{_API}/v1"}
    return [
        {**version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            **version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": _API, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    ]
