"""Hints for users who name a queue that does not exist."""

from typing import TYPE_CHECKING, Final, NamedTuple

from queuegate._results import PolicyInfo
from queuegate._types import Check
from queuegate.cli.terminal import escape
from queuegate.exceptions import QueuegateError
from queuegate.policy.names import (
    ROOT,
    SEPARATOR,
    is_like_queue_path,
    shared_name,
    similar_queue,
)

if TYPE_CHECKING:
    from queuegate._methods.client import ClientMethods


_CAPACITY_SCHEDULER: Final = "capacity-scheduler"


class MissingQueue(NamedTuple):
    """Hints about a missing queue, for display. Empty if the caller may not read the policy."""

    similar: str = ""
    """An existing queue that the user may have meant."""
    is_never_created: bool = False
    """True for YARN's capacity scheduler, which will not create the queue on submission."""
    is_user: bool = False
    """Whether the user and the queue were probably swapped."""
    ambiguity: str = ""
    """A message, if several queues share the name."""


def ambiguous_name(
    client: "ClientMethods", queue: str, partition: str, timeout: float | None = None
) -> str:
    """Return a message listing the queues that share a short name; "" if fewer than two do.

    The message is based on the policy, so callers who may not read the policy get none.

    Args:
        client: The client to use.
        queue: The name, as in the request.
        partition: The partition, as in the request.
        timeout: The time limit in seconds. Defaults to the client's.
    """
    if queue in {"", ROOT} or SEPARATOR in queue:
        return ""
    try:
        policy = client.get_policy(partition, queue, timeout=timeout)
        if policy.queues or policy.format != _CAPACITY_SCHEDULER:
            return ""
        policy = client.get_policy(partition, timeout=timeout)
    except QueuegateError:
        return ""
    return shared_name(queue, [each.path for each in policy.queues])


def queue_hints(
    client: "ClientMethods", asked: Check, evaluated_queue: str, timeout: float | None = None
) -> MissingQueue:
    """Return hints about a missing or ambiguous queue.

    Args:
        client: The client that made the check.
        asked: The check.
        evaluated_queue: The nearest existing ancestor; empty if the queue exists or is ambiguous.
        timeout: The time limit in seconds. Defaults to the client's.
    """
    queue, partition = asked.queue, asked.partition
    if not evaluated_queue:
        return MissingQueue(ambiguity=ambiguous_name(client, queue, partition, timeout))
    return missing_queue(
        client, queue, partition, evaluated_queue, user=asked.user, timeout=timeout
    )


def missing_queue(
    client: "ClientMethods",
    queue: str,
    partition: str,
    evaluated_queue: str,
    *,
    user: str = "",
    timeout: float | None = None,
) -> MissingQueue:
    """Return hints about a missing queue.

    The hints are based on the policy, so callers who may not read the policy get no hints.

    Args:
        client: The client to use.
        queue: The queue, as in the request.
        partition: The partition, as in the request.
        evaluated_queue: The nearest existing ancestor. Only queues below it are suggested.
        user: The user, as in the request; empty if the request names none.
        timeout: The time limit in seconds. Defaults to the client's.
    """
    try:
        policy = client.get_policy(partition, evaluated_queue, timeout=timeout)
    except QueuegateError:
        return MissingQueue()
    paths = [each.path for each in policy.queues]
    is_capacity = policy.format == _CAPACITY_SCHEDULER
    short_names = {path.rpartition(SEPARATOR)[2] for path in paths} if is_capacity else set()
    similar = similar_queue(queue, evaluated_queue, paths)
    is_short_name = SEPARATOR not in queue and user in short_names
    return MissingQueue(
        similar=similar,
        is_never_created=is_capacity,
        is_user=is_like_queue_path(user) or (is_short_name and not similar),
    )


def missing_queue_line(
    queue: str, evaluated_queue: str, missing: MissingQueue, user: str = ""
) -> str:
    """Return a line saying that a queue does not exist, with hints.

    Args:
        queue: The queue.
        evaluated_queue: The ancestor that was evaluated instead; empty if there is no decision.
        missing: The hints.
        user: The USER argument of a command whose next argument is QUEUE; otherwise empty.
    """
    text = f"{shown_queue(queue)} does not exist"
    text += ", and YARN does not create it" if missing.is_never_created else ""
    text += f"; decided at {escape(evaluated_queue)}" if evaluated_queue else ""
    if user and missing.is_user:
        text += f"; USER comes first: {shown_queue(queue)} {escape(user)}"
    elif missing.similar:
        text += f"; did you mean {escape(missing.similar)}?"
    return text


def shown_queue(queue: str) -> str:
    """Return a queue for display, in quotes if it begins or ends with a blank."""
    return escape(queue) if queue == queue.strip() else f"'{escape(queue)}'"


def missing_prefix(client: "ClientMethods", answer: PolicyInfo, prefix: str, partition: str) -> str:
    """Return a message if a policy does not list any queue at or below `prefix`; otherwise ""."""
    if answer.queues:
        return ""
    if message := ambiguous_name(client, prefix, partition):
        return message
    paths = [queue.path for queue in client.get_policy(partition).queues]
    missing = MissingQueue(similar=similar_queue(prefix, ROOT, paths))
    return f"queue {missing_queue_line(prefix, '', missing)}"
