"""A ConfigMap whose queues are too costly to parse is refused, and costs the webhook nothing."""

import sys
from textwrap import indent

import pytest

from queuegate.policy.acl import AclNames
from queuegate_server.admission.config_map import check_config_map
from queuegate_server.admission.rules import AdmissionRequest
from queuegate_server.policystore import parser_process, parsing

POLICY = "partitions: [{name: default, queues: [{name: root}]}]\n"


async def test_a_parser_that_runs_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"import sys; sys.stdin.buffer.read(); sys.exit({parsing.OUT_OF_MEMORY})"
    monkeypatch.setattr(parser_process, "_command", lambda _: [sys.executable, "-S", "-c", program])
    config_map = {"data": {"a.yaml": "", "queues.yaml": "partitions: []"}}
    request = AdmissionRequest(
        "ConfigMap", "UPDATE", "yunikorn", "bob", (), config_map, name="yunikorn-configs"
    )
    response = await check_config_map(request, AclNames.YUNIKORN)
    assert not response.allowed
    assert response.message.startswith(
        "a.yaml, queues.yaml: error: parsing takes more than 512 MiB of memory"
    )


async def test_the_scheduler_opens_no_envelope_in_a_key() -> None:
    text = "kind: ConfigMap\ndata:\n  queues.yaml: |\n" + indent(POLICY, "    ")
    for value, is_policy in ((POLICY, True), (text, False)):
        request = AdmissionRequest(
            *("ConfigMap", "UPDATE", "yunikorn", "bob", ()),
            {"data": {"queues.yaml": value}},
            name="yunikorn-configs",
        )
        response = await check_config_map(request, AclNames.YUNIKORN)
        assert response.allowed is is_policy
