"""Lint rules for the text of an ACL, and for the names that `acl_names` lets it list."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final

from queuegate.policy.acl import Acl, AclNames, accepted_names
from queuegate_server.formats.diagnostics import quoted_names
from queuegate_server.formats.suspicious_names import (
    YUNIKORN,
    is_no_list,
    suspicious_name,
    suspicious_text,
)

_MAX_SHOWN: Final = 5
_MAX_REPORTED: Final = 100


@lru_cache
def names_to_report(acl: Acl, names: AclNames) -> tuple[tuple[str, str], ...]:
    """Return messages with their remedies about the names that an ACL lists.

    The result is cached because aliases can repeat a long ACL very often, and equal texts of a
    partition share one ACL. `names` selects the names that it may list.
    """
    messages = [*_dropped_by_yunikorn(acl, names)] if names is not AclNames.YUNIKORN else []
    if not acl.allows_all:
        messages += (each[:2] for each in suspicious_text(acl.text, YUNIKORN))
        if is_no_list(acl.text, YUNIKORN) is None:
            messages += islice(_unlikely_names(acl, names), _MAX_REPORTED)
    return tuple(messages)


def _dropped_by_yunikorn(acl: Acl, names: AclNames) -> Iterator[tuple[str, str]]:
    """Yield messages about names that apply here but not in YuniKorn."""
    users, groups = accepted_names(acl, AclNames.YUNIKORN)
    if dropped := (acl.users - users) | (acl.groups - groups):
        message = f"YuniKorn drops {quoted_names(dropped, _MAX_SHOWN)} from this ACL:"
        message += (
            f" only queuegate accepts {'it' if len(dropped) == 1 else 'them'} (acl_names: {names})"
        )
        yield message, "if YuniKorn itself reads this file, list names that it accepts"


def _unlikely_names(acl: Acl, names: AclNames) -> Iterator[tuple[str, str]]:
    """Yield messages about accepted names that nobody is likely to have."""
    for kind, listed in (("user", acl.users), ("group", acl.groups)):
        for name in sorted(listed):
            suspicion = suspicious_name(kind, name, YUNIKORN)
            # Where an ACL may list names that YuniKorn cannot, user names follow other rules.
            if suspicion and not (suspicion.may_exist and names is not AclNames.YUNIKORN):
                yield suspicion.message, suspicion.remedy
