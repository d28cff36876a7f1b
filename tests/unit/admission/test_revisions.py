"""A ControllerRevision that somebody recreates names nobody else.

A StatefulSet's controller, whom the webhook trusts, makes pods of the template in it.
"""

import json
from typing import Any

import pytest

from queuegate.user_info import ANNOTATION
from queuegate_server.admission.annotations.requests import read_review
from queuegate_server.admission.annotations.rules import decide, verify
from queuegate_server.admission.annotations.yunikorn_settings import read_settings
from queuegate_server.admission.server.webhook_limits import (
    MAX_REVISION_BYTES,
    MAX_REVISION_ENTRIES,
)
from tests.support.admission_reviews import admission_review
from tests.support.rows import rows

LABEL = "yunikorn.apache.org/username"
SETTINGS = read_settings({"admissionController.accessControl.externalUsers": "^backup$"})
CONTROLLER = "system:serviceaccount:kube-system:statefulset-controller"
FORGED = {ANNOTATION: '{"user":"root"}'}
OWN = {ANNOTATION: '{"user":"mallory"}'}


def template(annotations: Any = None, labels: Any = None) -> dict[str, Any]:
    metadata = {"labels": labels or {"app": "db"}, "annotations": annotations or {}}
    return {"spec": {"template": {"$patch": "replace", "metadata": metadata, "spec": {}}}}


def answer(
    rule: Any, data: Any, old: Any = None, *, user: str = "mallory", operation: str = ""
) -> Any:
    """Decide the request as it arrives, as bytes."""
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1}
    new = {**revision, "data": data}
    before = None if old is None else {**revision, "data": old}
    operation = operation or ("CREATE" if old is None else "UPDATE")
    review = admission_review(user, new, groups=[], oldObject=before, operation=operation)
    return rule(read_review(json.dumps(review).encode()), SETTINGS, {})


@pytest.mark.parametrize("rule", [decide, verify])
@rows
def test_a_foreign_name_is_refused(rule: Any, data: Any) -> None:
    response = answer(rule, data)
    assert not response.allowed
    is_label = LABEL in json.dumps(data)
    what = f"the label {LABEL} to another user" if is_label else "user annotation"
    assert f"is not allowed to set {what}" in response.message
    for user in (CONTROLLER, "backup"):
        trusted = answer(rule, data, user=user)
        assert (trusted.allowed, trusted.patch) == (True, ())


@pytest.mark.parametrize("rule", [decide, verify])
@pytest.mark.parametrize(
    "data", [template(), template(OWN), template(labels={LABEL: "mallory"}), {}, None, 7, "x", []]
)
def test_others_are_allowed_as_they_are(rule: Any, data: Any) -> None:
    response = answer(rule, data)
    assert (response.allowed, response.patch) == (True, ())


@pytest.mark.parametrize("rule", [decide, verify])
def test_an_update_brings_no_name(rule: Any) -> None:
    forged = template(FORGED)
    assert answer(rule, forged, forged).allowed
    assert answer(rule, template(), forged).allowed
    assert not answer(rule, forged, template()).allowed
    assert answer(rule, forged, operation="DELETE").allowed


@pytest.mark.parametrize("rule", [decide, verify])
@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"text": "x" * MAX_REVISION_BYTES}, f"longer than {MAX_REVISION_BYTES} bytes"),
        ({"lists": [[]] * MAX_REVISION_ENTRIES}, f"more than {MAX_REVISION_ENTRIES} entries"),
    ],
)
def test_a_large_revision_is_for_controllers(rule: Any, more: Any, fault: str) -> None:
    data = template(more)
    response = answer(rule, data)
    assert not response.allowed
    assert fault in response.message
    assert answer(rule, data, user=CONTROLLER).allowed
