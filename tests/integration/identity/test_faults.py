"""Errors and answers that callers get when groups cannot be resolved."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import queuegate
from queuegate import Check
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import HANGS, ScriptedDirectory
from tests.support.servers.two_partitions import (
    DOWN,
    SharedServer,
    client_without_retries,
    two_partitions,
)


@pytest.fixture(scope="module")
def partition_options() -> dict[str, Any]:
    return {"cache": {"failure_ttl": "4s"}}


def test_could_not_ask(client: queuegate.Client, directory: ScriptedDirectory) -> None:
    for ask in (
        lambda: client.check("dora", "root.work"),
        lambda: client.explain("dora", "root.work"),
        lambda: client.list_queues("dora"),
    ):
        with pytest.raises(queuegate.GroupsUnavailable) as caught:
            ask()
        error = caught.value
        assert (error.code, error.reason) == ("UNAVAILABLE", "RESOLVER_UNAVAILABLE")
        assert error.retry_after is not None
        assert 0 < error.retry_after <= 4
        # Callers who decide with the answer are not to know the directory; the log says why.
        assert error.message == (
            "groups are needed and resolver 'corp' is unavailable; see the server's log"
        )
    # A failure is remembered: the directory is not asked again at once.
    assert directory.asked("dora") == 1
    answer = client.resolve("dora")
    assert (answer.outcome, answer.groups, answer.cached) == ("unavailable", (), True)
    assert answer.detail == "the directory is down"
    directory.answer({"dora": {"groups": ["staff"]}})

    def reason() -> str:
        try:
            return client.check("dora", "root.work").reason
        except queuegate.GroupsUnavailable:
            return "unavailable"

    eventually(reason, "group")
    assert directory.asked("dora") == 2


def test_only_the_item_that_needs_groups_fails(client: queuegate.Client) -> None:
    questions = [
        Check("dora", "root.open"),
        Check("dora", "root.work"),
        Check("sam", "root.work"),
        Check("dora", "root.work", access="admin"),
        Check("boss", "root.work"),
    ]
    for _ in range(2):
        results = client.check_many(questions)
        failure = results.pop(1)
        assert isinstance(failure, queuegate.CheckFailure)
        assert isinstance(failure.error, queuegate.GroupsUnavailable)
        assert failure.error.retry_after
        assert [
            result.reason if isinstance(result, queuegate.Decision) else result
            for result in results
        ] == ["wildcard", "group", "no_match", "user"]


def test_listed_users_need_no_directory(
    client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    directory.answer({"*": DOWN})
    assert client.check("dora", "root.open").reason == "wildcard"
    assert client.check("alice", "root.work").reason == "user"
    assert client.check("boss", "root.work", access="admin").reason == "user"
    assert client.check("boss", "root.work").matched_queue == "root"
    # No group appears in an admin ACL: nobody needs to be asked to deny.
    assert client.check("dora", "root.work", access="admin").reason == "no_match"
    explained = client.explain("alice", "root.work")
    assert explained.groups.origin == "not_needed"
    assert directory.asked() == 0


def test_unknown_user(client: queuegate.Client, directory: ScriptedDirectory) -> None:
    directory.answer({"alice": {"unknown": "no entry"}})
    decision = client.check("nobody", "root.work")
    assert (decision.allowed, decision.reason) == (False, "unknown_user")
    assert (decision.matched_queue, decision.matched_subject) == ("", "")
    explained = client.explain("nobody", "root.work")
    assert explained.decision == decision
    assert (explained.groups.origin, explained.groups.groups) == ("cache", ())
    assert explained.groups.detail == "not in the script"
    # She keeps what everyone has, and what lists her.
    assert client.check("nobody", "root.open").allowed
    assert client.check("alice", "root.work").allowed
    assert client.list_queues("nobody") == ["root.open"]
    assert client.list_queues("alice") == ["root.open", "root.work"]
    assert directory.asked("nobody") == 1
    # A decision remembered as "unknown" is not the last word.
    directory.answer({"nobody": {"groups": ["staff"]}})
    assert client.invalidate(["nobody"]).dropped == 1
    assert client.check("nobody", "root.work").reason == "group"


def test_a_resolver_that_raises_reveals_nothing_to_callers(
    shared: SharedServer, client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    directory.answer({"eve": {"raises": "bind password is hunter2"}})
    with pytest.raises(queuegate.GroupsUnavailable) as caught:
        client.check("eve", "root.work")
    assert "hunter2" not in caught.value.message
    assert "hunter2" not in client.resolve("eve").detail
    eventually(
        lambda: any("eve" in str(entry["event"]) for entry in shared.server.logs), expected=True
    )


def test_expired_groups_are_used_while_the_directory_is_down(directory: ScriptedDirectory) -> None:
    cache = {"positive_ttl": "200ms", "failure_ttl": "100ms", "max_stale": "1h"}
    with two_partitions(directory, cache=cache) as server, client_without_retries(server) as client:
        assert client.check("sam", "root.work").allowed
        directory.answer({"sam": DOWN})
        eventually(lambda: client.resolve("sam").stale, expected=True)
        for _ in range(20):
            assert client.check("sam", "root.work").reason == "group"
        explained = client.explain("sam", "root.work")
        assert (explained.groups.origin, explained.groups.groups) == (
            "stale_cache",
            ("sam", "staff"),
        )
        # A definite "no such user" ends it, at the next lookup.
        directory.answer({"sam": {"unknown": "left the company"}})
        eventually(lambda: client.check("sam", "root.work").reason, "unknown_user")
        directory.answer({"sam": DOWN})
        client.invalidate(["sam"])
        with pytest.raises(queuegate.GroupsUnavailable):
            client.check("sam", "root.work")


def test_stale_groups_can_be_turned_off(directory: ScriptedDirectory) -> None:
    cache = {"positive_ttl": "200ms", "failure_ttl": "100ms", "max_stale": "0s"}
    with two_partitions(directory, cache=cache) as server, client_without_retries(server) as client:
        assert client.check("sam", "root.work").allowed
        directory.answer({"sam": DOWN})

        def reason() -> str:
            try:
                return client.check("sam", "root.work").reason
            except queuegate.GroupsUnavailable:
                return "unavailable"

        eventually(reason, "unavailable")


def test_a_hung_look_up_delays_nobody_else(directory: ScriptedDirectory) -> None:
    directory.answer({"hung": {"groups": ["staff"], "seconds": HANGS}})
    with (
        two_partitions(directory, lookup_timeout="5s") as server,
        client_without_retries(server) as client,
    ):
        with ThreadPoolExecutor(1) as pool:
            begin = time.monotonic()
            hung = pool.submit(client.check, "hung", "root.work")
            eventually(lambda: directory.asked("hung"), 1)
            directory.answer({"*": {"groups": ["staff"]}})
            answered = 0
            for number in range(8):
                assert client.check(f"user-{number}", "root.work").allowed
                answered += not hung.done()
            assert answered
            with pytest.raises(queuegate.GroupsUnavailable):
                hung.result()
            assert 5 <= time.monotonic() - begin < 50
        log = server.wait_for_log(
            "resolver 'corp' cannot look up 'hung': no answer within 5 s (lookup_timeout)"
        )
        assert log["level"] == "warning"
        assert client.check("hung", "root.open").allowed


def test_more_lookups_than_may_run_fail_fast(directory: ScriptedDirectory) -> None:
    directory.answer({"*": {"groups": ["staff"], "seconds": HANGS}})
    options: dict[str, Any] = {"max_concurrent": 4, "max_waiting": 4, "lookup_timeout": "1s"}
    with two_partitions(directory, **options) as server, client_without_retries(server) as client:
        begin = time.monotonic()
        results = client.check_many([Check(f"user-{number}", "root.work") for number in range(12)])
        errors = [
            result.error.message if isinstance(result, queuegate.CheckFailure) else "decided"
            for result in results
        ]
        assert all("groups are needed" in error for error in errors), errors
        assert sum("too many" in error for error in errors) >= 4
        # Of the ones that were not tried the server says so, of the others that they failed.
        for result in results:
            assert isinstance(result, queuegate.CheckFailure)
            too_many = "too many" in result.error.message
            assert isinstance(result.error, queuegate.Overloaded) == too_many
            assert (result.error.reason == "OVERLOADED") == too_many
        assert time.monotonic() - begin < 50
        assert directory.asked() <= 8
        # Those who need no groups, and those who bring them, are served all the while.
        assert client.check("alice", "root.work").allowed
        assert client.check("user-99", "root.work", groups=["staff"]).allowed


def test_the_breaker_leaves_a_failing_directory_alone(directory: ScriptedDirectory) -> None:
    directory.answer({"*": DOWN})
    options: dict[str, Any] = {"breaker_failures": 3, "breaker_pause": 4}
    with (
        two_partitions(directory, cache={"failure_ttl": "10ms"}, **options) as server,
        client_without_retries(server) as client,
    ):
        for number in range(8):
            with pytest.raises(queuegate.GroupsUnavailable):
                client.check(f"user-{number}", "root.work")
        assert directory.asked() == 3
        directory.answer({"*": {"groups": ["staff"]}})

        def allowed() -> bool:
            try:
                return client.check("sara", "root.work").allowed
            except queuegate.GroupsUnavailable:
                return False

        eventually(allowed, expected=True)
        assert directory.asked("sara") == 1
