"""Validations of configuration texts take turns."""

import asyncio
import time
from typing import Any, cast

import pytest

from queuegate.v1 import policy_pb2
from queuegate_server.engine import Engine
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.policystore import parser_process
from queuegate_server.policystore.parsing import CheckJob
from queuegate_server.rpc import policy_service
from queuegate_server.rpc.errors import InvalidRequest, Overloaded
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.throttling.byte_budget import ByteBudget

MANIFEST = """\
kind: ConfigMap
data:
  fair-scheduler.xml: |
    <allocations><queue name="root"><aclSubmitApps>*</aclSubmitApps></queue></allocations>
"""


def policies() -> policy_service.PolicyServicer:
    queue = LongCallQueue(time.monotonic, 60, {}, ByteBudget(1 << 20))
    return policy_service.PolicyServicer(
        Engine(time.monotonic), cast("Any", None), queue, cast("Any", None)
    )


async def test_one_at_a_time_and_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0
    let = asyncio.Event()

    async def check(job: CheckJob) -> tuple[Diagnostic, ...]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await let.wait()
        running -= 1
        ((name, data),) = job.files
        return (Diagnostic(name, 0, 0, Severity.WARNING, data.decode()),)

    monkeypatch.setattr(parser_process, "check", check)
    servicer = policies()
    texts = [str(number) for number in range(16)]
    asked = [
        asyncio.create_task(
            servicer.ValidatePolicy(
                policy_pb2.ValidatePolicyRequest(content=text).SerializeToString()
            )
        )
        for text in texts
    ]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await servicer.ValidatePolicy(b"")
    let.set()
    answers = map(policy_pb2.ValidatePolicyResponse.FromString, await asyncio.gather(*asked))
    assert [answer.diagnostics[0].message for answer in answers] == texts
    assert most == 1


async def test_a_parser_that_cannot_be_started_is_no_fault_of_the_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parser_process, "_command", lambda _: ["/nowhere"])
    servicer = policies()
    with pytest.raises(Overloaded, match="cannot be started: No such file"):
        await servicer.ValidatePolicy(b"")


async def test_a_text_has_a_bound() -> None:
    servicer = policies()
    request = policy_pb2.ValidatePolicyRequest(
        content="é" * (policy_service.MAX_CONTENT_BYTES // 2)
    )
    await servicer.ValidatePolicy(request.SerializeToString())
    request.content += "x"
    with pytest.raises(InvalidRequest, match="content: is longer than 2097152 bytes"):
        await servicer.ValidatePolicy(request.SerializeToString())


async def test_the_format_is_detected_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    # A few KiB in an envelope can hold a text that takes minutes to parse.
    formats: list[str] = []

    async def check(job: CheckJob) -> tuple[Diagnostic, ...]:
        formats.append(job.format)
        return ()

    monkeypatch.setattr(parser_process, "check", check)
    for stated in ("", "yunikorn"):
        request = policy_pb2.ValidatePolicyRequest(content=MANIFEST, format=stated)
        await policies().ValidatePolicy(request.SerializeToString())
    assert formats == ["", "yunikorn"]
    monkeypatch.undo()
    request = policy_pb2.ValidatePolicyRequest(content=MANIFEST)
    answer = await policies().ValidatePolicy(request.SerializeToString())
    assert policy_pb2.ValidatePolicyResponse.FromString(answer).valid
