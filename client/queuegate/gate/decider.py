"""Decides from a gate's own state, if it may and can."""

from collections.abc import Callable, Iterable
from dataclasses import astuple
from math import inf
from typing import Final

from queuegate._types import Decision, StaleDecision
from queuegate.gate.replica import NO_GROUPS, Held, LocalReplica, Remembered, State, UserEntry
from queuegate.gate.session import Session, clock
from queuegate.policy import decide as core
from queuegate.policy.decision import RULES, UNKNOWN_USER, Access
from queuegate.policy.names import is_at_or_below, is_user_name

MAX_REMEMBERED: Final = 100_000
"""Decisions that are remembered; then all are dropped."""
_MAX_PLAIN: Final = 256
"""Characters of a name that surely is not too long for the server."""
_MAX_GROUPS: Final = 1_000
_ACCESS: Final = {str(access): access for access in Access}

Question = tuple[str, str, str, str, Iterable[str], str]
"""The user, the queue, the partition, the access, the given groups, and the real user."""
_Known = tuple[Held, Access, str, tuple[str, ...]]
"""The policy of the partition, the access, the path, and the given groups, if they are used."""
Report = Callable[[Question, Decision], bool]
"""Keeps a decision for the server's audit log; returns False if it cannot."""


class Decider:
    """Decides the questions that a gate can answer by itself. Thread-safe."""

    def __init__(
        self,
        replica: LocalReplica,
        session: Session,
        want: Callable[[str, str], None],
        report: Report | None,
        clock: Callable[[], float] = clock,
    ) -> None:
        """Decide from a replica, as long as a session has a lease.

        Args:
            replica: The state.
            session: The protocol.
            want: Asks the server for the groups of a user, given the partition and the name.
            report: Keeps decisions that must be reported; None if there is no place for them.
            clock: The monotonic clock of the session, in seconds.
        """
        self.grace = 0.0
        """Seconds after the end of the lease in which old state decides."""
        self.decided = 0
        """How many questions were decided here, about."""
        self._replica = replica
        self._session = session
        self._want = want
        self._report = report
        self._clock = clock

    def decide(self, question: Question) -> Decision | None:
        """Decide a question; None if the server must be asked, also about what is invalid."""
        state = self._replica.state
        try:
            known = state.remembered.get(question)
        except TypeError:  # not hashable
            user, queue, partition, access, groups, real_user = question
            if not isinstance(groups, list | set):
                return None
            try:
                return self.decide((user, queue, partition, access, tuple(groups), real_user))
            except TypeError:
                return None
        if known is not None:
            decision, entry = known
            lease_until = self._session.lease_until
            # The clock comes last: this process may have been stopped.
            if state is self._replica.state:
                now = self._clock()
                if now < lease_until and now < entry.refresh_at:
                    self.decided += 1
                    return decision
        return self._decide(state, question)

    def _decide(self, state: State, question: Question) -> Decision | None:
        made = self._evaluate(state, question)
        if made is None:
            return None
        must_report = self._session.report_decisions
        if not must_report:
            if len(state.remembered) >= MAX_REMEMBERED:
                state.remembered.clear()
            state.remembered[question] = made
        decision = self._if_valid(state, made)
        if decision is None:
            return None
        if must_report and (self._report is None or not self._report(question, decision)):
            return None
        self.decided += 1
        return decision

    def _if_valid(self, state: State, made: Remembered) -> Decision | None:
        """Return a decision if the state was current, and the lease valid, after it was made."""
        decision, entry = made
        covered = self._covered(state, entry)
        if covered > 0:
            return decision
        return StaleDecision(*astuple(decision)) if covered > -self.grace else None

    def _covered(self, state: State, entry: UserEntry) -> float:
        """Return for how many seconds the lease and the lifetime of the groups still cover a
        decision; not more than 0 if they do not. Asks for groups again that expire soon.
        """
        until = min(self._session.lease_until, entry.expires_at)
        if state is not self._replica.state:
            return -inf
        now = self._clock()
        if now >= entry.refresh_at:
            self._want(*entry.key)
        return until - now

    def _evaluate(self, state: State, question: Question) -> Remembered | None:
        known = self._known(state, question)
        if known is None:
            return None
        held, access, path, groups = known
        partition, user, real_user = held.partition, question[0], question[5]
        entry = NO_GROUPS
        made = core.decide(partition, path, access, user, groups or None, real_user=real_user)
        if made is None:
            user_entry = self._entry(partition.name, user)
            if user_entry is None:
                return None
            entry, made = user_entry, UNKNOWN_USER
            if entry.groups is not None:
                made = core.decide(partition, path, access, user, entry.groups, real_user=real_user)
        if made is None:
            raise AssertionError("a decision with known groups is final")
        instead = core.evaluated_instead(partition, path, made)
        return Remembered(state.decision(made, held.revision, instead), entry)

    def _known(self, state: State, question: Question) -> _Known | None:
        """Return what a question refers to; None if the gate must not or cannot decide it."""
        user, queue, name, access_name, groups, real_user = question
        access = _ACCESS.get(access_name)
        if access is None or not (
            _is_plain(user)
            and _is_plain(queue)
            and (not name or _is_plain(name))
            and (not real_user or _is_plain(real_user))
        ):
            return None
        held = state.find(name)
        if held is None or held.rules != RULES or not self._session.local_decisions:
            return None
        partition = held.partition
        path = partition.path(queue)
        if path is None:
            return None
        if groups:
            is_valid = partition.cluster is not None or is_user_name(user)
            if not (is_valid and isinstance(groups, tuple) and len(groups) <= _MAX_GROUPS):
                return None
            if not all(map(_is_plain, groups)):
                return None
            if not (held.use_given_groups and self._session.assert_groups):
                groups = ()
        return held, access, path, tuple(groups)

    def queues(self, question: Question) -> list[str] | None:
        """Return the queues at or below that of a question which its user may use; None if the
        server must be asked.
        """
        state = self._replica.state
        known = None if self._session.report_decisions else self._known(state, question)
        if known is None:
            return None
        held, access, above, groups = known
        partition, user, real_user = held.partition, question[0], question[5]
        paths = [each for each in partition.paths if is_at_or_below(each, above)]
        entry = NO_GROUPS
        found = core.usable(partition, paths, access, user, groups or None, real_user=real_user)
        if found is None:
            user_entry = self._entry(partition.name, user)
            if user_entry is None:
                return None
            entry = user_entry
            found = core.usable(
                partition, paths, access, user, entry.groups or (), real_user=real_user
            )
        return found if self._covered(state, entry) > 0 else None

    def _entry(self, partition: str, user: str) -> UserEntry | None:
        """Return the groups of a user; None if they are not known, and asks for them then."""
        entry = self._replica.users.get((partition, user))
        if entry is None:
            self._want(partition, user)
        return entry


def _is_plain(name: object) -> bool:
    """Return whether a server surely accepts this name."""
    return isinstance(name, str) and 0 < len(name) <= _MAX_PLAIN and name.isprintable()
