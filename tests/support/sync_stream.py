"""A SyncService stream whose messages are written by a test."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import grpc

from queuegate.policy.decision import RULES
from queuegate.v1 import sync_pb2, sync_pb2_grpc


def sync_request(kind: str, **fields: Any) -> sync_pb2.SyncRequest:
    """Return a message from a caller."""
    request = sync_pb2.SyncRequest()
    message = getattr(request, kind)
    message.SetInParent()
    message.MergeFrom(type(message)(**fields))
    return request


class SyncStream:
    """A stream that reads nothing until a test asks for it."""

    def __init__(self, channel: grpc.Channel, metadata: Sequence[tuple[str, str]] = ()) -> None:
        self._requests: SimpleQueue[sync_pb2.SyncRequest | None] = SimpleQueue()
        requests = iter(self._requests.get, None)
        stub = sync_pb2_grpc.SyncServiceStub(channel)
        self.call: Any = stub.Sync(requests, metadata=tuple(metadata), timeout=120)
        self._pings = 0

    def send(self, kind: str, **fields: Any) -> None:
        self.send_message(sync_request(kind, **fields))

    def send_message(self, message: sync_pb2.SyncRequest) -> None:
        self._requests.put(message)

    def open(self, **fields: Any) -> sync_pb2.SyncOpened:
        """Send the first message, and return the server's."""
        self.send("open", **{"rules": [RULES], **fields})
        opened: sync_pb2.SyncOpened = self.until("opened").opened
        return opened

    def until(self, kind: str) -> Any:
        """Read up to a message, and return it."""
        for response in self.call:
            if response.HasField(kind):
                return response
        raise AssertionError(f"the stream has ended without {kind}")

    def lease(self) -> float:
        """Get a lease, and return the time of the request."""
        asked_at = time.monotonic()
        self._pings += 1
        self.send("ping", id=self._pings)
        while self.until("pong").pong.id != self._pings:
            pass
        return asked_at

    def apply(self) -> int:
        """Read up to the next checkpoint, and confirm it."""
        sequence: int = self.until("checkpoint").checkpoint.sequence
        self.send("applied", sequence=sequence)
        return sequence

    def status(self) -> tuple[str, str]:
        """Read the remaining messages, and return how the stream ends."""
        try:
            for _ in self.call:
                pass
        except grpc.RpcError as error:
            return error.code().name, error.details() or ""
        return "OK", ""

    def close(self) -> None:
        self._requests.put(None)
        self.call.cancel()


@contextmanager
def sync_streams(address: str) -> Iterator[Any]:
    """Yield a function that opens a stream with metadata, over a separate connection."""
    opened: list[tuple[grpc.Channel, SyncStream]] = []

    def open_stream(metadata: Sequence[tuple[str, str]] = ()) -> SyncStream:
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))
        channel = grpc.insecure_channel(address, options=options)
        opened.append((channel, SyncStream(channel, metadata)))
        return opened[-1][1]

    try:
        yield open_stream
    finally:
        for channel, stream in opened:
            stream.close()
            channel.close()
