"""Finds all groups that have given names, to check whether a name identifies a single group."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from queuegate_server.identity.resolvers.ldap.entries import GroupKind, LdapEntry
from queuegate_server.identity.resolvers.ldap.filters import POSIX_GROUPS, all_of, any_of, equals
from queuegate_server.identity.resolvers.ldap.ldap_faults import UnusableData
from queuegate_server.identity.resolvers.ldap.search import SearchSession, gather

_MAX_SHOWN_CHARS: Final = 200
_TOO_MANY: Final = "rename groups that have the same name, or raise max_groups"


def examples(dns: Iterable[str]) -> str:
    """Return two of the given DNs for a message."""
    return " and ".join(repr(dn[:_MAX_SHOWN_CHARS]) for dn in sorted(dns)[:2])


def ambiguous_name(name: str, dns: Collection[str] = ()) -> UnusableData:
    """Return the fault for a name that does not identify a single group.

    `dns` are the DNs of the groups, if they are known.
    """
    such_as = f", such as {examples(dns)}" if dns else ""
    return UnusableData(
        f"several groups have the name {name[:_MAX_SHOWN_CHARS]!r}{such_as}",
        "rename one of them, or narrow group_base or group_filter",
    )


@dataclass(eq=False)
class NameSearch:
    """Searches all kinds of groups for names. Raises LdapFault."""

    session: SearchSession
    kinds: Sequence[GroupKind]
    groups: Collection[tuple[str, str]] = ()
    """The name and key of each group that must be found, as proof that the searches work."""

    async def keys_of(self, names: Collection[str]) -> Mapping[str, Collection[str]]:
        """Return the key of the only group with each of the given names.

        Raises UnusableData if several groups have a name, or the search misses one of `groups`.
        """
        found, others = await self._find(names)
        for name, keys in found.items():
            if len(keys) > 1:
                raise ambiguous_name(name, keys)
        for name, key in self.groups:
            if name in found and key not in found[name].values():
                raise _missed(name, others.get(key))
        return {name: keys.values() for name, keys in found.items()}

    async def dns_of(self, names: Collection[str]) -> Mapping[str, Collection[str]]:
        """Return the DNs of all groups with each of the given names."""
        return (await self._find(names))[0]

    async def _find(
        self, names: Collection[str]
    ) -> tuple[Mapping[str, Mapping[str, str]], Mapping[str, str]]:
        """Return the groups with each of the names, and the names of other groups that were found.
        The former are mappings from DN to key, by name; the latter are by key.

        Each spelling of a DN that the server sends counts as a separate group, because directories
        do not agree on which spellings are equal.
        """
        found: dict[str, dict[str, str]] = {name: {} for name in names}
        others: dict[str, str] = {}
        searches = [
            (kind, text)
            for kind in self.kinds
            for text in any_of(equals(kind.options.group_name_attribute, name) for name in names)
        ]
        at_once = max(1, self.session.options.max_in_flight // 2)
        results = await gather([self._search(kind, text) for kind, text in searches], at_once)
        for (kind, _), entries in zip(searches, results, strict=True):
            async for entry in self.session.in_steps(entries):
                group = kind.parse(entry.dn)
                if group is not None and group.is_below_base:
                    name = kind.name_in(entry) if group.name is None else group.name
                    if name in found:
                        found[name][entry.dn] = group.key
                    elif name is not None:
                        others[group.key] = name
        return found, others

    async def _search(self, kind: GroupKind, filter_text: str) -> list[LdapEntry]:
        options = self.session.options
        groups = kind.options.group_filter
        by_name = kind.options.groups_from == "member_uid"
        if options.primary_group == "gid_number" and kind is self.kinds[0] and not by_name:
            # Any POSIX group may be a user's primary group.
            groups = f"(|{groups}{POSIX_GROUPS})"
        return await self.session.search(
            "group names",
            kind.options.group_base or "",
            all_of(groups, filter_text),
            kind.attributes,
            limit=options.max_groups,
            advice=_TOO_MANY,
        )


def _missed(name: str, other: str | None) -> UnusableData:
    """Return the fault for a user's group that is not found by its name.

    `other` is the name of its entry, if it was found by another name.
    """
    if other is not None:
        return UnusableData(
            f"the user's entry calls a group {name[:_MAX_SHOWN_CHARS]!r}, and the group's entry "
            f"{other[:_MAX_SHOWN_CHARS]!r}",
            "let the directory compute memberOf again, for example by removing the user from the "
            "group and adding them again, or set groups_from: member_dn",
        )
    return UnusableData(
        f"a search for the name {name[:_MAX_SHOWN_CHARS]!r} does not find the group of that name "
        "that the user is in, so the name may not be unique",
        "let group_filter match all groups, and let the bind account search all of them by "
        "group_name_attribute, or set unique_group_names: false",
    )
