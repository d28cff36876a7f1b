"""Suggestions for the path of a queue that does not exist."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from queuegate._types import Check
from queuegate.exceptions import QueuegateError
from queuegate.policy.names import ROOT, SEPARATOR, similar_name

if TYPE_CHECKING:
    from queuegate._methods.client import ClientMethods


_MAX_COMPARED: Final = 2_000
"""The maximum number of queues to search, which takes a tenth of a second."""


def similar_queue(
    client: "ClientMethods", asked: Check, evaluated_queue: str, timeout: float | None = None
) -> str:
    """Return the existing queue with the path most similar to the requested one; empty if none.

    Queues are read from the policy, so callers without access to the policy get no suggestion.

    Args:
        client: The client that made the check.
        asked: The check.
        evaluated_queue: The nearest existing ancestor. Only queues below it are suggested.
        timeout: The time limit in seconds. Defaults to the client's.
    """
    try:
        queues = client.get_policy(asked.partition, evaluated_queue, timeout=timeout).queues
    except QueuegateError:
        return ""
    return most_similar(asked.queue, evaluated_queue, [queue.path for queue in queues])


def most_similar(path: str, evaluated_queue: str, queues: Sequence[str]) -> str:
    """Return the queue with the path most similar to a missing queue's; empty if none is similar.

    Args:
        path: The path of the missing queue.
        evaluated_queue: Its nearest existing ancestor.
        queues: The paths of the queues below that ancestor.
    """
    if len(queues) > _MAX_COMPARED:
        return ""
    above = len(evaluated_queue) + len(SEPARATOR)
    if not path.casefold().startswith(f"{ROOT}{SEPARATOR}"):
        path = f"{ROOT}{SEPARATOR}{path}"
    missing = path[above:].casefold()
    below = {queue[above:].casefold(): queue for queue in queues}
    if SEPARATOR not in missing:
        # The path may omit levels in between.
        names = {path.rpartition(SEPARATOR)[2]: queue for path, queue in below.items()}
        below = names | below
    similar = similar_name(missing, below)
    return below[similar] if similar else ""
