"""How many of our modules a check, a lookup in a directory and a reload pass through."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType

import grpc.aio
import pytest

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.reloads import ReloadCause, SnapshotListener
from queuegate_server.server.wiring import ServerParts, build_server
from queuegate_server.settings.load import load_settings
from queuegate_server.settings.model import Settings
from tests.support.fakes.ldap_server import fake_directory
from tests.support.fakes.loop import wait_until
from tests.support.fakes.small_directory import answer, options
from tests.support.module_walk import ModulesPassed

Call = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
QUEUES = """\
partitions:
  - name: default
    queues: [{{name: root, queues: [{{name: a, submitacl: "{acl}"}}]}}]
"""
MOST_FOR_LOOKUP = 32
MOST_FOR_RELOAD = 18


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[ServerParts, Call]]:
    parts = build_server(settings, settings, "grpcio", None)
    assert (await parts.core.reloader.reload(ReloadCause.START)).succeeded
    (address,) = parts.listeners.bind(parts.server, [one.parsed for one in settings.listen])
    await parts.server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        yield parts, channel.unary_unary("/queuegate.v1.AccessService/CheckQueueAccess")
    await parts.server.stop(None)
    await parts.core.resolvers.close()


def check(user: str) -> bytes:
    return access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user=user), queue="root.a", access=access_pb2.ACCESS_TYPE_SUBMIT
    ).SerializeToString()


@pytest.mark.parametrize(("asked", "is_cached", "limit"), [("new", False, 20), ("asked", True, 12)])
async def test_modules_on_the_path_of_a_check(asked: str, is_cached: bool, limit: int) -> None:
    passed: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("queuegate"):
            passed.add(name)

    async with serving(load_settings(None, {}, ["listen=127.0.0.1:0"])) as (_, call):
        await call(check("asked"))
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            await call(check(asked))
        finally:
            sys.setprofile(before)
    assert ("queuegate_server.rpc.validation" in passed) is not is_cached
    assert "queuegate_server.rpc.access_service" in passed
    assert len(passed) <= limit, sorted(passed)


async def test_modules_on_the_path_of_a_lookup_in_a_directory_and_back(tmp_path: Path) -> None:
    policy, config = tmp_path / "queues.yaml", tmp_path / "server.yaml"
    policy.write_text(QUEUES.format(acl=" staff"))
    with ModulesPassed() as passed:
        async with fake_directory(answer) as directory:
            given = {
                "listen": "127.0.0.1:0",
                "policy": {"path": str(policy)},
                "resolvers": {"corp": {"type": "ldap", **options(directory.url)}},
                "partitions": {"default": {"resolver": "corp"}},
            }
            config.write_text(json.dumps(given))
            async with serving(load_settings(config, {}, [])) as (_, call):
                await call(check("first"))  # The connection is open from here on.
                with passed.recording() as names:
                    response = await call(check("sue"))
    assert access_pb2.CheckQueueAccessResponse.FromString(response).allowed
    assert {"rpc.access_service", "identity.resolvers.ldap.ldap_messages"} <= names
    assert len(names) <= MOST_FOR_LOOKUP, sorted(names)


async def test_modules_on_the_path_of_a_reload(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(QUEUES.format(acl="sue"))
    settings = load_settings(None, {}, ["listen=127.0.0.1:0", f"policy.path={policy}"])
    with ModulesPassed() as passed:
        async with serving(settings) as (parts, _):
            watching = asyncio.create_task(parts.core.reloader.watch())
            await asyncio.sleep(0)
            with passed.recording() as names:
                policy.write_text(QUEUES.format(acl="sue,bob"))
                await wait_until(lambda: parts.core.engine.snapshot.policy.revision > 1)
            watching.cancel()
        told = parts.core.engine.listeners
    assert told == set(SnapshotListener) - {SnapshotListener.WEBHOOK}
    assert {"files.watcher", "policystore.reloader", "rpc.response_cache"} <= names
    assert len(names) <= MOST_FOR_RELOAD, sorted(names)
