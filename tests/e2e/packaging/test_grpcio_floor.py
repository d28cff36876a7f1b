"""The server on the grpcio that is installed, and on the oldest one that it takes."""

import asyncio
import os
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from bench.open_calls import fields
from queuegate.v1 import access_pb2
from queuegate.v1.access_pb2_grpc import AccessServiceStub
from tests.e2e.packaging.dockerfile import PROJECT, environment
from tests.e2e.packaging.locks import pinned
from tests.e2e.packaging.test_project import CONFIGURATION, group
from tests.resilience import http2
from tests.support.servers.queuegate_server import RunningServer, over, running_server

LOCK = PROJECT / "tests" / "e2e" / "packaging" / "floor-requirements.txt"
BOMB_BYTES = 60 << 20
"""Compressed, they fit into the window that a client has at once."""
TOLERATED_BYTES = 24 << 20
CALLS = 1_500
GZIP = b"\0\x0dgrpc-encoding\x04gzip"


def floor(requirements: list[str]) -> str:
    """Return the oldest grpcio that requirements allow."""
    [found] = [each for text in requirements if (each := Requirement(text)).name == "grpcio"]
    [version] = [each.version for each in found.specifier if each.operator == ">="]
    return version


def test_floors_are_the_tested_ones() -> None:
    server = floor(CONFIGURATION["project"]["optional-dependencies"]["server"])
    client = floor(CONFIGURATION["project"]["dependencies"])
    assert server == pinned(LOCK)["grpcio"]
    assert f"grpcio-tools=={client}" in group("contract")
    assert Version(client) <= Version(server)


@pytest.fixture(scope="session")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the oldest grpcio."""
    folder = tmp_path_factory.mktemp("floor")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"),
            *("--no-deps", "--no-compile", "--require-hashes", "--only-binary", ":all:"),
            *("--target", folder, "-r", LOCK),
        ],
        env=environment(),
        check=True,
    )
    return folder


@pytest.fixture(scope="module", params=["installed", "oldest"])
def server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    """A server on a release of grpcio."""
    variables = {}
    if request.param == "oldest":
        variables["PYTHONPATH"] = str(request.getfixturevalue("oldest"))
        loaded = subprocess.check_output(
            [sys.executable, "-c", "import grpc; print(grpc.__version__)"],
            env={**os.environ, **variables},
            text=True,
        )
        assert loaded.strip() == pinned(LOCK)["grpcio"]
    policy = str(PROJECT / "examples" / "queues.yaml")
    with over("grpcio"), running_server("--policy", policy, environment=variables) as started:
        yield started


def bomb() -> bytes:
    """Return the frames of a request that is far larger than it looks."""
    gzip = zlib.compressobj(9, wbits=31)
    data = gzip.compress(bytes(BOMB_BYTES)) + gzip.flush()
    message = b"\1" + len(data).to_bytes(4) + data
    assert len(message) < 2**16
    parts = [message[begin : begin + 16_384] for begin in range(0, len(message), 16_384)]
    frames = [http2.frame(http2.DATA, 0, 1, part) for part in parts]
    return b"".join(frames) + http2.frame(http2.DATA, http2.END_STREAM, 1)


def status_of(server: RunningServer, method: str, frames: bytes) -> bytes:
    """Return the headers that end a call with a compressed message."""
    begin = fields(method, http2.service_of(method))
    head = http2.frame(http2.HEADERS, http2.END_HEADERS, 1, begin + GZIP)
    with (
        http2.connected(server.address, http2.BEGIN + head + frames) as connection,
        connection.makefile("rb") as answer,
    ):
        while frame := answer.read(9):
            payload = answer.read(int.from_bytes(frame[:3]))
            if frame[3] == http2.HEADERS and frame[4] & http2.END_STREAM:
                return payload
    raise AssertionError("the connection was closed without a status")


@pytest.mark.parametrize("method", ["CheckQueueAccess", "BatchCheckQueueAccess", "Sync"])
def test_compressed_message_takes_no_more_memory_than_a_message_may(
    server: RunningServer, method: str
) -> None:
    before = server.peak_memory()
    assert b"grpc-status\x018" in status_of(server, method, bomb())
    assert server.peak_memory() - before < TOLERATED_BYTES


async def test_calls_beyond_the_streams_of_a_connection_wait(server: RunningServer) -> None:
    """None of them is refused, although the bound is 32 and calls end all the time."""
    outcomes: Counter[str] = Counter()
    question = access_pb2.CheckQueueAccessRequest.FromString(http2.QUESTION)

    async def ask(channel: grpc.aio.Channel, numbers: Iterator[int]) -> None:
        stub = AccessServiceStub(channel)
        for _ in numbers:
            try:
                await stub.CheckQueueAccess(question, timeout=60)
                outcomes["answered"] += 1
            except grpc.aio.AioRpcError as error:
                outcomes[f"{error.code().name}: {error.details()}"] += 1

    async with grpc.aio.insecure_channel(server.address) as channel:
        numbers = iter(range(CALLS))
        await asyncio.gather(*(ask(channel, numbers) for _ in range(64)))
    assert outcomes == {"answered": CALLS}
