"""A worker's end of the channel, over a real pair of sockets."""

import asyncio
import base64
import json
import os
import socket
import stat
from collections.abc import AsyncIterator
from typing import Any

import pytest

from queuegate_server.engine import NotReady
from queuegate_server.rpc.errors import NotConfirmed
from queuegate_server.supervisor import channel as channel_module
from queuegate_server.supervisor.channel import Channel, ChannelError, WorkerSpec, spec_message
from queuegate_server.supervisor.worker_client import WorkerClient


class Supervisor:
    """The other end: records requests, and answers `broadcast` with `others`."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.others: list[bytes] | None = []
        self.reloads = 0
        self.channel = Channel(
            {"broadcast": self._broadcast, "revision": self._revision, "failed": self._failed},
            lambda: None,
        )

    async def _broadcast(self, value: Any) -> list[str]:
        self.asked.append(value)
        if self.others is None:
            raise ChannelError("worker 1 did not confirm: no answer within 5 s")
        return [base64.b64encode(answer).decode() for answer in self.others]

    async def reload(self) -> None:
        self.reloads += 1

    async def _revision(self, value: Any) -> int:
        return 40 + int(value["current"])

    async def _failed(self, value: Any) -> None:
        self.asked.append(value)


def spec(channel: socket.socket) -> WorkerSpec:
    return WorkerSpec(3, (0,), None, None, bytes(8), channel)


@pytest.fixture
async def supervisor() -> AsyncIterator[tuple[Supervisor, WorkerClient]]:
    ours, theirs = socket.socketpair()
    supervisor = Supervisor()
    await supervisor.channel.open(ours)
    worker = WorkerClient(spec(theirs))
    await worker.open(
        reload=supervisor.reload,
        metrics=lambda: "calls_total 1\n",
        readiness=lambda: {"policy": True},
    )
    yield supervisor, worker
    worker.close()
    theirs.close()
    supervisor.channel.close()


async def upper(data: bytes) -> bytes:
    if data == b"early":
        raise NotReady
    if data == b"bad":
        raise ValueError("bad")
    return data.upper()


async def joined(request: bytes, own: bytes, others: list[bytes]) -> bytes:
    return request + b"=" + b"+".join([own, *others])


async def test_a_broadcast_responds_when_all_workers_have_confirmed(
    supervisor: tuple[Supervisor, WorkerClient],
) -> None:
    other, worker = supervisor
    method = worker.broadcast("Upper", upper, joined, timeout=60)
    other.others = [b"B", b""]
    assert await method(b"a\x00\xff") == b"a\x00\xff=A\x00\xff+B+"
    assert base64.b64decode(other.asked[0]["data"]) == b"a\x00\xff"
    other.others = None
    with pytest.raises(NotConfirmed, match="worker 1 did not confirm"):
        await method(b"a")
    with pytest.raises(NotReady):
        await method(b"early")


@pytest.mark.parametrize(("data", "expected"), [(b"a", b"A"), (b"early", b"")])
async def test_a_broadcast_of_another_worker_is_executed(
    supervisor: tuple[Supervisor, WorkerClient], data: bytes, expected: bytes
) -> None:
    other, worker = supervisor
    worker.broadcast("Upper", upper, joined, timeout=60)
    value = {"method": "Upper", "data": base64.b64encode(data).decode(), "seconds": 5}
    answer = await other.channel.request("call", value, seconds=20)
    assert base64.b64decode(answer) == expected
    value["data"] = base64.b64encode(b"bad").decode()
    with pytest.raises(ChannelError, match="ValueError: bad"):
        await other.channel.request("call", value, seconds=20)


async def test_metrics_readiness_and_reload(supervisor: tuple[Supervisor, WorkerClient]) -> None:
    other, _ = supervisor
    assert await other.channel.request("metrics", seconds=20) == "calls_total 1\n"
    assert await other.channel.request("readiness", seconds=20) == {"policy": True}
    await other.channel.request("ping", seconds=20)
    await other.channel.request("reload", seconds=20)
    assert other.reloads == 1


async def test_revisions_are_assigned(
    supervisor: tuple[Supervisor, WorkerClient],
) -> None:
    other, worker = supervisor
    assert await worker.revision("checksum", 2) == 42
    other.channel.close()
    assert await worker.revision("checksum", 2) == 3


@pytest.mark.parametrize("way", ["stop", "gone"])
async def test_a_worker_stops_on_request_and_without_its_supervisor(
    supervisor: tuple[Supervisor, WorkerClient], way: str
) -> None:
    other, worker = supervisor
    assert not worker.stopping.is_set()
    if way == "stop":
        await other.channel.request("stop", seconds=20)
    else:
        other.channel.close()
    async with asyncio.timeout(60):
        await worker.stopping.wait()


async def test_a_spec_is_received_on_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    stdin = theirs.detach()
    monkeypatch.setattr(channel_module, "_STDIN", stdin)
    large = bytes(range(256)) * 4096
    channel = Channel({}, lambda: None)
    await channel.open(ours)
    channel.send(spec_message(1, (50051, 0), large, None, b"12345678"))
    received = await asyncio.to_thread(WorkerSpec.receive)
    assert not stat.S_ISSOCK(os.fstat(stdin).st_mode)
    os.close(stdin)
    with received.channel:
        assert (received.index, received.ports) == (1, (50051, 0))
        assert (received.initial, received.current) == (large, None)
        assert received.server == b"12345678"
    channel.close()


def test_without_a_supervisor_there_is_no_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    monkeypatch.setattr(channel_module, "_STDIN", theirs.detach())
    with pytest.raises(EOFError):
        WorkerSpec.receive()
    os.close(channel_module._STDIN)


def test_a_failure_is_reported_without_a_loop() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        spec(theirs).report("the policy cannot be served\nline 2")
        data = ours.recv(4096)
    assert json.loads(data[4:]) == {
        "request": "failed",
        "number": 0,
        "value": "the policy cannot be served\nline 2",
    }
