"""Registers: what the server reads from outside, and which of its values a call may have seen."""

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.resilience.history.records import FAILED, Confirmation, History, Lifetimes, Write

USER = "user "
ALL_USERS = "user *"
_FOREVER = Lifetimes(math.inf, math.inf)


class Version(NamedTuple):
    """One value of a register."""

    number: int
    value: object
    since: float
    """No call that ends before can have seen it."""
    replaced: float
    """It was not the value any more, at the latest."""
    until: float
    """No call that starts later may see it, unless lookups fail."""
    stale_until: float
    """No call that starts later may see it."""


class Register:
    """The versions of one register.

    A version may be seen by each call that ends after it was written and starts before the server
    has confirmed that it uses a later one, or may not use an old one any longer.
    """

    def __init__(
        self,
        writes: Sequence[Write],
        confirmations: Sequence[Confirmation],
        begin: float = -math.inf,
        lifetimes: Lifetimes = _FOREVER,
    ) -> None:
        self._lifetimes = lifetimes
        self._versions: list[Version] = []
        in_effect = _InEffect(confirmations)
        certain = _InEffect([each for each in confirmations if not each.unless_failed])
        ends = [write.end for write in writes[1:]] + [math.inf]
        for number, (write, replaced) in enumerate(zip(writes, ends, strict=True)):
            lifetime = lifetimes.no_such_user if write.value is None else lifetimes.groups
            stale_until = min(
                certain.at(replaced),
                replaced + lifetime,
                math.inf if replaced >= begin else -math.inf,
            )
            until = min(in_effect.at(replaced), stale_until)
            self._versions.append(
                Version(number, write.value, write.start, replaced, until, stale_until)
            )
        self._since = [version.since for version in self._versions]
        self._latest_until = list(
            itertools.accumulate((version.stale_until for version in self._versions), max)
        )
        self._failures = [version for version in self._versions if version.value == FAILED]

    def visible(self, start: float, end: float) -> list[Version]:
        """Return the versions that a call may have seen, the newest first."""
        return list(self._visible(start, end))

    def before(self, end: float) -> list[Version]:
        """Return the versions that had been written by then."""
        return self._versions[: bisect.bisect_right(self._since, end)]

    def _visible(self, start: float, end: float) -> Iterator[Version]:
        for index in range(bisect.bisect_right(self._since, end) - 1, -1, -1):
            if self._latest_until[index] < start:
                return
            version = self._versions[index]
            if version.until >= start or (
                version.stale_until >= start and self._may_fail(start, end)
            ):
                yield version

    def _may_fail(self, start: float, end: float) -> bool:
        """Say whether a lookup may have failed for a call."""
        return any(
            each.since <= end and each.replaced + self._lifetimes.failure >= start
            for each in self._failures
        )


class _InEffect:
    """When the server has confirmed a change."""

    def __init__(self, confirmations: Sequence[Confirmation]) -> None:
        confirmed = sorted(confirmations, key=lambda each: each.start)
        self._starts = [each.start for each in confirmed]
        self._earliest = [each.end for each in confirmed] + [math.inf]
        for index in range(len(confirmed) - 1, -1, -1):
            self._earliest[index] = min(self._earliest[index : index + 2])

    def at(self, changed: float) -> float:
        """Return when a change of that time was confirmed; infinity if it never was."""
        return self._earliest[bisect.bisect_left(self._starts, changed)]


def registers(history: History) -> dict[str, Register]:
    """Return the registers of a history by their names."""
    writes: dict[str, list[Write]] = {}
    for write in history.writes:
        writes.setdefault(write.register, []).append(write)
    confirmations: dict[str, list[Confirmation]] = {}
    for each in history.confirmations:
        confirmations.setdefault(each.register, []).append(each)
    found = {}
    for name, written in writes.items():
        confirmed = confirmations.get(name, [])
        if name.startswith(USER):
            confirmed = [*confirmed, *confirmations.get(ALL_USERS, [])]
            begin = -math.inf if history.shares_groups else history.begin
            found[name] = Register(written, confirmed, begin, history.lifetimes)
        else:
            found[name] = Register(written, confirmed, history.begin)
    return found
