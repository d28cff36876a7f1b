"""A flood of unknown names, beside users whose groups are known."""

from collections.abc import Sequence

import queuegate
from queuegate import Check

_AT_ONCE = 1_000


def ask_about_nobody(client: queuegate.Client, count: int, queue: str, *, first: int = 0) -> int:
    """Check as many users who do not exist, each for the first time, and return for how many of
    them there was an answer. An answer needs groups: the queue must not be open to everyone.
    """
    answered = 0
    for start in range(first, first + count, _AT_ONCE):
        names = range(start, min(start + _AT_ONCE, first + count))
        results = client.check_many([Check(f"nobody-{number}", queue) for number in names])
        assert not any(results), "nobody may use the queue"
        answered += sum(isinstance(result, queuegate.Decision) for result in results)
    return answered


def served(client: queuegate.Client, users: Sequence[str], queue: str) -> int:
    """Return how many of these users are let in."""
    return sum(map(bool, client.check_many([Check(user, queue) for user in users])))
