"""Answers in words."""

import inspect
from datetime import UTC, datetime

import pytest

import queuegate
from queuegate import (
    Access,
    AccessGrant,
    Check,
    Decision,
    Reason,
    ResolveOutcome,
    StepOutcome,
    SubjectKind,
)
from queuegate.cli import render, server_state
from queuegate.cli.terminal import Colors, escape
from tests.support.rows import rows

PLAIN = Colors(on=False)
COLORED = Colors(on=True)
WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MOMENT = "2026-01-02 03:04:05Z"
EXPIRED = "expired, but the resolver is unavailable"

DECISIONS = [
    (Reason.WILDCARD, True, "an ACL of root.q allows everyone"),
    (Reason.USER, True, "an ACL of root.q lists the user s"),
    (Reason.GROUP, True, "an ACL of root.q lists the group s"),
    (
        Reason.NO_MATCH,
        False,
        "no ACL from the queue up to the root lists the user or any of the user's groups",
    ),
    (Reason.UNKNOWN_USER, False, "the resolver of partition gpu does not know the user"),
    (Reason.RECOVERY_QUEUE, False, "access to the recovery queue is never granted"),
    (Reason.ACLS_DISABLED, True, "yarn.acl.enable is not true: YARN enforces no ACLs"),
    (Reason.CLUSTER_ADMIN, True, "the user administers the cluster"),
    (Reason.OWNER, True, "the user owns the application"),
    (Reason.UNKNOWN_QUEUE, False, "the target queue does not exist"),
    (Reason.UNSPECIFIED, False, "unknown reason (this client is too old for the server)"),
]


def test_every_reason_is_in_the_table() -> None:
    assert [reason for reason, _, _ in DECISIONS] == sorted(
        Reason, key=[reason for reason, _, _ in DECISIONS].index
    )


@pytest.mark.parametrize(("reason", "allowed", "text"), DECISIONS)
def test_decisions(reason: Reason, allowed: bool, text: str) -> None:
    answer = Decision(allowed, reason, "root.q", "s", 1)
    line = render.decision_text(Check("al", "root.q.a", "gpu"), answer, PLAIN)
    start = "allowed: al may" if allowed else "denied: al may not"
    assert line == f"{start} submit to root.q.a: {text}"


def test_administering_and_colors() -> None:
    answer = Decision(True, Reason.WILDCARD, "root", "*", 1)
    line = render.decision_text(Check("al", "root.q", access="admin"), answer, COLORED)
    expected = "\x1b[32mallowed\x1b[0m: al may administer root.q: an ACL of root allows everyone"
    assert line == expected


def test_names_are_escaped_and_not_taken_for_a_form() -> None:
    answer = Decision(True, Reason.USER, "root.\x1b", "{queue}\n", 1)
    line = render.decision_text(Check("{user}\r", "root.\x07"), answer, PLAIN)
    assert line == (
        "allowed: {user}\\r may submit to root.\\x07:"
        " an ACL of root.\\x1b lists the user {queue}\\n"
    )


def step(
    queue: str,
    acl: Access | None,
    text: str,
    outcome: StepOutcome,
    subject: str = "",
    dropped: tuple[str, ...] = (),
) -> queuegate.Step:
    return queuegate.Step(queue, acl, text, outcome, subject, dropped)


def test_an_explanation_is_a_tree() -> None:
    answer = queuegate.Explanation(
        Decision(True, Reason.GROUP, "root", "ops", 3, "root.a"),
        (
            step("root.a", Access.SUBMIT, "bob d.ev", StepOutcome.NO_MATCH, dropped=("d.ev",)),
            step("root.a", Access.ADMIN, "", StepOutcome.EMPTY),
            step("root", Access.SUBMIT, " ops", StepOutcome.GROUP, "ops"),
        ),
        queuegate.ExplainedGroups(
            queuegate.GroupsOrigin.STALE_CACHE, ("dev", "ops"), "corp", "directory down"
        ),
        "root.a",
    )
    text = "\n".join(render.explanation_lines(Check("alice", "root.A.new"), answer, PLAIN))
    assert text == inspect.cleandoc("""
        allowed: alice may submit to root.A.new: an ACL of root lists the group ops
        root.A.new does not exist; decided at root.a

        root.a
        ├─ submit ACL 'bob d.ev': no match (never match: d.ev)
        └─ admin ACL '': grants nothing
        root
        └─ submit ACL ' ops': lists the group ops
        groups: dev, ops (cached and expired; the resolver is unavailable; resolver corp; directory down)
        policy revision 3, partition default
    """)  # noqa: E501


