"""The asyncio client."""

from collections.abc import Iterable
from typing import ClassVar, Final, NoReturn, Self

import grpc.aio

from queuegate import _channel
from queuegate._calls import AsyncCalls
from queuegate._methods.async_client import AsyncClientMethods
from queuegate._settings import DEFAULT_RETRY, FilePath, Retry, Tls


class Client(AsyncClientMethods):
    """An asyncio client for a queuegate server, with the same methods as `queuegate.Client`.

    A client belongs to the event loop that was running when it was created. Tasks should share a
    client, since all its calls use a single connection. Canceling a task cancels its call. Close a
    client after use, or use it in an `async with` statement.

    Failed calls, including calls with invalid arguments, raise a subclass of `QueuegateError`; an
    argument of the wrong type raises TypeError. `timeout` limits the entire call, in seconds,
    including retries and additional pages.

    Attributes:
        address: The server's address.

    Example:
        >>> import asyncio
        >>> async def admitted(users):
        ...     async with aio.Client() as client:
        ...         checks = (client.check(user, "root.analytics.reports") for user in users)
        ...         return [bool(decision) for decision in await asyncio.gather(*checks)]
        >>> asyncio.run(admitted(["sue", "john"]))
        [True, False]
    """

    _OWNER: ClassVar = "client"
    """This object's name in error messages."""

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = 1.0,
        tls: Tls | None = None,
        token_file: FilePath | None = None,
        retry: Retry = DEFAULT_RETRY,
        metadata: _channel.CallMetadata = (),
        interceptors: Iterable[grpc.aio.ClientInterceptor] = (),
    ) -> None:
        """Create a client. TLS and token files are read immediately; the client connects on the
        first call.

        Args:
            address: As for `queuegate.Client`.
            timeout: The default time limit for calls, in seconds.
            tls: As for `queuegate.Client`.
            token_file: As for `queuegate.Client`.
            retry: The retry policy.
            metadata: As for `queuegate.Client`.
            interceptors: As for `queuegate.Client`, but from `grpc.aio`.

        Raises:
            RuntimeError: No event loop is running.
            TypeError: An argument has the wrong type.
            ValueError: An address, a limit or a file is invalid, or the token would be sent
                unencrypted.
            OSError: A `tls` file or the token file cannot be read.
        """
        plan = _channel.plan(
            address,
            timeout,
            tls,
            retry,
            token_file,
            metadata=metadata,
            interceptors=interceptors,
            kind=grpc.aio.ClientInterceptor,
        )
        self.address: Final = plan.address.text
        super().__init__(AsyncCalls(plan, owner=self._OWNER))

    def __repr__(self) -> str:
        return f"queuegate.aio.{type(self).__name__}({self.address!r})"

    def __reduce__(self) -> NoReturn:
        """Raise TypeError, because a client cannot be copied or pickled."""
        raise TypeError(f"a {self._OWNER} {_channel.NOT_COPIED}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Pending and later calls raise ClientClosed."""
        await self._calls.close()
