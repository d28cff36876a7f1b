"""Logic shared by the blocking and asyncio gates: pings, group requests and reconnects."""

import logging
import math
import os
import random
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum, auto
from importlib.metadata import PackageNotFoundError, version
from typing import Final, ParamSpec

from queuegate import _validation
from queuegate._errors import AT_THE_CLIENT
from queuegate._types import Decision
from queuegate.decision_record import Record
from queuegate.exceptions import MessageTooLarge, QueuegateError, Unavailable
from queuegate.gate import bounds
from queuegate.gate.checks import BrokenProtocol
from queuegate.gate.decider import Decider, Question
from queuegate.gate.local_record import local_record
from queuegate.gate.replica import LocalReplica
from queuegate.gate.session import GateSession, clock
from queuegate.gate.silence import SilenceWatch
from queuegate.gate.stream_log import StreamLog, text_to_log
from queuegate.policy.names import CONTROL_CHARACTER
from queuegate.v1 import sync_pb2

MAX_WANTED: Final = 1_000
"""The maximum number of users in a request for groups."""
ANSWER_SECONDS: Final = 1.0
"""The time allowed for a response, in seconds. Groups that expire less than this long after the
next ping are requested immediately.
"""
MAX_WAITING: Final = 10_000
"""The maximum number of users with pending requests for groups."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
"""The maximum backoff before reconnecting, in seconds."""
RELEASE_SECONDS: Final = 0.5
"""How long a closing gate waits until its lease release has been sent, in seconds."""
MAX_NAME_BYTES: Final = 256
MAX_AGENT_BYTES: Final = 64
_UNREACHABLE: Final = frozenset({"UNAVAILABLE", "CANCELLED"})
"""The stream statuses that indicate an unreachable or unresponsive server."""
_REFUSALS: Final = frozenset({"PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED"})
_LOG: Final = logging.getLogger("queuegate.gate")
_Arguments = ParamSpec("_Arguments")


class GateState(StrEnum):
    """The state of a gate."""

    CONNECTING = auto()
    """The gate has no policy yet, and sends checks to the server."""
    LIVE = auto()
    """The gate decides locally."""
    EXPIRED = auto()
    """The gate's lease has expired. The gate sends checks to the server, or uses old state if
    `stale` permits.
    """
    FORBIDDEN = auto()
    """The server forbids local decisions."""
    CLOSED = auto()
    """The gate is closed, or was created before this process was forked."""


class Reflector:
    """Keeps a gate's copy of the server's state current. Thread-safe."""

    def __init__(
        self,
        name: str,
        partitions: Iterable[str],
        *,
        stale: float,
        on_change: Callable[[], object],
        on_decision: Callable[[Record], object] | None,
        wake: Callable[[], None],
    ) -> None:
        """Create a reflector without a stream.

        Args:
            name: The gate's name on the server. Defaults to the host name and process ID.
            partitions: The partitions to follow; all if empty.
            stale: How long old state may be used while the server is unreachable, in seconds.
            on_change: Called in the receiving thread when the gate switches to a different policy.
            on_decision: Called with the record of each local decision, in the calling thread.
            wake: Called in any thread when messages are due.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.
        """
        name = _validation.text("name", name, required=False)
        if len(name.encode()) > MAX_NAME_BYTES or CONTROL_CHARACTER.search(name):
            raise ValueError(
                f"name must have at most {MAX_NAME_BYTES} bytes and no control character"
            )
        name = name or f"{socket.gethostname()}/{os.getpid()}"
        self._stale = _validation.stale(stale, bounds.MAX_STALE_SECONDS)
        named = _validation.texts("partitions", partitions)
        self.replica = LocalReplica(is_complete=not named)
        self.session = GateSession(self.replica, name, named, stale=self._stale, agent=_agent())
        tell = None if on_decision is None else _teller(name, on_decision)
        self.decider = Decider(self.replica, self.session, self._want, tell)
        self.is_closed = False
        self.has_stream = False
        """Whether a stream is open. If so, closing the gate waits for the lease release to be sent,
        even if the gate is not live, because the server may already have granted a lease.
        """
        self.resets = 0
        """The number of times the server has caused this gate to drop its state."""
        self._on_change = on_change
        self._wake = wake
        self._lock = threading.Lock()
        self.stream = 0
        """The number of the newest stream."""
        self._wanted: dict[tuple[str, str], None] = {}
        self._answer: sync_pb2.SyncRequest | None = None
        """The acknowledgment to be sent, if any. It covers the latest message that requires an
        acknowledgment, and all earlier messages.
        """
        self._pongs = 0
        """The number of pongs on this stream, not counting pongs received before the first complete
        policy.
        """
        self._next_ping = 0.0
        self._watch = SilenceWatch(named)
        self._pause = FIRST_PAUSE
        self._log = StreamLog(named)
        _REFLECTORS.add(self)

    @property
    def state(self) -> GateState:
        """The gate's state."""
        if self.is_closed:
            return GateState.CLOSED
        state = self.replica.state
        if not state.policies:
            return GateState.CONNECTING
        if not state.rights.local_decisions:
            return GateState.FORBIDDEN
        return GateState.LIVE if clock() < self.session.lease_until else GateState.EXPIRED

    def opened(self) -> sync_pb2.SyncRequest:
        """Reset the per-stream state, and return the first message of a new stream."""
        with self._lock:
            self.stream += 1
            self.has_stream = True
            self._wanted.clear()
            self._answer = None
            self._pongs = 0
            self._watch.restart(clock())
            self._next_ping = 0.0
            return self.session.open()

    def due(self, stream: int) -> list[sync_pb2.SyncRequest]:
        """Return the messages to send now on `stream`; none if it is no longer the newest
        stream.
        """
        now = clock()
        requests: list[sync_pb2.SyncRequest] = []
        with self._lock:
            if stream != self.stream:
                return []
            if self._answer is not None:
                requests.append(self._answer)
                self._answer = None
            if now >= self._next_ping:
                self._next_ping = now + self.session.ping_interval
                counts = sync_pb2.GateCounts(decided=self.decider.decided, stale=self.decider.stale)
                requests.append(self.session.ping(now, counts))
            wanted: dict[str, list[str]] = {}
            for _ in range(min(len(self._wanted), MAX_WAITING - self.session.waiting)):
                (partition, user), _ = self._wanted.popitem()
                wanted.setdefault(partition, []).append(user)
            return requests + [
                self.session.want(name, users[start : start + MAX_WANTED], now)
                for name, users in wanted.items()
                for start in range(0, len(users), MAX_WANTED)
            ]

    def watch(self) -> bool:
        """Update the watchdog and return whether the stream is dead. Must be called every
        WATCH_SECONDS.
        """
        with self._lock:
            self._watch.tick(clock())
            return self.is_dead

    @property
    def is_dead(self) -> bool:
        """Whether too much time has passed without a pong or a policy."""
        return bool(self._watch.fault(clock()))

    @property
    def idle_seconds(self) -> float:
        """The seconds until the next message is due, unless `wake` is called earlier."""
        return max(0.0, self._next_ping - clock())

    def receive(self, response: sync_pb2.SyncResponse | BrokenProtocol) -> None:
        """Apply a message from the server, and acknowledge it if required.

        Raises:
            BrokenProtocol: The message violates the protocol. All state has been dropped.
        """
        if isinstance(response, BrokenProtocol):
            self._drop_everything()
            raise response
        with self._lock:
            now = clock()
            self._note_progress(response, now)
            try:
                answer = self.session.receive(response, now)
            except Exception as error:
                self._note_reset()
                self.session.drop_everything()
                raise BrokenProtocol(str(error)) from error
            if answer is not None and not _is_release(self._answer):
                self._answer = answer
            has_changed, self.replica.has_changed = self.replica.has_changed, False
        if has_changed:
            self._on_change()
        if answer is not None:
            self._wake()

    def ended(self, failure: Exception | None) -> float:
        """Handle the end of a stream. Return the seconds to wait before reconnecting.

        Args:
            failure: The error that ended the stream; None if the server closed it.
        """
        self.has_stream = False
        code = failure.code if isinstance(failure, QueuegateError) else ""
        why = text_to_log(str(failure or "the server closed it"))
        if isinstance(failure, BrokenProtocol):
            why = f"the server does not follow the protocol: {why}"
        if code == "CANCELLED" and (fault := self._watch.fault(clock())):
            why = fault
        if not self.is_closed:
            self._log.ended(f"{code}: {why}" if code else why)
        if _is_about_response(failure):
            self._drop_everything()
        if code in _REFUSALS:
            with self._lock:
                self.session.reset()
        self.decider.grace = self._stale if code in _UNREACHABLE else 0.0
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        pause *= random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        if isinstance(failure, Unavailable) and failure.retry_after is not None:
            pause = max(pause, min(failure.retry_after, bounds.MAX_RETRY_SECONDS))
        return pause

    def close(self) -> None:
        """Stop making local decisions, but keep the stream."""
        self.is_closed = True
        with self._lock:
            self.session.reset()

    def released(self) -> sync_pb2.SyncRequest:
        """Give up the lease of a closing gate, and return the message that releases it."""
        with self._lock:
            return self.session.release(clock(), closed=True)

    def abandon(self) -> None:
        """Stop making local decisions in a forked child, because it receives no messages. Does not
        take the lock, because another thread may have held it at the time of the fork.
        """
        self.is_closed = True
        self.session.lease_until = -math.inf

    def _note_progress(self, response: sync_pb2.SyncResponse, now: float) -> None:
        self._watch.note(response, now, has_policy=bool(self.replica.state.policies))
        if response.HasField("opened"):
            self.decider.grace = 0.0
            self._log.opened(response.opened)
            if not response.opened.resumed:
                self._note_reset()
        elif response.HasField("pong") and not self._watch.lacks_policy:
            self._pause = FIRST_PAUSE
            self._pongs += 1
            # Wait for a second pong, so that a stream that always breaks after the first pong is
            # logged only once.
            if self._pongs > 1:
                self._log.recovered()

    def _drop_everything(self) -> None:
        with self._lock:
            self._note_reset()
            self.session.drop_everything()

    def _note_reset(self) -> None:
        """Count a reset if policies in use are about to be dropped."""
        self.resets += bool(self.replica.state.policies)

    def _want(self, partition: str, user: str, until: float) -> None:
        """Request a user's groups immediately if they expire soon, otherwise with the next ping.

        Args:
            partition: The partition name.
            user: The user name.
            until: When the cached groups expire; -inf if there are none.
        """
        if len(self._wanted) >= MAX_WAITING or (partition, user) in self._wanted:
            return
        if not self.session.is_wanted(partition, user, clock()):
            self._wanted[partition, user] = None
            if until < self._next_ping + ANSWER_SECONDS:
                self._wake()


