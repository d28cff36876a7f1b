"""AdmissionReviews, as an API server posts them."""

from collections.abc import Mapping, Sequence
from typing import Any


def admission_review(
    user: str,
    thing: Mapping[str, Any],
    *,
    groups: Sequence[str] = ("system:authenticated",),
    namespace: str = "team",
    **request: Any,
) -> dict[str, Any]:
    """Return a review of a new object.

    Args:
        user: The requester.
        thing: The object; a pod unless it names its kind.
        groups: The requester's groups.
        namespace: The namespace of the object.
        request: Other members of the request.
    """
    group, _, version = thing.get("apiVersion", "v1").rpartition("/")
    kind = thing.get("kind", "Pod")
    asked = {
        "uid": "1",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": f"{kind.lower()}s"},
        "namespace": namespace,
        "name": thing.get("metadata", {}).get("name", ""),
        "operation": "CREATE",
        "userInfo": {"username": user, "groups": list(groups)},
        "object": thing,
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
