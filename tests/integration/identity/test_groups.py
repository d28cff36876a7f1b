"""Where groups come from, and how callers are kept apart."""

import threading
from concurrent.futures import ThreadPoolExecutor

import queuegate
from queuegate import Check
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory
from tests.support.servers.two_partitions import (
    client_without_retries,
    two_partitions,
)


def test_claimed_groups_help_nobody_else(
    client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    """A caller's claim decides her one request and leaves no trace."""
    claimed = client.check("eve", "root.work", groups=["staff"])
    assert (claimed.reason, claimed.matched_subject) == ("group", "staff")
    assert directory.asked() == 0
    assert client.check("eve", "root.work").reason == "no_match"
    assert client.resolve("eve").groups == ("eve",)
    assert client.check("eve", "root.work", groups=["staff"]).allowed
    assert not client.check("eve", "root.work").allowed
    # Nor does a claim take away: it is not stored over what is known.
    assert client.check("sam", "root.work").allowed
    assert not client.check("sam", "root.work", groups=["guests"]).allowed
    assert client.check("sam", "root.work").allowed
    mixed = client.check_many(
        [
            Check("eve", "root.work", groups=["staff"]),
            Check("eve", "root.work"),
            Check("eve", "root.work", groups=["guests"]),
        ]
    )
    assert [bool(result) for result in mixed] == [True, False, False]
    assert client.explain("eve", "root.work", groups=["staff"]).groups.origin == "request"
    assert client.list_queues("eve", groups=["staff"]) == ["root.open", "root.work"]
    assert client.list_queues("eve") == ["root.open"]
    assert (directory.asked("eve"), directory.asked("sam")) == (1, 1)


def test_claimed_groups_can_be_ignored(directory: ScriptedDirectory) -> None:
    with (
        two_partitions(directory, partition={"trust_provided_groups": False}) as server,
        client_without_retries(server) as client,
    ):
        assert client.check("eve", "root.work", groups=["staff"]).reason == "no_match"
        assert client.check("sam", "root.work", groups=["guests"]).reason == "group"
        explained = client.explain("eve", "root.work", groups=["staff"])
        assert (explained.decision.allowed, explained.groups.groups) == (False, ("eve",))
        assert client.list_queues("eve", groups=["staff"]) == ["root.open"]
        results = client.check_many([Check("eve", "root.work", groups=["staff"])])
        assert [bool(result) for result in results] == [False]
        # The setting is one partition's own.
        assert client.check("eve", "root.work", groups=["staff"], partition="other")
        assert directory.asked("eve") == 1


def test_the_cache_is_the_partitions_own(
    client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    assert client.check("sam", "root.work").allowed
    assert client.check("sam", "root.work", partition="other").allowed
    assert directory.asked("sam") == 2
    directory.answer({"sam": {"groups": ["sam"]}})
    assert client.invalidate(["sam"], partition="other").dropped == 1
    assert not client.check("sam", "root.work", partition="other").allowed
    assert client.check("sam", "root.work").allowed
    assert client.invalidate(partition="default").dropped == 1
    assert not client.check("sam", "root.work").allowed
    assert directory.asked("sam") == 4


def test_a_thousand_checks_of_one_user_make_one_look_up(
    client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    directory.answer({"sam": {"groups": ["staff"], "seconds": 0.5}})
    together = threading.Barrier(40)

    def ask(number: int) -> list[bool]:
        together.wait()
        if number % 2:
            results = client.check_many([Check("sam", f"root.work.q{i}") for i in range(25)])
            return [bool(result) for result in results]
        return [bool(client.check("sam", f"root.work.x{i}")) for i in range(25)]

    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(ask, range(40)))
    assert answers == [[True] * 25] * 40
    assert directory.asked("sam") == 1


def test_an_invalidation_is_not_undone_by_a_look_up_under_way(
    client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    """A later question gets an answer that the directory gives after it."""
    directory.answer({"sam": {"groups": ["staff"], "seconds": 0.7}})
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(client.check, "sam", "root.work")
        eventually(lambda: directory.asked("sam"), 1)
        directory.answer({"sam": {"groups": ["sam"]}})
        client.invalidate(["sam"])
        assert client.check("sam", "root.work").reason == "no_match"
        assert before.result().reason == "group"
    assert client.check("sam", "root.work").reason == "no_match"
    assert directory.asked("sam") == 2


def test_bypassing_the_cache_renews_it(
    client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    for _ in range(2):
        assert client.check("sam", "root.work").allowed
        assert [bool(result) for result in client.check_many([Check("sam", "root.work.x")])] == [
            True
        ]
    directory.answer({"sam": {"groups": ["sam"]}})
    assert client.check("sam", "root.work").allowed
    answer = client.resolve("sam", bypass_cache=True)
    assert (answer.groups, answer.cached) == (("sam",), False)
    # The decisions that were remembered for the old groups are not used any more.
    assert not client.check("sam", "root.work").allowed
    assert [bool(result) for result in client.check_many([Check("sam", "root.work.x")])] == [False]
    assert directory.asked("sam") == 2
