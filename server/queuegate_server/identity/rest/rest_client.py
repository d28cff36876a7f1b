"""Sends requests to an identity provider over bounded connections, with deadlines."""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import aiohttp
from yarl import URL

from queuegate_server.identity.certificate_advice import certificate_advice
from queuegate_server.identity.rest.access_tokens import AccessToken, Credentials, token_in
from queuegate_server.identity.rest.answer_limits import MAX_BODY_BYTES
from queuegate_server.identity.rest.answers import (
    HttpAnswer,
    check_answer,
    decoded,
    requested_pause,
)
from queuegate_server.identity.rest.faults import (
    BadRequest,
    RequestFault,
    Throttled,
    UnusableAnswer,
    for_message,
)
from queuegate_server.identity.rest.paced_connections import ExcessiveAnswer, PacedConnector
from queuegate_server.identity.rest.provider_options import RestOptions, version_of
from queuegate_server.identity.rest.request_statistics import RequestStep, StepObserver
from queuegate_server.runtime.pacing import ANSWERS

MAX_CONNECTIONS: Final = 32
"""The maximum number of connections, and thus of concurrent requests: at 50 ms for each, 640
requests a second, which is more than providers allow one client."""
CONNECT_SECONDS: Final = 2.0
"""How long TCP and TLS may take. `request_timeout` includes it; this shorter limit distinguishes a
firewall that drops connections from a slow provider."""
_CHUNK_BYTES: Final = 64 * 1024
_KEEPALIVE_SECONDS: Final = 55.0
"""How long an idle connection is kept. A new one with TLS takes longer than the rest of a lookup.
Many proxies and load balancers end connections that were idle for 60 s."""
_TLS_CHECK_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 1.0
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_SECRETS: Final = ("client_secret", "client_assertion")
"""Parameters of a token request that messages must not contain."""
_ISSUANCE: Final = "token"
"""The name of token requests, and of their quota."""