def _agent() -> str:
    """Return this program's name and version."""
    with suppress(PackageNotFoundError):
        return f"queuegate-python/{version('queuegate')}"[:MAX_AGENT_BYTES]
    return "queuegate-python"


def _is_release(answer: sync_pb2.SyncRequest | None) -> bool:
    return answer is not None and answer.HasField("release")


def _is_about_response(failure: Exception | None) -> bool:
    """Return whether an oversized message from the server caused the failure."""
    return isinstance(failure, MessageTooLarge) and AT_THE_CLIENT in failure.message


def log_exceptions(name: str, callback: Callable[_Arguments, object]) -> Callable[_Arguments, None]:
    """Return a function that calls `callback` and logs its exceptions.

    Args:
        name: The name of the gate argument that holds the callback.
        callback: The function to call.

    Raises:
        TypeError: `callback` is not callable.
    """
    if not callable(callback):
        raise TypeError(f"{name} must be callable, not {type(callback).__name__}")

    def call(*args: _Arguments.args, **options: _Arguments.kwargs) -> None:
        try:
            callback(*args, **options)
        except Exception:
            _LOG.exception("a gate's %s callback failed", name)

    return call


def _teller(
    gate: str, on_decision: Callable[[Record], object]
) -> Callable[[Question, Decision], None]:
    """Return a function that passes records of a gate's decisions to a callback."""
    tell = log_exceptions("on_decision", on_decision)
    return lambda question, decision: tell(local_record(time.time(), gate, question, decision))


_REFLECTORS: "weakref.WeakSet[Reflector]" = weakref.WeakSet()


def _abandon_all() -> None:
    for each in _REFLECTORS:
        each.abandon()


os.register_at_fork(after_in_child=_abandon_all)
