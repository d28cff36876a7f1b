"""Waits until no caller uses the state from before a change.

A caller no longer uses the old state once it has applied the change, once it has released its
leases, or once every lease granted before the change was sent has expired. Later leases do not
matter, because their pongs follow the change on the same stream (`session.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from queuegate_server.sync.session import CLOCK_MARGIN, LEASE, Session

EARLIER_PROCESS: Final = "callers of the previous process"


class _Lease(NamedTuple):
    name: str
    caller: tuple[str, bytes]
    """The principal's name and the gate's instance."""
    until: float
    session: Session | None
    """None once the stream is closed."""

    def may_be_old(self, sequence: int, leases: "Leases") -> bool:
        """Return whether the caller may still lack the change with the given sequence number."""
        stream = self.session
        if stream is not None and (stream.has_released or stream.applied >= sequence):
            return False
        newest = leases.newest(self.caller)
        return newest is None or newest.applied < sequence


def _lease(session: Session) -> _Lease:
    caller = session.caller, session.instance
    return _Lease(session.name, caller, session.lease_until, session)


class Leases:
    """The streams whose callers may still hold a lease. Used from one event loop."""

    def __init__(self, now: float) -> None:
        """Create an empty set at the monotonic time `now`, in seconds.

        Earlier processes must have stopped granting leases by then.
        """
        self._started = now
        self._open: dict[Session, None] = {}
        self._closed: list[_Lease] = []

    def add(self, session: Session) -> None:
        """Track a new stream."""
        self._open[session] = None

    def remove(self, session: Session, now: float) -> None:
        """Stop tracking a closed stream, but keep its lease until it expires."""
        self._open.pop(session, None)
        self._closed = [each for each in self._closed if now < each.until]
        if now < session.lease_until:
            self._closed.append(_lease(session)._replace(session=None))

    def __iter__(self) -> Iterator[Session]:
        """Iterate over the open streams."""
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)

    def barrier(self, sequence: int, now: float) -> "Barrier":
        """Return a barrier for the change numbered `sequence`, which must be the newest."""
        earlier = self._started + LEASE + CLOCK_MARGIN
        return Barrier(self, sequence, self._unexpired(now), earlier if now < earlier else None)

    def newest(self, caller: tuple[str, bytes]) -> Session | None:
        """Return a caller's newest open stream; None if it has none or no instance ID."""
        streams = (x for x in reversed(self._open) if (x.caller, x.instance) == caller)
        return next(streams, None) if caller[1] else None

    def last_end(self, now: float) -> float | None:
        """Return when the last lease expires; None if all have expired."""
        return max((each.until for each in self._unexpired(now)), default=None)

    def _unexpired(self, now: float) -> list[_Lease]:
        return [each for each in (*map(_lease, self._open), *self._closed) if now < each.until]


@dataclass(slots=True, eq=False)
class Barrier:
    """Waits out the leases of callers that might still be using the state from before a change."""

    _leases: Leases
    _sequence: int
    _waiting: list[_Lease]
    _earlier: float | None
    """When an earlier process's unexpired leases expire."""
    waited_out: list[str] = field(default_factory=list)
    """The names of callers whose lease expired before they applied the change."""

    def next_end(self, now: float) -> float | None:
        """Return when the next lease to wait for expires; None if no caller uses the old state.
        Stops at the first such lease, so that checking after each confirmation is cheap.
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
