"""What YuniKorn's own admission controller adds to pods, and that a second pass adds nothing."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from queuegate.user_info import ANNOTATION
from queuegate_server.admission.annotations.requests import read_review
from queuegate_server.admission.annotations.rules import AdmissionRequest, decide
from queuegate_server.admission.annotations.workloads import METADATA
from queuegate_server.admission.annotations.yunikorn_duties import add_duties, application_id
from queuegate_server.admission.annotations.yunikorn_settings import read_settings
from queuegate_server.admission.server.review import AdmissionResponse
from tests.support.admission_reviews import admission_review
from tests.support.rows import rows

FILTER = "admissionController.filtering."
VALUES = {
    f"{FILTER}bypassNamespaces": "^kube-system$",
    f"{FILTER}noLabelNamespaces": "^nolabel$",
    "admissionController.accessControl.externalUsers": "^portal$",
}
SETTINGS = read_settings(VALUES)
UNIQUE = read_settings({**VALUES, f"{FILTER}generateUniqueAppId": "true"})
APP_ID, QUEUE = "yunikorn.apache.org/app-id", "yunikorn.apache.org/queue"
GENERATED = {APP_ID: "yunikorn-dev-autogen", "applicationId": "yunikorn-dev-autogen"}
IGNORED = {"yunikorn.apache.org/ignore-application": "true"}
OWN = {ANNOTATION: '{"user":"bob"}'}
Strings = Mapping[str, str]


def respond(
    pod: Any,
    namespace: str = "dev",
    annotations: Strings | None = None,
    *,
    user: str = "bob",
    unique: bool = False,
    operation: str = "CREATE",
) -> AdmissionResponse:
    old = pod if operation == "UPDATE" else None
    request = AdmissionRequest("Pod", operation, namespace, user, (), pod, old)
    settings = UNIQUE if unique else SETTINGS
    response = decide(request, settings, annotations or {})
    return add_duties(request, settings, annotations or {}, response)


def changed(pod: dict[str, Any], *arguments: Any, **options: Any) -> dict[str, Any]:
    response = respond(pod, *arguments, **options)
    assert response.allowed, response.message
    result: dict[str, Any] = jsonpatch.apply_patch(copy.deepcopy(pod), list(response.patch))
    return result


def pod_of(labels: Strings | None = None, annotations: Strings | None = None) -> dict[str, Any]:
    metadata = {"labels": labels, "annotations": annotations}
    given = {key: dict(value) for key, value in metadata.items() if value is not None}
    return {"metadata": given, "spec": {"schedulerName": "default-scheduler"}}


@rows
def test_labels(labels: Strings | None, annotations: Strings | None, added: Strings) -> None:
    """As `updatePodLabel` in yunikorn-k8shim's pkg/admission/util.go."""
    pod = changed(pod_of(labels, annotations))
    assert pod["metadata"].get("labels", {}) == {**(labels or {}), **added}
    assert pod["metadata"]["annotations"] == {**(annotations or {}), **OWN}
    assert pod["spec"] == {"schedulerName": "yunikorn"}


@rows
def test_application_ids(namespace: str, unique: bool, expected: str) -> None:
    """As `GenerateApplicationID` in yunikorn-k8shim's pkg/common/utils/utils.go."""
    assert application_id(namespace, is_unique=unique) == expected
    labels = changed(pod_of(), namespace, unique=unique)["metadata"]["labels"]
    assert labels == {APP_ID: expected, "applicationId": expected}


@rows
def test_namespaces(namespace: str, stated: Strings, scheduled: bool, labelled: bool) -> None:
    """As `shouldProcessNamespace`, `shouldLabelNamespace` and `disableYuniKorn` in
    yunikorn-k8shim's pkg/admission/admission_controller.go, except that an ignored pod keeps its
    user.
    """
    before = pod_of({"team": "a"}, {"other": "x"})
    pod = changed(before, namespace, stated)
    if not scheduled:
        assert pod == before
        return
    assert pod["spec"]["schedulerName"] == "yunikorn"
    assert (APP_ID in pod["metadata"]["labels"]) == labelled
    ignored: Strings = {} if labelled else IGNORED
    assert pod["metadata"]["annotations"] == {"other": "x", **OWN, **ignored}


def test_other_objects_are_left_alone() -> None:
    """The scheduler's own pods, updates, workloads, and everything that is refused."""
    own = pod_of({"app": "yunikorn"})
    assert changed(own) == own
    assert respond(pod_of(annotations=OWN), operation="UPDATE").patch == ()
    for kind in METADATA.keys() - {"Pod"}:
        request = AdmissionRequest(kind, "CREATE", "dev", "bob", (), {})
        response = decide(request, SETTINGS, {})
        assert add_duties(request, SETTINGS, {}, response) is response
    forged = respond(pod_of(annotations={ANNOTATION: '{"user":"eve"}'}))
    assert (forged.allowed, forged.patch) == (False, ())
    broken = respond("no object")
    assert (broken.allowed, broken.patch) == (False, ())


def test_a_pod_without_metadata() -> None:
    pod = changed({"spec": {}})
    assert pod["metadata"] == {"labels": GENERATED, "annotations": OWN}


def test_an_annotation_that_a_trusted_user_set_is_kept() -> None:
    pod = changed(pod_of(annotations={ANNOTATION: '{"user":"eve"}'}), user="portal")
    assert pod["metadata"]["annotations"] == {ANNOTATION: '{"user":"eve"}'}
    assert pod["metadata"]["labels"] == GENERATED


KEYS = st.sampled_from([APP_ID, "applicationId", "spark-app-selector", QUEUE, "queue", "app", "x"])
LABELS = st.none() | st.dictionaries(KEYS, st.sampled_from(["", "a", "b", "yunikorn"]))
NAMESPACES = st.sampled_from(["dev", "nolabel", "kube-system", "n" * 63])


@given(LABELS, st.none() | st.dictionaries(KEYS, st.just("a")), NAMESPACES, st.booleans())
def test_a_second_pass_changes_nothing(
    labels: Strings | None, annotations: Strings | None, namespace: str, unique: bool
) -> None:
    pod = pod_of(labels, annotations)
    once = changed(pod, namespace, unique=unique)
    assert changed(once, namespace, unique=unique, user="portal") == once
    # Neither pass removes what the user wrote, except for names under old keys.
    kept = {
        key: value
        for key, value in (labels or {}).items()
        if key not in {APP_ID, "applicationId", "queue"}
    }
    assert kept.items() <= once["metadata"].get("labels", {}).items()
    assert (annotations or {}).items() <= once["metadata"].get("annotations", {}).items()


def test_reviews_of_the_api_server_are_decoded_far_enough() -> None:
    review = admission_review("bob", pod_of({"team": "a"}), namespace="dev")
    request = read_review(json.dumps(review).encode())
    response = add_duties(request, SETTINGS, {}, decide(request, SETTINGS, {}))
    paths = [operation["path"] for operation in response.patch]
    assert paths == ["/metadata/annotations", "/spec/schedulerName", "/metadata/labels"]
