"""Loads the policies and serves them if all are valid; otherwise keeps serving the last valid
policies.

Reloads run one at a time; `reloads.py` lists what causes them. The first reload
parses in this process because that is faster; all others parse in a child process with limits. If
the child fails, the reload is retried after a delay, because no file change would trigger another
one.
"""

import asyncio
import logging
import sys
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from queuegate.policy.tree import Partition, Policy
from queuegate_server.engine import Engine, ServedPartition, Snapshot
from queuegate_server.files.watcher import FileWatcher
from queuegate_server.formats.diagnostics import Diagnostic, has_errors, sort_diagnostics
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.yunikorn.load import NO_PARTITION
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.manager import (
    ResolverManager,
    UnusableResolver,
    UnusableResolvers,
    unusable_resolvers,
)
from queuegate_server.policystore.loader import CannotLoad, PolicyLoader
from queuegate_server.policystore.parser_process import ParserError
from queuegate_server.policystore.parsing import ParsedPolicies, ParseJob
from queuegate_server.reloads import ReloadCause
from queuegate_server.runtime import pauses, resources
from queuegate_server.runtime.pacing import Pace, run_with_pauses
from queuegate_server.settings.model import Settings
from queuegate_server.settings.source_map import error_in

if TYPE_CHECKING:
    from queuegate_server.policystore.kubernetes.cluster_policy import ClusterPolicy

_LOG = logging.getLogger("queuegate_server.policystore.reloader")
MAX_LOGGED: Final = 50
"""The maximum number of diagnostics logged per reload."""
MAX_PAST_RELOADS: Final = 10
MAX_PAST_DIAGNOSTICS: Final = 20
"""The maximum number of diagnostics kept for each past reload."""
FREED_AT_ONCE: Final = 500
"""The number of queues freed per step after a policy is replaced. A step takes 1 ms."""
PolicyReview = Callable[
    [Mapping[str, Partition], ParseJob | None], Generator[None, None, Sequence[Diagnostic]]
]
"""Returns errors if this process cannot use the partitions of valid policies, and warnings, given
the partitions and the policies' text, which is None if it is large. Runs in short steps."""


@dataclass(frozen=True, slots=True)
class ReloadState:
    """The outcome of a reload."""

    ended_at: float
    """When the reload completed, in wall-clock seconds."""
    succeeded: bool
    revision: int
    """The policy revision served after the reload."""
    diagnostics: tuple[Diagnostic, ...] = ()
    not_shown: int = 0
    """The number of omitted diagnostics."""
    unusable: tuple[UnusableResolver, ...] = ()
    """The resolvers that caused the failure."""


