"""The parts of a policy that belong to the schedulers of the admission webhook. Pure.

Each scheduler needs a part of its own, because two schedulers may have queues of the same name, and
an ACL for a queue of one must not grant access to a queue of the other. Case is ignored, because
YuniKorn's paths are in lower case.
"""

import re
from typing import Final, NamedTuple

from queuegate.policy.names import SEPARATOR

_PLACEHOLDER: Final = re.compile(r"\{[^}]*\}")
_BETWEEN: Final = re.compile(r"\}([^{}.]*)\{")
"""The text between two placeholders in one level."""
_UNAMBIGUOUS: Final = re.compile(r"[^A-Za-z0-9-]")
"""A character that a namespace's name cannot contain."""


class Subtree(NamedTuple):
    """The queues at a path and below it."""

    scheduler: str
    """The scheduler that they belong to, as `admission.queues.schedulers` spells it."""
    path: str


def prefix(template: str) -> str:
    """Return the path to which all paths from a template belong: its levels before the first
    placeholder.
    """
    found = levels(template)
    fixed = next((at for at, level in enumerate(found) if "{" in level), len(found))
    return SEPARATOR.join(found[:fixed])


def overlaps(first: str, second: str) -> bool:
    """Return whether two paths are equal, or one is below the other."""
    one, other = (f"{path}{SEPARATOR}".lower() for path in (first, second))
    return one.startswith(other) or other.startswith(one)


def may_meet(first: str, second: str) -> bool:
    """Return whether two templates can give equal paths, or a path above the other, so that an ACL
    for one queue also grants access to the other.
    """
    one, other = (levels(template.lower()) for template in (first, second))
    return all(map(_levels_may_be_equal, one, other))


def levels(path: str) -> list[str]:
    """Return the levels of a path or template."""
    return path.split(SEPARATOR)


def is_ambiguous(template: str) -> bool:
    """Return whether a template can give two queues of different namespaces the same path, because
    a name may contain the text between two placeholders of a level.
    """
    return any(not _UNAMBIGUOUS.search(text) for text in _BETWEEN.findall(template))


def _levels_may_be_equal(first: str, second: str) -> bool:
    parts, others = _PLACEHOLDER.split(first), _PLACEHOLDER.split(second)
    if len(parts) == 1 or len(others) == 1:
        fixed, pattern = (first, others) if len(parts) == 1 else (second, parts)
        return re.fullmatch(".+".join(map(re.escape, pattern)), fixed) is not None
    # The placeholders can match everything between the longer beginning and the longer end.
    begin, end = sorted((parts[0], others[0]), key=len), sorted((parts[-1], others[-1]), key=len)
    return begin[1].startswith(begin[0]) and end[1].endswith(end[0])
