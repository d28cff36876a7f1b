"""The changes that a replica has confirmed and reports with each heartbeat."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from queuegate_server.fleet.barrier import LEASES_TIMEOUT
from queuegate_server.fleet.keys import NONCE_BYTES, LogPosition

CONFIRMED_SECONDS: Final = LEASES_TIMEOUT + 3.0
"""How long a replica reports that it has confirmed a change: longer than the others wait for it."""
MAX_CONFIRMED_BYTES: Final = 48 * 1024
"""The maximum size of the reported confirmations. Beyond it, the oldest are left out: a barrier
that waits for one of those waits for leases to end."""
MAX_NAMED: Final = 20
"""The maximum number of gates named in each confirmation."""


class _Confirmation(NamedTuple):
    at: float
    waited_out: Sequence[str]
    has_failed: bool

    @property
    def size(self) -> int:
        """The approximate number of bytes that it takes up in a status."""
        nonce = 2 * NONCE_BYTES + len('"",')
        return nonce * (1 + self.has_failed) + len(json.dumps(self.waited_out)) + 1


class Confirmations:
    """The changes that neither the replica nor any of its gates decides without."""

    def __init__(self) -> None:
        """Confirm nothing."""
        self.through: tuple[int, str] | None = None
        """The event up to which all changes are confirmed, as in `ReplicaStatus`."""
        self._confirmed: dict[bytes, _Confirmation] = {}
        """The confirmations by nonce, oldest first."""
        self._bytes = 0

    @property
    def waited_out(self) -> Mapping[str, Sequence[str]]:
        """The gates that were waited out, by the nonce of each change in hexadecimal."""
        return {nonce.hex(): each.waited_out for nonce, each in self._confirmed.items()}

    @property
    def failed(self) -> Sequence[str]:
        """The nonces of the changes that could not be carried out."""
        return [nonce.hex() for nonce, each in self._confirmed.items() if each.has_failed]

    def add(
        self, nonce: bytes, waited_out: Sequence[str], now: float, *, has_failed: bool = False
    ) -> None:
        """Confirm the change of the event with this nonce, or that it could not be carried out."""
        more = len(waited_out) - MAX_NAMED
        names = [*waited_out[:MAX_NAMED], *([f"{more} more"] if more > 0 else [])]
        self._confirmed[nonce] = confirmation = _Confirmation(now, names, has_failed)
        self._bytes += confirmation.size
        self.expire(now)

    def add_through(self, event: LogPosition) -> None:
        """Confirm all changes up to an event."""
        if self.through is None or event.sequence >= self.through[0]:
            self.through = event.sequence, event.nonce.hex()

    def clear(self) -> None:
        """Confirm nothing: events are missing."""
        self.through = None
        self._confirmed.clear()
        self._bytes = 0

    def expire(self, now: float) -> None:
        """Leave out confirmations that nobody waits for, and the oldest if there are too many."""
        for nonce, each in [*self._confirmed.items()]:
            if each.at > now - CONFIRMED_SECONDS and self._bytes <= MAX_CONFIRMED_BYTES:
                break
            del self._confirmed[nonce]
            self._bytes -= each.size
