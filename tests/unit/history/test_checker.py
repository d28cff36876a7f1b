"""The checker of histories: hand-made histories, good and bad."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from tests.resilience.history.checker import check
from tests.resilience.history.records import (
    FAILED,
    Answer,
    Call,
    Confirmation,
    Decided,
    Groups,
    History,
    Kill,
    Lifetimes,
    Question,
    Resolved,
    Write,
)

POLICIES = {
    "open": {"root": ("", ""), "root.work": (" g1,g2,g3,claimed", "")},
    "closed": {"root": ("", ""), "root.work": (" nobody", "")},
}
DENIED = Answer(allowed=False, reason="no_match")
UNKNOWN = Answer(allowed=False, reason="unknown_user")
FIRST = [
    Write("policy", "open", 0, 1),
    Write("user alice", ("g1",), 0, 1),
    Write("user bob", ("g1",), 0, 1),
    Write("tokens", ("ci",), 0, 1),
    Write("roles", {"ci": ("check",)}, 0, 1),
]


def granted(group: str) -> Answer:
    return Answer(allowed=True, reason="group", queue="root.work", subject=group)


def sees(
    start: float,
    end: float,
    answer: str | Answer = "g1",
    *,
    revision: int = 1,
    user: str = "alice",
    session: int = 1,
    **fields: Any,
) -> Call:
    """A check, and its answer: the group that lets the user in, or a whole one."""
    if isinstance(answer, str):
        answer = granted(answer)
    decided = Decided(Question(user, "root.work"), answer, revision)
    return Call("Check", "check", start, end, session=session, seen=(decided,), **fields)


def ends(start: float, end: float, status: str, caller: str = "", role: str = "check") -> Call:
    return Call("Check", role, start, end, status, caller=caller)


def resolves(start: float, end: float, groups: Groups, *, fresh: bool = False) -> Call:
    return Call("Resolve", "read", start, end, seen=(Resolved("alice", groups, fresh),))


def shows(start: float, end: float, revision: int, policy: str) -> Call:
    return Call("GetPolicy", "read", start, end, revision=revision, policy=policy)


def history(*rows: Any, begin: float = 2, **fields: Any) -> History:
    lifetimes = Lifetimes(groups=100, no_such_user=10)
    made = History(begin, lifetimes, POLICIES, writes=list(FIRST), **fields)
    places: dict[type, list[Any]] = {
        Write: made.writes,
        Confirmation: made.confirmations,
        Kill: made.kills,
        Call: made.calls,
    }
    for row in rows:
        places[type(row)].append(row)
    return made


NEW_GROUPS = Write("user alice", ("g2",), 10, 11)
INVALIDATED = Confirmation("user alice", 12, 14)
NO_SUCH_USER = Write("user alice", None, 10, 11)
NEW_POLICY = Write("policy", "closed", 10, 11)
RELOADED = Confirmation("policy", 12, 14)
NOT_LEARNED = Confirmation("user alice", 12, 14, unless_failed=True)
REVOKED = Write("tokens", (), 10, 11)
OTHER_ROLES = Write("roles", {"ci": ("read",)}, 10, 11)
RIGHTS_CONFIRMED = [Confirmation("tokens", 12, 14), Confirmation("roles", 12, 14)]
CLAIMED = Decided(Question("alice", "root.work", claimed=("claimed",)), granted("claimed"), 1)

GOOD: dict[str, Sequence[Any]] = {
    "nothing happened": [],
    "an answer": [sees(3, 4)],
    "groups are seen while they are written": [NEW_GROUPS, sees(9, 10, "g2")],
    "old groups are used for a while": [NEW_GROUPS, sees(20, 21), sees(105, 120)],
    "an invalidation is not confirmed yet": [NEW_GROUPS, INVALIDATED, sees(13, 15)],
    "an invalidation came before the change": [
        NEW_GROUPS,
        Confirmation("user alice", 10.5, 14),
        sees(20, 21),
    ],
    "an invalidation of somebody else": [
        NEW_GROUPS,
        Confirmation("user bob", 12, 14),
        sees(20, 21),
    ],
    "a long call began before the confirmation": [NEW_GROUPS, INVALIDATED, sees(13, 99)],
    "calls at once see different groups": [NEW_GROUPS, sees(20, 30, "g2"), sees(29, 40, "g1")],
    "either of two groups": [
        NEW_GROUPS,
        Write("user alice", ("g1",), 20, 21),
        sees(22, 23, "g2"),
        sees(24, 25, "g1"),
        sees(26, 27, "g1"),
    ],
    "an unknown user": [NO_SUCH_USER, sees(12, 13, UNKNOWN)],
    "a user without a group that counts": [
        Write("user alice", ("other",), 10, 11),
        sees(12, 13, DENIED),
    ],
    "groups survive a failing directory": [Write("user alice", FAILED, 10, 11), sees(50, 51)],
    "lookups fail at a replica that has not learned of an invalidation": [
        NEW_GROUPS,
        NOT_LEARNED,
        Write("user alice", FAILED, 15, 16),
        sees(17, 18),
    ],
    "a claim counts": [Call("Check", "check", 3, 4, seen=(CLAIMED,))],
    "a batch": [
        Call("Batch", "check", 3, 4, seen=sees(3, 4).seen * 2 + sees(3, 4, user="bob").seen)
    ],
    "fresh groups": [NEW_GROUPS, resolves(12, 13, ("g2",), fresh=True)],
    "cached groups": [NEW_GROUPS, resolves(12, 13, ("g1",))],
    "a policy is swapped": [
        NEW_POLICY,
        sees(12, 20),
        sees(13, 19, DENIED, revision=2),
        sees(21, 22, DENIED, revision=2),
    ],
    "a policy has not been reloaded": [NEW_POLICY, sees(90, 91)],
    "a reload came before the change": [
        NEW_POLICY,
        Confirmation("policy", 9, 14),
        sees(20, 21),
    ],
    "a policy that was never valid": [
        Write("policy", "invalid", 10, 11),
        Write("policy", "open", 20, 21),
        Confirmation("policy", 22, 23),
        sees(24, 25),
    ],
    "the same policy again": [
        NEW_POLICY,
        Write("policy", "open", 20, 21),
        sees(12, 13, DENIED, revision=2),
        Confirmation("policy", 22, 23),
        sees(24, 25, revision=3),
    ],
    "a policy is shown": [shows(3, 4, 1, "open"), NEW_POLICY, shows(12, 13, 2, "closed")],
    "calls without an answer": [ends(3, 4, "UNAVAILABLE"), ends(3, 4, "DEADLINE_EXCEEDED", "ci")],
    "a caller may check": [sees(3, 4, caller="ci")],
    "a caller may not read": [ends(3, 4, "PERMISSION_DENIED", "ci", "read")],
    "a token is being revoked": [
        REVOKED,
        *RIGHTS_CONFIRMED,
        sees(12, 13, caller="ci"),
        ends(12, 13, "UNAUTHENTICATED", "ci"),
        ends(15, 16, "UNAUTHENTICATED", "ci"),
    ],
    "roles are being changed": [
        OTHER_ROLES,
        *RIGHTS_CONFIRMED,
        sees(13, 16, caller="ci"),
        ends(15, 16, "PERMISSION_DENIED", "ci"),
    ],
}


@pytest.mark.parametrize("rows", GOOD.values(), ids=GOOD)
def test_a_history_is_explained(rows: Sequence[Any]) -> None:
    assert check(history(*rows)) == []


BAD: dict[str, tuple[Sequence[Any], str]] = {
    "groups are seen before they are written": (
        [NEW_GROUPS, sees(8, 9, "g2")],
        "a wrong decision",
    ),
    "groups outlive an invalidation": ([NEW_GROUPS, INVALIDATED, sees(15, 16)], "outdated groups"),
    "groups outlive an invalidation though lookups fail": (
        [NEW_GROUPS, INVALIDATED, Write("user alice", FAILED, 15, 16), sees(17, 18)],
        "outdated groups",
    ),
    "groups outlive an invalidation at a replica where no lookup fails": (
        [NEW_GROUPS, NOT_LEARNED, sees(15, 16)],
        "outdated groups",
    ),
    "groups outlive the invalidation of all": (
        [NEW_GROUPS, Confirmation("user *", 12, 14), sees(15, 16)],
        "outdated groups",
    ),
    "an unknown user outlives an invalidation": (
        [
            NO_SUCH_USER,
            Write("user alice", ("g1",), 11.2, 11.5),
            INVALIDATED,
            sees(15, 16, UNKNOWN),
        ],
        "outdated groups",
    ),
    "groups outlive their lifetime": ([NEW_GROUPS, sees(112, 113)], "outdated groups"),
    "an unknown user outlives the lifetime": (
        [NO_SUCH_USER, Write("user alice", ("g1",), 20, 21), sees(32, 33, UNKNOWN)],
        "outdated groups",
    ),
    "groups go back": ([NEW_GROUPS, sees(12, 13, "g2"), sees(14, 15, "g1")], "earlier groups"),
    "groups go back within the choices": (
        [
            NEW_GROUPS,
            Write("user alice", ("g1",), 20, 21),
            sees(22, 23, "g2"),
            sees(24, 25, "g1"),
            sees(26, 27, "g2"),
        ],
        "earlier groups",
    ),
    "cached groups are shown as fresh": (
        [NEW_GROUPS, resolves(12, 13, ("g1",), fresh=True)],
        "outdated groups",
    ),
    "groups that nobody has": ([resolves(3, 4, ("g3",))], "outdated groups"),
    "an answer without the directory": (
        [Write("user alice", FAILED, 10, 11), INVALIDATED, sees(15, 16, UNKNOWN)],
        "a wrong decision",
    ),
    "a claim counts that was not made": ([sees(3, 4, "claimed")], "a wrong decision"),
    "denied, though it is granted": ([sees(3, 4, DENIED)], "a wrong decision"),
    "granted by a group that is not listed": ([sees(3, 4, "other")], "a wrong decision"),
    "granted by another queue": (
        [sees(3, 4, Answer(allowed=True, reason="group", queue="root", subject="g1"))],
        "a wrong decision",
    ),
    "a known user is unknown": ([sees(3, 4, UNKNOWN)], "a wrong decision"),
    "a policy outlives a reload": ([NEW_POLICY, RELOADED, sees(15, 16)], "an outdated policy"),
    "a policy before it was written": (
        [NEW_POLICY, sees(8, 9, DENIED, revision=2)],
        "a wrong decision",
    ),
    "a policy that is not valid": (
        [Write("policy", "invalid", 10, 11), shows(12, 13, 2, "invalid")],
        "a wrong decision",
    ),
    "a revision goes back": (
        [NEW_POLICY, sees(12, 13, DENIED, revision=2), sees(14, 15)],
        "an earlier revision",
    ),
    "a revision is two policies": (
        [NEW_POLICY, sees(12, 13), sees(14, 15, DENIED)],
        "a revision with two policies",
    ),
    "a revision is shown as another policy": (
        [NEW_POLICY, shows(12, 13, 1, "closed"), sees(12, 13)],
        "a revision with two policies",
    ),
    "a batch on two revisions": (
        [Call("Batch", "check", 3, 4, seen=sees(3, 4).seen + sees(3, 4, revision=2).seen)],
        "several revisions in one call",
    ),
    "a revoked token": ([REVOKED, *RIGHTS_CONFIRMED, sees(15, 16, caller="ci")], "rights"),
    "a lost role": ([OTHER_ROLES, *RIGHTS_CONFIRMED, sees(15, 16, caller="ci")], "rights"),
    "a token is refused before it is revoked": (
        [REVOKED, ends(8, 9, "UNAUTHENTICATED", "ci")],
        "rights",
    ),
    "a known caller is unknown": ([ends(3, 4, "UNAUTHENTICATED", "ci", "read")], "rights"),
    "a local caller is refused": ([ends(3, 4, "PERMISSION_DENIED")], "rights"),
    "an internal error": ([ends(3, 4, "INTERNAL")], "unexpected status"),
    "an internal error in a batch": (
        [Call("Batch", "check", 3, 4, item_errors=("UNAVAILABLE", "INTERNAL"))],
        "unexpected status",
    ),
}


@pytest.mark.parametrize(("rows", "kind"), BAD.values(), ids=BAD)
def test_a_history_is_not_explained(rows: Sequence[Any], kind: str) -> None:
    assert [violation.kind for violation in check(history(*rows))] == [kind]


def test_a_server_that_starts_knows_nothing_old() -> None:
    rows = (NEW_GROUPS, NEW_POLICY, REVOKED)
    seen = sees(31, 32)
    assert {each.kind for each in check(history(*rows, seen, begin=30))} == {"a wrong decision"}
    assert check(history(*rows, sees(31, 32, DENIED), begin=30)) == []


GOES_BACK = [sees(12, 13, DENIED, revision=2), sees(14, 15)]
TWO_WORKERS: dict[str, tuple[Sequence[Any], list[str]]] = {
    "on one connection": ([NEW_POLICY, *GOES_BACK], ["an earlier revision"]),
    "on two connections": ([NEW_POLICY, GOES_BACK[0], sees(14, 15, session=2)], []),
    "on two connections after a reload": (
        [NEW_POLICY, RELOADED, GOES_BACK[0], sees(15, 16, session=2)],
        ["an outdated policy"],
    ),
    "after a kill": ([NEW_POLICY, Kill(13.2, 13.8), *GOES_BACK], []),
    "during a kill": ([NEW_POLICY, Kill(12.5, 13.5), *GOES_BACK], []),
    "while the server stops": ([NEW_POLICY, Kill(13.2, math.inf), *GOES_BACK], []),
    "before a kill": ([NEW_POLICY, *GOES_BACK, Kill(16, 17)], ["an earlier revision"]),
    "groups on one connection": (
        [NEW_GROUPS, sees(12, 13, "g2"), sees(14, 15, "g1")],
        ["earlier groups"],
    ),
    "groups on two connections": (
        [NEW_GROUPS, sees(12, 13, "g2"), sees(14, 15, "g1", session=2)],
        [],
    ),
    "groups on two connections after an invalidation": (
        [NEW_GROUPS, INVALIDATED, sees(15, 16, "g1", session=2)],
        ["outdated groups"],
    ),
}


@pytest.mark.parametrize(("rows", "kinds"), TWO_WORKERS.values(), ids=TWO_WORKERS)
def test_with_two_workers_what_goes_back_is(rows: Sequence[Any], kinds: list[str]) -> None:
    assert [violation.kind for violation in check(history(*rows, workers=2))] == kinds


IN_A_FLEET: dict[str, tuple[Sequence[Any], list[str]]] = {
    "groups from before the start": ([NEW_GROUPS, sees(31, 32)], []),
    "groups that go back": ([NEW_GROUPS, sees(31, 32, "g2"), sees(33, 34)], []),
    "groups that were forgotten before the start": (
        [NEW_GROUPS, INVALIDATED, sees(31, 32)],
        ["outdated groups"],
    ),
    "a policy from before the start": ([NEW_POLICY, sees(31, 32)], ["an outdated policy"]),
}


@pytest.mark.parametrize(("rows", "kinds"), IN_A_FLEET.values(), ids=IN_A_FLEET)
def test_a_replica_that_starts_may_use_groups_of_others(
    rows: Sequence[Any], kinds: list[str]
) -> None:
    made = history(*rows, begin=30, shares_groups=True)
    assert [violation.kind for violation in check(made)] == kinds
