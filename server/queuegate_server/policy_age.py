"""The age of a policy that follows a cluster instead of files.

If a file cannot be read again, the server keeps serving its policy: the person who changed the file
sees the error. A person who deletes a RoleBinding sees none, so after `max_age` without a sign of
life, each question is an error.
"""

from collections.abc import Callable
from typing import Final

WARN_SECONDS: Final = 120.0
"""The age from which people are warned. Up to a minute is normal."""


class PolicyTooOld(Exception):
    """Raised for a question about a policy that may have changed meanwhile."""

    def __init__(self, source: str, seconds: float) -> None:
        """`seconds` is how long ago the policy was last known to be current."""
        ago = f"for {seconds:.0f} s" if seconds < float("inf") else "yet"
        super().__init__(
            f"the policy may have changed: there was no sign of life from {source} {ago}"
        )


class PolicyAge:
    """When a served policy was last known to be current."""

    def __init__(self, source: str, clock: Callable[[], float], max_age: float) -> None:
        """Create the age of a policy that has not been read yet.

        Args:
            source: Where the policy comes from, for display.
            clock: Monotonic seconds, which also pass while the machine is suspended.
            max_age: The maximum age, in seconds.
        """
        self.source = source
        self.max_age = max_age
        self._clock = clock
        self._confirmed_at = float("-inf")

    def confirm(self, at: float) -> None:
        """Note that the served policy was current at a time."""
        self._confirmed_at = max(self._confirmed_at, at)

    @property
    def seconds(self) -> float:
        """How long ago the policy was last known to be current."""
        return self._clock() - self._confirmed_at

    @property
    def is_too_old(self) -> bool:
        """Whether nothing may be decided with the policy."""
        return self._clock() - self._confirmed_at > self.max_age

    def check(self) -> None:
        """Raise PolicyTooOld if nothing may be decided with the policy."""
        if self.is_too_old:
            raise PolicyTooOld(self.source, self.seconds)
