"""How many of our modules a single check passes through, on the default configuration."""

import sys
from types import FrameType

import grpc.aio
import pytest

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.server.wiring import build_server
from queuegate_server.settings.load import load_settings


def check(user: str) -> bytes:
    return access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user=user), queue="root.a", access=access_pb2.ACCESS_TYPE_SUBMIT
    ).SerializeToString()


@pytest.mark.parametrize(("asked", "is_cached", "limit"), [("new", False, 20), ("asked", True, 12)])
async def test_modules_on_the_path_of_a_check(asked: str, is_cached: bool, limit: int) -> None:
    settings = load_settings(None, {}, ["listen=127.0.0.1:0"])
    parts = build_server(settings, settings, "grpcio", None)
    assert (await parts.core.reloader.reload()).succeeded
    (address,) = parts.listeners.bind(parts.server, [one.parsed for one in settings.listen])
    await parts.server.start()
    passed: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("queuegate"):
            passed.add(name)

    async with grpc.aio.insecure_channel(address) as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/queuegate.v1.AccessService/CheckQueueAccess"
        )
        await call(check("asked"))
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            await call(check(asked))
        finally:
            sys.setprofile(before)
    await parts.server.stop(None)
    await parts.core.resolvers.close()
    assert ("queuegate_server.rpc.validation" in passed) is not is_cached
    assert "queuegate_server.rpc.access_service" in passed
    assert len(passed) <= limit, sorted(passed)
