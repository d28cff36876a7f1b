"""A replica's confirmations of changes, reported with each heartbeat."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from queuegate_server.fleet.barrier import LEASES_TIMEOUT
from queuegate_server.fleet.keys import NONCE_BYTES, LogPosition
from queuegate_server.sync.barrier import StaleGate, Unconfirmed

CONFIRMED_SECONDS: Final = LEASES_TIMEOUT + 3.0
"""How long a confirmation is reported. Other replicas stop waiting for it earlier."""
MAX_CONFIRMED_BYTES: Final = 48 * 1024
"""The maximum size of the reported confirmations. Beyond it, the oldest confirmations are dropped,
and barriers that need them wait for leases to expire."""
MAX_NAMED: Final = 20
"""The maximum number of gates named in a confirmation."""


class _Confirmation(NamedTuple):
    at: float
    waited_out: Sequence[str]
    stale: Sequence[StaleGate]
    has_failed: bool

    @property
    def size(self) -> int:
        """The approximate size of the confirmation within a status, in bytes."""
        nonce = 2 * NONCE_BYTES + len('"",')
        size = nonce * (1 + self.has_failed) + len(json.dumps(self.waited_out)) + 1
        return size + (nonce + len(json.dumps(self.stale)) if self.stale else 0)


class Confirmations:
    """Confirmations of changes that this replica and all of its gates have applied."""

    def __init__(self) -> None:
        self.through: tuple[int, str] | None = None
        """The event up to which all changes are confirmed, as in `ReplicaStatus`."""
        self._confirmed: dict[bytes, _Confirmation] = {}
        """Confirmations by nonce, oldest first."""
        self._bytes = 0

    @property
    def waited_out(self) -> Mapping[str, Sequence[str]]:
        """The gates that did not confirm before their leases expired, by hexadecimal nonce."""
        return {nonce.hex(): each.waited_out for nonce, each in self._confirmed.items()}

    @property
    def stale(self) -> Mapping[str, Sequence[StaleGate]]:
        """The gates that may still use the state from before a change, by hexadecimal nonce. Their
        times date from the confirmation, so they are too long.
        """
        return {nonce.hex(): each.stale for nonce, each in self._confirmed.items() if each.stale}

    @property
    def failed(self) -> Sequence[str]:
        """The hexadecimal nonces of the changes that could not be applied."""
        return [nonce.hex() for nonce, each in self._confirmed.items() if each.has_failed]

    def add(
        self, nonce: bytes, unconfirmed: Unconfirmed, now: float, *, has_failed: bool = False
    ) -> None:
        """Confirm a change by its nonce. `has_failed` means that it could not be applied."""
        waited_out = unconfirmed.waited_out
        more = len(waited_out) - MAX_NAMED
        names = [*waited_out[:MAX_NAMED], *([f"{more} more"] if more > 0 else [])]
        stale = sorted(unconfirmed.stale, key=lambda each: -each.seconds)
        if others := stale[MAX_NAMED:]:
            stale[MAX_NAMED:] = [StaleGate(f"{len(others)} more", others[0].seconds)]
        self._confirmed[nonce] = confirmation = _Confirmation(now, names, stale, has_failed)
        self._bytes += confirmation.size
        self.expire(now)

    def add_through(self, event: LogPosition) -> None:
        """Confirm all changes up to an event."""
        if self.through is None or event.sequence >= self.through[0]:
            self.through = event.sequence, event.nonce.hex()

    def clear(self) -> None:
        """Withdraw all confirmations after a loss of events."""
        self.through = None
        self._confirmed.clear()
        self._bytes = 0

    def expire(self, now: float) -> None:
        """Drop expired confirmations and, if MAX_CONFIRMED_BYTES is exceeded, the oldest others."""
        for nonce, each in [*self._confirmed.items()]:
            if each.at > now - CONFIRMED_SECONDS and self._bytes <= MAX_CONFIRMED_BYTES:
                break
            del self._confirmed[nonce]
            self._bytes -= each.size
