"""Minimal definitions of schedulers' and operators' resources, which accept any fields."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.reviews import created
from tests.support.eventually import eventually
from tests.support.rows import table


class Resource(NamedTuple):
    """A custom resource."""

    group: str
    kind: str
    plural: str
    version: str = "v1"
    is_namespaced: bool = True
    has_status: bool = True
    """Whether the status is a subresource. If not, everybody who may change the object may change
    its status."""


RESOURCES: Sequence[Resource] = tuple(Resource(**each) for each in table(__file__, "RESOURCES"))


def define(cluster: ApiServer, resources: Sequence[Resource] = RESOURCES) -> None:
    """Define resources, and wait until the API server serves them."""
    for each in resources:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        created(cluster.ask("admin", "POST", path, _definition(each)))
    for each in resources:
        path = f"/apis/{each.group}/{each.version}/{each.plural}"
        eventually(lambda path=path: cluster.ask("admin", "GET", path).status_code, 200)  # type: ignore[misc]


def _definition(resource: Resource) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            # The API server requires it for groups of the Kubernetes project.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.is_namespaced else "Cluster",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                    "subresources": {"status": {}} if resource.has_status else {},
                }
            ],
        },
    }
