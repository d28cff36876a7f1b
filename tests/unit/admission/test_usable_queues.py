"""The search for queues that a denied user may use is bounded, and not repeated."""

import asyncio

import pytest

from queuegate.policy.decision import Access
from queuegate_server.admission.queues import usable_queues
from queuegate_server.admission.queues.model import QueueName, Usable
from queuegate_server.admission.queues.names import QueueNames
from queuegate_server.admission.queues.usable_queues import MAX_COUNTED, UsableQueues
from queuegate_server.runtime import pacing
from queuegate_server.settings.queue_schedulers import Schedulers
from tests.support.fakes.directory import FakeDirectory
from tests.support.queue_reviews import TREE, snapshot

PLACE = QueueName("places[0]", "", "", Access.SUBMIT)
"""A place in which queues are named by their paths."""


def names_of(tree: dict[str, str]) -> QueueNames:
    return QueueNames(snapshot(tree, FakeDirectory()).find("").partition, Schedulers())


async def find(queues: UsableQueues, names: QueueNames, user: str, groups: list[str]) -> Usable:
    return await queues.find(names, PLACE, "team", user, groups)


@pytest.mark.parametrize(
    ("user", "groups"),
    [("alice", []), ("eve", []), ("eve", ["staff"]), ("carol", ["other", "staff"])],
)
async def test_all_queues_are_found(user: str, groups: list[str]) -> None:
    names = names_of(dict(TREE))
    found = await find(UsableQueues(), names, user, groups)
    expected = []
    for path in names.partition.paths:
        decision = names.partition.chain(path, Access.SUBMIT).decide(user, groups)
        if decision is not None and decision.allowed:
            expected.append(path)
    assert list(found.names) == expected
    assert found.is_complete


@pytest.mark.parametrize(("more", "is_complete"), [(0, True), (1, False)])
async def test_no_more_are_counted_than_needed(*, more: int, is_complete: bool) -> None:
    tree = {"root": ""} | {f"root.q{number}": "alice" for number in range(MAX_COUNTED + more)}
    found = await find(UsableQueues(), names_of(tree), "alice", [])
    assert (len(found.names), found.is_complete) == (MAX_COUNTED, is_complete)


async def test_a_search_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usable_queues, "SECONDS", -1.0)
    found = await find(UsableQueues(), names_of(dict(TREE)), "alice", [])
    assert (list(found.names), found.is_complete) == ([], False)


async def test_a_search_without_an_end_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    names, queues = names_of(dict(TREE)), UsableQueues()
    monkeypatch.setattr(usable_queues, "SECONDS", -1.0)
    assert not (await find(queues, names, "eve", ["staff"])).is_complete
    monkeypatch.undo()
    expected = await find(UsableQueues(), names, "eve", ["staff"])
    assert expected.is_complete
    assert await find(queues, names, "eve", ["staff"]) == expected


async def test_simultaneous_searches_find_each_queue_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usable_queues, "SECONDS", 60.0)
    tree = {"root": ""} | {f"root.q{number}": "" for number in range(3_000)}
    names, queues = names_of(tree | {"root.q2999": "alice"}), UsableQueues()
    found = await asyncio.gather(*(find(queues, names, "alice", []) for _ in range(3)))
    assert all(list(each.names) == ["root.q2999"] and each.is_complete for each in found)


async def test_others_run_during_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usable_queues, "SECONDS", 60.0)
    monkeypatch.setattr(pacing, "FIRST_STEP_SECONDS", 0)
    monkeypatch.setattr(pacing, "STEP_SECONDS", 0)
    tree = {"root": ""} | {f"root.q{number}": "" for number in range(5_000)}
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await find(UsableQueues(), names_of(tree), "alice", [])
    counting.cancel()
    assert turns >= 5


async def test_a_search_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    names, queues = names_of(dict(TREE)), UsableQueues()
    first = await find(queues, names, "eve", ["staff"])
    monkeypatch.setattr(usable_queues, "SECONDS", -1.0)
    assert await find(queues, names, "eve", ["staff"]) == first
    # Other groups, users and policies are searched.
    for other in (
        await find(queues, names, "eve", []),
        await find(queues, names, "alice", ["staff"]),
        await find(queues, names_of(dict(TREE)), "eve", ["staff"]),
    ):
        assert not other.is_complete
