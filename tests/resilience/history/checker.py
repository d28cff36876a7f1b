"""Decides whether some order of events explains all answers of a history.

The idea is that of Knossos and Porcupine, for a model that makes it cheap: calls change nothing,
so there is no need to search for an order. An answer narrows down which version of the policy and
of the user's groups decided it. It is explained if one of these versions could be seen at that
time (`registers.py`), and if versions can be chosen so that they never go back: a call that starts
after another one has ended sees the same version or a later one. The earliest version that is left
restricts later calls the least, so choosing it at the end of each call finds a choice if there is
any.

The checker demands only what the server promises:

- The rights of a caller, and the policy, are those that held before or after a change that has not
  been confirmed, and those after it once it has been. Groups are at most so old as their lifetimes
  allow, and never older than a confirmed invalidation.
- In one process, revisions and the groups of a user never go back; with several workers, on one
  connection, and everywhere once a reload or an invalidation has been confirmed.
- In a fleet each replica has a history of its own. Groups come from other replicas, too: they may
  go back, but not behind a confirmed invalidation. One that waited is confirmed for all replicas.
  One that did not is confirmed at once for the replica that was asked, and some seconds later for
  the others, which may use stale groups even then if they have not learned of it and lookups fail;
  so may a replica that was waited out.
- A revision is one policy; a call is decided on one revision.
- Calls may fail around kills and while groups cannot be looked up. They never get a wrong answer,
  and a call without an answer proves nothing.
"""

import bisect
import heapq
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.resilience.history import model
from tests.resilience.history.records import Call, Decided, Groups, History, Resolved
from tests.resilience.history.registers import USER, Version, registers

NO_ANSWER = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "CANCELLED"})
REFUSED = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})


class Violation(NamedTuple):
    """An answer that nothing explains."""

    kind: str
    call: Call
    evidence: str


class _Sighting(NamedTuple):
    """A call has seen one of some versions, in ascending order."""

    call: Call
    versions: Sequence[int]
    evidence: Callable[[int], str]
    """Describes the sighting, given the version that the call should have seen at least."""


def check(history: History) -> list[Violation]:
    """Return the violations, ordered by their times."""
    checker = _Checker(history)
    found = [
        *itertools.chain.from_iterable(map(checker.statuses, history.calls)),
        *checker.policies(),
        *checker.revisions(),
        *checker.groups(),
    ]
    return sorted(found, key=lambda violation: violation.call.end)


