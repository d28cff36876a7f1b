"""Lint rules for the names that an ACL may list by the setting `acl_names`."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from queuegate.policy.acl import WILDCARD, Acl, AclNames, accepted_names
from queuegate_server.formats.diagnostics import quoted

_MAX_SHOWN: Final = 5
"""Names in one message."""
_INVISIBLE: Final = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that are not white space and show nothing: Unicode's Default_Ignorable_Code_Point,
the controls of interlinear annotations, and the empty Braille pattern."""


@lru_cache
def names_to_report(acl: Acl, names: AclNames) -> tuple[tuple[str, str], ...]:
    """Return messages with their remedies about the names that an ACL lists.

    The result is kept, because aliases may repeat a long ACL very often.

    Args:
        acl: The ACL. Equal texts of a partition share one.
        names: Which names it may list.
    """
    if names is AclNames.YUNIKORN:
        return ()
    return (*_dropped_by_yunikorn(acl, names), *_unlikely_names(acl))


def _dropped_by_yunikorn(acl: Acl, names: AclNames) -> Iterator[tuple[str, str]]:
    """Yield what to say about names that count here, and not in YuniKorn."""
    users, groups = accepted_names(acl, AclNames.YUNIKORN)
    dropped = sorted((acl.users - users) | (acl.groups - groups))
    if not dropped:
        return
    shown = ", ".join(map(quoted, dropped[:_MAX_SHOWN]))
    if len(dropped) > _MAX_SHOWN:
        shown += f" and {len(dropped) - _MAX_SHOWN} more"
    it = "it" if len(dropped) == 1 else "them"
    yield (
        f"YuniKorn drops {shown} from this ACL: only queuegate accepts {it} (acl_names: {names})",
        "if YuniKorn itself reads this file, list names that it accepts",
    )


def _unlikely_names(acl: Acl) -> Iterator[tuple[str, str]]:
    """Yield what to say about each name that nobody is likely to have."""
    for name in sorted(acl.users | acl.groups):
        if invisible := _INVISIBLE.search(name):
            yield (
                f"{quoted(name)} contains an invisible character, U+{ord(invisible[0]):04X}",
                "type the name again: it is not the name that it looks like",
            )
        if WILDCARD in name:
            yield (
                f'the "*" in {quoted(name)} stands for itself: names in ACLs are not patterns',
                "list each name",
            )
