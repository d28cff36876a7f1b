"""The messages about queues that people read."""

import subprocess

import pytest

from queuegate.cli.commands import explain
from queuegate.policy.decision import NO_MATCH, OUTCOMES, UNKNOWN_USER, Access, Decision
from queuegate_server.admission.queues import messages
from queuegate_server.admission.queues.checks import UNQUEUED
from queuegate_server.admission.queues.model import Obstacle, RequiredCheck, Usable
from queuegate_server.admission.server.webhook_limits import MAX_WARNING
from queuegate_server.settings.queue_schedulers import Mode
from tests.support.rows import rows

WHERE = 'metadata.labels["kueue.x-k8s.io/queue-name"]'
CHECK = RequiredCheck("kueue", "a", WHERE, "root.a", Access.SUBMIT, Mode.DENY)
NAMED = f"bob may not submit to root.a (set in {WHERE}): "
REASON = "no ACL on root.a or above lists bob or any of bob's groups"


@rows
def test_a_denial(more: int, usable: Usable, parts: str) -> None:
    message = messages.denial("bob", CHECK, NO_MATCH, more=more, usable=usable)
    assert message == f"{NAMED}{REASON}{parts}. To see why: queuegate explain bob root.a"


def test_other_denials() -> None:
    admin = CHECK._replace(access=Access.ADMIN)
    assert messages.denial("bob", admin, UNKNOWN_USER) == (
        f"bob may not administer root.a (set in {WHERE}): access depends on groups, and the"
        " directory does not know bob. To see why: queuegate explain --access admin bob root.a"
    )
    unqueued = CHECK._replace(scheduler=UNQUEUED)
    assert messages.denial("bob", unqueued, NO_MATCH) == (
        f"bob may not submit to root.a (the queue of objects that name none): {REASON}. To see"
        " why: queuegate explain bob root.a"
    )
    usable = Usable(["b"], is_complete=True)
    assert ". Queues you may administer: b. " in messages.denial(
        "bob", admin, NO_MATCH, usable=usable
    )


@rows
def test_a_place_that_several_schedulers_read(
    scheduler: str, field: str, reader: str, remedy: str
) -> None:
    check = CHECK._replace(
        scheduler=scheduler, where="spec.queue", scheduler_field=field, is_one_of_several=True
    )
    denial = f"bob may not submit to root.a (set in spec.queue for {reader}): {REASON}{remedy}"
    hint = "To see why: queuegate explain bob root.a"
    assert messages.denial("bob", check, NO_MATCH) == f"{denial}. {hint}"
    warning = messages.denial_warning("bob", check, NO_MATCH)
    assert warning.startswith(denial)
    assert len(warning) <= MAX_WARNING
    alone = check._replace(is_one_of_several=False)
    assert f"(set in spec.queue): {REASON}. To" in messages.denial("bob", alone, NO_MATCH)


@rows
def test_the_command_can_be_pasted_into_a_shell(
    user: str, path: str, access: Access, partition: str
) -> None:
    check = CHECK._replace(path=path, access=access)
    message = messages.denial(user, check, NO_MATCH, partition)
    line = message.rpartition("To see why: queuegate explain ")[2]
    words = subprocess.run(
        ["sh", "-c", f'printf "%s\\0" {line}'], capture_output=True, text=True, check=True
    ).stdout.split("\0")[:-1]
    with explain.make_context("explain", words) as context:
        given = context.params
    assert (given["user"], given["queue"]) == (user, path)
    assert given["access"] == str(access)
    assert given["partition"] == partition


def test_a_warning_has_the_hints_that_fit() -> None:
    warning = messages.denial_warning("bob", CHECK, NO_MATCH)
    assert warning == messages.denial("bob", CHECK, NO_MATCH)
    long = messages.denial_warning("b" * 60, CHECK, NO_MATCH)
    assert long == (
        f"{'b' * 60}{NAMED[3:]}no ACL on root.a or above lists the user or any of the user's groups"
    )
    path = f"root.{'a' * 60}"
    deep = messages.denial_warning("bob", CHECK._replace(path=path), NO_MATCH)
    assert "no ACL on the queue or above lists bob or any of bob's groups" in deep
    assert len(long) <= MAX_WARNING


def test_groups_are_not_named() -> None:
    for reason, outcome in OUTCOMES.items():
        if not outcome.grants:
            message = messages.denial("bob", CHECK, Decision(False, reason, "root", "secret"))
            assert message.startswith(NAMED)
            assert "secret" not in message


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [("", "it is odd"), (UNQUEUED, "it is odd"), ("kueue", "spec.queue: it is odd")],
)
def test_a_refusal(scheduler: str, message: str) -> None:
    assert messages.refusal(Obstacle(scheduler, "spec.queue", "it is odd", Mode.DENY)) == message
