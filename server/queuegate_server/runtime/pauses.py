"""How long the server pauses before it tries again: one table for everything that it retries.

The pauses that errors ask of callers are in `rpc/errors.py`, those that an identity provider asks
for in `identity/rest/answers.py`, and those of gates that wait for a server in the client's
`gate/reflector.py`. Work that is merely repeated has a beat: `pacing.py`.
"""

import random
from dataclasses import dataclass
from typing import Final

_MAX_EXPONENT: Final = 64


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses between attempts at one thing, in seconds."""

    first: float
    """The pause after the first failure."""
    most: float = 0.0
    """The longest pause; 0 if all are as long as the first one."""
    factor: float = 2.0
    """How many times longer each pause is than the one before, up to the longest one."""
    jitter: float = 0.0
    """The share by which a pause may be shorter or longer, so that servers do not retry at once."""

    def after(self, failures: int) -> float:
        """Return the pause after this many failures in a row (at least 1)."""
        exponent = min(max(failures - 1, 0), _MAX_EXPONENT)
        pause = min(self.first * self.factor**exponent, max(self.first, self.most))
        if self.jitter:
            pause *= random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - no secret
        return pause


ACCEPT: Final = Pauses(0.1)
"""An HTTP port that cannot accept a connection, perhaps for lack of file descriptors."""
API_SERVER: Final = Pauses(0.5, most=30.0, jitter=0.2)
"""Following RBAC and queues through a Kubernetes API server."""
AUDIT_WRITE: Final = Pauses(0.5)
"""A write to the audit log."""
FLEET_EVENTS: Final = Pauses(0.2)
"""Reading the events of a fleet."""
FLEET_VALUES: Final = Pauses(0.5)
"""The connections to Redis for shared groups, while their circuit is open."""
FOLLOWER: Final = Pauses(1.0, most=60.0, jitter=0.2)
"""Following changes in a source of groups."""
INVALIDATION: Final = Pauses(1.0)
"""An invalidation requested by a followed source that failed unexpectedly."""
PARSER: Final = Pauses(5.0, most=300.0)
"""A reload whose parsing child failed."""
WORKER: Final = Pauses(0.25, most=30.0)
"""A worker that has ended, unless it ran steadily before."""


def directory_server(first: float, most: float) -> Pauses:
    """Return the pauses for connections to a directory server, in seconds, from `ldap/pool.py`."""
    return Pauses(min(first, most), most=most, jitter=0.2)
