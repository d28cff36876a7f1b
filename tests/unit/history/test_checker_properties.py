"""The checker of histories: what a server that keeps its promises did is explained, whatever the
order of events; with one answer changed it is not.
"""

import dataclasses
import itertools
import random
from typing import TYPE_CHECKING, Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.resilience.history.checker import check
from tests.resilience.history.records import (
    Answer,
    Call,
    Confirmation,
    Decided,
    History,
    Lifetimes,
    Question,
    Resolved,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TTL = 150.0
STEP = 10.0
"""From one moment to the next; calls last longer, writes do not."""
USERS = ("alice", "bob")
POLICIES = {
    f"policy {number}": {
        "root": (" " + ",".join(f"g{group}" for group in range(0, 40, number + 2)), ""),
        "root.work": (" " + ",".join(f"g{group}" for group in range(number, 40, 3)), ""),
    }
    for number in range(6)
}


class Linear:
    """A server to which one thing happens after the other; its history has the times around."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._now = 0.0
        self._numbers = dict.fromkeys(USERS, 0)
        self._cache: dict[str, tuple[tuple[str, ...], float]] = {}
        self._revision = 1
        self._policy = self._file = "policy 0"
        self._known = self._known_file = True
        self.history = History(-1, Lifetimes(TTL, TTL), POLICIES)
        self._write("policy", self._file)
        self._write("tokens", ("ci",))
        self._write("roles", {"ci": ("check", "read")})
        for user in USERS:
            self._write(f"user {user}", self._groups(user))

    def step(self) -> None:
        """Let something happen."""
        self._now += STEP
        kinds: dict[Callable[[], None], int] = {
            self._check: 10,
            self._resolve: 3,
            self._change_groups: 4,
            self._invalidate: 2,
            self._change_policy: 1,
            self._reload: 1,
            self._change_token: 1,
            self._hang_up: 1,
        }
        (happens,) = self._chance.choices(list(kinds), list(kinds.values()))
        happens()

    def _around(self) -> tuple[float, float]:
        return self._now - self._chance.uniform(0, 60), self._now + self._chance.uniform(0, 60)

    def _groups(self, user: str) -> tuple[str, ...]:
        return (f"g{self._numbers[user]}",)

    def _write(self, register: str, value: object) -> None:
        start, end = self._now - self._chance.random() * 4, self._now + self._chance.random() * 4
        self.history.writes.append(Write(register, value, start, end))

    def _look_up(self, user: str) -> tuple[str, ...]:
        groups, expires = self._cache.get(user, ((), 0.0))
        if self._now >= expires:
            groups = self._groups(user)
            self._cache[user] = groups, self._now + TTL
        return groups

    def _check(self) -> None:
        if self._call_is_refused(caller := self._chance.choice(("", "ci"))):
            return
        user = self._chance.choice(USERS)
        (group,) = self._look_up(user)
        answer = Answer(allowed=False, reason="no_match")
        for queue in ("root.work", "root"):
            if group in POLICIES[self._policy][queue][0].strip().split(","):
                answer = Answer(allowed=True, reason="group", queue=queue, subject=group)
                break
        seen = (Decided(Question(user, "root.work"), answer, self._revision),)
        self._call("Check", caller, seen=seen)

    def _resolve(self) -> None:
        if self._call_is_refused(caller := self._chance.choice(("", "ci"))):
            return
        user, fresh = self._chance.choice(USERS), self._chance.random() < 0.5
        if fresh:
            self._cache.pop(user, None)
        self._call("Resolve", caller, seen=(Resolved(user, self._look_up(user), fresh),))

    def _call_is_refused(self, caller: str) -> bool:
        if caller and not self._known:
            self._call("Check", caller, status="UNAUTHENTICATED")
        return bool(caller) and not self._known

    def _call(self, method: str, caller: str, **fields: Any) -> None:
        call = Call(method, "check", *self._around(), caller=caller, **fields)
        self.history.calls.append(call)

    def _confirm(self, *registers: str) -> None:
        times = self._around()
        self.history.confirmations += [Confirmation(register, *times) for register in registers]

    def _change_groups(self) -> None:
        user = self._chance.choice(USERS)
        self._numbers[user] += 1
        self._write(f"user {user}", self._groups(user))

    def _invalidate(self) -> None:
        user = self._chance.choice(USERS)
        self._cache.pop(user, None)
        self._confirm(f"user {user}")

    def _change_policy(self) -> None:
        self._file = self._chance.choice(list(POLICIES))
        self._write("policy", self._file)

    def _reload(self) -> None:
        self._revision += self._policy != self._file
        self._policy = self._file
        self._confirm("policy")

    def _change_token(self) -> None:
        self._known_file = not self._known_file
        self._write("tokens", ("ci",) if self._known_file else ())

    def _hang_up(self) -> None:
        self._known = self._known_file
        self._confirm("tokens", "roles")


@st.composite
def histories(draw: st.DrawFn) -> History:
    linear = Linear(random.Random(draw(st.integers(0, 2**32))))
    for _ in range(draw(st.integers(20, 120))):
        linear.step()
    return linear.history


@given(histories())
def test_a_linear_history_is_explained(history: History) -> None:
    assert check(history) == []


def changed(history: History, call: Call, **fields: Any) -> History:
    others = [each for each in history.calls if each is not call]
    return dataclasses.replace(history, calls=[*others, dataclasses.replace(call, **fields)])


def confirmed_before(history: History, register: str, moment: float) -> float:
    """Return the latest begin of a confirmation that had ended by then."""
    starts = (
        each.start
        for each in history.confirmations
        if each.register == register and each.end < moment
    )
    return max(starts, default=-1.0)


@given(histories(), st.data())
def test_groups_from_before_an_invalidation_are_found(
    history: History, data: st.DataObject
) -> None:
    choices = []
    for call in history.calls:
        for seen in call.seen:
            if isinstance(seen, Resolved):
                confirmed = confirmed_before(history, f"user {seen.user}", call.start)
                writes = [each for each in history.writes if each.register == f"user {seen.user}"]
                choices += [
                    (call, seen, old)
                    for old, new in itertools.pairwise(writes)
                    if new.end <= confirmed
                ]
    assume(choices)
    call, seen, old = data.draw(st.sampled_from(choices))
    assert isinstance(old.value, tuple)
    broken = changed(history, call, seen=(seen._replace(groups=old.value),))
    assert "outdated groups" in {each.kind for each in check(broken)}


@given(histories(), st.data())
def test_groups_that_go_back_are_found(history: History, data: st.DataObject) -> None:
    """Groups have one version each here, so that an answer shows which version it saw."""
    shown = [
        (call, seen, int(seen.groups[0][1:]))
        for call in history.calls
        for seen in call.seen
        if isinstance(seen, Resolved) and seen.groups
    ]
    choices = [
        (later, seen, number)
        for earlier, before, number in shown
        for later, seen, _ in shown
        if before.user == seen.user and earlier.end < later.start and number > 0
    ]
    assume(choices)
    call, seen, number = data.draw(st.sampled_from(choices))
    broken = changed(history, call, seen=(seen._replace(groups=(f"g{number - 1}",)),))
    assert {each.kind for each in check(broken)} & {"outdated groups", "earlier groups"}


@given(histories(), st.data())
def test_a_revision_that_goes_back_is_found(history: History, data: st.DataObject) -> None:
    calls = [call for call in history.calls if call.revisions]
    choices = [
        (later, max(earlier.revisions) - 1)
        for earlier in calls
        for later in calls
        if earlier.end < later.start and max(earlier.revisions) > 1
    ]
    assume(choices)
    call, revision = data.draw(st.sampled_from(choices))
    (decided,) = call.seen
    assert isinstance(decided, Decided)
    broken = changed(history, call, seen=(decided._replace(revision=revision),))
    assert "an earlier revision" in {each.kind for each in check(broken)}


@given(histories(), st.data())
def test_a_policy_from_before_a_reload_is_found(history: History, data: st.DataObject) -> None:
    policies = [each for each in history.writes if each.register == "policy"]
    choices = []
    for call in history.calls:
        confirmed = confirmed_before(history, "policy", call.start)
        possible = {
            each.value
            for each, new in zip(policies, [*policies[1:], None], strict=True)
            if new is None or new.end > confirmed
        }
        choices += [
            (call, each.value) for each in policies if call.revisions and each.value not in possible
        ]
    assume(choices)
    call, policy = data.draw(st.sampled_from(choices))
    assert check(changed(history, call, policy=policy))


@given(histories(), st.data())
def test_a_wrong_decision_is_found(history: History, data: st.DataObject) -> None:
    calls = [call for call in history.calls if call.revisions]
    assume(calls)
    call = data.draw(st.sampled_from(calls))
    (decided,) = call.seen
    assert isinstance(decided, Decided)
    answer = Answer(allowed=True, reason="group", queue="root.work", subject="wheel")
    broken = changed(history, call, seen=(decided._replace(answer=answer),))
    assert [each.kind for each in check(broken)] == ["a wrong decision"]


@given(histories(), st.data())
def test_a_revoked_token_is_found(history: History, data: st.DataObject) -> None:
    tokens = [each for each in history.writes if each.register == "tokens"]
    choices = []
    for call in history.calls:
        confirmed = confirmed_before(history, "tokens", call.start)
        possible = {
            each.value
            for each, new in zip(tokens, [*tokens[1:], None], strict=True)
            if each.start <= call.end and (new is None or new.end > confirmed)
        }
        if call.caller and possible == {()}:
            choices.append(call)
    assume(choices)
    call = data.draw(st.sampled_from(choices))
    broken = changed(history, call, status="OK")
    assert [each.kind for each in check(broken)] == ["rights"]
