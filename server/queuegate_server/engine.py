"""Evaluates queries against the served policy, for all services.

Callers take the snapshot once, at the start of a call, and validate their queries against it, so
each call sees a single policy revision however long it runs.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from queuegate.policy.applications import ApplicationDecision
from queuegate.policy.chain import Chain
from queuegate.policy.decide import evaluated_instead
from queuegate.policy.decision import UNKNOWN_USER, Access, Decision
from queuegate.policy.explain import Explanation, explain
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.tree import Partition, Policy
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.identity.cache import CacheEntry
from queuegate_server.identity.group_resolver import GroupResolver, Resolution
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser
from queuegate_server.policy_age import PolicyAge
from queuegate_server.reloads import SnapshotListener

E = TypeVar("E", Explanation, ApplicationDecision)
_MAX_NAMED_PARTITIONS: Final = 10


class NotReady(Exception):
    """Raised if no policy has been loaded yet."""

    def __init__(self) -> None:
        super().__init__("no policy has been loaded yet")


class UnknownPartition(Exception):
    """Raised for a partition that is not in the policy."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        names = ", ".join(sorted(known)[:_MAX_NAMED_PARTITIONS])
        more = ", ..." if len(known) > _MAX_NAMED_PARTITIONS else ""
        reason = f"; partitions are: {names}{more}" if names else ": the policy has no partitions"
        super().__init__(f"partition {name!r} does not exist{reason}")


class GroupsUnavailable(Exception):
    """Raised when a decision depends on the user's groups but the resolver is unavailable."""

    message: ClassVar = "groups are needed and resolver {!r} is unavailable; see the server's log"

    def __init__(self, resolver: str, retry_after: float) -> None:
        """`retry_after` is in seconds. The message omits the cause, because it may name hosts."""
        super().__init__(self.message.format(resolver))
        self.resolver = resolver
        self.retry_after = retry_after


class TooManyLookups(GroupsUnavailable):
    """Raised when the resolver has too many pending lookups."""

    message = "groups are needed and resolver {!r} has too many lookups"


@dataclass(frozen=True, slots=True)
class ServedPartition:
    """A served partition, with the resolver for its users' groups."""

    partition: Partition
    groups: GroupResolver
    trust_provided_groups: bool
    spark_defaults: Mapping[str, str] = field(default_factory=dict)
    """Default properties of the partition's Spark applications; queries override them."""
    age: PolicyAge | None = None
    """How old the partition is, if it is followed; None if it comes from files."""

    def directory_name(self, user: str) -> str:
        """Return the name of a user without the API server's prefix, which no directory has."""
        grants = self.partition.named_grants
        return user if grants is None else user.removeprefix(grants.users_prefix)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Snapshot:
    """The served policy and its resolvers, swapped atomically. Compare snapshots by identity."""

    policy: Policy
    served: Mapping[str, ServedPartition]
    loaded_at: float
    """When the policy was loaded, in wall-clock seconds."""
    warnings: tuple[Diagnostic, ...] = ()

    def find(self, partition: str) -> ServedPartition:
        """Return the partition with the requested name. Raises UnknownPartition and PolicyTooOld.

        All decisions about a partition that is followed begin here.
        """
        served = self.named(partition)
        if served.age is not None:
            served.age.check()
        return served

    def named(self, partition: str) -> ServedPartition:
        """Return the partition with a name, however old, to show it. Raises UnknownPartition."""
        served = self.served.get(partition or DEFAULT_PARTITION)
        if served is None:
            other = self.policy.partition(partition)
            if other is None:
                raise UnknownPartition(partition, self.served)
            served = self.served[other.name]
        return served


class Query(NamedTuple):
    """A validated query about access to a queue."""

    user: str
    groups: Sequence[str] | None
    """The trusted groups from the request, possibly empty; None to look them up."""
    served: ServedPartition
    path: str
    """The full queue path in the partition's spelling."""
    access: Access
    real_user: str = ""
    """The service acting for the user; empty if none."""


