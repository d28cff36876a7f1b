"""Finds all groups that have given names, to check whether a name stands for one group only."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from queuegate_server.identity.resolvers.ldap.entry import LdapEntry
from queuegate_server.identity.resolvers.ldap.errors import UnusableData
from queuegate_server.identity.resolvers.ldap.filters import any_of, escape
from queuegate_server.identity.resolvers.ldap.group_kind import GroupKind
from queuegate_server.identity.resolvers.ldap.search import SearchSession, gather

_MAX_SHOWN_CHARS: Final = 200


def ambiguous_name(name: str) -> UnusableData:
    """Return the fault for a name that does not stand for one group only."""
    return UnusableData(
        f"several groups have the name {name[:_MAX_SHOWN_CHARS]!r}",
        "rename one of them, or narrow group_base or group_filter",
    )


@dataclass(eq=False)
class NameSearch:
    """Searches all kinds of groups for names. Raises LdapFault."""

    session: SearchSession
    kinds: Sequence[GroupKind]
    groups: Iterable[tuple[str, str]] = ()
    """The name and key of each group that must be found, as proof that the searches work."""

    async def keys_of(self, names: Collection[str]) -> Mapping[str, Collection[str]]:
        """Return the keys of all groups with each of the given names.

        Raises UnusableData if the search does not find one of `groups`.
        """
        keys: dict[str, set[str]] = {name: set() for name in names}
        searches = [(kind, text) for kind in self.kinds for text in any_of(_filters(kind, names))]
        at_once = max(1, self.session.options.max_in_flight // 2)
        results = await gather([self._search(kind, text) for kind, text in searches], at_once)
        for (kind, _), entries in zip(searches, results, strict=True):
            async for entry in self.session.in_steps(entries):
                group = kind.parse(entry.dn)
                if group is not None and group.is_below_base:
                    name = kind.name_in(entry) if group.name is None else group.name
                    if name in keys:
                        keys[name].add(group.key)
        for name, key in self.groups:
            if name in keys and key not in keys[name]:
                raise UnusableData(
                    f"a search for the name {name[:_MAX_SHOWN_CHARS]!r} does not find the group of "
                    "that name that the user is in, so the name may not be unique",
                    "let group_filter match all groups, and group_name_attribute be an attribute "
                    "that can be searched, or set unique_group_names: false",
                )
        return keys

    async def _search(self, kind: GroupKind, filter_text: str) -> list[LdapEntry]:
        options = self.session.options
        groups = kind.options.group_filter
        if options.primary_group == "gid_number" and kind is self.kinds[0]:
            groups = f"(|{groups}(objectClass=posixGroup))"
        return await self.session.search(
            "group names",
            kind.options.group_base or "",
            f"(&{groups}{filter_text})",
            kind.attributes,
            limit=options.max_groups,
        )


def _filters(kind: GroupKind, names: Collection[str]) -> Iterable[str]:
    return (f"({kind.options.group_name_attribute}={escape(name)})" for name in names)
