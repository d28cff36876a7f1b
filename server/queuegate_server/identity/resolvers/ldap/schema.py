"""Checks that the directory's schema contains the attributes named in the settings.

A comparison with an unknown attribute matches nothing, but the server reports no error. With a
misspelled attribute in the settings, users would seem not to exist or to have no groups. Therefore,
when a lookup finds no user or no groups, the settings are checked against the schema. The schema is
read once per connection; if it is unreadable, the check is skipped.
"""

import re
from typing import Final

from queuegate_server.identity.resolvers.ldap.filter_syntax import missing_attributes
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.ldap_faults import LdapFault, SetupFault
from queuegate_server.identity.resolvers.ldap.ldap_options import GroupOptions, LdapOptions
from queuegate_server.identity.resolvers.ldap.pending import Allowance
from queuegate_server.identity.resolvers.ldap.search import SearchSession

_MAX_ATTRIBUTES: Final = 20_000
_TYPE: Final = re.compile(
    r"\(\s*(?P<oid>[\w.-]+)(?:\s+NAME\s+(?P<names>'[^']*'|\((?:\s*'[^']*')*\s*\)))?"
)
"""Matches the start of an attribute type description (RFC 4512, 4.1.2)."""
_IS_SCHEMA: Final = "objectclass"
"""An attribute in every schema; without it, the result is not a schema."""


async def check_user_filter(connection: LdapConnection, options: LdapOptions) -> None:
    """Raise SetupFault if `user_filter` matches nothing because the schema lacks its attributes."""
    known = await known_attributes(connection)
    if known and (missing := missing_attributes(options.user_filter, known)):
        raise SetupFault(
            f"the directory's schema has no attribute {' or '.join(missing)}, so user_filter finds "
            "nobody",
            "correct user_filter",
        )


async def check_groups(connection: LdapConnection, options: LdapOptions) -> None:
    """Raise SetupFault if the schema lacks the attributes needed to find any group."""
    known = await known_attributes(connection)
    if not known:
        return
    in_chain = options.nested == "in_chain"
    missing = [_missing_for_groups(kind, known, in_chain=in_chain) for kind in options.group_kinds]
    if all(missing):
        names = dict.fromkeys(name for each in missing for name in each)
        raise SetupFault(
            f"the directory's schema has no attribute {' or '.join(names)}, so no groups are found",
            "correct groups_from, group_filter and the names of attributes; memberOf may need an "
            "overlay",
        )


def _missing_for_groups(
    kind: GroupOptions, known: frozenset[str], *, in_chain: bool
) -> tuple[str, ...]:
    if kind.groups_from == "member_of" and not in_chain:
        return missing_attributes(f"({kind.member_of_attribute}=*)", known)
    members = "".join(f"({attribute}=*)" for attribute in kind.member_attribute)
    return missing_attributes(f"(&{kind.group_filter}(|{members}))", known)


async def known_attributes(connection: LdapConnection) -> frozenset[str]:
    """Return the schema's attribute names in lowercase; empty if the schema is unreadable."""
    async with connection.schema_lock:
        if connection.known_attributes is None:
            connection.known_attributes = await _read_schema(connection)
        return connection.known_attributes


async def _read_schema(connection: LdapConnection) -> frozenset[str]:
    """Return the names of the attributes in the schema; none if it cannot be read."""
    names: set[str] = set()
    try:
        with SearchSession(connection, Allowance(_MAX_ATTRIBUTES)) as session:
            root = await session.read("schema", "", ["subschemaSubentry"])
            subschemas = root.values("subschemaSubentry") if root else []
            if len(subschemas) != 1:
                return frozenset()
            entry = await session.read("schema", subschemas[0].decode(), ["attributeTypes"])
            if entry is None:
                return frozenset()
            types = await session.all_values(entry, "attributeTypes", limit=_MAX_ATTRIBUTES)
            async for each in session.in_steps(types):
                names.update(_names(each.decode("utf-8", "replace")))
    except (LdapFault, UnicodeDecodeError):
        # Skip the check, because the lookup itself has succeeded.
        return frozenset()
    return frozenset(names) if _IS_SCHEMA in names else frozenset()


def _names(description: str) -> list[str]:
    match = _TYPE.match(description.strip())
    if match is None:
        return []
    return [match["oid"].lower(), *re.findall(r"'([^']*)'", (match["names"] or "").lower())]
