"""Roles and bindings of bob, and what the API server's authorizer says about him."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.e2e.kube.account import RBAC
from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.reviews import created

_API: Final = "rbac.authorization.k8s.io"
_CREATOR: Final = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["create", "get", "update"]}
"""All that bob may do, which is no use of a queue."""


def let_bob_create(api: ApiServer) -> None:
    """Let bob create and change all objects."""
    create(api, "ClusterRole", {"metadata": {"name": "creator"}, "rules": [_CREATOR]})
    create(api, "ClusterRoleBinding", binding("creator"))


@contextmanager
def granted(api: ApiServer, asked: dict[str, str], namespace: str) -> Iterator[None]:
    """Let bob use a queue in a block, in a namespace or, if it is empty, in the cluster."""
    rule = {
        "apiGroups": [asked["group"]],
        "resources": [asked["resource"]],
        "resourceNames": [asked["name"]],
        "verbs": ["use"],
    }
    role = create(api, "ClusterRole", {"metadata": {"name": "use-it"}, "rules": [rule]})
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    bound = create(api, kind, binding("use-it", namespace))
    try:
        yield
    finally:
        for path in (bound, role):
            created(api.ask("admin", "DELETE", path))


def binding(name: str, namespace: str = "", user: str = "bob") -> dict[str, Any]:
    """Return a binding of a user to the ClusterRole with the same name."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    reference = {"apiGroup": _API, "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": _API, "kind": "User", "name": user}
    return {"metadata": metadata, "roleRef": reference, "subjects": [subject]}


def create(api: ApiServer, kind: str, content: Any) -> str:
    """Create an RBAC object as the administrator. Returns its path."""
    namespace = content["metadata"].get("namespace")
    above = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    created(api.ask("admin", "POST", f"{above}/{kind.lower()}s", content))
    return f"{above}/{kind.lower()}s/{content['metadata']['name']}"


def can_i(api: ApiServer, attributes: dict[str, str]) -> bool:
    review = {"spec": {"user": "bob", "resourceAttributes": {"verb": "use", **attributes}}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    allowed: bool = created(api.ask("admin", "POST", path, review))["status"]["allowed"]
    return allowed
