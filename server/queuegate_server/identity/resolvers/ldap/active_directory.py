"""What only Active Directory has: primary groups by number, and searches along a chain."""

from typing import Final

from queuegate_server.identity.resolvers.ldap.errors import SetupFault
from queuegate_server.identity.resolvers.ldap.filters import escape, escape_bytes
from queuegate_server.identity.resolvers.ldap.search import Entry

USER_ATTRIBUTES: Final = ("primaryGroupID", "objectSid")
_IN_CHAIN: Final = "1.2.840.113556.1.4.1941"
_RID_BYTES: Final = 4
_MOST_RID: Final = 2**32
_SHORTEST_SID: Final = 12


def in_chain(attribute: str, dn: str) -> str:
    """Return the filter for all groups that hold a DN, directly or through other groups."""
    return f"({attribute}:{_IN_CHAIN}:={escape(dn)})"


def primary_group_filter(user: Entry) -> str:
    """Return the filter for the group that a user's primaryGroupID names. Raises SetupFault.

    Its SID is that of the user with another last number (MS-ADTS 3.1.1.1.3, MS-DTYP 2.4.2).
    """
    numbers, sids = (user.values(name) for name in USER_ATTRIBUTES)
    number = numbers[0] if len(numbers) == 1 else b""
    sid = sids[0] if len(sids) == 1 else b""
    if not number.isdigit() or int(number) >= _MOST_RID or len(sid) < _SHORTEST_SID:
        raise SetupFault(
            "the user's entry has no primaryGroupID and objectSid that can be read",
            "set primary_group: none",
        )
    group = sid[:-_RID_BYTES] + int(number).to_bytes(_RID_BYTES, "little")
    return f"(objectSid={escape_bytes(group)})"