def test_an_explanation_of_the_recovery_queue() -> None:
    answer = queuegate.Explanation(
        Decision(False, Reason.RECOVERY_QUEUE, "", "", 1),
        (step("root.@recovery@", None, "", StepOutcome.RECOVERY_QUEUE),),
        queuegate.ExplainedGroups(queuegate.GroupsOrigin.NOT_NEEDED, (), "", ""),
        "root.@recovery@",
    )
    lines = list(render.explanation_lines(Check("a", "root.@recovery@.b"), answer, PLAIN))
    assert lines[2:] == [
        "root.@recovery@",
        "└─ access to the recovery queue is never granted",
        "groups: not needed for this decision",
        "policy revision 1, partition default",
    ]


@pytest.mark.parametrize("outcome", StepOutcome)
@pytest.mark.parametrize("origin", queuegate.GroupsOrigin)
def test_every_outcome_and_origin_has_words(
    outcome: StepOutcome, origin: queuegate.GroupsOrigin
) -> None:
    answer = queuegate.Explanation(
        Decision(False, Reason.NO_MATCH, "", "", 1),
        (step("root", Access.SUBMIT, "*", outcome, "*"),),
        queuegate.ExplainedGroups(origin, (), "corp", ""),
        "root",
    )
    lines = list(render.explanation_lines(Check("a", "root"), answer, COLORED))
    assert len(lines) == 6
    needed = origin is not queuegate.GroupsOrigin.NOT_NEEDED
    assert lines[-2].startswith("groups: none (" if needed else "groups: not needed")


def resolution(outcome: ResolveOutcome, **fields: object) -> queuegate.Resolution:
    values: dict[str, object] = {
        "groups": (),
        "cached": False,
        "stale": False,
        "resolved_at": None,
        "expires_at": None,
        "detail": "",
    }
    return queuegate.Resolution(
        user="alice",
        outcome=outcome,
        resolver="corp",
        **(values | fields),  # type: ignore[arg-type]
    )


RESOLUTIONS = [
    (
        resolution(ResolveOutcome.RESOLVED, groups=("dev", "o\x1bps")),
        ["alice: dev, o\\x1bps", "  resolver corp, just resolved"],
    ),
    (
        resolution(
            ResolveOutcome.RESOLVED,
            groups=("dev",),
            cached=True,
            stale=True,
            resolved_at=WHEN,
            expires_at=WHEN,
        ),
        ["alice: dev", f"  resolver corp, cached, {EXPIRED}, resolved {MOMENT}, expires {MOMENT}"],
    ),
    (
        resolution(ResolveOutcome.NOT_FOUND, detail="no entry"),
        ["alice: no such user (resolver corp): no entry"],
    ),
    (
        resolution(ResolveOutcome.UNAVAILABLE, detail="time out"),
        ["alice: could not be resolved (resolver corp): time out"],
    ),
    (
        resolution(ResolveOutcome.UNSPECIFIED),
        ["alice: unknown outcome (this client is too old for the server) (resolver corp)"],
    ),
]


@pytest.mark.parametrize(
    ("answer", "lines"), RESOLUTIONS, ids=["resolved", "stale", "not found", "unavailable", "odd"]
)
def test_resolutions(answer: queuegate.Resolution, lines: list[str]) -> None:
    assert list(render.resolution_lines(answer, PLAIN)) == lines