class _Checker:
    def __init__(self, history: History) -> None:
        self._history = history
        self._registers = registers(history)
        self._answered = [call for call in history.calls if call.status == "OK"]
        self._kill_starts = [kill.start for kill in history.kills]
        self._policies_of: dict[int, set[str]] = {}
        """The policies that a revision may be."""
        self._explained: dict[tuple[str, Groups, Decided], bool] = {}

    def statuses(self, call: Call) -> Iterable[Violation]:
        """Check how a call ended, and whether its caller had the rights."""
        for status in (call.status, *call.item_errors):
            if status not in NO_ANSWER | REFUSED | {"OK"}:
                yield Violation("unexpected status", call, f"{status} {call.detail}")
        if call.status not in REFUSED | {"OK"}:
            return
        possible = self._possible_statuses(call)
        if call.status not in possible:
            yield Violation(
                "rights", call, f"{call.status}, but only {', '.join(sorted(possible))} is possible"
            )

    def policies(self) -> Iterable[Violation]:
        """Check that a policy explains all calls of a revision, and could be seen by each."""
        for call in self._answered:
            revisions = call.revisions
            if len(revisions) > 1:
                yield Violation("several revisions in one call", call, f"{sorted(revisions)}")
            if len(revisions) != 1:
                continue
            (revision,) = revisions
            visible = {str(each.value) for each in self._visible("policy", call)}
            candidates = {name for name in visible if self._may_be(name, call)}
            if not candidates:
                yield self._unexplained(call, visible)
                continue
            known = self._policies_of.setdefault(revision, set(candidates))
            if known.isdisjoint(candidates):
                evidence = f"here one of {sorted(candidates)}, elsewhere one of {sorted(known)}"
                yield Violation("a revision with two policies", call, evidence)
            else:
                known &= candidates

    def revisions(self) -> Iterable[Violation]:
        """Check that revisions never go back."""
        sightings = [
            _Sighting(call, sorted(call.revisions), lambda least: f"not {least} or later")
            for call in self._answered
            if call.revisions
        ]
        return self._never_back("an earlier revision", sightings)

    def groups(self) -> Iterable[Violation]:
        """Check that the groups of each user could be seen, and never go back."""
        by_user: dict[str, list[_Sighting]] = {}
        for call in self._answered:
            for seen in call.seen:
                user = seen.user if isinstance(seen, Resolved) else seen.question.user
                visible = self._visible(USER + user, call)
                versions = sorted(each.number for each in self._versions(call, seen, visible))
                if not versions and isinstance(seen, Resolved):
                    yield _wrong_groups(call, user, seen, visible)
                # A decision without a version has been reported as that of no policy.
                if 0 < len(versions) < len(visible):
                    by_user.setdefault(user, []).append(_sighting(call, user, seen, versions))
        if self._history.shares_groups:
            return
        for sightings in by_user.values():
            yield from self._never_back("earlier groups", sightings)

    def _possible_statuses(self, call: Call) -> set[str]:
        if not call.caller:
            return {"OK"}
        statuses = set()
        for tokens in self._visible("tokens", call):
            for roles in self._visible("roles", call):
                assert isinstance(tokens.value, Collection)
                assert isinstance(roles.value, Mapping)
                if call.caller not in tokens.value:
                    statuses.add("UNAUTHENTICATED")
                elif call.role not in roles.value.get(call.caller, ()):
                    statuses.add("PERMISSION_DENIED")
                else:
                    statuses.add("OK")
        return statuses

    def _visible(self, register: str, call: Call) -> list[Version]:
        return self._registers[register].visible(call.start, call.end)

    def _may_be(self, policy: str, call: Call) -> bool:
        """Say whether a call may have been decided on a policy."""
        if policy not in self._history.policies or (call.policy and call.policy != policy):
            return False
        return all(
            any(
                self._explains(policy, version.value, seen)
                for version in self._visible(USER + seen.question.user, call)
            )
            for seen in call.seen
            if isinstance(seen, Decided)
        )

    def _explains(self, policy: str, groups: object, seen: Decided) -> bool:
        assert groups is None or isinstance(groups, str | tuple)
        key = (policy, groups, seen)
        explained = self._explained.get(key)
        if explained is None:
            acls = self._history.policies[policy]
            explained = model.explains(acls, groups, seen.question, seen.answer)
            self._explained[key] = explained
        return explained

    def _versions(
        self, call: Call, seen: Decided | Resolved, versions: Sequence[Version]
    ) -> Iterable[Version]:
        """Return which versions of the user explain what a call has shown."""
        if isinstance(seen, Resolved):
            return [
                each
                for each in versions
                if each.value == seen.groups and (not seen.fresh or each.replaced >= call.start)
            ]
        policies = self._policies_of.get(seen.revision, set())
        return [
            each
            for each in versions
            if any(self._explains(policy, each.value, seen) for policy in policies)
        ]

    def _unexplained(self, call: Call, visible: Collection[str]) -> Violation:
        """Say what is wrong with a call that no policy of its time explains."""
        earlier = {str(each.value) for each in self._registers["policy"].before(call.end)}
        if any(self._may_be(policy, call) for policy in earlier):
            return Violation("an outdated policy", call, f"possible: {sorted(visible)}")
        for seen in call.seen:
            if not isinstance(seen, Decided):
                continue
            register = self._registers[USER + seen.question.user]
            now = register.visible(call.start, call.end)
            if not any(self._explains_any(visible, each, seen) for each in now) and any(
                self._explains_any(visible, each, seen) for each in register.before(call.end)
            ):
                return _wrong_groups(call, seen.question.user, seen, now)
        return Violation("a wrong decision", call, f"possible: {sorted(visible)}")

    def _explains_any(self, policies: Collection[str], version: Version, seen: Decided) -> bool:
        known = (policy for policy in policies if policy in self._history.policies)
        return any(self._explains(policy, version.value, seen) for policy in known)

    def _never_back(self, kind: str, sightings: Iterable[_Sighting]) -> Iterable[Violation]:
        """Choose a version for each sighting so that no process goes back."""
        by_process: dict[Hashable, list[_Sighting]] = {}
        for sighting in sightings:
            process = self._process(sighting.call)
            if process is not None:
                by_process.setdefault(process, []).append(sighting)
        for one in by_process.values():
            yield from _never_back(kind, one)

    def _process(self, call: Call) -> Hashable | None:
        """Return what identifies the process that has answered; None if nothing does."""
        if self._history.workers == 1:
            return 0
        kills = bisect.bisect_right(self._kill_starts, call.end)
        if any(kill.end >= call.start for kill in self._history.kills[:kills]):
            return None
        return call.session, kills


def _wrong_groups(call: Call, user: str, seen: object, visible: Sequence[Version]) -> Violation:
    possible = "; ".join(f"{each.number}: {each.value}" for each in reversed(visible))
    return Violation("outdated groups", call, f"{seen}; possible for {user}: {possible}")


def _sighting(
    call: Call, user: str, seen: Decided | Resolved, versions: Sequence[int]
) -> _Sighting:
    def evidence(least: int) -> str:
        return f"{seen}: groups number {list(versions)} of {user}, after number {least} was seen"

    return _Sighting(call, versions, evidence)


def _never_back(kind: str, sightings: Sequence[_Sighting]) -> Iterable[Violation]:
    running: list[tuple[float, int, int]] = []
    """The ends of calls, and their versions, until a call starts later."""
    least = -1
    order = sorted(range(len(sightings)), key=lambda index: sightings[index].call.start)
    for index in order:
        call, versions, evidence = sightings[index]
        while running and running[0][0] < call.start:
            least = max(least, heapq.heappop(running)[2])
        position = bisect.bisect_left(versions, least)
        if position == len(versions):
            yield Violation(kind, call, evidence(least))
        else:
            heapq.heappush(running, (call.end, index, versions[position]))
