"""Follows the changes that resolvers report, and invalidates the groups of the affected users.

A follower runs a resolver's `changes` and restarts it after a failure. Reports are merged while
earlier ones take effect. While no source is followed, the TTLs of the caches bound the age of
groups, as for other resolvers. In a fleet, one replica follows a source, and the other replicas
receive its invalidations.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from queuegate_server.identity.resolver import CannotFollow, Following
from queuegate_server.identity.shared import FollowerLease
from queuegate_server.runtime import pauses
from queuegate_server.runtime.single_flight import is_being_cancelled
from queuegate_server.throttling.token_bucket import TokenBucket

_LOG = logging.getLogger(__name__)

MAX_USERS_PER_SECOND: Final = 1_000
"""The maximum number of users reported per second, and the maximum number whose invalidation waits
for an earlier invalidation. If there are more, all users are invalidated."""
ALL_INTERVAL: Final = 1.0
"""The minimum number of seconds between invalidations of all users."""
STABLE_SECONDS: Final = 60.0
"""After a source has been followed for this long, the next failure counts as the first one."""
MAX_SILENCE: Final = 300.0
"""How long a resolver may follow its source without calling `reached`, in seconds, before it is
restarted.
"""
MAX_POSITION_BYTES: Final = 16 * 1024
CLOSE_SECONDS: Final = 3.0
"""How long `close` waits for the resolver to stop and the lease to be released."""


def _do_nothing() -> None:
    """Do nothing."""


class FollowState(StrEnum):
    """The state of a follower."""

    STARTING = "starting"
    """The resolver does not follow its source yet."""
    FOLLOWING = "following"
    FAILED = "failed"
    """The resolver cannot follow its source, and will be restarted."""
    STANDBY = "standby"
    """Another replica of the fleet follows the source."""


class _Batch(NamedTuple):
    """The reports that take effect together."""

    users: Collection[str]
    is_all: bool
    reached: tuple[float, bytes | None] | None
    """When `reached` was last called, and with which position."""
    start: int
    """The number of the start in which `reached` was called."""


class _Reports:
    """Merges a resolver's reports until they take effect. Implements `ChangeSink`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.wake: Final = asyncio.Event()
        self.count = {"users": 0, "all": 0}
        self.starts = 0
        """How many times the resolver has been started."""
        self.following_since: float | None = None
        """When the resolver first called `reached` after its last start."""
        self.extend: Callable[[], None] = _do_nothing
        """Called by `reached`."""
        self.position: bytes | None = None
        """The newest position whose reports have taken effect."""
        self._clock = clock
        self._bucket = TokenBucket(MAX_USERS_PER_SECOND, MAX_USERS_PER_SECOND, clock)
        self._users: dict[str, None] = {}
        self._is_all = False
        self._reached: tuple[float, bytes | None] | None = None

    def start(self, position: bytes | None, extend: Callable[[], None]) -> None:
        """Record that the resolver starts to follow its source at a position."""
        self.position, self.extend, self.following_since = position, extend, None
        self.starts += 1
        self._reached = None

    def invalidate(self, users: Collection[str]) -> None:
        """See `ChangeSink`."""
        for user in users:
            if self._is_all:
                return
            if user in self._users:
                continue
            if len(self._users) >= MAX_USERS_PER_SECOND or not self._bucket.acquire():
                self.invalidate_all()
                return
            self._users[user] = None
            self.count["users"] += 1
            self.wake.set()

    def invalidate_all(self) -> None:
        """See `ChangeSink`."""
        if not self._is_all:
            self._is_all = True
            self.count["all"] += 1
        self._users.clear()
        self.wake.set()

    def reached(self, position: bytes | None = None) -> None:
        """See `ChangeSink`."""
        now = self._clock()
        if self.following_since is None:
            self.following_since = now
            if self.position is None:
                self.invalidate_all()
        if position is not None and len(position) > MAX_POSITION_BYTES:
            position = None
        if position is None and self._reached is not None:
            position = self._reached[1]
        self._reached = now, position
        self.extend()
        self.wake.set()

    @property
    def is_all(self) -> bool:
        """Whether all users must be invalidated."""
        return self._is_all

    def take(self) -> _Batch:
        """Return and forget all reports."""
        batch = _Batch(self._users, self._is_all, self._reached, self.starts)
        self._users, self._is_all, self._reached = {}, False, None
        return batch


