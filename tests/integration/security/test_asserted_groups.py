"""Groups of requests count for callers that may assert them, and for nobody else.

Two callers, one who may and one who may not, ask the same things in turn: neither gets an
answer that was made for the other.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import queuegate
from queuegate import Access, Application, ApplicationCheck, Check
from tests.integration.security.authorities import client, configured
from tests.support.client_calls import arguments

QUEUE = "root.secret-project"
"""For members of `secret-group` only; the resolver knows of no member."""
Pair = tuple[queuegate.Client, queuegate.Client]


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Return a caller who may assert groups, and one who may not."""
    folder = tmp_path_factory.mktemp("groups")
    yarn = Path("examples/fair-scheduler.xml").resolve()
    policies = [
        {"path": str(folder / "queues.yaml")},
        {"path": str(yarn), "partition": "hadoop"},
    ]
    rights = {
        "unix": {"assert_groups": True, "roles": ["check", "read"]},
        "loopback": {"assert_groups": False, "roles": ["check", "read"]},
    }
    listen = ["127.0.0.1:0", f"unix:{folder}/q.sock"]
    with configured(folder, listen, callers=rights, policy=None, policies=policies) as server:
        tcp, unix = server.address.split(", ")
        with client(unix) as believed, client(tcp) as doubted:
            yield believed, doubted


def test_every_call_that_takes_groups(callers: Pair) -> None:
    groups = ["secret-group"]
    spark = ApplicationCheck(
        "u",
        "view",
        queuegate.SparkApplication(
            {"spark.acls.enable": "true", "spark.ui.view.acls.groups": "secret-group"}, "owner"
        ),
        groups=groups,
    )
    yarn = ApplicationCheck(
        "u",
        "view",
        Application("root.x", "owner", view_acl=" secret-group"),
        partition="hadoop",
        groups=groups,
    )
    for _ in range(2):
        for asking, expected in zip(callers, (True, False), strict=True):
            checks = [Check("u", QUEUE, groups=groups)]
            assert [
                bool(asking.check("u", QUEUE, groups=groups)),
                bool(asking.check_many(checks)[0]),
                bool(asking.check_many(checks * 64)[-1]),  # as columns
                bool(asking.explain("u", QUEUE, groups=groups).decision),
                QUEUE in asking.list_queues("u", groups=groups),
                bool(asking.check_application(**arguments(spark))),
                bool(asking.check_application(**arguments(yarn))),
                bool(asking.check_applications([spark])[0]),
                bool(asking.explain_application(**arguments(yarn)).decision),
            ] == [expected] * 9


QUESTIONS = [
    (user, groups)
    for user, groups in product(("u", "secret-boss"), ((), ("secret-group",), ("other",)))
]


@given(
    asked=st.lists(
        st.tuples(
            st.integers(0, 1), st.integers(0, len(QUESTIONS) - 1), st.sampled_from([0, 1, 64])
        ),
        max_size=12,
    )
)
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_answer_is_shared(callers: Pair, asked: list[tuple[int, int, int]]) -> None:
    for who, number, times in asked:
        user, groups = QUESTIONS[number]
        asking = callers[who]
        access = Access.ADMIN if user == "secret-boss" else Access.SUBMIT
        if times:  # in a batch, or as columns
            answer = asking.check_many([Check(user, QUEUE, "default", access, groups)] * times)[-1]
        else:
            answer = asking.check(user, QUEUE, access=access, groups=groups)
        is_believed = asking is callers[0]
        expected = user == "secret-boss" or (is_believed and "secret-group" in groups)
        assert bool(answer) is expected


def test_a_caller_who_asserts_nothing_gets_what_is_resolved(callers: Pair) -> None:
    for asking in callers:
        # The table of test users of YuniKorn.
        assert asking.resolve("testuser1").groups
        decision = asking.check("testuser1", QUEUE)
        assert not decision
