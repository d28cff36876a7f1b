"""Every admission vector through the pure rules."""

from typing import Any

import pytest

from queuegate_server.admission.annotations.requests import read_review
from queuegate_server.admission.annotations.rules import decide
from tests.support.admission_vectors import CASES, assert_expected, body, settings_of


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_vector(case: dict[str, Any]) -> None:
    request = read_review(body(case))
    namespaces = case.get("namespace_annotations", {})
    verdict = decide(request, settings_of(case), namespaces.get(request.namespace, {}))
    assert_expected(case, verdict.allowed, verdict.message or None, list(verdict.patch))
