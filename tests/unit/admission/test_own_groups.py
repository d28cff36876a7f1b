"""The rules with a directory's groups: what is written, and which annotations are accepted."""

from typing import Any

import pytest

from queuegate.user_info import ANNOTATION
from queuegate_server.admission.annotations.rules import (
    UNKNOWN_GROUPS,
    AdmissionRequest,
    GroupsNeeded,
    OwnGroups,
    decide,
    verify,
)
from queuegate_server.admission.annotations.yunikorn_settings import read_settings
from tests.support.rows import rows

SETTINGS = read_settings(
    {
        "admissionController.accessControl.externalUsers": "^portal$",
        "admissionController.filtering.noLabelNamespaces": "^dev$",
    }
)
DIRECTORY = OwnGroups(("data-science",), frozenset({("data-science",), ("old", "data-science")}))
KUBERNETES = ("system:authenticated", "secret")
APP_ID = "yunikorn.apache.org/app-id"


def pod(annotation: str | None = None, **labels: str) -> dict[str, Any]:
    annotations = {} if annotation is None else {ANNOTATION: annotation}
    return {"metadata": {"annotations": annotations, "labels": labels}}


def request(kind: str, new: Any, old: Any = None, user: str = "ann") -> AdmissionRequest:
    operation = "CREATE" if old is None else "UPDATE"
    return AdmissionRequest(kind, operation, "dev", user, KUBERNETES, new, old)


def test_the_groups_of_the_directory_are_written() -> None:
    response = decide(request("Pod", pod()), SETTINGS, {}, DIRECTORY)
    (operation,) = response.patch
    expected = '{"user":"ann","groups":["data-science"]}'
    assert operation["value"][ANNOTATION] == expected


@rows
def test_a_created_pod_is_verified(annotation: str | None, message: str) -> None:
    """Only a group that the object itself lists is named."""
    response = verify(request("Pod", pod(annotation)), SETTINGS, {}, DIRECTORY)
    assert response.allowed == (not message)
    assert message in response.message
    if "lists the group" in message:
        assert "data-science" not in response.message
        assert "old" not in response.message
        assert "secret" not in response.message


def test_nobody_writes_an_annotation_of_their_own() -> None:
    """Not even the right one, as with the groups of the request."""
    own = '{"user":"ann","groups":["data-science"]}'
    assert not decide(request("Pod", pod(own)), SETTINGS, {}, DIRECTORY).allowed


BEFORE = '{"user":"ann","groups":["old","data-science"]}'
TEMPLATE = {"spec": {"template": pod(BEFORE, **{APP_ID: "a"})}}
NO_APPLICATION = {"spec": {"template": pod()}}


@pytest.mark.parametrize(
    ("own", "allowed"), [(DIRECTORY, True), (OwnGroups(("dev",), frozenset({("dev",)})), False)]
)
def test_a_workload_joins_an_application(own: OwnGroups, allowed: bool) -> None:
    """Groups that the user had before are accepted, and others are not."""
    joining = request("Deployment", TEMPLATE, NO_APPLICATION)
    response = verify(joining, SETTINGS, {}, own)
    assert response.allowed == allowed


@rows
def test_a_revision(data: object, allowed: bool) -> None:
    revision = {"data": {"spec": {"template": {"metadata": {"annotations": {ANNOTATION: data}}}}}}
    response = verify(request("ControllerRevision", revision), SETTINGS, {}, DIRECTORY)
    assert response.allowed == allowed


@pytest.mark.parametrize(
    ("asked", "needed"),
    [
        (request("Pod", pod()), True),
        (request("Pod", pod('{"user":"eve"}')), False),
        (request("Pod", pod('{"user":"eve"}'), user="portal"), False),
        (request("Pod", pod(), pod()), False),
        (request("Deployment", NO_APPLICATION, NO_APPLICATION), False),
        (request("Deployment", {"spec": {"template": pod(**{APP_ID: "a"})}}), True),
        (request("Service", {}), False),
        (request("Binding", pod()), False),
        (request("ControllerRevision", {"data": {}}), False),
    ],
)
def test_groups_are_looked_up_only_if_the_decision_depends_on_them(
    asked: AdmissionRequest, needed: bool
) -> None:
    if needed:
        with pytest.raises(GroupsNeeded):
            decide(asked, SETTINGS, {}, UNKNOWN_GROUPS)
    else:
        decided = decide(asked, SETTINGS, {}, UNKNOWN_GROUPS)
        assert decided == decide(asked, SETTINGS, {}, DIRECTORY) == decide(asked, SETTINGS, {})
