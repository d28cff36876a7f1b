"""Names of users, groups, queues and partitions.

The patterns and rules are YuniKorn's: `pkg/common/security/acl.go` (names in an ACL),
`pkg/common/configs/configvalidator.go` (names in limits and filters, queue names) and
`pkg/common/utils.go` (partition names). In Go, unlike in Python, `$` does not match before a final
newline, so patterns are applied with `fullmatch`.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

ROOT: Final = "root"
SEPARATOR: Final = "."
RECOVERY_QUEUE: Final = "root.@recovery@"
DEFAULT_PARTITION: Final = "default"

CONTROL_CHARACTERS: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
"""Control characters, for use in the character class of a regular expression."""
CONTROL_CHARACTER: Final = re.compile(f"[{CONTROL_CHARACTERS}]")
"""Matches a character that is forbidden in request names and in group names from a directory."""

_MAX_SHARING: Final = 5
"""The maximum number of queues listed in a message about the name that they share."""
_SIMILAR: Final = 0.65
"""The minimum difflib ratio at which names are considered similar."""
_MAX_COMPARED: Final = 100
"""The maximum number of characters compared, since the run time is quadratic."""
MAX_COMPARED_QUEUES: Final = 2_000
"""The maximum number of queues compared. Comparing this many takes a tenth of a second."""
OTHER_SEPARATORS: Final = re.compile(r"[/\\:]")
"""Characters that users write instead of the dots in a queue path."""

_CONFIG_USER = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_CONFIG_USERS = re.compile(rf"(?:{_CONFIG_USER.pattern}\n)*{_CONFIG_USER.pattern}")
_CONFIG_GROUP = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")
_QUEUE_LEVEL = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")
_QUEUE_PATH = re.compile(r"root(?:\.[a-z0-9_:#/@-]{1,64})*")


def is_user_name(text: str) -> bool:
    """Return whether YuniKorn accepts a user name in limits, filters and requests."""
    return _CONFIG_USER.fullmatch(text) is not None


def are_user_names(names: Iterable[str]) -> bool:
    """Return whether `is_user_name` accepts all names. Names must not contain line feeds."""
    return _CONFIG_USERS.fullmatch("\n".join(names)) is not None


def is_group_name(text: str) -> bool:
    """Return whether YuniKorn accepts a group name in limits and filters."""
    return _CONFIG_GROUP.fullmatch(text) is not None


def is_queue_name(text: str) -> bool:
    """Return whether the text is valid as a level of a queue path."""
    return _QUEUE_LEVEL.fullmatch(text) is not None


def queue_path(text: str) -> str | None:
    """Return the text in lowercase if it is a full queue path, otherwise None.

    A full path is `root`, optionally followed by valid names, each preceded by a dot.
    """
    # Check before lowercasing, because lowercasing turns the Kelvin sign (U+212A) into an ASCII
    # `k`.
    if not text.isascii():
        return None
    path = text.lower()
    return path if _QUEUE_PATH.fullmatch(path) else None


def yarn_queue_path(text: str) -> str | None:
    """Return a YARN queue's full path, or None if a level is empty.

    Paths are case-sensitive, `root.` is optional, and a level may contain any character but a dot.
    """
    levels = text.split(SEPARATOR)
    if not all(levels):
        return None
    return text if levels[0] == ROOT else f"{ROOT}.{text}"


def parent_path(path: str) -> str:
    """Return the parent queue's path, or an empty string for the root."""
    return path.rpartition(SEPARATOR)[0]


def shared_name(name: str, paths: Iterable[str]) -> str:
    """Return a message listing the queues whose last level is `name`; "" if there are fewer than
    two.

    YARN's capacity scheduler does not resolve such a name (`CapacitySchedulerQueueManager`).
    """
    if SEPARATOR in name or name == ROOT:
        return ""
    sharing = [path for path in paths if path.endswith(f"{SEPARATOR}{name}")]
    if len(sharing) < 2:  # noqa: PLR2004
        return ""
    listed = ", ".join(sharing[:_MAX_SHARING])
    if len(sharing) > _MAX_SHARING:
        listed += f" and {len(sharing) - _MAX_SHARING} more"
    return f"{name} is the name of several queues: {listed} (write the full path)"


def is_at_or_below(path: str, prefix: str) -> bool:
    """Return whether a queue is at or below `prefix`. An empty prefix includes every queue."""
    return not prefix or path == prefix or path.startswith(prefix + SEPARATOR)


def is_recovery_path(path: str) -> bool:
    """Return whether a lowercase path is at or below the recovery queue."""
    return path.startswith(RECOVERY_QUEUE) and (
        len(path) == len(RECOVERY_QUEUE) or path[len(RECOVERY_QUEUE)] == SEPARATOR
    )


def partition_name(text: str) -> str:
    """Return the partition name without the resource manager ID: `[rm]gpu` becomes `gpu`.

    An empty name becomes `default`. Names are case-sensitive.
    """
    if not text:
        return DEFAULT_PARTITION
    if text.startswith("["):
        end = text.find("]")
        if end > 0:
            return text[end + 1 :]
    return text


def similar_name(text: str, known: Collection[str]) -> str:
    """Return the known name most similar to the text, or "" if none is similar enough."""
    matches = difflib.get_close_matches(text[:_MAX_COMPARED], known, n=1, cutoff=_SIMILAR)
    return matches[0] if matches else ""


def similar_queue(path: str, evaluated_queue: str, queues: Sequence[str]) -> str:
    """Return the existing queue path that is most similar to a missing queue's path; "" if none is
    similar.

    Args:
        path: The path of the missing queue.
        evaluated_queue: Its nearest existing ancestor.
        queues: The paths of the queues below that ancestor.
    """
    if len(queues) > MAX_COMPARED_QUEUES:
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


def is_like_queue_path(text: str) -> bool:
    """Return whether a string, such as a user name, is probably a queue path."""
    return text.casefold().startswith(f"{ROOT}{SEPARATOR}")


def _as_path(text: str) -> str:
    """Return the path that a user probably meant by text that uses other separators or omits the
    root.
    """
    path = text.strip()
    if SEPARATOR not in path:
        path = OTHER_SEPARATORS.sub(SEPARATOR, path).strip(SEPARATOR)
    return path if is_like_queue_path(path) else f"{ROOT}{SEPARATOR}{path}"
