"""The channel between the supervisor and a worker: a socket pair, one end of which is the worker's
stdin.

A message is a four-byte length followed by JSON. The first message contains the worker's startup
data; after that, both sides send requests. Each request has a timeout, and neither side can exhaust
the other's memory.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_LOG = logging.getLogger("queuegate_server.supervisor")
_STDIN: Final = 0
_LENGTH: Final = struct.Struct(">I")
MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
MAX_UNREAD_BYTES: Final = 4 * MAX_MESSAGE_BYTES
"""The maximum number of bytes not yet read by the peer."""
MAX_CONCURRENT_REQUESTS: Final = 256
"""The maximum number of concurrent requests from the peer."""

Handler = Callable[[Any], Awaitable[Any]]
"""A request handler: JSON in, JSON out. Raises ChannelError to reject the request."""


class ChannelError(Exception):
    """A message could not be sent, or its request failed or timed out; the text says why."""


def frame(message: Mapping[str, Any]) -> bytes:
    """Encode a message. Raises ChannelError if it is too long."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_MESSAGE_BYTES:
        raise ChannelError(f"a message of {len(body)} bytes is too long for the channel")
    return _LENGTH.pack(len(body)) + body


class Channel:
    """One end of the channel."""

    def __init__(self, handlers: Mapping[str, Handler], on_close: Callable[[], object]) -> None:
        """Create a channel without opening it.

        `handlers` maps request names to handlers. `on_close` is called when the channel is closed,
        either by `close` or because the peer has exited or sent a malformed message.
        """
        self._handlers = handlers
        self._on_close = on_close
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._handling: set[asyncio.Task[None]] = set()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self, end: socket.socket) -> None:
        """Open the channel on one socket of a pair. The channel takes ownership of the socket."""
        reader, self._writer = await asyncio.open_unix_connection(sock=end)
        self._reading = asyncio.create_task(self._read(reader))

    async def request(self, name: str, value: Any = None, *, seconds: float) -> Any:
        """Send a request and return its response. Raises ChannelError."""
        number = next(self._numbers)
        response = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            self.send({"request": name, "number": number, "value": value})
            async with asyncio.timeout(seconds):
                return await response
        except TimeoutError:
            raise ChannelError(f"no answer within {round(seconds, 1):g} s") from None
        finally:
            del self._pending[number]

    def close(self) -> None:
        """Close the channel. Pending requests raise ChannelError."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        for pending in self._pending.values():
            if not pending.done():
                pending.set_exception(ChannelError("the channel is closed"))
        for task in self._handling:
            task.cancel()
        self._on_close()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises ChannelError."""
        writer = self._writer
        if writer is None or writer.is_closing():
            raise ChannelError("the channel is closed")
        data = frame(message)
        if writer.transport.get_write_buffer_size() + len(data) > MAX_UNREAD_BYTES:
            raise ChannelError("the peer is not reading")
        writer.write(data)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                if length > MAX_MESSAGE_BYTES:
                    break
                self._receive(json.loads(await reader.readexactly(length)))
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            pass
        finally:
            self.close()

    def _receive(self, message: dict[str, Any]) -> None:
        number = message["number"]
        if "request" in message:
            if len(self._handling) >= MAX_CONCURRENT_REQUESTS:
                self._respond({"number": number, "error": "too many concurrent requests"})
                return
            task = asyncio.create_task(self._handle(message))
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)
            return
        pending = self._pending.get(number)
        if pending is None or pending.done():
            return  # the request has timed out
        if "error" in message:
            pending.set_exception(ChannelError(message["error"]))
        else:
            pending.set_result(message["value"])

    async def _handle(self, message: dict[str, Any]) -> None:
        number, name = message["number"], message["request"]
        try:
            value = await self._handlers[name](message["value"])
        except ChannelError as error:
            self._respond({"number": number, "error": str(error)})
        except Exception as error:
            _LOG.exception("unexpected error", extra={"request": name})
            self._respond({"number": number, "error": f"unexpected {type(error).__name__}"})
        else:
            self._respond({"number": number, "value": value})

    def _respond(self, message: Mapping[str, Any]) -> None:
        try:
            self.send(message)
        except ChannelError as error:
            _LOG.warning("a response could not be sent", extra={"error": str(error)})


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker's startup data, sent as the first message on its channel."""

    index: int
    ports: tuple[int, ...]
    """The port for each address in the settings; 0 for addresses without a port."""
    initial: bytes | None
    """The settings file's contents when the supervisor started, if there is a file."""
    current: bytes | None
    """The settings file's contents as of the last successful reload, if any."""
    server: bytes
    """Identifies the worker's server; see sync/change_log.py."""
    channel: socket.socket
    """The worker's end of the channel, used by `report` after the event loop has stopped."""

    @classmethod
    def receive(cls) -> "WorkerSpec":
        """Receive the spec through stdin, then redirect stdin from /dev/null.

        Raises OSError or EOFError if there is no supervisor.
        """
        channel = socket.socket(fileno=os.dup(_STDIN))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, _STDIN)
        os.close(null)
        try:
            (length,) = _LENGTH.unpack(_receive_exactly(channel, _LENGTH.size))
            spec = json.loads(_receive_exactly(channel, length))
        except BaseException:
            channel.close()
            raise
        return cls(
            index=spec["index"],
            ports=tuple(spec["ports"]),
            initial=_decode(spec["initial"]),
            current=_decode(spec["current"]),
            server=bytes.fromhex(spec["server"]),
            channel=channel,
        )

    def report(self, failure: str) -> None:
        """Report to the supervisor why this worker cannot start. Works without an event loop."""
        with contextlib.suppress(OSError):
            self.channel.settimeout(1)
            self.channel.sendall(frame({"request": "failed", "number": 0, "value": failure}))


def spec_message(
    index: int, ports: Sequence[int], initial: bytes | None, current: bytes | None, server: bytes
) -> dict[str, Any]:
    """Encode a worker's startup data as the message that `WorkerSpec.receive` expects."""
    return {
        "index": index,
        "ports": list(ports),
        "initial": _encode(initial),
        "current": _encode(current),
        "server": server.hex(),
    }


def _encode(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _decode(content: str | None) -> bytes | None:
    return None if content is None else base64.b64decode(content)


def _receive_exactly(end: socket.socket, length: int) -> bytes:
    """Receive bytes with blocking calls, without an event loop. Raises OSError or EOFError."""
    data = bytearray()
    while len(data) < length:
        part = end.recv(length - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
