"""Local decisions, based on a gate's copy of the policies. Made only if the server permits them."""

from collections.abc import Callable, Iterable
from dataclasses import astuple
from math import inf
from typing import Final

from queuegate._types import Decision, StaleDecision
from queuegate.gate import bounds
from queuegate.gate.local_partition import LocalPartition
from queuegate.gate.replica import NO_GROUPS, Evaluation, LocalReplica, PolicyCopy, State, UserEntry
from queuegate.gate.session import GateSession, clock
from queuegate.policy.decide import usable
from queuegate.policy.decision import OUTCOMES, UNKNOWN_USER, Access
from queuegate.policy.names import is_at_or_below

_MAX_PLAIN: Final = 256
"""The maximum total length of a check's names in local decisions. Longer names may exceed the
server's limits, so checks with such names are sent to the server.
"""
_WITHOUT_GROUPS: Final = frozenset(
    reason for reason, outcome in OUTCOMES.items() if not outcome.depends_on_groups
)
_ACCESS: Final = {str(access): access for access in Access}

Question = tuple[str, str, str, str, Iterable[str] | None, str]
"""A check's user, queue, partition, access, groups (None if not given) and real user."""
_Target = tuple[PolicyCopy, LocalPartition, Access, str, tuple[str, ...] | None]
"""A question's policy, partition, kind of access and canonical path, and the given groups if the
gate may use them.
"""
Report = Callable[[Question, Decision], bool]
"""Stores a decision for the server's audit log, and returns whether the decision was stored."""


class Decider:
    """Makes decisions that do not require a call to the server. Thread-safe."""

    def __init__(
        self,
        replica: LocalReplica,
        session: GateSession,
        want: Callable[[str, str, float], None],
        report: Report | None,
        clock: Callable[[], float] = clock,
    ) -> None:
        """Create a decider for a gate.

        Args:
            replica: The policies and groups on which decisions are based.
            session: The session that holds the lease.
            want: Requests a user's groups from the server, given the partition, the user, and
                the time by which the gate needs them.
            report: Stores decisions that must be reported; None without an outbox.
            clock: The session's monotonic clock, in seconds.
        """
        self.grace = 0.0
        """How long the gate may use old state after its lease expires, in seconds."""
        self.decided = 0
        """The approximate number of decisions."""
        self._replica = replica
        self._session = session
        self._want = want
        self._report = report
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
            if state.rights.report_decisions:
                return self._decide(state, question)
            evaluation = self._evaluate(state, question)
            if evaluation is None:
                return None
            state.store(question, evaluation)
        decision, entry = evaluation
        lease_until = self._session.lease_until
        # Read the clock last, because this process may have been suspended at any earlier point.
        if state is self._replica.state:
            now = self._clock()
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
        """Make a decision without consulting the cache, and report the decision if required."""
        evaluation = self._evaluate(state, question)
        if evaluation is None:
            return None
        decision, entry = evaluation
        remaining = self._remaining_seconds(state, entry)
        if remaining <= 0:
            if remaining <= -self.grace:
                return None
            decision = StaleDecision(*astuple(decision))
        must_report = state.rights.report_decisions
        if must_report and (self._report is None or not self._report(question, decision)):
            return None
        if not must_report:
            state.store(question, evaluation)
        self.decided += 1
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
        target = self._target(state, question)
        if target is None:
            return None
        held, partition, access, path, groups = target
        chain = partition.find_chain(path, access)
        if chain is None:
            return None
        user, real_user = question[0], question[5]
        key = (partition.name, user)
        entry = NO_GROUPS
        holder = None if groups is not None else self._replica.users.get(key)
        if holder is None or real_user:
            decision = chain.decide(user, groups, real_user)
        else:
            decision = chain.decide(user, holder.groups)
            if decision is not None and decision.reason not in _WITHOUT_GROUPS:
                entry = holder
        if decision is None:
            if holder is None:
                self._want(*key, -inf)
                return None
            entry = holder
            decision = UNKNOWN_USER
            if holder.groups is not None:
                decision = chain.decide(user, holder.groups)
        if decision is None:
            raise AssertionError("a decision with known groups is final")
        instead = ""
        if path not in partition.queues:
            instead = partition.evaluated_instead(path, decision)
        return state.decision(decision, held.revision, instead), entry

    def _target(self, state: State, question: Question) -> _Target | None:
        """Look up a question's policy and path; None if the question must be sent to the server."""
        user, queue, name, access_name, groups, real_user = question
        try:
            is_plain = (names := user + queue + real_user).isprintable()
        except (TypeError, AttributeError):
            return None
        if not (is_plain and user and queue and len(names) <= _MAX_PLAIN):
            return None
        access = _ACCESS.get(access_name)
        held = state.policies.get(name) or _find(state, name)
        if access is None or held is None or held.partition is None:
            return None
        if not state.rights.local_decisions:
            return None
        partition = held.partition
        path = queue if queue in partition.queues else partition.path(queue)
        given = _given_groups(partition, user, groups)
        if path is None or (given is None and groups is not None):
            return None
        is_used = held.use_given_groups and state.rights.assert_groups
        return held, partition, access, path, given if is_used else None

    def queues(self, question: Question) -> list[str] | None:
        """Return the queues, at or below the question's queue, that the user may use; None if the
        question must be sent to the server.
        """
        state = self._replica.state
        target = None if state.rights.report_decisions else self._target(state, question)
        if target is None:
            return None
        _, partition, access, above, groups = target
        user, real_user = question[0], question[5]
        paths = [each for each in partition.paths if is_at_or_below(each, above)]
        entry = NO_GROUPS
        allowed = usable(partition, paths, access, user, groups, real_user=real_user)
        if allowed is None:
            user_entry = self._entry(partition.name, user)
            if user_entry is None:
                return None
            entry = user_entry
            groups = entry.groups or ()
            allowed = usable(partition, paths, access, user, groups, real_user=real_user)
        if allowed is None or self._remaining_seconds(state, entry) <= 0:
            return None
        return [path for path, _ in allowed]

    def _entry(self, partition: str, user: str) -> UserEntry | None:
        """Return a user's groups, or request them and return None."""
        entry = self._replica.users.get((partition, user))
        if entry is None:
            self._want(partition, user, -inf)
        return entry


def _find(state: State, name: object) -> PolicyCopy | None:
    """Return the policy for another form of a partition name, such as `[rm]gpu` for `gpu`; None if
    no policy matches.
    """
    if not (isinstance(name, str) and len(name) <= _MAX_PLAIN and name.isprintable()):
        return None
    return state.find(name)


def _given_groups(partition: LocalPartition, user: str, groups: object) -> tuple[str, ...] | None:
    """Return a question's groups; None if it has none, or if a server might reject them."""
    if not (isinstance(groups, tuple) and partition.accepts_user(user)):
        return None
    if len(groups) > bounds.MAX_GIVEN_GROUPS:
        return None
    try:
        joined = "".join(groups)
    except TypeError:
        return None
    if "" in groups or not joined.isprintable():
        return None
    if len(joined) > _MAX_PLAIN and max(map(len, groups)) > _MAX_PLAIN:
        return None
    return groups
