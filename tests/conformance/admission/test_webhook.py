"""Every admission vector through the real HTTPS endpoint."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.admission_vectors import CASES, DEFAULTS, assert_expected, body
from tests.support.fakes.kubernetes_api import FakeApiServer
from tests.support.servers.webhook import Webhook, patch_of, running_webhook

_WITH_NAMESPACES = [case for case in CASES if "namespace_annotations" in case]
_RAW = [case for case in CASES if {"objectRaw", "oldObjectRaw"} & case["request"].keys()]


def by_configuration() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for case in CASES:
        if "namespace_annotations" not in case:
            found.setdefault(json.dumps(case["config"], sort_keys=True), []).append(case)
    return found


def check(webhook: Webhook, case: dict[str, Any]) -> None:
    mutated, validated = (webhook.review(path, body(case)) for path in ("/mutate", "/validate"))
    assert mutated["uid"] == validated["uid"] == case["request"]["uid"]
    message = mutated.get("status", {}).get("message")
    assert_expected(case, mutated["allowed"], message, patch_of(mutated))
    # Both refuse, or leave unchanged, the same objects.
    assert "patch" not in validated
    assert validated["allowed"] is (mutated["allowed"] and "patch" not in mutated)


def test_all_vectors(webhook: Webhook) -> None:
    count = 0
    for configuration, cases in by_configuration().items():
        # Where the configuration is not valid, the old one stays: the defaults.
        webhook.configure(DEFAULTS)
        webhook.configure({**DEFAULTS, **json.loads(configuration)})
        for case in cases:
            check(webhook, case)
            count += 1
    assert count + len(_WITH_NAMESPACES) == len(CASES) == 131


@pytest.fixture(scope="module")
def api() -> Iterator[FakeApiServer]:
    with FakeApiServer() as running:
        yield running


def test_vectors_with_namespaces(api: FakeApiServer, tmp_path: Path) -> None:
    # Annotations are remembered: a new process where one namespace has others.
    left = list(_WITH_NAMESPACES)
    while left:
        together: dict[str, dict[str, Any]] = {}
        for case in left:
            together.setdefault(case["request"]["namespace"], case)
        folder = tmp_path / str(len(left))
        folder.mkdir()
        api.namespaces = {
            name: case["namespace_annotations"][name] for name, case in together.items()
        }
        look_up = ("--namespace-annotations", "--api-server", api.url)
        account = ("--service-account", str(api.write_account(folder)))
        with running_webhook(folder, *look_up, *account) as running:
            for case in together.values():
                running.configure({**DEFAULTS, **case["config"]})
                check(running, case)
                left.remove(case)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in _RAW])
def test_bytes_as_they_are(webhook: Webhook, case: dict[str, Any]) -> None:
    """Objects that are no JSON, put into the body without a wrapping."""
    request = {key: value for key, value in case["request"].items() if not key.endswith("Raw")}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    raw = case["request"].get("objectRaw") or case["request"]["oldObjectRaw"]
    name = "object" if "objectRaw" in case["request"] else "oldObject"
    request[name] = "@"
    content = json.dumps(review).replace('"@"', raw).encode()
    answer = webhook.http.post(
        "/mutate", content=content, headers={"Content-Type": "application/json"}
    )
    if answer.status_code == 200:
        assert answer.json()["response"]["allowed"] is False
    else:
        assert answer.status_code == 400
        assert answer.text.startswith("the body is not JSON")