def test_a_policy() -> None:
    warning = queuegate.Diagnostic(
        queuegate.Severity.WARNING, 4, 2, "root.a", "dropped\x1b", "write it otherwise", "a.xml"
    )
    fault = queuegate.Diagnostic(queuegate.Severity.ERROR, 0, 0, "", "unreadable", "", "b\x1b")
    answer = queuegate.PolicyInfo(
        source="/etc/queues.yaml",
        revision=2,
        checksum="AB",
        loaded_at=WHEN,
        queues=(
            queuegate.PolicyQueue("root", "", "boss", (), ()),
            queuegate.PolicyQueue("root.a", "alice b.ob", "", ("b.ob",), ()),
            queuegate.PolicyQueue("root.a.b", "", "", (), ()),
        ),
        resolver="corp",
        partitions=("default", "gpu"),
        diagnostics=(warning,),
        reload_failed_at=WHEN,
        reload_diagnostics=(fault,),
    )
    assert "\n".join(server_state.policy_lines(answer, PLAIN)) == inspect.cleandoc("""
        source      /etc/queues.yaml
        revision    2
        loaded      2026-01-02 03:04:05Z
        checksum    AB
        resolver    corp
        partitions  default, gpu

        root  admin 'boss'
          a  submit 'alice b.ob' (never match: b.ob)
            b

        a.xml:4:2: warning: dropped\\x1b (write it otherwise)

        the reload at 2026-01-02 03:04:05Z failed:
        b\\x1b: error: unreadable
    """)


@pytest.mark.parametrize(
    ("grant", "words", "row"),
    [
        (
            AccessGrant("root.a", Access.SUBMIT, SubjectKind.USER, "sue"),
            "the user in the submit ACL of root.a",
            ("user sue", "submit", "root.a"),
        ),
        (
            AccessGrant("root", Access.ADMIN, SubjectKind.GROUP, "staff", ("devs", "leads")),
            "group staff, through devs, leads, in the admin ACL of root",
            ("group staff > devs > leads", "admin", "root"),
        ),
        (
            AccessGrant("root.a", Access.SUBMIT, SubjectKind.EVERYONE, "*"),
            "everyone in the submit ACL of root.a",
            ("everyone *", "submit", "root.a"),
        ),
        (
            AccessGrant("", None, SubjectKind.EVERYONE, "*"),
            "yarn.acl.enable is not true: YARN enforces no ACLs",
            ("everyone *", "", ""),
        ),
        (
            AccessGrant("root.a", Access.SUBMIT, SubjectKind.PROXY, "hue"),
            "service hue, which acts for the user, in the submit ACL of root.a",
            ("proxy hue", "submit", "root.a"),
        ),
        (
            AccessGrant("", Access.ADMIN, SubjectKind.GROUP, "ops\x1b"),
            "group ops\\x1b among the administrators of the cluster",
            ("group ops\x1b", "admin", ""),
        ),
        (
            AccessGrant("root", None, None, "x"),
            "unknown x in the unknown ACL of root",
            ("unknown x", "", "root"),
        ),
    ],
)
def test_entries_that_let_a_user_in(
    grant: AccessGrant, words: str, row: tuple[str, str, str]
) -> None:
    assert render.grant_words(grant) == words
    assert render.grant_row(grant) == row


@rows
def test_an_unknown_user_with_a_domain_part(user: str, name: str) -> None:
    answer = Decision(False, Reason.UNKNOWN_USER, "", "", 1)
    line = render.decision_text(Check(user, "root"), answer, PLAIN)
    assert line.endswith(f": try {name}") is bool(name)
    assert ("domain part" in line) is bool(name)
    denied = Decision(False, Reason.NO_MATCH, "", "", 1)
    assert "domain part" not in render.decision_text(Check(user, "root"), denied, PLAIN)


@rows
def test_a_group_that_an_acl_lists_as_a_user(acl: str, hint: str) -> None:
    answer = queuegate.Explanation(
        Decision(False, Reason.NO_MATCH, "", "", 1),
        (step("root", Access.SUBMIT, acl, StepOutcome.NO_MATCH),),
        queuegate.ExplainedGroups(queuegate.GroupsOrigin.REQUEST, ("analysts", "dev"), "", ""),
        "root",
    )
    line = [*render.explanation_lines(Check("mary", "root"), answer, PLAIN)][3]
    expected = f" (lists {hint} as a user: put groups after a space)" if hint else ""
    assert line == f"└─ submit ACL '{escape(acl)}': no match{expected}"
