"""Questions and answers between the supervisor and a worker, over a pair of sockets.

A message is its length in four bytes and then JSON. Either side asks; nobody waits
without a limit, and neither side can make the other one keep much.
"""

import asyncio
import itertools
import json
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

_LOG = logging.getLogger("queuegate_server.supervisor")
_LENGTH: Final = struct.Struct(">I")
_MOST_BYTES: Final = 16 * 1024 * 1024
"""How long a message may be."""
_MOST_UNREAD: Final = 4 * _MOST_BYTES
"""How much may wait for the other side to read it."""
_MOST_AT_ONCE: Final = 256
"""How many questions of the other side are worked on at once."""

Handler = Callable[[Any], Awaitable[Any]]
"""Answers a question: JSON in, JSON out. Raises ChannelError to refuse."""


class ChannelError(Exception):
    """The other side is gone, did not answer in time, or refused; the text says which."""


def frame(message: Mapping[str, Any]) -> bytes:
    """Return the bytes of a message. Raises ChannelError if there are too many."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > _MOST_BYTES:
        raise ChannelError(f"a message of {len(body)} bytes is too long for the workers' channel")
    return _LENGTH.pack(len(body)) + body


class Channel:
    """One end. Used from one event loop."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        """Take what answers the questions of the other side, by their names."""
        self._handlers = handlers
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._writer: asyncio.StreamWriter | None = None
        self._reader: asyncio.StreamReader | None = None

    async def open(self, end: socket.socket) -> None:
        """Take an end of a pair of sockets, which is closed with the channel."""
        self._reader, self._writer = await asyncio.open_unix_connection(sock=end)

    async def run(self) -> None:
        """Read until the other side is gone, or does not keep to the form."""
        if self._reader is None:
            raise AssertionError("open comes first")
        try:
            while True:
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                if length > _MOST_BYTES:
                    break
                self._receive(json.loads(await self._reader.readexactly(length)))
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            pass
        finally:
            self.close()

    async def ask(self, name: str, value: Any = None, *, seconds: float) -> Any:
        """Return the other side's answer. Raises ChannelError."""
        number = next(self._numbers)
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            self._write({"ask": name, "number": number, "value": value})
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise ChannelError(f"no answer within {seconds:g} s") from None
        finally:
            del self._pending[number]

    def close(self) -> None:
        """Close the channel; whoever waits for an answer gets ChannelError."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        for pending in self._pending.values():
            if not pending.done():
                pending.set_exception(ChannelError("the channel is closed"))
        for task in self._answering:
            task.cancel()

    def _write(self, message: Mapping[str, Any]) -> None:
        writer = self._writer
        if writer is None or writer.is_closing():
            raise ChannelError("the channel is closed")
        data = frame(message)
        if writer.transport.get_write_buffer_size() + len(data) > _MOST_UNREAD:
            raise ChannelError("the other side does not read")
        writer.write(data)

    def _receive(self, message: dict[str, Any]) -> None:
        if "ask" in message:
            if len(self._answering) >= _MOST_AT_ONCE:
                self._answer({"number": message["number"], "error": "too much work at once"})
                return
            task = asyncio.create_task(self._work(message))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            return
        pending = self._pending.get(message["number"])
        if pending is None or pending.done():
            return  # it came too late
        if "error" in message:
            pending.set_exception(ChannelError(message["error"]))
        else:
            pending.set_result(message["value"])

    async def _work(self, message: dict[str, Any]) -> None:
        number, name = message["number"], message["ask"]
        try:
            value = await self._handlers[name](message["value"])
        except ChannelError as error:
            self._answer({"number": number, "error": str(error)})
        except Exception as error:
            _LOG.exception("unexpected error", extra={"question": name})
            self._answer({"number": number, "error": f"unexpected {type(error).__name__}"})
        else:
            self._answer({"number": number, "value": value})

    def _answer(self, message: Mapping[str, Any]) -> None:
        try:
            self._write(message)
        except ChannelError as error:
            _LOG.warning("an answer could not be sent", extra={"error": str(error)})
