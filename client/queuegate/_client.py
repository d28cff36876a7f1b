"""The blocking client."""

from collections.abc import Iterable
from typing import ClassVar, Final, NoReturn, Self

from queuegate import _channel
from queuegate._calls import BlockingCalls
from queuegate._methods.client import ClientMethods
from queuegate._settings import DEFAULT_RETRY, FilePath, Retry, Tls


class Client(ClientMethods):
    """A blocking client for a queuegate server. Its asyncio counterpart is `queuegate.aio.Client`.

    A client is thread-safe, and threads should share it. All its calls use a single connection,
    which the client opens on the first call and reopens if it is lost. Create clients after
    forking: in a forked child, calls on existing clients raise RuntimeError. Close a client after
    use, or use it in a `with` statement.

    Failed calls, including calls with invalid arguments, raise a subclass of `QueuegateError`; an
    argument of the wrong type raises TypeError. `timeout` limits the entire call, in seconds,
    including retries and additional pages.

    Attributes:
        address: The server's address.

    Example:
        >>> with queuegate.Client() as client:  # at QUEUEGATE_ADDRESS, or else 127.0.0.1:50051
        ...     try:
        ...         admitted = bool(client.check("sue", "root.analytics.reports"))
        ...     except queuegate.Unavailable as error:
        ...         admitted = False  # retry after error.retry_after, or a second
        >>> admitted
        True
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
        interceptors: Iterable[_channel.Interceptor] = (),
    ) -> None:
        """Create a client. It connects on the first call.

        Args:
            address: `HOST:PORT`, `[IPV6]:PORT` or `unix:/PATH`; `dns:///` may precede a host.
                Defaults to the `QUEUEGATE_ADDRESS` environment variable, or else to
                `127.0.0.1:50051`.
            timeout: The default time limit for calls, in seconds.
            tls: The TLS settings. Defaults to the environment variables `QUEUEGATE_CA_FILE`,
                `QUEUEGATE_CERTIFICATE_FILE`, `QUEUEGATE_KEY_FILE` and `QUEUEGATE_SERVER_NAME`; if
                none is set, connections are plaintext.
            token_file: The path of a regular file that contains the bearer token. Changes are
                picked up. While the file cannot be read, calls send the last token, and
                `queuegate.token` logs a warning. Defaults to the `QUEUEGATE_TOKEN_FILE`
                environment variable. A token is sent only over TLS or within this machine.
            retry: The retry policy.
            metadata: Metadata for each call, as pairs of a lowercase key and a str, or bytes if the
                key ends with `-bin`. For values that change, use an interceptor.
            interceptors: The gRPC client interceptors, outermost first. They see each call once,
                even if it is retried.

        Raises:
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
        )
        self.address: Final = plan.address.text
        super().__init__(BlockingCalls(plan, owner=self._OWNER))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    def __reduce__(self) -> NoReturn:
        """Raise TypeError, because a client cannot be copied or pickled."""
        raise TypeError(f"a {self._OWNER} {_channel.NOT_COPIED}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Pending and later calls raise ClientClosed."""
        self._calls.close()
