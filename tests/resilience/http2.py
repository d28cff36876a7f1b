"""A client of HTTP/2 that sends only the given bytes, unlike gRPC's own."""

import socket
from typing import Final

from bench.open_calls import fields
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING_FRAME, GOAWAY = 0, 1, 4, 6, 7
END_STREAM, END_HEADERS, ACK = 1, 4, 1
QUESTION: Final = access_pb2.CheckQueueAccessRequest(
    user=UserGroupInformation(user="alice"),
    queue="root.open",
    access=access_pb2.ACCESS_TYPE_SUBMIT,
).SerializeToString()


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    head = len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4)
    return head + payload


def headers(method: str, stream: int = 1) -> bytes:
    """Return the frame that begins a call, without any compression."""
    return frame(HEADERS, END_HEADERS, stream, fields(method, service_of(method)))


def service_of(method: str) -> str:
    """Return the service of a method: the one with a stream, or that of checks."""
    return "SyncService" if method == "Sync" else "AccessService"


def question(stream: int = 1) -> bytes:
    """Return the frame with a request and the end of what is sent."""
    return frame(DATA, END_STREAM, stream, b"\0" + len(QUESTION).to_bytes(4) + QUESTION)


BEGIN: Final = PREFACE + frame(SETTINGS)
PING: Final = frame(PING_FRAME, payload=bytes(8))
CALL: Final = BEGIN + headers("CheckQueueAccess") + question()
"""A connection and a call on it."""
HALVES: Final = {
    "the preface": PREFACE[:12],
    "a head of a frame": BEGIN + frame(HEADERS, END_HEADERS, 1, b"\0" * 9)[:5],
    "headers": BEGIN + headers("CheckQueueAccess")[:40],
    "a message": CALL[:-10],
    "a message of a stream": BEGIN + headers("Sync") + question()[:15],
}
"""Bytes that a client sends before it falls silent, by the part that is incomplete."""


def connected(address: str, sent: bytes) -> socket.socket:
    """Connect, send, and leave the connection open."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.sendall(sent)
    return connection


def answer(connection: socket.socket) -> access_pb2.CheckQueueAccessResponse:
    """Read until the answer to CALL is there."""
    with connection.makefile("rb") as frames:
        while head := frames.read(9):
            payload = frames.read(int.from_bytes(head[:3]))
            if head[3] == DATA:
                return access_pb2.CheckQueueAccessResponse.FromString(payload[5:])
    raise AssertionError("the connection was closed without an answer")


def expect_pong(connection: socket.socket) -> None:
    """Wait until the server has read all that was sent, or ends the connection."""
    with connection.makefile("rb") as frames:
        while head := frames.read(9):
            frames.read(int.from_bytes(head[:3]))
            if head[3] == GOAWAY or (head[3] == PING_FRAME and head[4] == ACK):
                return


def is_closed(connection: socket.socket) -> bool:
    """Wait until the server ends the connection."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True
