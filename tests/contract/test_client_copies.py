"""Clients and gates are neither copied nor pickled."""

import copy
import pickle
from collections.abc import Callable

import pytest

import queuegate
from tests.support.fakes.scripted_server import ScriptedServer

MESSAGE = "cannot be copied or pickled, because it holds a connection: create another one"
Duplicate = Callable[[object], object]
DUPLICATES: list[Duplicate] = [copy.copy, copy.deepcopy, pickle.dumps]


@pytest.mark.parametrize("duplicate", DUPLICATES)
def test_the_client(duplicate: Duplicate) -> None:
    """A copy would share the connection, and closing one would close the other."""
    with ScriptedServer() as server, queuegate.Client(server.address, timeout=60) as client:
        with pytest.raises(TypeError, match=f"a client {MESSAGE}"):
            duplicate(client)
        assert client.check("alice", "root")


@pytest.mark.parametrize("duplicate", DUPLICATES)
async def test_the_client_for_asyncio(duplicate: Duplicate) -> None:
    with ScriptedServer() as server:
        async with queuegate.aio.Client(server.address, timeout=60) as client:
            with pytest.raises(TypeError, match=f"a client {MESSAGE}"):
                duplicate(client)
            assert await client.check("alice", "root")


@pytest.mark.parametrize("duplicate", DUPLICATES)
def test_the_gate(duplicate: Duplicate) -> None:
    with (
        queuegate.Gate("127.0.0.1:1") as gate,
        pytest.raises(TypeError, match=f"a gate {MESSAGE}"),
    ):
        duplicate(gate)


@pytest.mark.parametrize("duplicate", DUPLICATES)
async def test_the_gate_for_asyncio(duplicate: Duplicate) -> None:
    async with queuegate.aio.Gate("127.0.0.1:1") as gate:
        with pytest.raises(TypeError, match=f"a gate {MESSAGE}"):
            duplicate(gate)
