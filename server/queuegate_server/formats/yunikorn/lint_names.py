"""Lint rules for the names that an ACL may list by the setting `acl_names`."""

import re
from collections.abc import Iterator
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


def dropped_by_yunikorn(acl: Acl, names: AclNames) -> Iterator[tuple[str, str]]:
    """Yield the message and the remedy about names that count here, and not in YuniKorn.

    Args:
        acl: The ACL.
        names: Which names it may list.
    """
    if names is AclNames.YUNIKORN:
        return
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


def unlikely_names(acl: Acl) -> Iterator[tuple[str, str]]:
    """Yield the message and the remedy for each name that nobody is likely to have."""
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
