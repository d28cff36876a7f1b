"""Waits until no caller uses the state from before a change.

A caller no longer uses the old state once it has applied the change, once it has released its
leases, or once every lease granted before the change was sent has expired. Later leases do not
matter, because their pongs follow the change on the same stream (`session.py`).

The exceptions are callers that may decide from their last state without a lease (`stale`). A
barrier does not wait for them, but names them, even if their leases expired before the change.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from queuegate_server.sync.session import CLOCK_MARGIN, LEASE, Session

EARLIER_PROCESS: Final = "callers of the previous process"
OTHER_GATES: Final = "other gates"
MAX_AWAY: Final = 1_000
"""The maximum number of callers without a stream or lease that are remembered by name."""
TIDY_SECONDS: Final = 1.0
"""The minimum interval between searches for callers to forget."""


class StaleGate(NamedTuple):
    """A caller that may still use the state from before a change."""

    name: str
    seconds: float
    """The maximum time for which it may do so."""


class Unconfirmed(NamedTuple):
    """The callers that did not confirm a change."""

    waited_out: Sequence[str] = ()
    """The names of callers whose lease expired before they applied the change."""
    stale: Sequence[StaleGate] = ()
    """The callers that may still use the state from before the change."""


class _Lease(NamedTuple):
    name: str
    caller: tuple[str, bytes]
    """The principal's name and the gate's instance."""
    until: float
    stale_until: float
    applied: int
    """The last change applied on the stream, once it is closed."""
    session: Session | None
    """None once the stream is closed."""

    def may_lack(self, sequence: int, leases: "Leases") -> bool:
        """Return whether the caller may still lack the change with the given sequence number."""
        applied = self.applied if self.session is None else self.session.applied
        newest = leases.newest(self.caller)
        return applied < sequence and (newest is None or newest.applied < sequence)

    def may_be_old(self, sequence: int, leases: "Leases") -> bool:
        """Return whether the caller may hold a lease on the state before a change."""
        has_released = self.session is not None and self.session.has_released
        return not has_released and self.may_lack(sequence, leases)


def _lease(session: Session) -> _Lease:
    caller = session.caller, session.instance
    until, stale_until = session.lease_until, session.stale_until
    return _Lease(session.name, caller, until, stale_until, session.applied, session)


class Leases:
    """The streams whose callers may still hold a lease. Used from one event loop."""

    def __init__(self, now: float) -> None:
        """Create an empty set at the monotonic time `now`, in seconds.

        Earlier processes must have stopped granting leases by then.
        """
        self._started = now
        self._open: dict[Session, None] = {}
        self._closed: dict[object, _Lease] = {}
        """The leases of closed streams, by caller if its instance is known, oldest first."""
        self._tidy_at = now
        self._others_until = now
        """When the last forgotten caller stops deciding from its last state."""

    def add(self, session: Session) -> None:
        """Track a new stream."""
        self._open[session] = None

    def remove(self, session: Session, now: float) -> None:
        """Stop tracking a closed stream, but keep its lease until the caller stops deciding."""
        self._open.pop(session, None)
        closed = _lease(session)._replace(session=None)
        key = closed.caller if session.instance else object()
        earlier = self._closed.pop(key, None)
        self._closed[key] = _merge(closed, earlier, is_closed=session.is_closed)
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_SECONDS
            self._tidy(now)

    def _tidy(self, now: float) -> None:
        """Drop the callers that have stopped deciding and, if too many are left, the oldest
        callers.
        """
        away = []
        for key, lease in [*self._closed.items()]:
            if now >= max(lease.until, lease.stale_until):
                del self._closed[key]
            elif now >= lease.until:
                away.append(key)
        for key in away[: max(0, len(away) - MAX_AWAY)]:
            self._others_until = max(self._others_until, self._closed.pop(key).stale_until)

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

    def stale(self, sequence: int, now: float) -> list[StaleGate]:
        """Return the callers that may lack a change and decide from their last state."""
        gates = [
            StaleGate(each.name, each.stale_until - now)
            for each in self._all()
            if each.until < each.stale_until and each.may_lack(sequence, self)
        ]
        gates.append(StaleGate(OTHER_GATES, self._others_until - now))
        return [each for each in gates if each.seconds > 0]

    def away(self, now: float) -> list[StaleGate]:
        """Return the callers without a stream that may decide from their last state."""
        away = [
            StaleGate(each.name, each.stale_until - now)
            for each in self._closed.values()
            if each.until < each.stale_until and self.newest(each.caller) is None
        ]
        return [each for each in away if each.seconds > 0]

    def longest_stale(self, now: float) -> float:
        """Return how long any caller may decide after its lease expires if all streams end now."""
        left = [each.stale_until - now for each in self._closed.values()]
        return max(0.0, self._others_until - now, *left, *(each.stale for each in self._open))

    def _all(self) -> Iterator[_Lease]:
        yield from map(_lease, self._open)
        yield from self._closed.values()

    def _unexpired(self, now: float) -> list[_Lease]:
        return [each for each in self._all() if now < each.until]


def _merge(newest: _Lease, earlier: _Lease | None, *, is_closed: bool) -> _Lease:
    """Return a lease that lasts as long as two leases of one caller."""
    if earlier is None:
        return newest
    until = max(newest.until, earlier.until)
    stale_until = until if is_closed else max(newest.stale_until, earlier.stale_until)
    applied = max(newest.applied, earlier.applied)
    return newest._replace(until=until, stale_until=stale_until, applied=applied)


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
        """Return when the next lease to wait for expires; None if no caller uses the old state
        under a lease. Stops at the first such lease, so that checking after each confirmation is
        cheap.
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

    def stale(self, now: float) -> list[StaleGate]:
        """Return the callers that may still decide from the state before the change."""
        return self._leases.stale(self._sequence, now)
