"""The blocking gate."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

import grpc

from queuegate._client import Client
from queuegate._settings import DEFAULT_RETRY, FilePath, Retry, Tls
from queuegate.gate._methods import GateMethods
from queuegate.gate.reflector import RELEASE_SECONDS, GateState, Reflector
from queuegate.v1 import sync_pb2

_CLOSE_SECONDS: Final = 2.0


class Gate(GateMethods, Client):
    """A client that decides in this process, from a copy of the policy that its server keeps
    current.

    It sends a question to the server if it does not hold the groups that the decision needs, and
    every question while it has no lease. Because of the lease, no gate decides from old
    state any more once `invalidate` or `reload` with `wait` has returned. A lease ends at most
    5 s after the server was last heard.

    Threads can and should share one gate. Create gates after a fork, not before: in the child
    they are closed.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = 1.0,
        tls: Tls | None = None,
        token_file: FilePath | None = None,
        retry: Retry = DEFAULT_RETRY,
        name: str = "",
        partitions: Iterable[str] = (),
        stale: float = 0.0,
        outbox: FilePath | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        """Create a gate, which connects in the background.

        Args:
            address: The address of the server, as for Client.
            timeout: The default time limit of calls, in seconds.
            tls: The TLS settings, as for Client.
            token_file: The file with the bearer token, as for Client.
            retry: How often and when to retry calls.
            name: The name of this gate on the server; empty: the host and the process.
            partitions: The partitions whose policies to hold; none: all.
            stale: Seconds for which state without a lease decides while the server cannot be
                reached, after which calls fail. Such decisions have `stale` set, and may be
                older than what was waited for.
            outbox: The folder in which decisions wait for the audit log of a server that demands
                them; without it such a server is asked. One gate can use a folder.
            on_change: Called, in a thread of the gate, when it decides from another policy.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.
            OSError: A file of `tls`, the token file or the outbox cannot be used.
        """
        super().__init__(address, timeout=timeout, tls=tls, token_file=token_file, retry=retry)
        self._woken: SimpleQueue[sync_pb2.SyncRequest | None] = SimpleQueue()
        self._reflector = Reflector(
            name,
            partitions,
            stale=stale,
            outbox=outbox,
            on_change=on_change,
            wake=lambda: self._woken.put(None),
        )
        self._decide = self._reflector.decider.decide
        self._stream: grpc.Call | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queuegate-gate", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the gate and its connection, as Client.close does."""
        is_live = self._reflector.state is GateState.LIVE
        self._reflector.close()
        self._closing.set()
        self._woken.put(None)
        if is_live:
            self._thread.join(RELEASE_SECONDS)
        if self._stream is not None:
            self._stream.cancel()
        super().close()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        """Keep a stream open."""
        pause = 0.0
        while not self._closing.wait(pause):
            outgoing = self._woken = SimpleQueue()
            try:
                stream = self._stream = self._calls.sync(self._requests(outgoing))
                for response in stream:
                    answer = self._reflector.receive(response)
                    if answer is not None:
                        outgoing.put(answer)
                code, why = "OK", ""
            except grpc.RpcError as error:
                code, why = error.code().name, error.details() or ""
            except Exception as error:  # the channel is closed, or a message breaks the protocol
                code, why = "INTERNAL", repr(error)
            pause = self._reflector.ended(code, why)

    def _requests(
        self, outgoing: "SimpleQueue[sync_pb2.SyncRequest | None]"
    ) -> Iterator[sync_pb2.SyncRequest]:
        """Return what is to be sent, as long as this is the stream."""
        yield self._reflector.opened()
        while outgoing is self._woken and not self._reflector.is_closed:
            yield from self._reflector.due()
            with suppress(Empty):
                answer = outgoing.get(timeout=self._reflector.idle_seconds)
                if answer is not None:
                    yield answer
            if self._reflector.is_dead and self._stream is not None:
                self._stream.cancel()
                return
        if self._reflector.is_closed:
            yield self._reflector.released()
