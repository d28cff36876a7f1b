"""A policy has the same revision in all workers."""

from queuegate_server.supervisor.supervisor import Revisions


def test_a_policy_keeps_its_revision_in_other_workers() -> None:
    revisions = Revisions()
    assert [revisions.revision("a", 0) for _ in range(3)] == [1, 1, 1]
    assert revisions.revision("b", 1) == 2
    assert revisions.revision("c", 2) == 3
    assert revisions.revision("b", 1) == 2  # a slow worker, which reads what has gone since
    assert revisions.revision("c", 2) == 3
    assert revisions.revision("c", 0) == 3  # a new worker


def test_a_policy_that_is_restored_gets_a_new_revision() -> None:
    revisions = Revisions()
    assert revisions.revision("a", 0) == 1
    assert revisions.revision("b", 1) == 2
    assert [revisions.revision("a", 2), revisions.revision("a", 2)] == [3, 3]


def test_a_new_worker_that_is_first_to_load_a_restored_policy_agrees_with_the_others() -> None:
    revisions = Revisions()
    assert revisions.revision("a", 0) == 1
    assert revisions.revision("b", 1) == 2
    assert revisions.revision("a", 0) == 3
    assert [revisions.revision("a", 2), revisions.revision("a", 3)] == [3, 3]


def test_a_worker_follows_a_later_revision_of_its_policy() -> None:
    revisions = Revisions()
    assert [revisions.revision("a", 0), revisions.revision("b", 1)] == [1, 2]
    assert revisions.revision("a", 2) == 3
    assert revisions.revision("a", 1) == 3


def test_revisions_grow_and_are_bounded() -> None:
    revisions = Revisions()
    current = 0
    for number in range(1000):
        current = revisions.revision(str(number), current)
    assert current == 1000
    assert len(revisions._by_checksum) <= 64
