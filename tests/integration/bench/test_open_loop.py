"""The load generator of the overload benchmark reports the outcome of every call."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench import open_loop
from bench.open_calls import Heard
from bench.open_loop import Rate
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.support.servers.queuegate_server import running_server

QUESTION = access_pb2.CheckQueueAccessRequest(
    user=UserGroupInformation(user="alice"), queue="root", access=access_pb2.ACCESS_TYPE_SUBMIT
).SerializeToString()
SETTINGS = bytes(3) + b"\4" + bytes(5)


def ask(address: str, deadline: float, message: bytes = QUESTION) -> Heard:
    rate = Rate(per_second=400, seconds=0.5)
    return open_loop.ask(address, [message], rate, deadline, "CheckQueueAccess")


@pytest.mark.parametrize("transport", ["grpcio", "native"])
def test_it_distinguishes_answers_from_refusals(transport: str) -> None:
    bounds = ("limits.caller_rate=0.001", "limits.caller_burst=3", f"transport={transport}")
    settings = [part for bound in bounds for part in ("--set", bound)]
    with running_server(*settings) as server:
        heard = ask(server.address, 60)
        assert (len(heard.latencies), heard.refused) == (3, heard.asked - 3)
        assert heard.refused > 0
        assert heard.unanswered == 0


@pytest.mark.parametrize("transport", ["grpcio", "native"])
def test_it_sends_messages_that_are_longer_than_a_frame(transport: str) -> None:
    batch = access_pb2.BatchCheckQueueAccessRequest()
    batch.checks.extend([access_pb2.CheckQueueAccessRequest.FromString(QUESTION)] * 5_000)
    with running_server("--set", f"transport={transport}") as server:
        message = batch.SerializeToString()
        assert len(message) > 65_535
        rate = Rate(per_second=0, seconds=0.1, at_once=4)
        method = "BatchCheckQueueAccess"
        heard = open_loop.ask(server.address, [message], rate, 60, method)
        assert len(heard.latencies) == heard.asked > 0


@contextmanager
def silent(greeting: bytes) -> Iterator[str]:
    """Run a server that greets each connection and then only reads."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            with connection:
                connection.sendall(greeting)
                while connection.recv(65_536):
                    pass

        def accept() -> None:
            for _ in range(8):
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        host, port = listener.getsockname()
        yield f"{host}:{port}"


def test_calls_that_are_not_answered_are_late() -> None:
    with silent(SETTINGS) as address:
        heard = ask(address, 1)
    assert heard.late == heard.asked == heard.unanswered > 0


def test_calls_that_may_not_be_sent_are_counted_apart() -> None:
    with silent(b"") as address:
        heard = ask(address, 0.2)
    assert heard.unsent == heard.asked == heard.unanswered > 0