class ApplicationQuery(NamedTuple):
    """A validated query about access to an application."""

    user: str
    groups: Sequence[str] | None
    """See Query."""
    served: ServedPartition
    queue: str
    """The path of the application's queue; empty for Spark."""
    judge: Callable[[Sequence[str] | None], ApplicationDecision]
    """Evaluates the query with the user's groups; the argument is None if the groups are
    unknown."""


class Verdict(NamedTuple):
    """A decision, with the groups and the queue on which it is based."""

    decision: Decision
    entry: CacheEntry | None
    """The cache entry whose groups the decision used, if any."""
    evaluated_queue: str = ""
    """The nearest existing ancestor of a queue that does not exist; empty if the queue exists."""


class GroupsOrigin(StrEnum):
    """The source of the groups in an explained decision."""

    NOT_NEEDED = "not needed"
    REQUEST = "request"
    RESOLVER = "resolver"
    CACHE = "cache"
    STALE_CACHE = "stale cache"


class ExplainResult(NamedTuple, Generic[E]):
    """A decision, its explanation, and the groups used."""

    decision: Decision
    evaluation: E
    origin: GroupsOrigin
    groups: Sequence[str]
    resolver: str
    detail: str
    """Why the user is unknown; empty otherwise."""


class Engine:
    """Evaluates queries against the current snapshot."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start without a snapshot. `clock` returns monotonic seconds."""
        self._clock = clock
        self.latest: Snapshot | None = None
        """The served snapshot; None if there is none yet."""
        self._listeners: dict[SnapshotListener, Callable[[Snapshot], None]] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The served snapshot. Raises NotReady if there is none yet."""
        if self.latest is None:
            raise NotReady
        return self.latest

    def serve(self, snapshot: Snapshot) -> None:
        """Replace the snapshot, and call the `on_swap` callbacks."""
        self.latest = snapshot
        for callback in self._listeners.values():
            callback(snapshot)

    @property
    def listeners(self) -> Collection[SnapshotListener]:
        """The listeners for new snapshots, in the order of their calls."""
        return self._listeners.keys()

    def on_swap(self, listener: SnapshotListener, callback: Callable[[Snapshot], None]) -> None:
        """Call a listener's `callback` with the current snapshot, if any, and with each later one.

        The callback must drop everything derived from the previous snapshot to release the
        replaced policy's memory. A listener has one callback.
        """
        self._listeners[listener] = callback
        if self.latest is not None:
            callback(self.latest)

    def check(self, query: Query) -> Verdict | None:
        """Check access to a queue, using cached groups only if the decision depends on groups.

        Returns None if the groups must be looked up first. Raises GroupsUnavailable if the decision
        depends on groups and a lookup has just failed.
        """
        user, groups, served, path, access, real_user = query
        partition = served.partition
        chain = partition.chain(path, access)
        decision = chain.decide(user, groups, real_user)
        if decision is not None:
            return _verdict(decision, None, evaluated_instead(partition, path, decision))
        entry = served.groups.known(
            user if partition.named_grants is None else served.directory_name(user)
        )
        return None if entry is None else self._decide_with(query, chain, entry)

    def check_application(self, query: ApplicationQuery) -> Decision | None:
        """Check access to an application; see `check`. Raises GroupsUnavailable."""
        decision = query.judge(query.groups).decision
        if decision is not None:
            return decision
        entry = query.served.groups.known(query.served.directory_name(query.user))
        if entry is None:
            return None
        groups = self._groups(query, entry)
        return UNKNOWN_USER if groups is None else _final(query.judge(groups).decision)

    async def resolve_and_check(self, query: Query) -> Verdict:
        """Look up the user's groups, and decide with them. Raises GroupsUnavailable."""
        resolution = await query.served.groups.resolve(query.served.directory_name(query.user))
        chain = query.served.partition.chain(query.path, query.access)
        return self._decide_with(query, chain, resolution.entry)

    async def explain(self, query: Query) -> ExplainResult[Explanation]:
        """Return an explained decision, looking up groups if needed. Raises GroupsUnavailable."""
        partition = query.served.partition
        return await self._explain(
            query,
            lambda groups: explain(
                partition, query.path, query.access, query.user, groups, real_user=query.real_user
            ),
        )

    async def explain_application(
        self, query: ApplicationQuery
    ) -> ExplainResult[ApplicationDecision]:
        """Explain access to an application; see `explain`. Raises GroupsUnavailable."""
        return await self._explain(query, query.judge)

    async def groups(self, query: Query) -> Sequence[str]:
        """Look up the user's groups; empty if the user is unknown. Raises GroupsUnavailable."""
        resolution = await query.served.groups.resolve(query.served.directory_name(query.user))
        return self._groups(query, resolution.entry) or ()

    async def _explain(
        self, query: Query | ApplicationQuery, evaluate: Callable[[Sequence[str] | None], E]
    ) -> ExplainResult[E]:
        given = query.groups
        served = query.served
        source = served.groups
        evaluation = evaluate(given)
        if evaluation.decision is not None:
            origin = GroupsOrigin.NOT_NEEDED if given is None else GroupsOrigin.REQUEST
            return ExplainResult(
                evaluation.decision, evaluation, origin, given or (), source.resolver_name, ""
            )
        resolution = await source.resolve(served.directory_name(query.user))
        outcome = resolution.entry.outcome
        groups = self._groups(query, resolution.entry)
        evaluation = evaluate(groups or ())
        return ExplainResult(
            UNKNOWN_USER if groups is None else _final(evaluation.decision),
            evaluation,
            _origin(resolution),
            groups or (),
            source.resolver_name,
            outcome.detail if isinstance(outcome, NoSuchUser) else "",
        )

    def _decide_with(self, query: Query, chain: Chain, entry: CacheEntry) -> Verdict:
        """Decide based on the groups in a cache entry. Raises GroupsUnavailable."""
        served, path = query.served, query.path
        groups = self._groups(query, entry)
        decision = UNKNOWN_USER
        if groups is not None:
            decision = _final(chain.decide(query.user, groups, query.real_user))
        return _verdict(decision, entry, evaluated_instead(served.partition, path, decision))

    def _groups(self, query: Query | ApplicationQuery, entry: CacheEntry) -> Sequence[str] | None:
        """Return the effective groups of the query's user from the entry; None for an unknown user.

        Under Kubernetes' RBAC, a user whom no directory knows has groups. Raises GroupsUnavailable.
        """
        outcome = entry.outcome
        served = query.served
        if isinstance(outcome, KnownUser):
            if served.partition.named_grants is None:
                return outcome.groups
            return served.partition.counting_groups(query.user, outcome.groups)
        if isinstance(outcome, LookupFailure):
            retry_after = max(0.0, entry.expires_at - self._clock())
            failure = TooManyLookups if outcome.too_many else GroupsUnavailable
            raise failure(served.groups.resolver_name, retry_after)
        is_rbac = served.partition.named_grants is not None
        return served.partition.counting_groups(query.user, ()) if is_rbac else None


def _verdict(decision: Decision, entry: CacheEntry | None, evaluated_queue: str) -> Verdict:
    # Twice as fast as the NamedTuple constructor.
    return tuple.__new__(Verdict, (decision, entry, evaluated_queue))


def _final(decision: Decision | None) -> Decision:
    if decision is None:
        raise AssertionError("a decision with known groups is final")
    return decision


def _origin(resolution: Resolution) -> GroupsOrigin:
    if resolution.stale:
        return GroupsOrigin.STALE_CACHE
    return GroupsOrigin.CACHE if resolution.cached else GroupsOrigin.RESOLVER