@dataclass(eq=False)
class Reloader:
    """Loads the configured policies into the engine."""

    settings: Settings
    """The settings that locate the policies and configure their partitions."""
    resolvers: ResolverManager
    """Provides each partition's group resolver."""
    engine: Engine
    """Serves the policies."""
    wall: Callable[[], float]
    """A wall clock in seconds."""
    agree_on_revision: Callable[[str, int], Awaitable[int]] | None = None
    """Agrees with the other processes on a policy's revision, given the policy's checksum and the
    previous revision. None if this is the only process."""
    review: PolicyReview | None = None
    """Reviews valid policies before they are served; None to accept all."""

    def __post_init__(self) -> None:
        self._loader = PolicyLoader(self.settings)
        self.format_of = self._loader.format_of
        self.parsing = self._loader.parsing
        """The lock held while a child process parses. Other code that starts such a child may share
        the lock, so that only one child at a time takes memory."""
        self.cluster = self._loader.cluster
        """The cluster whose RBAC is a policy; None if all policies are files."""
        self._following: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[ReloadState] | None = None
        self._running: asyncio.Task[ReloadState] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._parser_failures = 0
        self._is_closed = False
        self._cause = ReloadCause.START
        self._reads_files = False
        """Whether the next reload also reads files, not only the cluster."""
        self._served_files: ParsedPolicies | None = None
        self._cluster_failed = False
        """Whether the last reload caused by a change in the cluster failed."""
        self._freeing: set[asyncio.Task[None]] = set()
        self._revision = 0
        self._served_formats: Mapping[str, str] = {}
        self.state = ReloadState(0, succeeded=True, revision=0)
        """The outcome of the last reload."""
        self.succeeded = 0
        """The number of successful reloads, including the first one."""
        self.failed = 0
        """The number of failed reloads."""
        self.served_texts: ParseJob | None = None
        """The text of the served policies, as in `PolicyLoader.texts`."""
        self.past: deque[ReloadState] = deque(maxlen=MAX_PAST_RELOADS)
        """The most recent reloads, newest last, with a bounded number of diagnostics."""

    async def reload(self, cause: ReloadCause) -> ReloadState:
        """Read the files, and serve the policies if they are valid and have changed.

        A call may join a queued reload but not a running one, so the files are always read after
        the call. Cancelling the call does not stop the reload. Never raises.
        """
        self._parser_failures = 0
        return await asyncio.shield(self._start(cause))

    def follow_cluster(self) -> None:
        """Start to follow the cluster whose RBAC is a policy, if any. Call this before loading."""
        if self.cluster is not None:
            self._following = asyncio.create_task(self._follow(self.cluster))

    async def _follow(self, cluster: "ClusterPolicy") -> None:
        while True:
            try:
                await cluster.run(self._serve_cluster)
            except Exception:  # a bug must not stop the service
                _LOG.exception("unexpected error")
            await asyncio.sleep(pauses.API_SERVER.most)

    async def _serve_cluster(self) -> bool:
        """Serve what has changed in the cluster, and return whether it is served."""
        await self.reload(ReloadCause.CLUSTER)
        return self._serves_cluster()

    def _serves_cluster(self) -> bool:
        latest = self.engine.latest
        served = () if latest is None else latest.policy.partitions.values()
        return any(self.cluster is not None and self.cluster.partition is each for each in served)

    async def watch(self) -> None:
        """Reload whenever a file changes, until cancelled."""

        async def watch_one(watcher: FileWatcher[bytes]) -> None:
            async for _ in watcher.changes():
                await self.reload(ReloadCause.FILES)

        async with asyncio.TaskGroup() as group:
            for watcher in self._loader.watchers:
                group.create_task(watch_one(watcher))

    def close(self) -> None:
        """Stop retrying after parser failures, and stop freeing replaced policies."""
        self._is_closed = True
        self._stop_retry()
        if self._following is not None:
            self._following.cancel()
        for task in self._freeing:
            task.cancel()

    def _start(self, cause: ReloadCause) -> asyncio.Task[ReloadState]:
        self._reads_files |= cause is not ReloadCause.CLUSTER
        if self._next is None:
            self._next = asyncio.create_task(self._reload_next(cause))
        return self._next

    async def _reload_next(self, cause: ReloadCause) -> ReloadState:
        async with self._lock:
            self._cause = cause
            self._stop_retry()
            # Keep a reference so that the task stays alive even if nobody awaits it.
            self._running, self._next = self._next, None
            files, self._reads_files = self._reads_files, False
            diagnostics, unusable = await self._reload(files=files)
            # Put errors first, because logs and pages show only the first few diagnostics.
            diagnostics = (*sorted(diagnostics, key=lambda d: d.severity is not Severity.ERROR),)
            if not (files or has_errors(diagnostics) or self._cluster_failed):
                return self.state  # the outcome of the last reload of the files
            self._cluster_failed = not files and has_errors(diagnostics)
            self.state = state = self._outcome(diagnostics, unusable)
            self.succeeded += state.succeeded
            self.failed += not state.succeeded
            shown = diagnostics[:MAX_PAST_DIAGNOSTICS]
            not_shown = len(diagnostics) - len(shown)
            # Omit the unusable resolvers, because they would keep their partitions in memory.
            self.past.append(replace(state, diagnostics=shown, not_shown=not_shown, unusable=()))
            return state

    async def _reload(
        self, *, files: bool
    ) -> tuple[tuple[Diagnostic, ...], tuple[UnusableResolver, ...]]:
        try:
            known = None if files else self._served_files
            parsed = await self._loader.load(in_child=bool(self._revision), files=known)
            severity = Severity.WARNING if self._revision else Severity.ERROR
            parsed = _with_unused_settings(parsed, self.settings, self._loader.name, severity)
            if not has_errors(parsed.diagnostics) and (
                lost := self._served_formats.keys() - parsed.formats
            ):
                return _no_partitions(parsed.diagnostics, lost), ()
            parsed = await _reviewed(parsed, self.review, self._loader.texts)
            diagnostics = parsed.diagnostics
            if not has_errors(diagnostics):
                try:
                    await self._serve(parsed)
                finally:
                    served = self.engine.snapshot.served.values() if self._revision else ()
                    await self.resolvers.close_unused({each.groups for each in served})
        except UnusableResolvers as error:
            return _with_unusable(parsed, error.unusable), error.unusable
        except CannotLoad as error:
            return (error.diagnostic,), ()
        except ParserError as error:
            message = f"{error}; the server will try again in {self._retry_later():g} s"
            return (error_in(self._loader.name, message, error.remedy),), ()
        except Exception as error:  # a bug must not stop the service
            _LOG.exception("unexpected error")
            message = f"cannot be loaded: unexpected {type(error).__name__}"
            remedy = "report it, with the server's log"
            return (error_in(self._loader.name, message, remedy),), ()
        return diagnostics, ()

    def _retry_later(self) -> float:
        """Schedule a retry of the reload, and return its delay in seconds."""
        self._parser_failures += 1
        seconds = pauses.PARSER.after(self._parser_failures)
        if not self._is_closed:
            self._retry = asyncio.get_running_loop().call_later(
                seconds, self._start, ReloadCause.RETRY
            )
            _LOG.warning(
                "the parser failed; the reload will be retried", extra={"in_seconds": seconds}
            )
        return seconds

    def _stop_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    async def _serve(self, parsed: ParsedPolicies) -> None:
        """Serve the policies unless they are already being served. Raises UnusableResolvers."""
        partitions = parsed.partitions
        is_served = self._revision and self.engine.snapshot.policy.checksum == parsed.checksum
        if self.cluster is not None and is_served:
            # Do not rely on the checksum, because a user can choose the digest of a cluster.
            is_served = self._serves_cluster()
        if is_served and self.agree_on_revision is None:
            return
        groups = await self.resolvers.for_partitions(partitions)
        revision = self._revision + 1
        if self.agree_on_revision is not None:
            revision = await self.agree_on_revision(parsed.checksum, self._revision)
        if is_served and revision == self._revision:
            return  # no other worker has raised the revision
        policy = Policy(partitions, self._loader.name, revision, parsed.checksum)
        served = {
            name: ServedPartition(
                partition,
                groups[name],
                self.settings.partition(name).trust_provided_groups,
                parsed.spark_defaults.get(name, {}),
                self.cluster.age
                if self.cluster and parsed.files[name] == self.cluster.name
                else None,
            )
            for name, partition in partitions.items()
        }
        if self._revision:
            self._free_later(self.engine.snapshot, set(groups.values()))
        self._revision = revision
        self.served_texts = self._loader.texts
        self._served_formats = parsed.formats
        self._served_files = self._loader.files
        self.engine.serve(Snapshot(policy, served, self.wall(), parsed.diagnostics))
        if self._cause is not ReloadCause.CLUSTER:
            resources.freeze_gc()  # a change of a cluster makes few objects, and comes often
        _LOG.info(
            "policy is served",
            extra={
                "revision": policy.revision,
                "source": policy.source,
                "partitions": len(partitions),
                "queues": sum(len(partition.queues) for partition in partitions.values()),
                "warnings": len(parsed.diagnostics),
                "cause": str(self._cause),
            },
        )
        for name, partition in partitions.items():
            if cluster := partition.cluster:
                _LOG.info(
                    "partition is a YARN cluster",
                    extra={
                        "partition": name,
                        "semantics": str(cluster.semantics),
                        "acls_enabled": cluster.acls_enabled,
                        "admins": cluster.admins.text,
                    },
                )

    def _free_later(self, replaced: Snapshot, used: AbstractSet[GroupResolver]) -> None:
        partitions = replaced.policy.partitions.values()
        parts = [part for partition in partitions for part in partition.parts()]
        groups = [each.groups for each in replaced.served.values() if each.groups not in used]
        unused = asyncio.Event()
        weakref.finalize(replaced, unused.set)
        task = asyncio.create_task(_free(parts, groups, unused))
        self._freeing.add(task)
        task.add_done_callback(self._freeing.discard)

    def _outcome(
        self, diagnostics: tuple[Diagnostic, ...], unusable: tuple[UnusableResolver, ...]
    ) -> ReloadState:
        failed = has_errors(diagnostics)
        state = ReloadState(self.wall(), not failed, self._revision, diagnostics, unusable=unusable)
        if not self._revision:
            return state  # the caller reports why the server cannot start
        for diagnostic in diagnostics[:MAX_LOGGED]:
            _LOG.log(
                logging.ERROR if diagnostic.severity is Severity.ERROR else logging.WARNING,
                "policy diagnostic",
                extra={"diagnostic": str(diagnostic)},
            )
        if failed:
            _LOG.error(
                "policy is not valid; the last good one stays in use",
                extra={"diagnostics": len(diagnostics), "cause": str(self._cause)},
            )
        elif not self.state.succeeded:
            _LOG.info("policy is valid again")
        return state


