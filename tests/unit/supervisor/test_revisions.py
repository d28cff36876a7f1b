"""A policy has the same revision in all workers."""

from queuegate_server.supervisor.supervisor import Revisions


def test_whoever_reads_a_policy_later_gets_its_number() -> None:
    revisions = Revisions()
    assert [revisions.revision("a", 0) for _ in range(3)] == [1, 1, 1]
    assert revisions.revision("b", 1) == 2
    assert revisions.revision("c", 2) == 3
    assert revisions.revision("b", 1) == 2  # a slow worker, which reads what has gone since
    assert revisions.revision("c", 2) == 3
    assert revisions.revision("c", 0) == 3  # a new worker


def test_a_policy_that_comes_back_is_new() -> None:
    revisions = Revisions()
    assert revisions.revision("a", 0) == 1
    assert revisions.revision("b", 1) == 2
    assert [revisions.revision("a", 2), revisions.revision("a", 2)] == [3, 3]


def test_numbers_grow_in_each_worker_and_little_is_kept() -> None:
    revisions = Revisions()
    current = 0
    for number in range(1000):
        current = revisions.revision(str(number), current)
    assert current == 1000
    assert len(revisions._by_checksum) <= 64
