"""Reads the policies, serves them if all are valid, and keeps the last good ones otherwise.

The text is read and parsed whole in a thread; then one reference is swapped. One
reload runs at a time, whoever asks for it: the watch on the file, SIGHUP, or the
ReloadPolicy call.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from queuegate.policy.tree import Policy
from queuegate_server.engine import Engine
from queuegate_server.files.watcher import FileWatcher
from queuegate_server.formats.diagnostics import Diagnostic, Severity, has_errors, sort_diagnostics
from queuegate_server.formats.yunikorn.load import NO_PARTITION
from queuegate_server.policystore.loader import PolicySources, ReadPolicies, UnreadableFile
from queuegate_server.policystore.resolver_manager import CannotServe, ResolverManager, Unusable
from queuegate_server.runtime import gc_tuning
from queuegate_server.settings.model import Settings
from queuegate_server.snapshot import Served, Snapshot

_LOG = logging.getLogger("queuegate_server.policystore.reloader")
_LOGGED_PROBLEMS: Final = 50


@dataclass(frozen=True, slots=True)
class ReloadState:
    """How the last reload went."""

    succeeded: bool
    failed_at: float | None
    """When it failed, in wall-clock seconds; None if it succeeded."""
    problems: tuple[Diagnostic, ...]
    """The findings in what was read."""


class Reloader:
    """Loads the policy of the settings into the engine. Used from one event loop."""

    def __init__(
        self,
        settings: Settings,
        sources: ResolverManager,
        engine: Engine,
        wall: Callable[[], float],
        number: Callable[[str, int], Awaitable[int]] | None = None,
    ) -> None:
        """Take where the policy is, where groups come from, and a wall clock in seconds.

        `number` gives the revision of a policy, by its checksum and the revision before it,
        where others must agree on it.
        """
        self._number = number
        self._sources = sources
        self._engine = engine
        self._wall = wall
        self._files = PolicySources(settings, sources.of_partition)
        self._one_at_a_time = asyncio.Lock()
        self._next: asyncio.Task[ReloadState] | None = None
        self._tasks: set[asyncio.Task[ReloadState]] = set()
        self._revision = 0
        self._empty: AbstractSet[str] = frozenset()
        self._state = ReloadState(succeeded=True, failed_at=None, problems=())
        self.succeeded = 0
        """How many reloads have succeeded, the first one included."""
        self.failed = 0
        """How many have not."""

    @property
    def state(self) -> ReloadState:
        """How the last reload went."""
        return self._state

    async def reload(self) -> ReloadState:
        """Read the file; serve it if it is valid and differs from what is served.

        What is read was there after the call: a reload that has begun is not joined, one
        that waits for its turn is. A caller who goes away does not stop it. Never raises.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._take_turn())
            self._tasks.add(self._next)
            self._next.add_done_callback(self._tasks.discard)
        return await asyncio.shield(self._next)

    async def watch(self) -> None:
        """Reload whenever a file changes, until cancelled."""

        async def watch_one(file: FileWatcher[bytes]) -> None:
            async for _ in file.changes():
                await self.reload()

        async with asyncio.TaskGroup() as group:
            for file in self._files.watched:
                group.create_task(watch_one(file))

    async def _take_turn(self) -> ReloadState:
        async with self._one_at_a_time:
            self._next = None
            problems = await self._reload()
            self._state = self._outcome(problems)
            if self._state.succeeded:
                self.succeeded += 1
            else:
                self.failed += 1
            return self._state

    async def _reload(self) -> tuple[Diagnostic, ...]:
        """Return the findings."""
        try:
            read = self._with_unused_settings(await self._files.read())
            problems = read.problems
            if not has_errors(problems):
                lost = read.empty - self._empty if self._revision else ()
                if lost:
                    return _no_partitions(problems, lost)
                await self._serve(read)
        except CannotServe as error:
            return tuple(
                sort_diagnostics((*problems, *(_no_groups(one, read) for one in error.unusable)))
            )
        except UnreadableFile as error:
            return (_error(error.file, f"cannot be read: {error.reason}", error.remedy),)
        except Exception as error:  # a fault of ours must not end the service either
            _LOG.exception("unexpected error")
            message = f"cannot be loaded: unexpected {type(error).__name__}"
            return (_error(self._files.name, message, "report it, with what the log says"),)
        return problems

    async def _serve(self, read: ReadPolicies) -> None:
        """Swap the policy in unless it is being served already; raise CannotServe."""
        partitions = read.partitions
        if self._revision and self._engine.snapshot.policy.checksum == read.checksum:
            return
        groups = await self._sources.for_partitions(partitions)
        revision = self._revision + 1
        if self._number is not None:
            revision = await self._number(read.checksum, self._revision)
        policy = Policy(partitions, self._files.name, revision, read.checksum)
        served = {
            name: Served(
                partition,
                groups[name],
                self._sources.of_partition(name).trust_provided_groups,
                read.spark_defaults.get(name, {}),
            )
            for name, partition in partitions.items()
        }
        self._revision = revision
        self._empty = read.empty
        self._engine.serve(Snapshot(policy, served, self._wall(), read.problems))
        gc_tuning.freeze()
        await self._sources.close_unused(groups.values())
        _LOG.info(
            "policy is served",
            extra={
                "revision": policy.revision,
                "source": policy.source,
                "partitions": len(partitions),
                "queues": sum(len(partition.queues) for partition in partitions.values()),
                "warnings": len(read.problems),
            },
        )

    def _with_unused_settings(self, read: ReadPolicies) -> ReadPolicies:
        """Note settings for partitions that are not there: an error at the start only, as a
        partition may go while we serve.
        """
        if has_errors(read.problems):
            return read
        severity = Severity.WARNING if self._revision else Severity.ERROR
        remedy = "correct the name under `partitions` of the settings, or remove it there"
        unused = [
            Diagnostic(self._files.name, 0, 0, severity, message, remedy)
            for message in self._sources.without_partition(read.partitions)
        ]
        return replace(read, problems=tuple(sort_diagnostics((*read.problems, *unused))))

    def _outcome(self, problems: tuple[Diagnostic, ...]) -> ReloadState:
        failed = has_errors(problems)
        state = ReloadState(not failed, self._wall() if failed else None, problems)
        if not self._revision:
            return state  # whoever starts the server tells why it does not start
        for problem in problems[:_LOGGED_PROBLEMS]:
            _LOG.log(
                logging.ERROR if problem.severity is Severity.ERROR else logging.WARNING,
                "finding in the policy",
                extra={"finding": str(problem)},
            )
        if failed:
            _LOG.error(
                "policy is not valid; the last good one stays", extra={"findings": len(problems)}
            )
        return state


def _no_partitions(
    problems: tuple[Diagnostic, ...], lost: Collection[str]
) -> tuple[Diagnostic, ...]:
    """Refuse policies that had partitions and have none any more."""
    message = "the policy has no partitions any more"
    remedy = "add a partition; a file that is still being written is read again"
    others = [one for one in problems if one.file not in lost or one.message != NO_PARTITION]
    emptied = (Diagnostic(file, 1, 1, Severity.ERROR, message, remedy) for file in lost)
    return tuple(sort_diagnostics([*others, *emptied]))


def _no_groups(unusable: Unusable, read: ReadPolicies) -> Diagnostic:
    """Locate a source of groups that cannot be used where the policy asks for it."""
    _, from_policy, message, remedy = unusable
    if not from_policy:
        return _error("settings", message, remedy)
    file = read.files[unusable.partition.name]
    line, column = unusable.partition.resolver_place
    return Diagnostic(file, line, column, Severity.ERROR, message, remedy)


def _error(file: str, message: str, remedy: str) -> Diagnostic:
    return Diagnostic(file, 0, 0, Severity.ERROR, message, remedy)