async def check(settings: Settings, review: PolicyReview | None = None) -> tuple[Diagnostic, ...]:
    """Return the diagnostics that a server would report at startup. Opens no resolvers.

    `review` reviews valid policies, as in `Reloader`.
    """
    loader = PolicyLoader(settings, max_kept_bytes=sys.maxsize)
    try:
        parsed = await loader.load_files(in_child=False)
    except CannotLoad as error:
        return (error.diagnostic,)
    if loader.cluster is not None and not has_errors(parsed.diagnostics):
        parsed = loader.with_cluster(parsed)
    parsed = _with_unused_settings(parsed, settings, loader.name, Severity.ERROR)
    parsed = await _reviewed(parsed, review, loader.texts)
    if has_errors(parsed.diagnostics):
        return parsed.diagnostics
    return _with_unusable(parsed, unusable_resolvers(settings, parsed.partitions))


async def _free(
    parts: list[object], groups: Collection[GroupResolver], unused: asyncio.Event
) -> None:
    """Wait until no call uses a replaced policy, then clear its resolvers' caches and free it in
    steps.

    `groups` are the group resolvers that only the replaced policy used.
    """
    await unused.wait()
    for each in groups:
        await each.invalidate_all()
    pace = Pace()
    while parts:
        del parts[-FREED_AT_ONCE:]
        await pace.pause_if_due()


