"""The queue that was meant, where the one asked about does not exist."""

from unittest.mock import create_autospec

import pytest

from queuegate import Check, NotPermitted, PolicyInfo, PolicyQueue
from queuegate._methods.client import ClientMethods
from queuegate.cli.suggestions import MissingQueue, queue_hints
from tests.support.rows import rows

QUEUES = (
    *("root", "root.analytics", "root.analytics.reports", "root.analytics.notebooks"),
    *("root.engineering", "root.engineering.ci", "root.Sandbox"),
)


def client(*served: str) -> ClientMethods:
    def policy(partition: str, prefix: str, *, timeout: float) -> PolicyInfo:
        assert (partition, timeout) == ("gpu", 0.5)
        queues = [path for path in served if f"{path}.".startswith(f"{prefix}.")]
        return PolicyInfo(
            "",
            1,
            "",
            None,
            tuple(PolicyQueue(path, "", "", (), ()) for path in queues),
            "",
            (),
            (),
            None,
            (),
            format="capacity-scheduler" if "root.default" in served else "yunikorn",
        )

    mock: ClientMethods = create_autospec(ClientMethods, instance=True)
    mock.get_policy.side_effect = policy  # type: ignore[attr-defined]
    return mock


@rows
def test_the_most_similar_queue_below_the_evaluated_one(
    asked: str, evaluated: str, meant: str
) -> None:
    assert queue_hints(client(*QUEUES), Check("sue", asked, "gpu"), evaluated, 0.5).similar == meant


def test_none_for_callers_who_may_not_read_the_policy() -> None:
    asking = client()
    asking.get_policy.side_effect = NotPermitted("no role", code="PERMISSION_DENIED")  # type: ignore[attr-defined]
    assert queue_hints(asking, Check("sue", "root.analytic", "gpu"), "root", 0.5).similar == ""


def test_the_folded_case_of_a_name_may_be_longer() -> None:
    """Queues of YARN may have any characters."""
    asking = client(
        "root", "root.stra\u00dfe", "root.stra\u00dfe.nord", "root.stra\u00dfe.s\u00fcd"
    )
    asked = Check("sue", "root.stra\u00dfe.norden", "gpu")
    assert queue_hints(asking, asked, "root.stra\u00dfe", 0.5).similar == "root.stra\u00dfe.nord"


def test_none_among_too_many_queues() -> None:
    """The comparison would take seconds."""
    asked = Check("sue", "root.analytic", "gpu")
    few, many = (["root.analytics", *(f"root.q{n}" for n in range(up_to))] for up_to in (9, 9_999))
    assert queue_hints(client(*few), asked, "root", 0.5).similar == "root.analytics"
    assert queue_hints(client(*many), asked, "root", 0.5).similar == ""


def test_yarn_does_not_create_it() -> None:
    asked = Check("sue", "root.prod.new", "gpu")
    hints = queue_hints(client("root", "root.default", "root.prod"), asked, "root.prod", 0.5)
    assert hints == MissingQueue("", is_never_created=True, is_user=False)
    assert not queue_hints(client("root", "root.prod"), asked, "root.prod", 0.5).is_never_created


@pytest.mark.parametrize(
    ("user", "is_user"),
    [("root.x", True), ("root.engineering.ci", True), ("sue", False), ("root", False)],
)
def test_the_user_and_the_queue_were_swapped(user: str, is_user: bool) -> None:
    assert queue_hints(client(*QUEUES), Check(user, "sue", "gpu"), "root", 0.5).is_user is is_user
