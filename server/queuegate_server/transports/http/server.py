"""The HTTP server: requests, responses and errors."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from aiohttp import hdrs, web

from queuegate_server.admin.bodies import (
    JSON,
    BodyLimits,
    RequestRefusal,
    received_body,
    write_response,
)
from queuegate_server.admin.connections import HEADERS, discard_body
from queuegate_server.admin.http_call import is_loopback_host
from queuegate_server.admin.keep_alive import InProgress
from queuegate_server.config_fields import KIB, MIB
from queuegate_server.observe.counters import CALL_BUCKETS, Histogram
from queuegate_server.settings.callers import Role
from queuegate_server.settings.http import Http
from queuegate_server.transports.http import answers, documents, evaluations, searches
from queuegate_server.transports.http.context import HttpConnection, HttpContext
from queuegate_server.transports.http.failures import RETRIED, CallFailed, HttpFailure
from queuegate_server.transports.http.strict_json import Malformed, read_object
from queuegate_server.transports.http.vocabulary import Vocabulary

Handler = Callable[[bytes, Any], Awaitable[bytes]]
"""Answers a call of a method. Raises CallFailed."""

SMALL_BODY_BYTES: Final = 16 * KIB
"""The maximum size of a body that is read before its caller is known, and parsed at once."""
BODY_SECONDS: Final = 10.0
"""The time limit for a body to arrive, as for a request of gRPC."""
MAX_BODIES: Final = 64 * MIB
"""The maximum size of the larger bodies that arrive at the same time."""
WAIT_SECONDS: Final = 1.5
"""How long a larger body may wait for others."""
_MAX_REMEMBERED: Final = 1_024
_MAX_REMEMBERED_BYTES: Final = KIB
_READERS: Final[Mapping[str, Callable[[Vocabulary, bytes], Any]]] = {
    documents.EVALUATION: evaluations.read_question,
    documents.EVALUATIONS: evaluations.read_evaluations,
}
_SERVICE: Final = "queuegate.v1.AccessService"
_RESPONSE_HEADERS: Final = {**HEADERS, hdrs.CONTENT_TYPE: JSON, hdrs.SERVER: "queuegate"}
_OTHER: Final = "other"
"""The label of requests to paths that are not endpoints."""


Admit = Callable[[str, Role, Any], Awaitable[None]]
"""Raises CallFailed unless the caller has the role that a method needs."""
InTurn = Callable[[bytes, Callable[[], Any]], Awaitable[Any]]
"""Runs work on a body, one long body at a time. Raises CallFailed under overload."""


class HttpEndpoint(NamedTuple):
    """An endpoint of the standard."""

    method: str
    """A method of the contract that answers it."""
    role: Role
    """The role that the method requires."""


ENDPOINTS: Final[Mapping[str, HttpEndpoint]] = {
    documents.EVALUATION: HttpEndpoint("CheckQueueAccess", Role.CHECK),
    documents.EVALUATIONS: HttpEndpoint("BatchCheckQueueAccess", Role.CHECK),
    **{path: HttpEndpoint(method, Role.READ) for path, method in searches.METHODS.items()},
}
"""The endpoints by path."""


class HttpServer:
    """Answers requests with the handlers that are registered for gRPC."""

    def __init__(
        self,
        settings: Http,
        max_body: int,
        admit: Admit,
        in_turn: InTurn,
        knows_token: Callable[[HttpContext], bool],
    ) -> None:
        """Create a server without handlers.

        Args:
            settings: The port's settings.
            max_body: The maximum size of a body, in bytes.
            admit: Checks a caller before a large body is read, and for a request that reaches no
                handler.
            in_turn: Parses bodies.
            knows_token: Returns whether a bearer token identifies the caller.
        """
        self._url = settings.public_url
        self._words = Vocabulary(settings)
        self._admit_call = admit
        self._in_turn = in_turn
        self._knows_token = knows_token
        self._handlers: dict[str, Handler] = {}
        self._limits = BodyLimits(
            max_body,
            SMALL_BODY_BYTES,
            SMALL_BODY_BYTES,
            BODY_SECONDS,
            BODY_SECONDS,
            WAIT_SECONDS,
            other_type=HTTPStatus.BAD_REQUEST,
        )
        self._slots = asyncio.Semaphore(max(1, MAX_BODIES // max_body))
        self._remembered = lru_cache(_MAX_REMEMBERED)(
            partial(evaluations.read_question, self._words)
        )
        self._answered = lru_cache(_MAX_REMEMBERED)(evaluations.SingleEvaluation.answer)
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
        connection = request.protocol
        if not isinstance(connection, HttpConnection):
            raise TypeError("the connection is not an HttpConnection")
        with self.in_progress.request(connection):
            start = time.perf_counter()
            context = HttpContext(request, None, is_local, is_unix)
            path = request.raw_path.partition("?")[0]
            response = await self._response(path, request, context)
            await self._write(request, response)
            endpoint = path if path in ENDPOINTS else _OTHER
            self.counts[endpoint, response.status] += 1
            if endpoint is not _OTHER:
                self.durations[path].add(time.perf_counter() - start)
            return response

    async def _write(self, request: web.BaseRequest, response: web.Response) -> None:
        """Send a response, and close the connection if the request has not been read."""
        if self.is_draining or not request.content.is_eof():
            response.force_close()
        discard_body(request)
        await write_response(request, response)

    async def _response(
        self, path: str, request: web.BaseRequest, context: HttpContext
    ) -> web.Response:
        """Return the response to a request, or that of an error."""
        headers = dict(_RESPONSE_HEADERS)
        status, body = 200, b""
        try:
            if "X-Request-ID" in request.headers:
                headers["X-Request-ID"] = request.headers["X-Request-ID"]
            body = await self._body(path, request, context)
        except CallFailed as error:
            status, message, seconds = error.failure
            body = answers.encode(message)
            if status in RETRIED:
                headers[hdrs.RETRY_AFTER] = str(seconds)
            if status == HTTPStatus.UNAUTHORIZED:
                headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
            if context.request_id:
                headers.setdefault("X-Request-ID", context.request_id)
        except web.HTTPException as error:
            status, body = error.status, answers.encode(error.text or error.reason)
            if hdrs.ALLOW in error.headers:
                headers[hdrs.ALLOW] = error.headers[hdrs.ALLOW]
        # The newline is for people: the prompt of a shell follows curl's output.
        return web.Response(body=body + b"\n", status=status, headers=headers)

    async def _body(self, path: str, request: web.BaseRequest, context: HttpContext) -> bytes:
        """Return the JSON of a response. Raises CallFailed and HTTPException."""
        self._check_origin(request, context)
        endpoint = ENDPOINTS.get(path)
        if endpoint is None:
            return documents.document(path, request, self._url)
        if request.method != hdrs.METH_POST:
            raise web.HTTPMethodNotAllowed(request.method, [hdrs.METH_POST])
        try:
            if (request.content_length or 0) > SMALL_BODY_BYTES:
                await self._admit(endpoint, context)
            await _continue(request)
            async with received_body(self._limits, self._slots, request) as body:
                return await self._answer(path, endpoint, body, context)
        except RequestRefusal as error:
            raise CallFailed(HttpFailure(error.status, str(error), 1)) from None
        except Malformed as error:
            # Only known callers learn what is wrong.
            await self._admit(endpoint, context)
            raise CallFailed(HttpFailure(HTTPStatus.BAD_REQUEST, str(error))) from None

    async def _answer(
        self, path: str, endpoint: HttpEndpoint, body: bytes, context: HttpContext
    ) -> bytes:
        """Return the JSON of an endpoint's response. Raises CallFailed and Malformed."""
        if path in searches.SEARCHES:
            return await self._search(path, endpoint, body, context)
        is_short = path == documents.EVALUATION and len(body) <= _MAX_REMEMBERED_BYTES
        asked: evaluations.SingleEvaluation | evaluations.Batch
        if is_short:
            asked = self._remembered(body)
        else:
            read = partial(_READERS[path], self._words, body)
            asked = await self._in_turn(body, read)
        if isinstance(asked, evaluations.SingleEvaluation):
            data = await self._handlers[asked.method](asked.data, context)
            return self._answered(asked, data) if is_short else asked.answer(data)
        responses = [
            (checks, await self._handlers[method](data, context))
            for method, checks, data in asked.calls()
        ]
        if not responses:
            await self._admit(endpoint, context)
        return await asked.answer(responses)

    async def _search(
        self, path: str, endpoint: HttpEndpoint, body: bytes, context: HttpContext
    ) -> bytes:
        def read() -> searches.Search:
            return searches.SEARCHES[path](self._words, path, read_object(body))

        search = await self._in_turn(body, read)
        if not search.calls:
            await self._admit(endpoint, context)
        found = [
            await self._handlers[search.method](call.SerializeToString(), context)
            for call in search.calls
        ]
        return answers.encode(search.build(found))

    async def _admit(self, endpoint: HttpEndpoint, context: HttpContext) -> None:
        """Raise CallFailed unless the caller has the role of an endpoint."""
        await self._admit_call(f"{_SERVICE}.{endpoint.method}", endpoint.role, context)

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
                "this address is on loopback: ask for localhost or an IP address of loopback, or"
                " send a bearer token"
            )
            raise CallFailed(HttpFailure(HTTPStatus.MISDIRECTED_REQUEST, message))
        message = "a proxy must send the bearer token of its caller"
        raise CallFailed(HttpFailure(HTTPStatus.UNAUTHORIZED, message))


async def _continue(request: web.BaseRequest) -> None:
    """Let a client send its body, if it waits for that. Raises HTTPExpectationFailed."""
    expected = request.headers.get(hdrs.EXPECT)
    if expected is None:
        return
    if expected.lower() != "100-continue":
        raise web.HTTPExpectationFailed
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # What follows is the response, which is not yet part of it.
    request.writer.output_size = 0
