"""The search for queues that a denied user may use is bounded, and not repeated."""

import asyncio

import pytest

from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate_server.admission.queues import usable_queues
from queuegate_server.admission.queues.usable_queues import MAX_COUNTED, UsableQueues
from tests.support.fakes.directory import FakeDirectory
from tests.support.queue_reviews import TREE, snapshot


def partition_of(tree: dict[str, str]) -> Partition:
    return snapshot(tree, FakeDirectory()).find("").partition


@pytest.mark.parametrize(
    ("user", "groups"),
    [("alice", []), ("eve", []), ("eve", ["staff"]), ("carol", ["other", "staff"])],
)
async def test_all_queues_are_found(user: str, groups: list[str]) -> None:
    partition = partition_of(dict(TREE))
    found = await UsableQueues().find(partition, user, groups)
    expected = []
    for path in partition.paths:
        decision = partition.chain(path, Access.SUBMIT).decide(user, groups)
        if decision is not None and decision.allowed:
            expected.append(path)
    assert list(found.paths) == expected
    assert found.is_complete


@pytest.mark.parametrize(("more", "is_complete"), [(0, True), (1, False)])
async def test_no_more_are_counted_than_needed(*, more: int, is_complete: bool) -> None:
    tree = {"root": ""} | {f"root.q{number}": "alice" for number in range(MAX_COUNTED + more)}
    found = await UsableQueues().find(partition_of(tree), "alice", [])
    assert (len(found.paths), found.is_complete) == (MAX_COUNTED, is_complete)


async def test_a_search_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usable_queues, "SECONDS", -1.0)
    found = await UsableQueues().find(partition_of(dict(TREE)), "alice", [])
    assert (list(found.paths), found.is_complete) == ([], False)


async def test_a_search_without_an_end_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    partition, queues = partition_of(dict(TREE)), UsableQueues()
    monkeypatch.setattr(usable_queues, "SECONDS", -1.0)
    assert not (await queues.find(partition, "eve", ["staff"])).is_complete
    monkeypatch.undo()
    expected = await UsableQueues().find(partition, "eve", ["staff"])
    assert expected.is_complete
    assert await queues.find(partition, "eve", ["staff"]) == expected


async def test_simultaneous_searches_find_each_queue_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usable_queues, "SECONDS", 60.0)
    tree = {"root": ""} | {f"root.q{number}": "" for number in range(3_000)}
    partition, queues = partition_of(tree | {"root.q2999": "alice"}), UsableQueues()
    found = await asyncio.gather(*(queues.find(partition, "alice", []) for _ in range(3)))
    assert all(list(each.paths) == ["root.q2999"] and each.is_complete for each in found)


async def test_others_run_during_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usable_queues, "SECONDS", 60.0)
    tree = {"root": ""} | {f"root.q{number}": "" for number in range(5_000)}
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await UsableQueues().find(partition_of(tree), "alice", [])
    counting.cancel()
    assert turns >= 5


async def test_a_search_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    partition, queues = partition_of(dict(TREE)), UsableQueues()
    first = await queues.find(partition, "eve", ["staff"])
    monkeypatch.setattr(usable_queues, "SECONDS", -1.0)
    assert await queues.find(partition, "eve", ["staff"]) == first
    # Other groups, users and policies are searched.
    for other in (
        await queues.find(partition, "eve", []),
        await queues.find(partition, "alice", ["staff"]),
        await queues.find(partition_of(dict(TREE)), "eve", ["staff"]),
    ):
        assert not other.is_complete
