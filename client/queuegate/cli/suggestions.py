"""Suggests the queue that was meant, where the one asked about does not exist."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from queuegate._types import Check
from queuegate.exceptions import QueuegateError
from queuegate.policy.names import ROOT, SEPARATOR, similar_name

if TYPE_CHECKING:
    from queuegate._methods.client import ClientMethods


_MAX_COMPARED: Final = 2_000
"""Queues among which the one that was meant is searched, which takes a tenth of a second."""


def similar_queue(
    client: "ClientMethods", asked: Check, evaluated_queue: str, timeout: float
) -> str:
    """Return the existing queue whose path resembles the one asked about most; empty if none does.

    The client asks for the policy, because answers to checks name no queues that the caller may
    not read. A caller who may not read the policy gets no suggestion.

    Args:
        client: The client that has asked.
        asked: The question.
        evaluated_queue: The nearest existing ancestor. Only queues below it are suggested.
        timeout: The time limit in seconds.
    """
    try:
        queues = client.get_policy(asked.partition, evaluated_queue, timeout=timeout).queues
    except QueuegateError:
        return ""
    return most_similar(asked.queue, evaluated_queue, [queue.path for queue in queues])


def most_similar(path: str, evaluated_queue: str, queues: Sequence[str]) -> str:
    """Return the queue whose path resembles another most; empty if none does.

    Args:
        path: The path of a queue that does not exist.
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
        # The levels in between may have been left out.
        names = {path.rpartition(SEPARATOR)[2]: queue for path, queue in below.items()}
        below = names | below
    similar = similar_name(missing, below)
    return below[similar] if similar else ""
