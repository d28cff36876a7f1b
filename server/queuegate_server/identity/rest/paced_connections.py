"""Connections that read answers in short steps, and limit all bytes of an answer.

aiohttp parses whatever has arrived at once, and bounds only headers and lines. Informational
answers (RFC 9110, 15.2) and the framing of chunks (RFC 9112, 7.1) would occupy the event loop and
the memory for as long as a provider sends them.
"""

import asyncio
import functools
import time
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader

from queuegate_server.identity.rest.answer_limits import (
    FRAMING_SHARE,
    MAX_INFORMATIONAL,
    MAX_OVERHEAD_BYTES,
)
from queuegate_server.runtime.pacing import ANSWERS, FREE_SECONDS

_PIECE_BYTES: Final = 8192
"""The maximum number of bytes that are parsed at once. If they arrive as one-byte chunks, this
takes a few milliseconds.
"""
_LONG_ANSWER_PAUSES: Final = 4
"""The factor by which pauses grow once an answer is longer than a piece. A hostile provider can
send such an answer on every connection."""


class ExcessiveAnswer(aiohttp.ClientError):
    """The part of an answer outside its body is larger than allowed."""


class PacedConnector(aiohttp.TCPConnector):
    """Opens connections on which answers are paced and bounded. Must be created in the loop."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        handler: type[ResponseHandler] = _PacedHandler
        self._factory = functools.partial(handler, loop=asyncio.get_running_loop())


class _PacedHandler(ResponseHandler):
    """Passes received data to the parser in pieces, and lets the event loop run between them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._waiting = bytearray()
        self._turn: asyncio.TimerHandle | None = None
        self._lost: tuple[BaseException | None] | None = None
        """Why the connection ended, if data that arrived before is still waiting."""
        self._received = 0
        """The number of bytes that were parsed since the last request."""
        self._informational = 0
        self._is_awaited = False
        """Whether an answer is due."""
        self._body: StreamReader | None = None

    @property
    def should_close(self) -> bool:
        """Whether the connection must not be used for another request."""
        return bool(super().should_close or self._waiting)

    def set_response_params(self, **params: Any) -> None:
        """Expect an answer."""
        self._received = self._informational = 0
        self._is_awaited, self._body = True, None
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Parse received data, now or at its next turn."""
        if not data:  # aiohttp continues with what the parser holds
            super().data_received(data)
            return
        self._waiting += data
        if self._turn is None:
            self._take_turn()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Pass an answer on, if it is expected."""
        message, body = data
        if not self._is_awaited:
            self._give_up("the server sent an answer without a request")
        elif message.code // 100 == 1 and message.code != 101:  # noqa: PLR2004
            self._informational += 1
            if self._informational > MAX_INFORMATIONAL:
                self._give_up(
                    f"the server sent more than {MAX_INFORMATIONAL} informational answers (1xx)"
                )
            else:
                super().feed_data(data, size)
        else:
            self._is_awaited, self._body = False, body
            super().feed_data(data, size)

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - aiohttp's
        """Continue after a pause that aiohttp asked for."""
        super().resume_reading(resume_parser)
        if self._waiting and self._turn is None:
            self._turn = self._loop.call_later(ANSWERS.wait(), self._take_turn)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the connection once all received data is parsed."""
        if self._waiting and self.transport is not None and self.exception() is None:
            self._lost = (exc,)
        else:
            self._drop_waiting()
            super().connection_lost(exc)

    def close(self) -> None:
        """Close the connection."""
        super().close()
        self._end()

    def abort(self) -> None:
        """Close the connection at once."""
        super().abort()
        self._end()

    def _take_turn(self) -> None:
        """Parse waiting data for about a millisecond, unless other connections must come first."""
        self._turn = None
        if ANSWERS.wait() <= 0:
            start = time.monotonic()
            while self._waiting and not self._reading_paused:
                piece = bytes(self._waiting[:_PIECE_BYTES])
                del self._waiting[:_PIECE_BYTES]
                self._received += len(piece)
                super().data_received(piece)
                self._check_size()
                if self.exception() is not None:
                    self._drop_waiting()
                if time.monotonic() - start > FREE_SECONDS:
                    break
            pauses = _LONG_ANSWER_PAUSES if self._received > _PIECE_BYTES else 1
            ANSWERS.wait((time.monotonic() - start) * pauses)
        if self._waiting:
            self._pause_reading_for_buffer()
            if not self._reading_paused:
                self._turn = self._loop.call_later(ANSWERS.wait(), self._take_turn)
        else:
            self._resume_reading_for_buffer()
            self._end()

    def _check_size(self) -> None:
        body = 0 if self._body is None else self._body.total_bytes
        if self._received - body > MAX_OVERHEAD_BYTES + body // FRAMING_SHARE:
            self._give_up(
                f"an answer has more than {MAX_OVERHEAD_BYTES // 1024} KiB besides its body"
            )

    def _give_up(self, reason: str) -> None:
        """End the connection, and the request if it has not been answered."""
        fault = ExcessiveAnswer(reason)
        if self.exception() is None:
            self.set_exception(fault)
        if self._body is not None and not self._body.is_eof():
            self._body.set_exception(fault)
        self._drop_waiting()
        if self.transport is not None:
            self.transport.abort()

    def _drop_waiting(self) -> None:
        self._waiting.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def _end(self) -> None:
        """Report that the connection ended, if this report was postponed."""
        if self.transport is None:
            self._drop_waiting()
        if self._lost is not None and not self._waiting:
            (exc,), self._lost = self._lost, None
            super().connection_lost(exc)
