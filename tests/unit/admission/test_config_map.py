"""A ConfigMap whose queues are too costly to parse is refused, and costs the webhook nothing."""

import gzip
import sys
from base64 import b64encode
from textwrap import indent

import pytest

from queuegate_server.admission.annotations.config_map import check_config_map
from queuegate_server.admission.annotations.rules import AdmissionRequest
from queuegate_server.formats.registry import DEFAULT_OPTIONS
from queuegate_server.policystore import parser_child, parser_process

POLICY = "partitions: [{name: default, queues: [{name: root}]}]\n"
MISSING = (
    'service.policyGroup: YuniKorn reads the key "analytics.yaml", which this ConfigMap does not'
    " have; unless {} has it, YuniKorn opens its queues to everyone (add the key, or correct"
    " service.policyGroup)"
)


async def test_a_parser_that_runs_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"import sys; sys.stdin.buffer.read(); sys.exit({parser_child.OUT_OF_MEMORY})"
    monkeypatch.setattr(parser_process, "_command", lambda _: [sys.executable, "-S", "-c", program])
    config_map = {"data": {"a.yaml": "", "queues.yaml": "partitions: []"}}
    request = AdmissionRequest(
        "ConfigMap", "UPDATE", "yunikorn", "bob", (), config_map, name="yunikorn-configs"
    )
    response = await check_config_map(request, DEFAULT_OPTIONS)
    assert not response.allowed
    assert response.message.startswith(
        "a.yaml, queues.yaml: error: parsing takes more than 256 MiB of memory"
    )


async def test_the_scheduler_opens_no_envelope_in_a_key() -> None:
    text = "kind: ConfigMap\ndata:\n  queues.yaml: |\n" + indent(POLICY, "    ")
    for value, is_policy in ((POLICY, True), (text, False)):
        request = AdmissionRequest(
            *("ConfigMap", "UPDATE", "yunikorn", "bob", ()),
            {"data": {"queues.yaml": value}},
            name="yunikorn-configs",
        )
        response = await check_config_map(request, DEFAULT_OPTIONS)
        assert response.allowed is is_policy


@pytest.mark.parametrize(
    ("name", "data", "binary", "warning"),
    [
        (
            "yunikorn-configs",
            {"service.policyGroup": "analytics", "queues.yaml": POLICY},
            {},
            MISSING.format("yunikorn-defaults"),
        ),
        (
            "yunikorn-defaults",
            {"service.policyGroup": "analytics"},
            {},
            MISSING.format("yunikorn-configs"),
        ),
        # The default group needs no warning: the other ConfigMap has the queues.
        ("yunikorn-configs", {"log.level": "INFO"}, {}, None),
        ("yunikorn-configs", {"service.policyGroup": ""}, {}, None),
        ("yunikorn-configs", {"service.policyGroup": "a", "a.yaml": POLICY}, {}, None),
        (
            "yunikorn-configs",
            {"service.policyGroup": "a"},
            {"a.yaml.gz": b64encode(gzip.compress(POLICY.encode())).decode()},
            None,
        ),
    ],
)
async def test_a_policy_group_without_its_key(
    name: str, data: dict[str, str], binary: dict[str, str], warning: str | None
) -> None:
    config_map = {"data": data, "binaryData": binary}
    request = AdmissionRequest("ConfigMap", "UPDATE", "yunikorn", "bob", (), config_map, name=name)
    response = await check_config_map(request, DEFAULT_OPTIONS)
    assert response.allowed
    assert response.warnings == (() if warning is None else (warning,))
