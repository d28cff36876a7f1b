"""Asks a server one question after the other, to compare its answers."""

import http.client
from collections.abc import Sequence

import grpc

from bench.command import CannotMeasure
from bench.peers.peer import GrpcWire, RestWire, Serving
from bench.peers.questions import Question

_TIME_LIMIT = 30


def answers(serving: Serving, asked: Sequence[Question]) -> list[bool]:
    """Return the answer of a server. Raises CannotMeasure if it fails to answer."""
    try:
        if isinstance(serving.wire, RestWire):
            return _over_http(serving.running.address, serving.wire, asked)
        return _over_grpc(serving.running.address, serving.wire, asked)
    except (grpc.RpcError, OSError, http.client.HTTPException) as error:
        raise CannotMeasure(f"a question was not answered: {error}") from error


def check(serving: Serving, asked: Sequence[Question]) -> None:
    """Compare the answers of a server with the expected ones. Raises CannotMeasure.

    For a server with a constant answer, only checks that it answers.
    """
    replies = answers(serving, asked)
    if isinstance(serving.wire, GrpcWire) and serving.wire.decode is None:
        return
    wrong = [
        question
        for question, answer in zip(asked, replies, strict=True)
        if answer != question.allowed
    ]
    if wrong:
        raise CannotMeasure(f"{len(wrong)} of {len(asked)} answers are wrong: {wrong[:3]}")


def _over_grpc(address: str, wire: GrpcWire, asked: Sequence[Question]) -> list[bool]:
    decode = wire.decode or bool
    with grpc.insecure_channel(address) as channel:
        ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{wire.method}")
        return [decode(ask(wire.encode(one), timeout=_TIME_LIMIT)) for one in asked]


def _over_http(address: str, wire: RestWire, asked: Sequence[Question]) -> list[bool]:
    connection = http.client.HTTPConnection(address, timeout=_TIME_LIMIT)
    replies = []
    for one in asked:
        if wire.body is None:
            connection.request("GET", wire.path(one))
        else:
            kind = {"Content-Type": "application/json"}
            connection.request("POST", wire.path(one), wire.body(one), kind)
        response = connection.getresponse()
        body = response.read()
        if response.status != http.HTTPStatus.OK:
            raise CannotMeasure(f"HTTP status {response.status}: {body[:300]!r}")
        replies.append(wire.decode(body))
    connection.close()
    return replies
