"""Whether calls wait because of a burst, which passes, or an overload, which does not."""

from typing import Final

_BURST_SECONDS: Final = 0.1
_BURST_CALLS: Final = 32
"""For how long, and how many in a row, calls may wait too long before that is an overload."""
_SHORTER: Final = 8
_CALM: Final = 1.0
"""An overload is over when no call has waited too long for so many seconds."""
_TRIED_ANEW: Final = 60.0
"""After so many seconds it is taken to be over. Callers who ask again at once whatever was
refused look like an overload, and without refusals there may be none. If there is one, few of
the answers are late until that is seen: less than one in a hundred.
"""


class CoDel:
    """Decides by how long calls have waited which of them to refuse.

    A queue that a burst has filled is worked off: all its calls are answered. One that does
    not get shorter makes every answer late; then an eighth of that wait is too long, so that
    the queue gets short again: those that have waited for longer are refused, and the others
    are answered as if nothing was. (Controlled delay, as in RFC 8289, with a longer memory:
    callers who are refused need not come more slowly.)
    """

    def __init__(self, most: float) -> None:
        """Take how many seconds are not yet too long."""
        self._most = most
        self._late = 0
        self._late_since = 0.0
        self._last_late = 0.0
        self._overloaded_since = 0.0
        self._is_overloaded = False

    def admit(self, seconds: float, now: float) -> bool:
        """Note how long a call has waited, and say whether to answer it or to refuse it. Called
        for each call in turn, with the time of a monotonic clock.
        """
        if self._is_overloaded and now - self._overloaded_since > _TRIED_ANEW:
            self._is_overloaded = False
            self._late = 0
        if seconds <= (self._most / _SHORTER if self._is_overloaded else self._most):
            if not self._is_overloaded or now - self._last_late > _CALM:
                self._is_overloaded = False
                self._late = 0
            return True
        if now - self._last_late > _CALM:
            self._late = 0
        if not self._late:
            self._late_since = now
        self._late += 1
        self._last_late = now
        is_no_burst = self._late >= _BURST_CALLS and now - self._late_since >= _BURST_SECONDS
        if is_no_burst and not self._is_overloaded:
            self._is_overloaded = True
            self._overloaded_since = now
        return not self._is_overloaded
