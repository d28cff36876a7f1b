"""Waits until no caller decides from the state before a change.

A caller does so no more once it has applied the change, be it on its next stream; once it has given
up its leases; or once the leases have ended that were granted before the change was sent to it.
Later leases do not matter: their pongs follow the change on the same stream (`session.py`).
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from queuegate_server.sync.session import CLOCK_MARGIN, LEASE, Session

EARLIER_PROCESS: Final = "callers of the previous process"


Caller = tuple[str, bytes]
"""The name of a principal, and which state of a gate."""


class _Lease(NamedTuple):
    name: str
    caller: Caller
    until: float
    session: Session | None
    """None if the stream has ended."""

    def may_be_old(self, sequence: int, leases: "Leases") -> bool:
        """Return whether the caller may not have applied a change with this number."""
        stream = self.session
        if stream is not None and (stream.has_released or stream.applied >= sequence):
            return False
        newest = leases.newest(self.caller)
        return newest is None or newest.applied < sequence


def _lease(session: Session) -> _Lease:
    return _Lease(session.name, _caller(session), session.lease_until, session)


def _caller(session: Session) -> Caller:
    return session.caller, session.instance


class Leases:
    """The streams whose callers may still hold a lease. Used from one event loop."""

    def __init__(self, now: float) -> None:
        """Start at a monotonic time in seconds, when no earlier process grants leases any more."""
        self._started = now
        self._open: dict[Session, None] = {}
        self._closed: list[_Lease] = []

    def add(self, session: Session) -> None:
        """Wait for this stream from now on."""
        self._open[session] = None

    def remove(self, session: Session, now: float) -> None:
        """Wait for this stream, which has ended, only until its lease ends."""
        self._open.pop(session, None)
        self._closed = [each for each in self._closed if now < each.until]
        if now < session.lease_until:
            self._closed.append(_lease(session)._replace(session=None))

    def __iter__(self) -> Iterator[Session]:
        """Return the open streams."""
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)

    def barrier(self, sequence: int, now: float) -> "Barrier":
        """Return what to wait for after a change that was just added to the event log."""
        earlier = self._started + LEASE + CLOCK_MARGIN
        return Barrier(self, sequence, self._granted(now), earlier if now < earlier else None)

    def newest(self, caller: Caller) -> Session | None:
        """Return the newest open stream of a caller that says which are its streams."""
        of_caller = (each for each in reversed(self._open) if _caller(each) == caller)
        return next(of_caller, None) if caller[1] else None

    def last_end(self, now: float) -> float | None:
        """Return when the last lease ends that was granted; None if all have ended."""
        return max((each.until for each in self._granted(now)), default=None)

    def _granted(self, now: float) -> list[_Lease]:
        """Return the streams whose leases have not ended."""
        return [each for each in (*map(_lease, self._open), *self._closed) if now < each.until]


class Barrier:
    """The leases that may cover the state before a change."""

    def __init__(
        self, leases: Leases, sequence: int, waiting: list[_Lease], earlier: float | None
    ) -> None:
        """Remember until when to wait for each stream.

        Args:
            leases: Know the streams that are open.
            sequence: The number of the change.
            waiting: The streams, and when their leases end.
            earlier: When the leases end that an earlier process of this server granted; None if
                they have.
        """
        self._leases = leases
        self._sequence = sequence
        self._waiting = waiting
        self._earlier = earlier
        self.waited_out: list[str] = []
        """The names of callers whose lease ended before they had applied the change."""

    def next_end(self, now: float) -> float | None:
        """Return when a lease ends that still has to be waited for; None if there is none: nobody
        decides from the state before the change any more.

        One lease is waited for after the other, so that a confirmation costs little.
        """
        while self._waiting:
            last = self._waiting[-1]
            if last.may_be_old(self._sequence, self._leases):
                if now < last.until:
                    return last.until
                self.waited_out.append(last.name)
            self._waiting.pop()
        if self._earlier is not None and now >= self._earlier:
            self._earlier = None
            self.waited_out.append(EARLIER_PROCESS)
        return self._earlier
