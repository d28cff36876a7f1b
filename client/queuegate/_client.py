"""The blocking client."""

from typing import Final, Self

from queuegate import _channel
from queuegate._calls import BlockingCalls
from queuegate._methods import ClientMethods
from queuegate._settings import DEFAULT_RETRY, FilePath, Retry, Tls


class Client(ClientMethods):
    """Asks a queuegate server. Blocks; for asyncio there is `queuegate.aio.Client`.

    Any number of threads may share one client, and should: all its calls go over one
    connection, which is made at the first call and again when it is lost. Make clients
    after a fork, not before. Close a client after use, or use it in a `with` statement.

    Every call raises a subclass of `QueuegateError` if there is no answer, and
    TypeError or ValueError for arguments that cannot be right. `timeout` is the limit
    in seconds for the whole call, retries and further pages included.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = 1.0,
        tls: Tls | None = None,
        token_file: FilePath | None = None,
        retry: Retry = DEFAULT_RETRY,
    ) -> None:
        """Take where the server is and how to call it. Does not connect yet.

        Args:
            address: `HOST:PORT`, `[IPV6]:PORT` or `unix:/PATH`; None: the environment
                variable `QUEUEGATE_ADDRESS`, or else `127.0.0.1:50051`.
            timeout: The limit in seconds for calls that name none.
            tls: How to use TLS; None: as the variables `QUEUEGATE_CA_FILE`,
                `QUEUEGATE_CERTIFICATE_FILE`, `QUEUEGATE_KEY_FILE` and `QUEUEGATE_SERVER_NAME`
                say, without them plaintext.
            token_file: Holds the bearer token to show; read again when it changes. None: the
                variable `QUEUEGATE_TOKEN_FILE`. A token is only sent with TLS or on this
                machine.
            retry: How often and when to try again.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An address, a limit or a file is malformed, or the token would be
                sent without encryption.
            OSError: A file of `tls` or the token cannot be read.
        """
        plan = _channel.plan(address, timeout, tls, retry, token_file)
        self.address: Final = plan.address.text
        super().__init__(BlockingCalls(plan))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Calls in flight end with ServerUnavailable, later ones
        raise RuntimeError.
        """
        self._calls.close()
