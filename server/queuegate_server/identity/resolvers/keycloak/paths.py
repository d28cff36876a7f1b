"""Paths of groups in Keycloak, such as /eng/backend.

If Keycloak is set up to do so, it writes a slash in a name as `~/`. Otherwise such a path cannot be
told from the path of a group inside another one.
"""

import re
from collections.abc import Iterator
from typing import Final

_SEPARATOR: Final = re.compile(r"(?<!~)/")
_ESCAPED: Final = "~/"


def leaf(path: str) -> str:
    """Return the name at the end of a path; "" if it is not a path."""
    if not path.startswith("/"):
        return ""
    return _SEPARATOR.split(path)[-1].replace(_ESCAPED, "/")


def names_itself(path: str, name: str) -> bool:
    """Return whether a path ends in a group's name, with escaped slashes."""
    end = "/" + name.replace("/", _ESCAPED)
    return path.startswith("/") and path.endswith(end) and path[-len(end) - 1 : -len(end)] != "~"


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths above a path, the nearest one first."""
    starts = [match.start() for match in _SEPARATOR.finditer(path)]
    for start in reversed(starts[1:]):
        yield path[:start]
