"""Settings that are valid, and probably mistakes."""

import json
from typing import Any

import pytest

from queuegate_server.admission.annotations.config_map import check_config_map
from queuegate_server.admission.annotations.rules import AdmissionRequest
from queuegate_server.admission.annotations.yunikorn_settings import MAX_PATTERN_CHARACTERS
from queuegate_server.admission.annotations.yunikorn_settings_lint import lint_settings
from queuegate_server.admission.server.review import AdmissionResponse, write_review
from queuegate_server.formats.registry import DEFAULT_OPTIONS
from tests.support.rows import rows

ACCESS = "admissionController.accessControl."
FILTER = "admissionController.filtering."


@rows
def test_a_key_that_nobody_reads(key: str, meant: str) -> None:
    assert lint_settings({key: "false"}) == (
        f"{key}: unknown key, which is ignored (did you mean {meant}?)",
    )


def test_a_key_that_is_like_no_other() -> None:
    assert lint_settings({"admissionController.x": ""}) == (
        "admissionController.x: unknown key, which is ignored (remove it)",
    )
    (odd,) = lint_settings({"admissionController.\n" + "x" * 300: ""})
    assert odd.isprintable()
    assert len(odd) < 256


@rows
def test_keys_of_yunikorn(key: str) -> None:
    assert lint_settings({key: "true"}) == ()


@rows
def test_patterns_that_are_not_meant(text: str, warning: str) -> None:
    warnings = lint_settings({f"{ACCESS}externalUsers": text})
    assert warnings[0].startswith(f"{ACCESS}externalUsers: {warning}")
    variable = "ADMISSION_CONTROLLER_EXTERNAL_USERS"
    assert lint_settings({}, {variable: text})[0].startswith(f"{variable}: {warning}")


@rows
def test_patterns_that_may_be_meant(text: str) -> None:
    assert lint_settings({f"{ACCESS}externalUsers": text}) == ()


def test_a_namespace_may_be_any() -> None:
    assert lint_settings({f"{FILTER}processNamespaces": "."}) == ()


async def review(data: Any, name: str = "yunikorn-configs") -> Any:
    request = AdmissionRequest(
        "ConfigMap", "UPDATE", "yunikorn", "bob", (), {"data": data}, uid="u", name=name
    )
    response = await check_config_map(request, DEFAULT_OPTIONS)
    return json.loads(write_review("u", response))["response"]


@pytest.mark.parametrize("name", ["yunikorn-configs", "yunikorn-defaults"])
async def test_a_review_has_the_warnings(name: str) -> None:
    data = {f"{ACCESS}trustController": "false", f"{ACCESS}externalUsers": "^svc$,|"}
    response = await review(data, name)
    assert response["allowed"]
    assert [text.partition(": ")[0] for text in response["warnings"]] == sorted(data)[::-1]
    assert "warnings" not in await review({f"{ACCESS}trustControllers": "false"}, name)


async def test_a_refused_review_has_them_as_well() -> None:
    response = await review({f"{ACCESS}externalUsers": "^[a,b]$"})
    assert "is not valid" in response["status"]["message"]
    assert "commas always separate" in response["warnings"][0]


async def test_only_a_few_warnings_are_sent() -> None:
    data = {f"admissionController.{'x' * 60}{number}": "" for number in range(1_000)}
    warnings = (await review(data))["warnings"]
    assert (len(warnings), warnings[-1]) == (6, "and 995 more warnings")
    response = AdmissionResponse(allowed=True, warnings=("é" * 300, "short"))
    written = json.loads(write_review("u", response))["response"]["warnings"]
    assert [len(text) for text in written] == [256, 5]


@pytest.mark.parametrize("sign", ["[", "[:a", r"\p{", r"\Q", "(", "{"])
def test_patterns_of_a_megabyte_cost_nothing(sign: str) -> None:
    # Before, each sign was searched to the end of the text.
    assert lint_settings({f"{FILTER}processNamespaces": sign * (2**20 // len(sign))}) == ()
    most = sign * (MAX_PATTERN_CHARACTERS // len(sign))
    cut = [
        each for each in lint_settings({f"{FILTER}processNamespaces": most}) if "unmatched" in each
    ]
    assert len(cut) == (sign != r"\Q")
