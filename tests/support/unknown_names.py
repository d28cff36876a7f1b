"""A flood of unknown names, alongside users whose groups are known."""

from collections.abc import Sequence

import queuegate
from queuegate import Check

_AT_ONCE = 1_000


def ask_about_nobody(client: queuegate.Client, count: int, queue: str, *, first: int = 0) -> int:
    """Check the given number of distinct users who do not exist, and return how many got an answer.
    An answer needs groups, so the queue must not be open to everyone.
    """
    answered = 0
    for start in range(first, first + count, _AT_ONCE):
        names = range(start, min(start + _AT_ONCE, first + count))
        results = client.check_many([Check(f"nobody-{number}", queue) for number in names])
        assert not any(results), "nobody may use the queue"
        answered += sum(isinstance(result, queuegate.Decision) for result in results)
    return answered


def served(client: queuegate.Client, users: Sequence[str], queue: str) -> int:
    """Return the number of these users who are let in."""
    return sum(map(bool, client.check_many([Check(user, queue) for user in users])))
