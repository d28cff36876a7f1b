"""Loads the policies, serves them if all are valid, and keeps the last good ones otherwise.

One reload runs at a time, whether a watcher, SIGHUP or a ReloadPolicy call asks for it. The first
policies are parsed in this process, which is faster; all others in a child process with limits.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from queuegate.policy.tree import Policy
from queuegate_server.engine import Engine, ServedPartition, Snapshot
from queuegate_server.files.watcher import FileWatcher
from queuegate_server.formats.diagnostics import Diagnostic, Severity, has_errors, sort_diagnostics
from queuegate_server.formats.yunikorn.load import NO_PARTITION
from queuegate_server.identity.manager import ResolverManager, UnusableResolver, UnusableResolvers
from queuegate_server.policystore.loader import CannotLoad, PolicyLoader
from queuegate_server.policystore.parsing import ParsedPolicies
from queuegate_server.runtime import gc_tuning
from queuegate_server.settings.model import Settings

_LOG = logging.getLogger("queuegate_server.policystore.reloader")
_LOGGED_PROBLEMS: Final = 50


@dataclass(frozen=True, slots=True)
class ReloadState:
    """How the last reload went."""

    succeeded: bool
    failed_at: float | None
    """When it failed, in wall-clock seconds; None if it succeeded."""
    problems: tuple[Diagnostic, ...]
    """The findings in what was parsed."""


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
        self._settings = settings
        self._number = number
        self._sources = sources
        self._engine = engine
        self._wall = wall
        self._loader = PolicyLoader(settings)
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

        async def watch_one(watcher: FileWatcher[bytes]) -> None:
            async for _ in watcher.changes():
                await self.reload()

        async with asyncio.TaskGroup() as group:
            for watcher in self._loader.watchers:
                group.create_task(watch_one(watcher))

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
        """Return the diagnostics."""
        try:
            parsed = self._with_unused_settings(
                await self._loader.load(in_child=bool(self._revision))
            )
            diagnostics = parsed.diagnostics
            if not has_errors(diagnostics):
                lost = parsed.empty - self._empty if self._revision else ()
                if lost:
                    return _no_partitions(diagnostics, lost)
                await self._serve(parsed)
        except UnusableResolvers as error:
            unusable = (_no_groups(each, parsed) for each in error.unusable)
            return tuple(sort_diagnostics((*diagnostics, *unusable)))
        except CannotLoad as error:
            return (error.diagnostic,)
        except Exception as error:  # a fault of ours must not end the service either
            _LOG.exception("unexpected error")
            message = f"cannot be loaded: unexpected {type(error).__name__}"
            return (_error(self._loader.name, message, "report it, with what the log says"),)
        return diagnostics

    async def _serve(self, parsed: ParsedPolicies) -> None:
        """Swap the policy in unless it is being served already; raise UnusableResolvers."""
        partitions = parsed.partitions
        if self._revision and self._engine.snapshot.policy.checksum == parsed.checksum:
            return
        groups = await self._sources.for_partitions(partitions)
        revision = self._revision + 1
        if self._number is not None:
            revision = await self._number(parsed.checksum, self._revision)
        policy = Policy(partitions, self._loader.name, revision, parsed.checksum)
        served = {
            name: ServedPartition(
                partition,
                groups[name],
                self._settings.partition(name).trust_provided_groups,
                parsed.spark_defaults.get(name, {}),
            )
            for name, partition in partitions.items()
        }
        self._revision = revision
        self._empty = parsed.empty
        self._engine.serve(Snapshot(policy, served, self._wall(), parsed.diagnostics))
        gc_tuning.freeze()
        await self._sources.close_unused(groups.values())
        _LOG.info(
            "policy is served",
            extra={
                "revision": policy.revision,
                "source": policy.source,
                "partitions": len(partitions),
                "queues": sum(len(partition.queues) for partition in partitions.values()),
                "warnings": len(parsed.diagnostics),
            },
        )

    def _with_unused_settings(self, parsed: ParsedPolicies) -> ParsedPolicies:
        """Note settings for partitions that are not there: an error at the start only, as a
        partition may go while we serve.
        """
        if has_errors(parsed.diagnostics):
            return parsed
        severity = Severity.WARNING if self._revision else Severity.ERROR
        remedy = "correct the name under `partitions` of the settings, or remove it there"
        unused = [
            Diagnostic(self._loader.name, 0, 0, severity, message, remedy)
            for message in _unmatched(self._settings.partitions, parsed.partitions)
        ]
        return replace(parsed, diagnostics=tuple(sort_diagnostics((*parsed.diagnostics, *unused))))

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


def _unmatched(settings: Collection[str], partitions: Collection[str]) -> Iterator[str]:
    """Yield a message for each partition of the settings that the policy does not have."""
    names = ", ".join(repr(name) for name in sorted(partitions)) or "none"
    for name in settings:
        if name not in partitions:
            message = f"the settings name the partition {name!r}, the policy has {names}"
            same = [other for other in partitions if other.casefold() == name.casefold()]
            if same:
                message += f"; {name!r} and {same[0]!r} differ in case only"
            yield message


def _no_partitions(
    problems: tuple[Diagnostic, ...], lost: Collection[str]
) -> tuple[Diagnostic, ...]:
    """Refuse policies that had partitions and have none any more."""
    message = "the policy has no partitions any more"
    remedy = "add a partition; a file that is still being written is read again"
    others = [one for one in problems if one.file not in lost or one.message != NO_PARTITION]
    emptied = (Diagnostic(file, 1, 1, Severity.ERROR, message, remedy) for file in lost)
    return tuple(sort_diagnostics([*others, *emptied]))


def _no_groups(unusable: UnusableResolver, parsed: ParsedPolicies) -> Diagnostic:
    """Locate a source of groups that cannot be used where the policy asks for it."""
    _, from_policy, message, remedy = unusable
    if not from_policy:
        return _error("settings", message, remedy)
    file = parsed.files[unusable.partition.name]
    line, column = unusable.partition.resolver_place
    return Diagnostic(file, line, column, Severity.ERROR, message, remedy)


def _error(file: str, message: str, remedy: str) -> Diagnostic:
    return Diagnostic(file, 0, 0, Severity.ERROR, message, remedy)
