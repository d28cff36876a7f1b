"""Requests to the API server: bounded answers, and a time limit on every wait.

Answers are read in short steps (`paced_connections.py`), so that a hostile or endless answer cannot
block the event loop.
"""

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from queuegate_server.identity.rest.paced_connections import PacedConnector
from queuegate_server.policystore.kubernetes.account import Account, CannotAsk

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 10.0
"""How long the next part of an answer may take."""
ANSWER_SECONDS: Final = 60.0
"""How long an answer that is not a watch may take."""
MAX_OBJECT_BYTES: Final = 10 * 1024 * 1024
"""The maximum size of an object. etcd keeps 1.5 MiB, which JSON writes in up to six times as many
bytes."""
_CHUNK_BYTES: Final = 64 * 1024
_ERROR_BYTES: Final = 4_096
JSON: Final = "application/json"


class ApiFault(Exception):
    """The API server could not be queried, or its answer cannot be used. The message says why."""


class VersionGone(ApiFault):
    """The API server no longer knows the version that was asked for (410)."""


class NotServed(ApiFault):
    """The API server does not serve the resource (404)."""


class TooLong(ApiFault):
    """The answer is longer than it may be."""


class ApiClient:
    """Sends requests to one API server. `open` must be called in the event loop, before use."""

    def __init__(self, account: Account) -> None:
        self.account: Final = account
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Prepare for requests, without connecting."""
        self._session = aiohttp.ClientSession(
            connector=PacedConnector(limit=32),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={"Accept-Encoding": "identity"},
            skip_auto_headers=("User-Agent",),
        )

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(
        self, path: str, query: Mapping[str, str], max_bytes: int, accept: str = JSON
    ) -> bytes:
        """Return an answer. Raises ApiFault."""
        async with self._answer(path, query, ANSWER_SECONDS, READ_SECONDS, accept) as response:
            body = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                body += chunk
                if len(body) > max_bytes:
                    raise TooLong(f"an answer is longer than {max_bytes} bytes")
            return bytes(body)

    @asynccontextmanager
    async def watch(
        self, path: str, query: Mapping[str, str], seconds: float, accept: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Provide the lines of an answer that may pause, but must end within a time limit.

        Raises ApiFault, including if the answer is not complete.
        """
        async with self._answer(path, query, seconds, seconds, accept) as response:
            yield _lines(response)

    @asynccontextmanager
    async def _answer(
        self, path: str, query: Mapping[str, str], seconds: float, read_seconds: float, accept: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and provide its answer if it is a success. Raises ApiFault."""
        if self._session is None:
            raise ApiFault("the client is closed")
        headers = {"Accept": accept}
        waits = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=read_seconds
        )
        try:
            async with asyncio.timeout(seconds):
                url, token, tls = await asyncio.to_thread(self.account.credentials)
                if token:
                    headers["Authorization"] = f"Bearer {token}"
                async with self._session.get(
                    url.joinpath(path.lstrip("/")).with_query(query),
                    headers=headers,
                    ssl=tls or False,
                    allow_redirects=False,
                    timeout=waits,
                ) as response:
                    if response.headers.get("Content-Encoding", "identity") != "identity":
                        raise ApiFault(
                            "the API server compressed its answer although it was asked not to"
                        )
                    if response.status != 200:  # noqa: PLR2004 - the only success
                        raise await _refusal(response)
                    yield response
        except CannotAsk as error:
            raise ApiFault(str(error)) from None
        except TimeoutError:
            raise ApiFault("the API server did not answer in time") from None
        except aiohttp.ClientError as error:
            raise ApiFault(_connection_fault(error)) from None
        except ValueError:  # aiohttp's, such as a line of a header that is too long
            raise ApiFault("the answer is not valid HTTP") from None


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    line = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield bytes(line + end)
            line.clear()
        line += rest
        if len(line) > MAX_OBJECT_BYTES:
            raise TooLong(f"a line is longer than {MAX_OBJECT_BYTES} bytes")
    if line:
        raise ApiFault("the last line of a watch has no end")


async def _refusal(response: aiohttp.ClientResponse) -> ApiFault:
    status = response.status
    # Read only the beginning, and show none of it, because it may contain the names of objects.
    await response.content.read(_ERROR_BYTES)
    kinds: dict[int, Callable[[str], ApiFault]] = {404: NotServed, 410: VersionGone}
    why = {
        401: "the API server does not know the account (401): check the token or certificate",
        403: "the account has no permission to list and watch this (403): apply the ClusterRole for"
        " RBAC",
        404: "the API server does not serve this (404)",
        410: "the API server no longer has this version (410)",
        429: "the API server is busy (429)",
    }.get(status, f"the API server responded with status {status}")
    return kinds.get(status, ApiFault)(why)


def _connection_fault(error: aiohttp.ClientError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        why = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else "?"
        return f"the API server's certificate is not valid: {why}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        why = os.strerror(number) if number in errno.errorcode else type(error.os_error).__name__
        return f"cannot connect to the API server: {why}"
    return f"the connection to the API server failed: {type(error).__name__}"
