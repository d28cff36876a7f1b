"""The HTTP server: requests, responses and errors."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Final, cast

from aiohttp import hdrs, web

from queuegate_server.admin.bodies import (
    BodyLimits,
    RequestRefusal,
    arrived_body,
    checked_length,
    held_slot,
    received_body,
    write_response,
)
from queuegate_server.admin.connections import discard_body
from queuegate_server.admin.http_call import is_loopback_host
from queuegate_server.admin.keep_alive import InProgress
from queuegate_server.config_fields import KIB, MIB
from queuegate_server.observe.counters import CALL_BUCKETS, Histogram
from queuegate_server.runtime.pacing import run_with_pauses, turn_with_pause
from queuegate_server.settings.http import Http
from queuegate_server.transports.http import documents
from queuegate_server.transports.http.context import REQUEST_ID, HttpConnection, HttpContext
from queuegate_server.transports.http.endpoints import ENDPOINTS, EVALUATION, Asked
from queuegate_server.transports.http.failures import CallFailed, HttpFailure
from queuegate_server.transports.http.responses import (
    PlainResponse,
    failed_response,
    is_plain,
    json_response,
)
from queuegate_server.transports.http.searches import EXPLAIN, NO_ACTION
from queuegate_server.transports.http.strict_json import Malformed, read_object
from queuegate_server.transports.http.vocabulary import Vocabulary

Handler = Callable[[bytes, Any], Awaitable[bytes]]
"""Answers a call of a method. Raises CallFailed."""

SMALL_BODY_BYTES: Final = 16 * KIB
"""The maximum size of a body that is parsed at once."""
BODY_SECONDS: Final = 10.0
"""The time limit for a body to arrive, as for a request of gRPC."""
MAX_BODY_BYTES: Final = 2 * MIB
"""The maximum size of a body: 200 bytes for each of 10,000 evaluations or groups. Decoding a string
of this size takes up to 5 ms, in which nothing else runs."""
MAX_BODIES: Final = 16 * MIB
"""The maximum size of the larger bodies that arrive at the same time."""
WAIT_SECONDS: Final = 1.5
"""How long a body may wait for others."""
MAX_ANSWERED: Final = 2
"""The maximum number of larger bodies that are answered at the same time, because what they ask
takes ten times their memory."""
_MAX_REMEMBERED: Final = 1_024
MAX_REMEMBERED_BYTES: Final = 4 * KIB
"""The maximum size of an evaluation that is read before its caller is known, and remembered."""
_OTHER: Final = "other"
"""The label of requests to paths that are not endpoints."""

Admit = Callable[..., Awaitable[None]]
"""Takes an endpoint, its role, the call, and `is_charged`, whether the call counts toward the
caller's rate. Raises CallFailed unless the caller may call it.
"""
InTurn = Callable[[bytes, Callable[[], Any]], Awaitable[Any]]
"""Runs work on a body, one long body at a time. Raises an error under overload."""


class HttpServer:
    """Answers requests with the handlers that are registered for gRPC."""

    def __init__(
        self,
        settings: Http,
        max_message: int,
        *,
        admit: Admit,
        in_turn: InTurn,
        failure_of: Callable[[Exception], HttpFailure],
        knows_token: Callable[[HttpContext], bool],
    ) -> None:
        """Create a server without handlers.

        Args:
            settings: The port's settings.
            max_message: The maximum size of a request, in bytes.
            admit: Checks a caller before a large body is read, and one whose request reaches no
                handler.
            in_turn: Parses bodies.
            failure_of: Returns the failure of a call that has ended with an error.
            knows_token: Returns whether a bearer token identifies the caller.
        """
        self._url = settings.public_url
        self._words = Vocabulary(settings)
        self._admit_call = admit
        self._in_turn = in_turn
        self._failure_of = failure_of
        self._knows_token = knows_token
        self._handlers: dict[str, Handler] = {}
        self._limits = BodyLimits(
            min(max_message, MAX_BODY_BYTES),
            small_bytes=SMALL_BODY_BYTES,
            small_entries=SMALL_BODY_BYTES,  # no small body has more
            small_seconds=BODY_SECONDS,
            large_seconds=BODY_SECONDS,
            wait_seconds=WAIT_SECONDS,
            other_type=HTTPStatus.BAD_REQUEST,
        )
        self._arriving = asyncio.Semaphore(MAX_BODIES // MAX_BODY_BYTES)
        self._answering = asyncio.Semaphore(MAX_ANSWERED)
        self._reading_small, self._reading_large = asyncio.Lock(), asyncio.Lock()
        self._writing = asyncio.Lock()
        self._remembered = lru_cache(_MAX_REMEMBERED)(partial(self._read, EVALUATION))
        self.in_progress = InProgress()
        self.is_draining = False
        self.counts: Counter[tuple[str, int]] = Counter()
        """The number of responses by endpoint and status."""
        self.durations = {path: Histogram(CALL_BUCKETS) for path in ENDPOINTS}

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """Do nothing; `add_registered_method_handlers` receives the same handlers."""

    def add_registered_method_handlers(self, _service: str, handlers: Mapping[str, Any]) -> None:
        """Answer requests with the methods of a service."""
        self._handlers |= {name: handler.unary_unary for name, handler in handlers.items()}

    async def respond(
        self, request: web.BaseRequest, *, is_local: bool, is_unix: bool
    ) -> web.StreamResponse:
        """Answer a request that arrived at an address."""
        connection = cast("HttpConnection", request.protocol)
        self.in_progress.begin(connection)
        try:
            start = time.perf_counter()
            path = request.raw_path.partition("?")[0]
            context = HttpContext(request, None, is_local, is_unix)
            response = await self._response(path, request, context)
            if isinstance(response, web.Response):
                if self.is_draining or not request.content.is_eof():
                    response.force_close()
                discard_body(request)
                await write_response(request, response)
            endpoint = path if path in ENDPOINTS else _OTHER
            self.counts[endpoint, response.status] += 1
            if endpoint is not _OTHER:
                self.durations[path].add(time.perf_counter() - start)
            return response
        finally:
            self.in_progress.end(connection)

    async def _response(
        self, path: str, request: web.BaseRequest, context: HttpContext
    ) -> web.Response | PlainResponse:
        """Return the response to a request, or that of an error."""
        try:
            body = await self._body(path, request, context)
            if is_plain(request, body) and not self.is_draining:
                return PlainResponse(body)
            response = json_response(HTTPStatus.OK, body)
        except ConnectionError:
            raise
        except Exception as error:  # at this boundary, every error becomes a status
            failure = error.failure if isinstance(error, CallFailed) else self._failure_of(error)
            response = failed_response(failure)
        if request_id := request.headers.get(REQUEST_ID, context.request_id):
            response.headers[REQUEST_ID] = request_id
        return response

    async def _body(self, path: str, request: web.BaseRequest, context: HttpContext) -> bytes:
        """Return the JSON of a response. Raises CallFailed."""
        self._check_origin(request, context)
        document = None if path in ENDPOINTS else documents.document(path, request, self._url)
        allowed = hdrs.METH_POST if document is None else hdrs.METH_GET
        if request.method != allowed:
            raise CallFailed(HttpFailure(405, f"the method must be {allowed}", 0, allowed))
        if document is not None:
            return document
        try:
            if path != EVALUATION or (request.content_length or 0) > MAX_REMEMBERED_BYTES:
                # Strangers do not wait where callers wait.
                await self._admit(path, context)
            if hdrs.EXPECT in request.headers:
                checked_length(self._limits, request)
                await _continue(request)
            elif (body := arrived_body(self._limits, request)) is not None:
                return await self._answer(path, body, context)
            async with received_body(self._limits, self._arriving, request) as body:
                if self._limits.is_small(body):
                    return await self._answer(path, body, context)
                async with held_slot(self._limits, self._answering):
                    return await self._answer(path, body, context)
        except RequestRefusal as error:
            raise CallFailed(HttpFailure(error.status, str(error), 1)) from None
        except Malformed as error:
            # Only known callers learn what is wrong.
            await self._admit(path, context, is_charged=True)
            raise CallFailed(HttpFailure(HTTPStatus.BAD_REQUEST, str(error))) from None

    async def _answer(self, path: str, body: bytes, context: HttpContext) -> bytes:
        """Return the JSON of an endpoint's response. Raises CallFailed, Malformed and
        RequestRefusal.
        """
        if path == EVALUATION and len(body) <= MAX_REMEMBERED_BYTES:
            asked = self._remembered(body)
        else:
            asked = await self._read_in_turn(path, body)
        responses: list[bytes] = []
        for method, data in asked.calls:
            try:
                responses.append(await self._handlers[method](data, context))
            except CallFailed as error:
                is_invalid = error.failure.status == HTTPStatus.BAD_REQUEST
                if method != EXPLAIN or not responses or not is_invalid:
                    raise
                responses.append(NO_ACTION)
        if not responses:
            await self._admit(path, context, is_charged=True)
        return await run_with_pauses(asked.answer(responses), self._writing)

    async def _read_in_turn(self, path: str, body: bytes) -> Asked:
        """Return what a body asks. Raises Malformed and RequestRefusal."""
        # A large body also waits for the long calls of gRPC, and small ones need not wait for that.
        is_small = len(body) <= SMALL_BODY_BYTES
        turn = self._reading_small if is_small else self._reading_large
        try:
            async with turn_with_pause(turn, WAIT_SECONDS):
                asked: Asked = await self._in_turn(body, partial(self._read, path, body))
                return asked
        except TimeoutError:
            message = "too many bodies are waiting to be read"
            raise RequestRefusal(429, "overloaded", message) from None

    def _read(self, path: str, body: bytes) -> Asked:
        """Return what a body asks. Raises Malformed."""
        return ENDPOINTS[path].read(self._words, read_object(body))

    async def _admit(self, path: str, context: HttpContext, *, is_charged: bool = False) -> None:
        """Raise CallFailed unless the caller has the role of an endpoint, and keeps to its rate."""
        await self._admit_call(path, ENDPOINTS[path].role, context, is_charged=is_charged)

    def _check_origin(self, request: web.BaseRequest, context: HttpContext) -> None:
        """Raise CallFailed if a request on a local address does not come from this machine.

        It may come through a proxy, or from a page whose host name leads to loopback (DNS
        rebinding). A token identifies its caller all the same.
        """
        if not context.local_port:
            return
        is_elsewhere = not context.is_unix and not is_loopback_host(request)
        if not (is_elsewhere or context.is_forwarded) or self._knows_token(context):
            return
        if is_elsewhere:
            message = (
                "this address is on loopback: use localhost or a loopback IP address in the URL, or"
                " send a bearer token"
            )
            raise CallFailed(HttpFailure(HTTPStatus.MISDIRECTED_REQUEST, message))
        message = "a proxy must send its caller's bearer token"
        raise CallFailed(HttpFailure(HTTPStatus.UNAUTHORIZED, message))


async def _continue(request: web.BaseRequest) -> None:
    """Let a client that waits for that send its body. Raises CallFailed."""
    if request.headers[hdrs.EXPECT].lower() != "100-continue":
        message = "the only expectation that can be met is 100-continue"
        raise CallFailed(HttpFailure(HTTPStatus.EXPECTATION_FAILED, message))
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # What follows is the response, which is not yet part of it.
    request.writer.output_size = 0
