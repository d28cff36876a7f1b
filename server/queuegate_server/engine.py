"""What every door calls: questions in domain terms in, decisions out.

Used from one event loop. A call takes the snapshot once, at its start, so that
it sees one policy revision however long it takes.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from queuegate.policy.applications import Judged
from queuegate.policy.decide import decide, usable
from queuegate.policy.decision import UNKNOWN_USER, Access, Decision
from queuegate.policy.explain import Explanation, explain
from queuegate_server.identity.cache import CacheEntry
from queuegate_server.identity.group_resolver import Resolution
from queuegate_server.identity.resolver import CouldNotAsk, Found, NoSuchUser
from queuegate_server.questions import (
    ApplicationQuery,
    E,
    Explained,
    GroupsOrigin,
    Query,
    Verdict,
)
from queuegate_server.snapshot import Served, Snapshot


class GroupsUnavailable(Exception):
    """The decision depends on groups, and the resolver could not be asked."""

    def __init__(self, resolver: str, detail: str, retry_after: float) -> None:
        """Keep the resolver's name, its words and the seconds until it is asked again."""
        super().__init__(f"{resolver}: {detail}")
        self.resolver = resolver
        self.detail = detail
        self.retry_after = retry_after


class TooManyLookUps(GroupsUnavailable):
    """It was not even asked, because of how much else it is asked for."""


class NotReady(Exception):
    """No policy has been loaded yet."""


_LISTED_AT_ONCE: Final = 100


class Slot(Protocol):
    """When long work is done, which lets other work run."""

    async def pause(self) -> None:
        """Let other work run between two parts."""

    def end(self) -> None:
        """Let other work run while this one waits for something else."""

    async def again(self) -> None:
        """Wait to go on after `end`."""


