"""Paths of groups in Keycloak, such as /eng/backend.

If Keycloak is set up to do so, it writes a slash in a name as `~/`. Otherwise, such a path cannot
be distinguished from the path of a group inside another one.
"""

import re
from collections.abc import Iterator
from typing import Final

from queuegate_server.identity.rest.faults import UnusableAnswer

_SEPARATOR: Final = re.compile(r"(?<!~)/")
_ESCAPED: Final = "~/"


def leaf(path: str) -> str:
    """Return the name at the end of a path; "" if it is not a path."""
    if not path.startswith("/"):
        return ""
    return _SEPARATOR.split(path)[-1].replace(_ESCAPED, "/")


def escaped(name: str) -> str:
    """Return a name with escaped slashes."""
    return name.replace("/", _ESCAPED)


def may_have_slash_above(path: str, name: str) -> bool:
    """Return whether a name before the last one has an escaped slash, or ends with `~`."""
    return _ESCAPED in path.removesuffix(escaped(name))


def names_itself(path: str, name: str) -> bool:
    """Return whether a path ends in a group's name, with escaped slashes."""
    end = "/" + escaped(name)
    return path.startswith("/") and path.endswith(end) and path[-len(end) - 1 : -len(end)] != "~"


def ambiguous_path(path: str, name: str) -> UnusableAnswer:
    """Return the fault for a path that does not end in the group's name, or could be another
    group's. If the last name has no slash, the path is ambiguous because the name before it ends
    with `~`.
    """
    if "/" in name:
        reason = f"the name {name[:200]!r} contains a slash"
        advice = "rename the group, or let Keycloak escape slashes in paths"
    elif path.endswith(f"~/{name}"):
        reason = (
            f"the name of the group above {name[:200]!r} ends with '~', as an escaped slash does"
        )
        advice = "rename the group above"
    else:
        reason = f"the path {path[:200]!r} does not end in the name {name[:200]!r}"
        advice = "check whether a proxy changes answers"
    return UnusableAnswer(f"groups: {reason}, so the group's path is ambiguous", advice)


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths above a path, the nearest one first."""
    starts = [match.start() for match in _SEPARATOR.finditer(path)]
    for start in reversed(starts[1:]):
        yield path[:start]
