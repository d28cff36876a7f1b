"""The examples of YARN, served and queried."""

from collections.abc import Iterator

import pytest

import queuegate
from queuegate import Reason
from tests.support.client_calls import arguments
from tests.support.servers.queuegate_server import running_server


@pytest.fixture(scope="module", params=["fair-scheduler.xml", "capacity-scheduler.xml"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, queuegate.Client]]:
    policy = ("--policy", f"examples/{request.param}")
    name = (
        "capacity-yarn-site.xml" if request.param == "capacity-scheduler.xml" else "yarn-site.xml"
    )
    site = ("--set", f"policy.yarn_site=examples/{name}")
    with (
        running_server(*policy, *site) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        yield request.param, client


QUESTIONS: dict[str, list[tuple[str, str, str, tuple[str, ...], Reason]]] = {
    "fair-scheduler.xml": [
        ("John", "Datascience.Production", "submit", (), Reason.USER),
        ("Jane", "Datascience.Production", "admin", (), Reason.USER),
        ("zed", "root.Datascience.Production", "submit", ("production",), Reason.GROUP),
        ("zed", "root.Datascience", "submit", ("production",), Reason.NO_MATCH),
        ("jane", "Marketing", "submit", ("g",), Reason.USER),
        ("jane", "Marketing", "admin", ("g",), Reason.NO_MATCH),
        ("zed", "Marketing", "admin", ("others",), Reason.GROUP),
        # The document's second example: Jane administers Marketing and Dev, and not Test.
        ("Jane", "Test", "submit", ("g",), Reason.NO_MATCH),
        ("Jane", "Test", "admin", ("g",), Reason.NO_MATCH),
        ("Bob", "Test", "submit", ("g",), Reason.CLUSTER_ADMIN),
        ("eve", "root", "submit", ("g",), Reason.NO_MATCH),
    ],
    "capacity-scheduler.xml": [
        ("sherlock", "root.support", "submit", ("g",), Reason.USER),
        ("zed", "support", "submit", ("cfo-group",), Reason.GROUP),
        ("zed", "support", "admin", ("cfo-group",), Reason.NO_MATCH),
        ("zed", "root.eng.dev", "submit", ("engineers",), Reason.GROUP),
        ("zed", "dev", "submit", ("engineers",), Reason.GROUP),
        ("lead", "qa", "admin", ("g",), Reason.USER),
        ("lead", "support", "admin", ("g",), Reason.NO_MATCH),
        ("Bob", "support", "admin", ("g",), Reason.CLUSTER_ADMIN),
        ("zed", "support", "submit", ("yarnadmgroup",), Reason.CLUSTER_ADMIN),
        ("eve", "root", "submit", ("g",), Reason.NO_MATCH),
    ],
}


def test_queues(served: tuple[str, queuegate.Client]) -> None:
    name, client = served
    for user, queue, access, groups, reason in QUESTIONS[name]:
        decision = client.check(user, queue, access=queuegate.Access(access), groups=groups)
        assert decision.reason is reason, (user, queue, access)
        assert decision.allowed is (reason is not Reason.NO_MATCH)
    assert client.get_policy().source == f"examples/{name}"
    assert client.get_policy().diagnostics == ()


def test_applications(served: tuple[str, queuegate.Client]) -> None:
    name, client = served
    queue = "Datascience.Production" if name == "fair-scheduler.xml" else "dev"
    admin = "Jane" if name == "fair-scheduler.xml" else "lead"
    app = queuegate.Application(queue, "John")
    for user, reason in (
        ("John", Reason.OWNER),
        (admin, Reason.USER),
        ("Bob", Reason.CLUSTER_ADMIN),
        ("eve", Reason.NO_MATCH),
    ):
        asked = queuegate.ApplicationCheck(user, "modify", app, groups=["g"])
        assert client.check_application(**arguments(asked)).reason is reason
