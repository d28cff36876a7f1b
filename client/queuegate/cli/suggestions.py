"""Hints for users who name a queue that does not exist."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from queuegate._results import PolicyInfo
from queuegate._types import Check
from queuegate.cli.terminal import escape
from queuegate.cli.wording import OTHER_SEPARATORS
from queuegate.exceptions import QueuegateError
from queuegate.policy.names import ROOT, SEPARATOR, shared_name, similar_name

if TYPE_CHECKING:
    from queuegate._methods.client import ClientMethods


_CAPACITY_SCHEDULER: Final = "capacity-scheduler"
MAX_COMPARED: Final = 2_000
"""The maximum number of queues to compare. Comparing this many takes a tenth of a second."""


class MissingQueue(NamedTuple):
    """Hints about a missing queue, for display. Empty if the caller may not read the policy."""

    similar: str = ""
    """An existing queue that the user may have meant."""
    is_never_created: bool = False
    """True for YARN's capacity scheduler, which will not create the queue on submission."""
    is_user: bool = False
    """Whether the user and the queue were probably swapped."""
    ambiguity: str = ""
    """A message, if the queue's name is the name of several queues."""


def ambiguous_name(
    client: "ClientMethods", queue: str, partition: str, timeout: float | None = None
) -> str:
    """Return a message listing the queues that a short name may refer to; "" if at most one.

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
        user: The user, as in the request; empty if it names none.
        timeout: The time limit in seconds. Defaults to the client's.
    """
    try:
        policy = client.get_policy(partition, evaluated_queue, timeout=timeout)
    except QueuegateError:
        return MissingQueue()
    paths = [each.path for each in policy.queues]
    is_capacity = policy.format == _CAPACITY_SCHEDULER
    short_names = {path.rpartition(SEPARATOR)[2] for path in paths} if is_capacity else set()
    similar = most_similar(queue, evaluated_queue, paths)
    is_short_name = SEPARATOR not in queue and user in short_names
    return MissingQueue(
        similar=similar,
        is_never_created=is_capacity,
        is_user=is_queue_path(user) or (is_short_name and not similar),
    )


def is_queue_path(text: str) -> bool:
    """Return whether a text, such as a user's name, is probably a queue path."""
    return text.casefold().startswith(f"{ROOT}{SEPARATOR}")


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
    """Return a message if a policy lists no queue at or below `prefix`; otherwise ""."""
    if answer.queues:
        return ""
    if message := ambiguous_name(client, prefix, partition):
        return message
    paths = [queue.path for queue in client.get_policy(partition).queues]
    missing = MissingQueue(similar=most_similar(prefix, ROOT, paths))
    return f"queue {missing_queue_line(prefix, '', missing)}"


def most_similar(path: str, evaluated_queue: str, queues: Sequence[str]) -> str:
    """Return the existing queue path that is most similar to a missing queue's path; "" if none is
    similar.

    Args:
        path: The path of the missing queue.
        evaluated_queue: Its nearest existing ancestor.
        queues: The paths of the queues below that ancestor.
    """
    if len(queues) > MAX_COMPARED:
        return ""
    above = len(evaluated_queue) + len(SEPARATOR)
    missing = _as_path(path)[above:].casefold()
    below = {queue[above:].casefold(): queue for queue in queues}
    if SEPARATOR not in missing:
        # Also compare names alone, because the user may have omitted intermediate levels.
        names = {levels.rpartition(SEPARATOR)[2]: queue for levels, queue in below.items()}
        below = names | below
    similar = similar_name(missing, below)
    return below[similar] if similar else ""


def _as_path(text: str) -> str:
    """Return the path that a user meant who wrote other separators, or left out the root."""
    path = text.strip()
    if SEPARATOR not in path:
        path = OTHER_SEPARATORS.sub(SEPARATOR, path).strip(SEPARATOR)
    return path if is_queue_path(path) else f"{ROOT}{SEPARATOR}{path}"