class RestClient:
    """Requests JSON from one provider. `open` must be called in the event loop, before use.

    Args:
        options: The settings.
        clock: A monotonic clock, in seconds.
        observe: Called with each request that was sent.
    """

    def __init__(
        self, options: RestOptions, clock: Callable[[], float], observe: StepObserver
    ) -> None:
        self.options = options
        self._clock = clock
        self._observe = observe
        self._session: aiohttp.ClientSession | None = None
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._tls: ssl.SSLContext | None = None
        self._tls_version: object = None
        self._tls_checked = 0.0
        self._paused_until: dict[str, float] = {}
        """The end of each quota's pause, on the monotonic clock."""

    async def open(self) -> None:
        """Prepare for requests, without connecting. Raises OSError or ValueError."""
        self._tls = await asyncio.to_thread(self.options.tls_context)
        self._tls_version = await version_of(self.options.ca_file)
        self._tls_checked = self._clock()
        connector = PacedConnector(
            limit=MAX_CONNECTIONS,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            socket_factory=self._new_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            skip_auto_headers=("User-Agent",),
        )

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await self._end_shutdowns()

    def _new_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        created = socket.socket(family, kind, protocol)
        self._sockets.add(created)
        return created

    async def _end_shutdowns(self) -> None:
        """Close connections of abandoned requests, whose servers may not answer the TLS shutdown.

        aiohttp forgets these connections, and asyncio waits for the servers for up to 30 s.
        """
        for each in self._sockets:
            with contextlib.suppress(OSError):  # closed, or never connected
                each.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while any(each.fileno() >= 0 for each in self._sockets):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.001)

    async def get(
        self,
        what: str,
        url: URL,
        credentials: Credentials,
        headers: Mapping[str, str] | None = None,
        *,
        right: str = "",
        quota: str = "",
        is_optional: bool = False,
    ) -> tuple[Any, Mapping[str, str]]:
        """Return the JSON at an address, and the answer's headers. Raises RequestFault.

        Args:
            what: The requested resource; messages contain it.
            url: The address, already encoded.
            credentials: The source of the Authorization header. If the API rejects the header, it
                is renewed once.
            headers: Further headers.
            right: The right that the request needs; messages contain it.
            quota: Which of the provider's limits the request counts towards. A pause that the
                provider asks for applies to requests of the same quota.
            is_optional: Whether a failure requires no action by an administrator.
        """
        for is_last in (False, True):
            self._check_pause(quota)
            header = await credentials.header()
            with self._timed(what, is_optional=is_optional) as step:
                answer = await self._send(
                    what,
                    "GET",
                    url,
                    secrets=(header.partition(" ")[2],),
                    headers={**(headers or {}), "Authorization": header},
                )
                self._note_pause(answer, quota)
                step.detail = f"{answer.status}, {len(answer.body)} bytes"
                if answer.status != _UNAUTHORIZED or is_last:
                    check_answer(answer, right)
                    return await _decode(answer), answer.headers
                step.fault = "the server rejected the token (401)"
            credentials.drop(header)
        raise AssertionError

    async def token(self, url: URL, form: Mapping[str, str]) -> AccessToken:
        """Request an access token. Raises RequestFault.

        Args:
            url: The token endpoint.
            form: The parameters of the request.
        """
        secrets = tuple(form[key] for key in _SECRETS if key in form)
        # Token requests have a separate quota, so that lookups continue with a token that is still
        # valid.
        self._check_pause(_ISSUANCE)
        with self._timed(_ISSUANCE) as step:
            try:
                answer = await self._send(_ISSUANCE, "POST", url, secrets=secrets, form=form)
                self._note_pause(answer, _ISSUANCE)
                token = token_in(answer, self.options.issuer_settings)
            except (BadRequest, UnusableAnswer) as fault:
                # The fault does not depend on a user.
                raise RequestFault(fault.detail, fault.advice) from None
            step.detail = f"valid for {token.lifetime:g} s"
            return token

    async def _send(
        self,
        what: str,
        method: str,
        url: URL,
        *,
        secrets: tuple[str, ...],
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Send a request, and return the answer regardless of its status. Raises RequestFault."""
        if self._session is None:
            raise RequestFault("the resolver is not open")
        context = await self._current_tls()
        try:
            async with (
                asyncio.timeout(self.options.request_timeout),
                self._session.request(
                    method,
                    url,
                    headers=headers,
                    data=form,
                    ssl=context,
                    proxy=self.options.proxy,
                    allow_redirects=False,
                ) as response,
            ):
                body = await _body(what, response)
                return HttpAnswer(what, response.status, _headers(response), body, secrets)
        except TimeoutError as error:
            raise self._timeout_fault(what, error) from None
        except ExcessiveAnswer as error:
            advice = "check the address, and whether a proxy answers instead"
            raise RequestFault(f"{what}: {error}", advice) from None
        except aiohttp.ClientError as error:
            raise self._connection_fault(what, error) from None

    @contextlib.contextmanager
    def _timed(self, name: str, *, is_optional: bool = False) -> Iterator[RequestStep]:
        """Time a request, and report it even if it fails or is cancelled."""
        step = RequestStep(name)
        start = time.perf_counter()
        try:
            yield step
        except RequestFault as fault:
            if is_optional:
                step.detail = f"not shown: {fault.detail}"
            else:
                step.fault, step.advice = fault.detail, fault.advice
            step.is_throttled = isinstance(fault, Throttled)
            raise
        except BaseException as error:
            step.fault = _abandonment(error)
            raise
        finally:
            step.seconds = time.perf_counter() - start
            self._observe(step)

    def _check_pause(self, quota: str) -> None:
        """Raise Throttled if the provider has asked for a pause that has not ended."""
        remaining = self._paused_until.get(quota, 0.0) - self._clock()
        if remaining > 0:
            raise Throttled(
                "the server is throttling requests, and asked for a pause: "
                f"{remaining:.0f} s remain"
            )

    def _note_pause(self, answer: HttpAnswer, quota: str) -> None:
        pause = requested_pause(answer.headers)
        if pause is None and answer.status == 429:  # noqa: PLR2004
            pause = requested_pause({"retry-after": ""})
        if pause is not None:
            until = max(self._paused_until.get(quota, 0.0), self._clock() + pause)
            self._paused_until[quota] = until

    async def _current_tls(self) -> ssl.SSLContext:
        """Return the SSL context. If the CA file has changed, read it again first."""
        assert self._tls is not None  # noqa: S101 - set by `open`
        now = self._clock()
        if self.options.ca_file is not None and now - self._tls_checked >= _TLS_CHECK_SECONDS:
            version = await version_of(self.options.ca_file)
            if version != self._tls_version:
                try:
                    self._tls = await asyncio.to_thread(self.options.tls_context)
                except ValueError as error:
                    raise RequestFault(str(error)) from None
                self._tls_version = version
            self._tls_checked = now
        return self._tls

    def _timeout_fault(self, what: str, error: TimeoutError) -> RequestFault:
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return RequestFault(
                f"{what}: no connection within {CONNECT_SECONDS:g} s",
                "check the address, the port, and any firewalls and proxies",
            )
        return RequestFault(
            f"{what}: no answer within {self.options.request_timeout:g} s (request_timeout)",
            "check the server's load, and any firewalls and proxies",
        )

    def _connection_fault(self, what: str, error: aiohttp.ClientError) -> RequestFault:
        """Return the fault for a failed connection, with its cause and what to check."""
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            cause = error.certificate_error
            if isinstance(cause, ssl.SSLCertVerificationError):
                return RequestFault(
                    f"{what}: the server's certificate is not valid: {cause.verify_message}",
                    certificate_advice(cause.verify_code, "the address"),
                )
        if isinstance(error, aiohttp.ClientSSLError):
            return RequestFault(
                f"{what}: the TLS handshake failed",
                "check tls_min_version, and whether the port speaks TLS",
            )
        if isinstance(error, aiohttp.ClientHttpProxyError):
            return RequestFault(
                f"{what}: the proxy refused the connection ({error.status})", "check proxy"
            )
        if isinstance(error, aiohttp.ClientConnectorError):
            peer, proxy = f"{for_message(error.host)}:{error.port}", self.options.proxy
            if proxy is not None:
                is_proxy = (error.host, error.port) == (URL(proxy).host, URL(proxy).port)
                peer = f"the proxy {peer}" if is_proxy else f"{peer} through the proxy"
            return RequestFault(
                f"{what}: cannot connect to {peer}: {_os_reason(error.os_error)}",
                "check proxy" if proxy else "check the address, the port, and any firewalls",
            )
        if isinstance(error, _BROKEN):
            return RequestFault(
                f"{what}: the server closed the connection in the middle of its answer",
                "check whether the port expects https:// or http://"
                + (", and whether the setting proxy names a proxy" if self.options.proxy else ""),
            )
        return RequestFault(f"{what}: the answer is not valid HTTP: {type(error).__name__}")


def _abandonment(error: BaseException) -> str:
    """Return why a request was not completed."""
    if isinstance(error, asyncio.CancelledError):
        return "abandoned, because the lookup took too long or ended"
    return f"abandoned: {type(error).__name__}"


def _os_reason(error: OSError) -> str:
    """Return why a connection failed. asyncio puts addresses into the error's text."""
    if isinstance(error, socket.gaierror):
        return for_message(error.strerror) or "the name cannot be resolved"
    if error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    if isinstance(error, ConnectionError):  # asyncio raises some without a number
        return "the connection was closed"
    return for_message(error.strerror) or type(error).__name__


_BROKEN: Final = (
    aiohttp.ClientPayloadError,
    aiohttp.ServerDisconnectedError,
    aiohttp.ClientOSError,
)


async def _decode(answer: HttpAnswer) -> Any:
    """Return the JSON in an answer, after any pause that earlier long work requires.

    Raises RequestFault.
    """
    await ANSWERS.take_turn()
    start = time.perf_counter()
    try:
        return decoded(answer)
    finally:
        ANSWERS.wait(time.perf_counter() - start)


async def _body(what: str, response: aiohttp.ClientResponse) -> bytes:
    """Read the body of an answer, which must not be compressed or too large."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise RequestFault(
            f"{what}: the server compressed its answer although it was asked not to",
            "check whether a proxy changes requests",
        )
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            fault = UnusableAnswer if response.status == _OK else RequestFault
            raise fault(
                f"{what}: the answer is larger than {MAX_BODY_BYTES // 1024 // 1024} MiB",
                "put the user in fewer groups, or shorten the descriptions of the groups",
            )
    return bytes(body)


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    """Return the headers by their names in lower case; values of the same name are joined."""
    joined: dict[str, str] = {}
    for key, value in response.headers.items():
        name = key.lower()
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