@dataclass(eq=False)
class ChangeFollower:
    """Follows one resolver's source."""

    name: str
    """The resolver's display name."""
    changes: Following
    invalidate: Callable[[Collection[str]], Awaitable[bool]]
    """Invalidates the given users in all partitions that use the resolver, or all of their users if
    none are given. Returns whether all processes will learn of the invalidation even if this one
    ends.
    """
    clock: Callable[[], float]
    """A monotonic clock, in seconds."""
    lease: FollowerLease
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self.failures = 0
        """The number of failures since the follower was created."""
        self.last_error: tuple[float, str] | None = None
        """The time and reason of the last failure."""
        self._reports = _Reports(self.clock)
        self._is_standby = False
        self._lost = asyncio.Event()
        """Set if an invalidation did not reach all processes, and its report must be repeated."""
        self._current_at = self.clock()
        self._failures_in_row = 0
        self._is_failure_logged = False
        """Whether the newest line in the log says that the source is not followed."""
        self._next_all = self.clock()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start following."""
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._apply())]

    async def close(self) -> None:
        """Stop following."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        self._tasks = []

    @property
    def state(self) -> FollowState:
        """The current state."""
        if self._reports.following_since is not None:
            return FollowState.FOLLOWING
        if self._is_standby:
            return FollowState.STANDBY
        return FollowState.FAILED if self.failures else FollowState.STARTING

    @property
    def lag(self) -> float:
        """The age in seconds of the newest moment up to which all changes have taken effect; 0 if
        another replica follows the source.
        """
        return 0.0 if self._is_standby else max(0.0, self.clock() - self._current_at)

    @property
    def reported(self) -> dict[str, int]:
        """The number of users reported (`users`), and of reports about all users (`all`)."""
        return self._reports.count

    async def _run(self) -> None:
        while True:
            error = await self._follow()
            self._note_failure(error)
            await self.sleep(pauses.FOLLOWER.after(self._failures_in_row))

    async def _follow(self) -> str:
        """Follow until the resolver stops; return the reason."""
        try:
            position = await self.lease.acquire(self._stand_by)
            self._end_standby()
            try:
                await self._follow_from(position)
            finally:
                await self.lease.release(self._reports.position)  # let another replica try
        except CannotFollow as error:
            return str(error)
        except (Exception, asyncio.CancelledError) as error:
            if is_being_cancelled():
                raise
            if isinstance(error, asyncio.CancelledError):
                return "the resolver cancelled its own task"
            _LOG.error("resolver %r failed to follow its source", self.name, exc_info=error)
            return f"the resolver failed: {type(error).__name__}"
        return "the resolver stopped following its source"

    async def _follow_from(self, position: bytes | None) -> None:
        """Follow the source, from a position if it is known. Raises CannotFollow."""
        loop, reports = asyncio.get_running_loop(), self._reports
        self._lost.clear()
        changes = asyncio.ensure_future(self.changes(reports))
        others = {
            asyncio.create_task(self._lost.wait()),
            asyncio.create_task(self.lease.keep(lambda: reports.position)),
        }
        try:
            async with asyncio.timeout(MAX_SILENCE) as limit:

                def confirm() -> None:
                    limit.reschedule(loop.time() + MAX_SILENCE)
                    self._log_recovery()

                reports.start(position, confirm)
                await asyncio.wait({changes, *others}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise CannotFollow(
                f"for {MAX_SILENCE:g} s, nothing has confirmed that the source is followed"
            ) from None
        finally:
            reports.extend = _do_nothing
            ended = changes.done()
            for task in (changes, *others):
                task.cancel()
            await asyncio.gather(changes, *others, return_exceptions=True)
        if ended:
            await changes
            return
        if self._lost.is_set():
            raise CannotFollow("a change did not reach all replicas, and will be reported again")
        for task in others:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _stand_by(self) -> None:
        self._is_standby = True

    def _end_standby(self) -> None:
        if self._is_standby:
            self._is_standby, self._current_at = False, self.clock()

    def _note_failure(self, error: str) -> None:
        """Count a failure, and log it unless it repeats the last one."""
        now, since = self.clock(), self._reports.following_since
        if since is not None and now - since >= STABLE_SECONDS:
            self._failures_in_row = 0
        self._end_standby()
        self._failures_in_row += 1
        self.failures += 1
        self._reports.following_since = None
        is_new = self.last_error is None or self.last_error[1] != error
        if is_new or not self._is_failure_logged:
            self._is_failure_logged = True
            _LOG.warning(
                "resolver %r does not follow changes; cached groups expire as usual: %s",
                self.name,
                error,
            )
        self.last_error = now, error

    def _log_recovery(self) -> None:
        if self._is_failure_logged:
            self._is_failure_logged = False
            _LOG.warning("resolver %r follows changes again", self.name)

    async def _apply(self) -> None:
        """Apply reports in order, merging those that arrive meanwhile."""
        reports = self._reports
        while True:
            await reports.wake.wait()
            if reports.is_all and (wait := self._next_all - self.clock()) > 0:
                await self.sleep(wait)
            reports.wake.clear()
            batch = reports.take()
            if batch.is_all:
                self._next_all = self.clock() + ALL_INTERVAL
            if batch.is_all or batch.users:
                await self._invalidate(() if batch.is_all else batch.users)
            if batch.reached is not None and batch.start == reports.starts:
                self._current_at, position = batch.reached
                if not self._lost.is_set():
                    reports.position = position or reports.position

    async def _invalidate(self, users: Collection[str]) -> None:
        """Apply changes. Retries until it has succeeded, because no change may be lost."""
        while True:
            try:
                if not await self.invalidate(users):
                    self._lost.set()
            except (Exception, asyncio.CancelledError) as error:
                if is_being_cancelled():
                    raise
                # Nothing may be lost, so later reports wait.
                _LOG.error("cannot apply changes from resolver %r", self.name, exc_info=error)
                await self.sleep(pauses.INVALIDATION.first)
            else:
                return
