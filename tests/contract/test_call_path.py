"""Which of our modules checks, lookups, reloads, invalidations and reviews pass through."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType

import grpc.aio
import pytest

from queuegate.v1 import access_pb2, user_groups_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.reloads import ReloadCause, SnapshotListener
from queuegate_server.server.wiring import ServerParts, build_server
from queuegate_server.settings.load import load_settings
from queuegate_server.settings.model import Settings
from tests.support.fakes.ldap_server import fake_directory
from tests.support.fakes.loop import wait_until
from tests.support.fakes.small_directory import answer, options
from tests.support.module_walk import ModulesPassed, walk_in_architecture
from tests.support.queue_reviews import Reviewing

Call = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
QUEUES = """\
partitions:
  - name: default
    queues: [{{name: root, queues: [{{name: a, submitacl: "{acl}"}}]}}]
"""
MOST_FOR_LOOKUP = 32
MOST_FOR_RELOAD = 18
BACKGROUND = {"runtime.beat", "throttling.byte_budget", "transports.stalls"}
"""Modules that may run at any moment, for periodic work and for checks of slow clients."""


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[ServerParts, grpc.aio.Channel]]:
    parts = build_server(settings, settings, "grpcio", None)
    assert (await parts.core.reloader.reload(ReloadCause.START)).succeeded
    (address,) = parts.listeners.bind(parts.server, [one.parsed for one in settings.listen])
    await parts.server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        yield parts, channel
    await parts.server.stop(None)
    await parts.core.resolvers.close()


def in_order(names: Iterable[str]) -> list[str]:
    return [name for name in names if name not in BACKGROUND]


def checks(channel: grpc.aio.Channel) -> Call:
    call: Call = channel.unary_unary("/queuegate.v1.AccessService/CheckQueueAccess")
    return call


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

    async with serving(load_settings(None, {}, ["listen=127.0.0.1:0"])) as (_, channel):
        call = checks(channel)
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
            async with serving(load_settings(config, {}, [])) as (_, channel):
                call = checks(channel)
                await call(check("first"))  # The connection is open from here on.
                with passed.recording() as names:
                    response = await call(check("sue"))
    assert access_pb2.CheckQueueAccessResponse.FromString(response).allowed
    assert {"rpc.access_service", "identity.resolvers.ldap.ldap_messages"} <= names.keys()
    assert len(names) <= MOST_FOR_LOOKUP, sorted(names)
    assert in_order(names) == walk_in_architecture("An LDAP lookup")


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
        listeners = parts.core.engine.listeners
    assert listeners == set(SnapshotListener) - {SnapshotListener.WEBHOOK}
    assert {"files.watcher", "policystore.reloader", "rpc.response_cache"} <= names.keys()
    assert len(names.keys() - BACKGROUND) <= MOST_FOR_RELOAD, sorted(names)
    # Threads take part, so their order is not always the same.
    assert names.keys() - BACKGROUND == set(walk_in_architecture("A reload"))


async def test_modules_on_the_path_of_an_invalidation() -> None:
    settings = load_settings(None, {}, ["listen=127.0.0.1:0", "callers.loopback={roles: [admin]}"])
    request = user_groups_pb2.InvalidateUserGroupsRequest(users=["sue"], wait=True)
    with ModulesPassed() as passed:
        async with serving(settings) as (_, channel):
            call: Call = channel.unary_unary("/queuegate.v1.UserGroupService/InvalidateUserGroups")
            await call(request.SerializeToString())
            with passed.recording() as names:
                await call(request.SerializeToString())
    assert in_order(names) == walk_in_architecture("An invalidation")


async def test_modules_on_the_path_of_a_review() -> None:
    with ModulesPassed() as passed:
        await Reviewing().review("alice", "root.prod")  # what is done once is done
        reviewing = Reviewing()
        with passed.recording() as names:
            await reviewing.review("alice", "root.prod")
    assert in_order(names) == walk_in_architecture("A refused kubectl apply")
