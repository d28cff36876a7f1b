"""Adds what YuniKorn's own admission controller adds to new pods, besides the user annotation.
Pure.

Follows yunikorn-k8shim's pkg/admission: `processPod`, `updateSchedulerName`, `updateLabels` and
`disableYuniKorn` in admission_controller.go, `updatePodLabel` in util.go, and
`GenerateApplicationID` in pkg/common/utils/utils.go. It differs in two ways:

- Where YuniKorn's controller marks a pod as ignored, it replaces the annotations that it has just
  added, so the pod loses its user. Here the pod gets both annotations.
- YuniKorn's controller also copies `yunikorn.apache.org/allow-preemption` from the PriorityClass
  (`updatePreemptionInfo`). The scheduler reads the PriorityClass itself if a pod lacks the
  annotation (`isPreemptSelfAllowed` in pkg/cache/task.go), so it is not copied here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final

from queuegate_server.admission.annotations.rules import (
    DEFAULT_NAMESPACE,
    UPDATE,
    AdmissionRequest,
    Scope,
    concerns,
)
from queuegate_server.admission.annotations.workloads import (
    APPLICATION_ID,
    POD,
    PodMetadata,
    pod_metadata,
)
from queuegate_server.admission.annotations.yunikorn_settings import YuniKornSettings
from queuegate_server.admission.server.review import AdmissionResponse

SCHEDULER: Final = "yunikorn"
_OLD_KEYS: Final = {APPLICATION_ID: "applicationId", "yunikorn.apache.org/queue": "queue"}
_IGNORED_PATH: Final = "/metadata/annotations/yunikorn.apache.org~1ignore-application"
_MAX_ID: Final = 63
"""The maximum length of a label value."""
_MAX_NAMESPACE: Final = 26
_UNIQUE: Final = "-uniqueautogen"
"""The suffix that the scheduler replaces with the pod's UID, which is not yet known at admission.
"""


def add_duties(
    request: AdmissionRequest,
    settings: YuniKornSettings,
    namespace_annotations: Mapping[str, str],
    response: AdmissionResponse,
) -> AdmissionResponse:
    """Return the response, after adding to its patch what YuniKorn needs.

    Only new pods are changed, except YuniKorn's own pods and pods in namespaces that are not
    processed.

    Args:
        request: The request.
        settings: The settings in the ConfigMaps.
        namespace_annotations: The annotations of the request's namespace, or empty if unknown.
        response: The response of `rules.decide` to the request.
    """
    is_new_pod = concerns(request) and request.kind == POD and request.operation != UPDATE
    if not response.allowed or not is_new_pod:
        return response
    scope = Scope(request, settings, namespace_annotations)
    pod = pod_metadata(POD, request.new)
    if not scope.adds_to_pod(pod):
        return response
    # Each of these pods has the annotation or gets it from the patch, so the parents of the paths
    # exist.
    patch = [*response.patch, {"op": "add", "path": "/spec/schedulerName", "value": SCHEDULER}]
    if scope.is_labelled():
        namespace = request.namespace or DEFAULT_NAMESPACE
        labels = _labels(pod, namespace, is_unique=settings.generate_unique_app_id)
        if labels != pod.labels:
            patch.append({"op": "add", "path": "/metadata/labels", "value": labels})
    else:
        patch.append({"op": "add", "path": _IGNORED_PATH, "value": "true"})
    return dataclasses.replace(response, patch=tuple(patch))


def _labels(pod: PodMetadata, namespace: str, *, is_unique: bool) -> dict[str, str]:
    """Return a pod's labels, adding an application ID if it has none.

    Labels that YuniKorn has renamed are also set under their old keys, for versions up to 1.5.
    """
    labels = dict(pod.labels)
    if not pod.has_application_id:
        labels[APPLICATION_ID] = application_id(namespace, is_unique=is_unique)
    for key, old_key in _OLD_KEYS.items():
        if value := labels.get(key):
            labels[old_key] = value
    return labels


def application_id(namespace: str, *, is_unique: bool) -> str:
    """Return the application ID for pods that have none.

    Args:
        namespace: The pod's namespace.
        is_unique: Whether each pod becomes its own application, instead of all pods in the
            namespace forming a single one.
    """
    if is_unique:
        return f"{namespace[:_MAX_NAMESPACE]}{_UNIQUE}"
    return f"{SCHEDULER}-{namespace}-autogen"[:_MAX_ID]