class Engine:
    """Decides on the current snapshot."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Take a monotonic clock, in seconds."""
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._forgetting: list[Callable[[], None]] = []

    @property
    def snapshot(self) -> Snapshot:
        """What is being served; raises NotReady before the first policy."""
        if self._snapshot is None:
            raise NotReady
        return self._snapshot

    def serve(self, snapshot: Snapshot) -> Snapshot | None:
        """Serve another snapshot from now on; return the one that was served."""
        before, self._snapshot = self._snapshot, snapshot
        for forget in self._forgetting:
            forget()
        return before

    def when_replaced(self, forget: Callable[[], None]) -> None:
        """Call this each time another snapshot is served: whoever keeps something of one must
        let go of it then, or a policy that nobody asks any more stays in memory.
        """
        self._forgetting.append(forget)

    def check_known(
        self, served: Served, path: str, access: Access, user: str, groups: Sequence[str]
    ) -> tuple[Decision, CacheEntry | None] | None:
        """Return what is in the verdict of `check_now` on a question without a real user,
        its partition looked up already.

        Raises GroupsUnavailable.
        """
        partition = served.partition
        given = groups if groups and served.trust_provided_groups else None
        decision = decide(partition, path, access, user, given)
        if decision is not None:
            return decision, None
        source = served.groups
        entry = source.cached(user)
        if entry is None:
            return None
        known = self._groups(served, entry)
        if known is None:
            return UNKNOWN_USER, entry
        decision = decide(partition, path, access, user, known)
        if decision is None:
            raise AssertionError("a decision with known groups is final")
        return decision, entry

    def check_now(self, snapshot: Snapshot, question: Query) -> Verdict | None:
        """Decide without waiting, or return None if the groups must be looked up first.

        Raises UnknownPartition, and GroupsUnavailable if a cached failure says so.
        """
        served = snapshot.find(question.partition)
        given = _given(served, question)
        decision = _decide(served, question, given)
        if decision is not None:
            return Verdict(decision, None)
        entry = served.groups.cached(question.user)
        if entry is None:
            return None
        return self._verdict(served, question, entry)

    async def check(self, snapshot: Snapshot, question: Query) -> Verdict:
        """Decide, looking the groups up if the decision depends on them.

        Raises UnknownPartition and GroupsUnavailable.
        """
        verdict = self.check_now(snapshot, question)
        if verdict is not None:
            return verdict
        served = snapshot.find(question.partition)
        answer = await served.groups.resolve(question.user)
        return self._verdict(served, question, answer.entry)

    async def explain(self, snapshot: Snapshot, question: Query) -> Explained[Explanation]:
        """Decide as `check` does, and tell how. Raises what `check` raises."""
        served = snapshot.find(question.partition)
        return await self._explained(
            served, question, lambda groups: _explain(served, question, groups)
        )

    async def check_application(
        self, snapshot: Snapshot, question: ApplicationQuery
    ) -> Explained[Judged]:
        """Decide about an application, looking the groups up only if they matter.

        Raises UnknownPartition, GroupsUnavailable and NoApplications.
        """
        served = snapshot.find(question.partition)
        return await self._explained(
            served, question, lambda groups: question.judge(served.partition, groups)
        )

    async def usable_queues(
        self, snapshot: Snapshot, question: Query, paths: Sequence[str], limit: int, turn: Slot
    ) -> list[str]:
        """Return the first `limit` of the existing queues that the user may use.

        `question.path` is not looked at. Raises what `check` raises.
        """
        served = snapshot.find(question.partition)
        groups = _given(served, question)
        found: list[str] = []
        start = 0
        while start < len(paths) and len(found) < limit:
            part = paths[start : start + _LISTED_AT_ONCE]
            allowed = usable(
                served.partition,
                part,
                question.access,
                question.user,
                groups,
                real_user=question.real_user,
            )
            if allowed is None:
                turn.end()
                answer = await served.groups.resolve(question.user)
                await turn.again()
                # An unknown user has no groups, and keeps what lists her or everybody.
                groups = self._groups(served, answer.entry) or ()
                continue
            found += allowed
            start += _LISTED_AT_ONCE
            await turn.pause()
        return found[:limit]

    async def resolve(
        self, snapshot: Snapshot, partition: str, user: str, *, bypass_cache: bool
    ) -> tuple[str, Resolution]:
        """Return the name of the partition's resolver and its answer for the user.

        Raises UnknownPartition.
        """
        groups = snapshot.find(partition).groups
        return groups.resolver_name, await groups.resolve(user, bypass_cache=bypass_cache)

    def invalidate(self, snapshot: Snapshot, partition: str, users: Collection[str]) -> int:
        """Forget users (none named: all) and return how many were known.

        Raises UnknownPartition.
        """
        return snapshot.find(partition).groups.invalidate(users)

    async def invalidate_all(self, snapshot: Snapshot, partition: str) -> int:
        """Forget all users and return how many were known, without a long pause.

        Raises UnknownPartition.
        """
        return await snapshot.find(partition).groups.invalidate_all()

    async def _explained(
        self,
        served: Served,
        question: Query | ApplicationQuery,
        evaluate: Callable[[Sequence[str] | None], E],
    ) -> Explained[E]:
        """Evaluate with the groups of the request, and again with those of the resolver if
        the decision depends on them.
        """
        given = _given(served, question)
        resolver = served.groups.resolver_name
        evaluation = evaluate(given)
        if evaluation.decision is not None:
            origin = GroupsOrigin.NOT_NEEDED if given is None else GroupsOrigin.REQUEST
            return Explained(evaluation.decision, evaluation, origin, given or (), resolver, "")
        answer = await served.groups.resolve(question.user)
        groups = self._groups(served, answer.entry)
        evaluation = evaluate(groups or ())
        outcome = answer.entry.outcome
        detail = outcome.detail if isinstance(outcome, NoSuchUser) else ""
        decision = UNKNOWN_USER if groups is None else evaluation.decision
        if decision is None:
            raise AssertionError("a decision with known groups is final")
        return Explained(decision, evaluation, _origin(answer), groups or (), resolver, detail)

    def _verdict(self, served: Served, question: Query, entry: CacheEntry) -> Verdict:
        groups = self._groups(served, entry)
        if groups is None:
            return Verdict(UNKNOWN_USER, entry)
        decision = _decide(served, question, groups)
        if decision is None:
            raise AssertionError("a decision with known groups is final")
        return Verdict(decision, entry)

    def _groups(self, served: Served, entry: CacheEntry) -> Sequence[str] | None:
        """Return the groups, or None if the user is known not to exist."""
        outcome = entry.outcome
        if isinstance(outcome, Found):
            return outcome.groups
        if isinstance(outcome, CouldNotAsk):
            retry_after = max(0.0, entry.expires_at - self._clock())
            failure = TooManyLookUps if outcome.too_many else GroupsUnavailable
            raise failure(served.groups.resolver_name, outcome.detail, retry_after)
        return None


def _given(served: Served, question: Query | ApplicationQuery) -> Sequence[str] | None:
    """Return the groups of the request if they count."""
    return question.groups if served.trust_provided_groups and question.groups else None


def _decide(served: Served, question: Query, groups: Sequence[str] | None) -> Decision | None:
    return decide(
        served.partition,
        question.path,
        question.access,
        question.user,
        groups,
        real_user=question.real_user,
    )


def _explain(served: Served, question: Query, groups: Sequence[str] | None) -> Explanation:
    return explain(
        served.partition,
        question.path,
        question.access,
        question.user,
        groups,
        real_user=question.real_user,
    )


def _origin(answer: Resolution) -> GroupsOrigin:
    if answer.stale:
        return GroupsOrigin.STALE_CACHE
    return GroupsOrigin.CACHE if answer.cached else GroupsOrigin.RESOLVER