async def _reviewed(
    parsed: ParsedPolicies, review: PolicyReview | None, texts: ParseJob | None
) -> ParsedPolicies:
    """Add the diagnostics of a review."""
    if review is None or has_errors(parsed.diagnostics):
        return parsed
    found = await run_with_pauses(review(parsed.partitions, texts))
    return replace(parsed, diagnostics=tuple(sort_diagnostics((*parsed.diagnostics, *found))))


def _with_unused_settings(
    parsed: ParsedPolicies, settings: Settings, file: str, severity: Severity
) -> ParsedPolicies:
    """Add a diagnostic for each configured partition that is missing from the policies.

    The diagnostics are errors at startup, but warnings later, since a partition may have been
    removed.
    """
    if has_errors(parsed.diagnostics):
        return parsed
    names = ", ".join(map(repr, sorted(parsed.partitions))) or "none"
    remedy = "correct the name under `partitions` in the settings, or remove it there"
    is_yarn = any(each.cluster for each in parsed.partitions.values())
    diagnostics = [*parsed.diagnostics]
    for name in settings.partitions.keys() - parsed.partitions:
        message = f"the settings name the partition {name!r}, but the policy has {names}"
        same = [other for other in parsed.partitions if other.casefold() == name.casefold()]
        if same:
            message += f"; {name!r} and {same[0]!r} differ only in case"
        of_yarn = f"; for YARN, `policy.partition: {name}` also works" if is_yarn else ""
        diagnostics.append(
            Diagnostic(file, 0, 0, severity, message, remedy + of_yarn, finding="unknown-partition")
        )
    return replace(parsed, diagnostics=tuple(sort_diagnostics(diagnostics)))


def _no_partitions(
    diagnostics: tuple[Diagnostic, ...], lost: Collection[str]
) -> tuple[Diagnostic, ...]:
    """Return the diagnostics, plus an error for each policy that has lost all its partitions."""
    message = "the policy no longer has any partitions"
    remedy = "add a partition; a file that is still being written is read again"
    others = [
        each for each in diagnostics if each.file not in lost or each.finding not in NO_PARTITION
    ]
    emptied = (Diagnostic(file, 1, 1, Severity.ERROR, message, remedy) for file in lost)
    return tuple(sort_diagnostics([*others, *emptied]))


def _with_unusable(
    parsed: ParsedPolicies, unusable: Iterable[UnusableResolver]
) -> tuple[Diagnostic, ...]:
    errors = (_unusable_resolver(each, parsed) for each in unusable)
    return tuple(sort_diagnostics((*parsed.diagnostics, *errors)))


def _unusable_resolver(unusable: UnusableResolver, parsed: ParsedPolicies) -> Diagnostic:
    """Return an error at the resolver's definition, in the policy or the settings."""
    message, remedy = str(unusable), unusable.remedy
    if unusable.key.defined_in == "settings":
        return error_in("settings", message, remedy)
    file = parsed.files[unusable.partition.name]
    place = file, *unusable.partition.resolver_place
    return Diagnostic(*place, Severity.ERROR, message, remedy, finding="unusable-resolver")
