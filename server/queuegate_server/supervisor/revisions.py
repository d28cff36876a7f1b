"""One number for one policy, in whichever worker and order it is read."""

from collections import OrderedDict
from typing import Final

_KEPT: Final = 64
"""Policies whose numbers are remembered."""


class Revisions:
    """Numbers what workers read, by its checksum. Numbers only grow in each worker."""

    def __init__(self) -> None:
        self._latest = 0
        self._of: OrderedDict[str, int] = OrderedDict()

    def number(self, checksum: str, current: int) -> int:
        """Return the revision of a policy for a worker that serves the revision `current`.

        What another worker has read first keeps its number; what this worker has left
        behind and reads again is new.
        """
        known = self._of.get(checksum, 0)
        if known > current:
            return known
        self._latest = max(self._latest, current) + 1
        self._of[checksum] = self._latest
        self._of.move_to_end(checksum)
        if len(self._of) > _KEPT:
            self._of.popitem(last=False)
        return self._latest
