"""The blocking gate."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import ClassVar, Final

import grpc

from queuegate import _channel
from queuegate._client import Client
from queuegate._settings import DEFAULT_RETRY, FilePath, Retry, Tls
from queuegate.decision_record import Record
from queuegate.gate._methods import GateMethods
from queuegate.gate.checks import read_response
from queuegate.gate.reflector import RELEASE_SECONDS, Reflector, log_exceptions
from queuegate.gate.silence import WATCH_SECONDS
from queuegate.v1 import sync_pb2

_CLOSE_SECONDS: Final = 2.0


class Gate(GateMethods, Client):
    """A client that makes decisions in this process, using a policy copy that the server keeps
    current.

    The gate sends a check to the server if it lacks the user's groups, and sends every check while
    it has no lease. Leases guarantee that no gate uses old state once `invalidate` or `reload` with
    `wait` has returned. A lease expires at most 5 s after the last message from the server.

    A gate is thread-safe, and threads should share it. Create gates after forking: in a forked
    child, existing gates are closed, and calls raise RuntimeError. Close a gate after use, or use
    it in a `with` statement. Its threads and connection stop only when it is closed.
    """

    _OWNER: ClassVar = "gate"

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
        name: str = "",
        partitions: Iterable[str] = (),
        stale: float = 0.0,
        on_change: Callable[[], object] | None = None,
        on_decision: Callable[[Record], object] | None = None,
    ) -> None:
        """Create a gate. It connects in the background.

        Args:
            address: The server's address, as for Client.
            timeout: The default time limit for calls, in seconds.
            tls: The TLS settings, as for Client.
            token_file: The file with the bearer token, as for Client.
            retry: The retry policy for calls.
            metadata: Metadata for each call and for the gate's stream, as for Client.
            interceptors: As for Client. Interceptors for bidirectional streams also intercept the
                gate's stream.
            name: The gate's name on the server. Defaults to the host name and process ID.
            partitions: The partitions whose policies to copy; all if empty. If the server lacks a
                partition, the gate logs this once, and uses the partition as soon as the server has
                it.
            stale: How long the gate decides without a lease while the server is unreachable, in
                seconds, at most 24 h; after that, calls fail. Decisions without a lease have
                `stale` set. They may not reflect a change for which a call with `wait` has already
                returned.
            on_change: Called in a separate thread after the gate switches to a different policy.
                Calls do not overlap, and a single call may cover several changes. Exceptions are
                logged.
            on_decision: Called with a record of each decision that the gate makes itself, in the
                calling thread, before the decision is returned: a dict with the fields of the
                server's audit log. `queuegate.log_decision` logs it. Exceptions are logged, and do
                not change the decision. With this argument, the gate does not cache decisions.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.
            OSError: A `tls` file or the token file cannot be used.
        """
        self._woken = threading.Event()
        """Wakes the sender when messages are due. Each stream has its own event."""
        self._closing = threading.Event()
        self._changed = threading.Event()
        self._stream: grpc.Call | None = None
        self._threads: list[threading.Thread] = []
        with ExitStack() as undo:
            self._reflector = Reflector(
                name,
                partitions,
                stale=stale,
                on_change=self._note_change,
                on_decision=on_decision,
                wake=self._wake,
            )
            undo.callback(self._reflector.close)
            super().__init__(
                address,
                timeout=timeout,
                tls=tls,
                token_file=token_file,
                retry=retry,
                metadata=metadata,
                interceptors=interceptors,
            )
            self._decider = self._reflector.decider
            undo.callback(self.close)
            self._follower = self._start(self._follow, "stream")
            self._start(self._watch, "watchdog")
            if on_change is not None:
                self._start(
                    partial(self._notify, log_exceptions("on_change", on_change)), "on_change"
                )
            undo.pop_all()

    def close(self) -> None:
        """Close the gate and its connection, as `Client.close` does."""
        if self._calls.is_inherited:
            return
        has_stream = self._reflector.has_stream
        self._reflector.close()
        self._closing.set()
        self._changed.set()
        self._wake()
        if has_stream:
            self._follower.join(RELEASE_SECONDS)
        if self._stream is not None:
            self._stream.cancel()
        super().close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_CLOSE_SECONDS)

    def _start(self, work: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=work, name=f"queuegate-gate-{name}", daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def _wake(self) -> None:
        self._woken.set()

    def _note_change(self) -> None:
        self._changed.set()

    def _follow(self) -> None:
        """Keep a stream open until the gate is closed."""
        pause = 0.0
        while not self._closing.wait(pause):
            woken = self._woken = threading.Event()
            requests = self._requests(woken, self._reflector.opened(), self._reflector.stream)
            failure: Exception | None = None
            stream: grpc.Call | None = None
            try:
                stream = self._stream = self._calls.sync(requests, read_response)
                for response in stream:
                    self._calls.has_worked = True
                    self._reflector.receive(response)
            except grpc.RpcError as error:
                failure = self._calls.sync_failure(error)
            except Exception as error:  # the channel is closed, or a message breaks the protocol
                failure = error
            if stream is not None:
                stream.cancel()
            pause = self._reflector.ended(failure)

    def _requests(
        self, woken: threading.Event, opened: sync_pb2.SyncRequest, stream: int
    ) -> Iterator[sync_pb2.SyncRequest]:
        """Yield messages when they are due, until a newer stream replaces this stream.

        Runs in a gRPC thread. Under flow control, the thread blocks between messages.
        """
        yield opened
        while woken is self._woken and not self._reflector.is_closed:
            yield from self._reflector.due(stream)
            woken.wait(self._reflector.idle_seconds)
            woken.clear()
        if self._reflector.is_closed:
            yield self._reflector.released()

    def _watch(self) -> None:
        """Cancel the stream if the server is unresponsive or does not send a policy."""
        while not self._closing.wait(WATCH_SECONDS):
            stream = self._stream
            if self._reflector.watch() and stream is not None:
                stream.cancel()

    def _notify(self, on_change: Callable[[], None]) -> None:
        """Run the callback in a separate thread, so that a slow callback does not delay lease
        renewals.
        """
        while self._changed.wait() and not self._closing.is_set():
            self._changed.clear()
            on_change()
