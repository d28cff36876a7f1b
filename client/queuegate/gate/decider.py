"""Local decisions, made from a gate's copy of the policies, and only if the server permits them."""

from collections.abc import Callable, Iterable
from dataclasses import astuple
from math import inf
from typing import Final

from queuegate._types import Decision, StaleDecision
from queuegate.gate import bounds
from queuegate.gate.local_partition import MAX_PLAIN, Target
from queuegate.gate.replica import LocalReplica
from queuegate.gate.session import GateSession, clock
from queuegate.gate.state import NO_GROUPS, Evaluation, Scope, State, UserEntry
from queuegate.policy import decision as core
from queuegate.policy.chain import Chain
from queuegate.policy.decide import usable
from queuegate.policy.decision import OUTCOMES, UNKNOWN_USER
from queuegate.policy.names import is_at_or_below

_WITHOUT_GROUPS: Final = frozenset(
    reason for reason, outcome in OUTCOMES.items() if not outcome.depends_on_groups
)

Question = tuple[str, str, str, str, Iterable[str] | None, str]
"""A check's user, queue, partition, access, groups (None if not given) and real user."""
Tell = Callable[[Question, Decision], None]
"""Passes a decision to the gate's program."""


class Decider:
    """Makes decisions that do not require a call to the server. Thread-safe."""

    def __init__(
        self,
        replica: LocalReplica,
        session: GateSession,
        want: Callable[[str, str, float], None],
        tell: Tell | None,
        clock: Callable[[], float] = clock,
    ) -> None:
        """Create a decider for a gate.

        Args:
            replica: The policies and groups on which decisions are based.
            session: The session that holds the lease.
            want: Requests a user's groups from the server, given the partition, the user, and
                the time by which the gate needs them.
            tell: Called with each decision, if the program requested decision records.
            clock: The session's monotonic clock, in seconds.
        """
        self.grace = 0.0
        """How long the gate may use old state after its lease expires, in seconds."""
        self.decided = 0
        """The approximate number of decisions."""
        self.stale = 0
        """The approximate number of decisions from old state."""
        self.tells = tell is not None
        """Whether a callback receives the decisions."""
        self._replica = replica
        self._session = session
        self._want = want
        self._tell = tell
        self._clock = clock

    def decide(self, question: Question) -> Decision | None:
        """Return a decision, or None if the question must be sent to the server. Invalid questions
        are always sent.
        """
        state = self._replica.state
        try:
            evaluation = state.cache.get(question)
        except TypeError:  # not hashable
            return self._decide_hashable(question)
        if evaluation is None:
            if self._tell is not None:
                return self._decide(state, question)
            evaluation = self._evaluate(state, question)
            if evaluation is None:
                return None
            state.store(question, evaluation)
        decision, entry = evaluation
        lease_until = self._session.lease_until
        # Read the clock last, because this process may have been suspended at any earlier point.
        if state is self._replica.state:
            clock = self._clock  # calling a local variable is faster than self._clock()
            now = clock()
            if now < lease_until and now < entry.refresh_at:
                self.decided += 1
                return decision
        return self._decide(state, question)

    def _decide_hashable(self, question: Question) -> Decision | None:
        """Convert the question's groups from a list or set to a tuple, and return the decision."""
        user, queue, partition, access, groups, real_user = question
        if not isinstance(groups, list | set):
            return None
        same = (user, queue, partition, access, tuple(groups), real_user)
        try:
            hash(same)
        except TypeError:
            return None
        return self.decide(same)

    def _decide(self, state: State, question: Question) -> Decision | None:
        """Make a decision without consulting the cache."""
        evaluation = self._evaluate(state, question)
        if evaluation is None:
            return None
        decision, entry = evaluation
        remaining = self._remaining_seconds(state, entry)
        if remaining <= 0:
            if remaining <= -self.grace:
                return None
            decision = StaleDecision(*astuple(decision))
        if self._tell is None:
            state.store(question, evaluation)
        else:  # do not cache the decision, so that the callback receives each one
            self._tell(question, decision)
            # The program's callback may have been slow.
            if self._remaining_seconds(state, entry) <= (-self.grace if decision.stale else 0):
                return None
        self.decided += 1
        self.stale += remaining <= 0
        return decision

    def _remaining_seconds(self, state: State, entry: UserEntry) -> float:
        """Return the seconds until the lease or the groups expire, whichever comes first; 0 or less
        if either has expired. Requests the groups again if they expire soon.
        """
        until = min(self._session.lease_until, entry.expires_at)
        if state is not self._replica.state:
            return -inf
        now = self._clock()
        if now >= entry.refresh_at:
            self._want(*entry.key, entry.expires_at)
        return until - now

    def _evaluate(self, state: State, question: Question) -> Evaluation | None:
        user, queue, name, access, groups, real_user = question
        scope = state.scopes.get((name, access)) or state.find_scope(name, access)
        if scope is None or not _are_names_valid(scope, user, queue, groups, real_user):
            return None
        target = scope.targets.get(queue) or _find_target(scope, queue)
        if target is None:
            return None
        chain, evaluated_queue = target
        entry = NO_GROUPS
        if isinstance(groups, tuple) and scope.use_given_groups:
            decision = chain.decide(user, groups, real_user)
        else:
            decision, entry = self._decide_with_own_groups(
                chain, scope.partition.name, user, real_user
            )
        if decision is None:
            return None
        key = (decision, evaluated_queue) if evaluated_queue else decision
        evaluation = scope.evaluations.get(key) or state.share(scope, decision, evaluated_queue)
        return evaluation if entry is NO_GROUPS else (evaluation[0], entry)

    def _decide_with_own_groups(
        self, chain: Chain, partition: str, user: str, real_user: str
    ) -> tuple[core.Decision | None, UserEntry]:
        """Decide with the user's cached groups if the decision depends on groups. If they are not
        cached, request them and return no decision.
        """
        entry = self._replica.users.get((partition, user))
        if entry is None or real_user:
            decision = chain.decide(user, None, real_user)
            if decision is not None:
                return decision, NO_GROUPS
        if entry is None:
            self._want(partition, user, -inf)
            return None, NO_GROUPS
        if entry.groups is None:
            decision = chain.decide(user, None) or UNKNOWN_USER
        else:
            decision = chain.decide(user, entry.groups)
        if decision is not None and decision.reason in _WITHOUT_GROUPS:
            return decision, NO_GROUPS
        return decision, entry

    def queues(self, question: Question) -> list[str] | None:
        """Return the queues, at or below the question's queue, that the user may use; None if the
        question must be sent to the server.
        """
        user, queue, name, access, groups, real_user = question
        state = self._replica.state
        scope = state.find_scope(name, access)
        if scope is None or not _are_names_valid(scope, user, queue, groups, real_user):
            return None
        partition = scope.partition
        above = partition.local_path(queue)
        if above is None:
            return None
        given = groups if isinstance(groups, tuple) and scope.use_given_groups else None
        paths = [each for each in partition.paths if is_at_or_below(each, above)]
        entry = NO_GROUPS
        allowed = usable(partition, paths, scope.access, user, given, real_user=real_user)
        if allowed is None:
            user_entry = self._replica.users.get((partition.name, user))
            if user_entry is None:
                self._want(partition.name, user, -inf)
                return None
            entry = user_entry
            given = entry.groups or ()
            allowed = usable(partition, paths, scope.access, user, given, real_user=real_user)
        if allowed is None or self._remaining_seconds(state, entry) <= 0:
            return None
        return [path for path, _ in allowed]


def _are_names_valid(
    scope: Scope, user: str, queue: str, groups: Iterable[str] | None, real_user: str
) -> bool:
    """Return whether every server accepts a question's names. `_find_target` checks the characters
    of the queue.
    """
    given = () if groups is None else groups
    if not isinstance(given, tuple):
        return False
    try:
        names = user + real_user + "".join(given)
        is_printable = names.isprintable()
        length = len(names) + len(queue)
    except (TypeError, AttributeError):
        return False
    if not (user and is_printable):
        return False
    if groups is not None and ("" in given or not scope.partition.accepts_user(user)):
        return False
    return length <= MAX_PLAIN or (
        len(user) + len(queue) + len(real_user) <= MAX_PLAIN
        and len(given) <= bounds.MAX_GIVEN_GROUPS
        and max(map(len, given), default=0) <= MAX_PLAIN
    )


def _find_target(scope: Scope, queue: str) -> Target | None:
    """Return the target for a queue that is not cached under this name."""
    path = scope.partition.local_path(queue)
    return None if path is None else scope.partition.target(path, scope.access)
