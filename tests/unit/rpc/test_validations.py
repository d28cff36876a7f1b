"""Validations of configuration texts take turns."""

import asyncio
import threading
from typing import Any, cast

import pytest

from queuegate.v1 import policy_pb2
from queuegate_server.rpc import policy_service
from queuegate_server.rpc.errors import InvalidRequest, TooMuchWork


async def test_one_at_a_time_and_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0
    let = threading.Event()

    def validation(_format: str, content: bytes) -> bytes:
        nonlocal running, most
        running += 1
        most = max(most, running)
        let.wait(60)
        running -= 1
        return content

    monkeypatch.setattr(policy_service, "_validation", validation)
    servicer = policy_service.PolicyServicer(cast("Any", None), cast("Any", None))
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
    with pytest.raises(TooMuchWork):
        await servicer.ValidatePolicy(b"")
    let.set()
    assert await asyncio.gather(*asked) == [text.encode() for text in texts]
    assert most == 1


async def test_a_text_has_a_bound() -> None:
    servicer = policy_service.PolicyServicer(cast("Any", None), cast("Any", None))
    request = policy_pb2.ValidatePolicyRequest(content="é" * (policy_service.MOST_CONTENT // 2))
    await servicer.ValidatePolicy(request.SerializeToString())
    request.content += "x"
    with pytest.raises(InvalidRequest, match="content: is longer than 2097152 bytes"):
        await servicer.ValidatePolicy(request.SerializeToString())
