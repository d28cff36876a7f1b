"""Finds the users among the members of groups."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.resolvers.ldap.entries import (
    LdapEntry,
    NormalizedDn,
    ParsedDn,
    normalize,
    parse_dn,
    rdn_filter,
)
from queuegate_server.identity.resolvers.ldap.filters import all_of
from queuegate_server.identity.resolvers.ldap.search import SearchSession
from queuegate_server.identity.resolvers.ldap.user_lookup import UserKind

ADVICE: Final = "the members of smaller groups can be listed"
_MAX_DN_CHARS: Final = 200


class FoundUsers(NamedTuple):
    """The users that a search has found."""

    names: tuple[str, ...]
    unnamed: Mapping[NormalizedDn, str]
    """The DNs of users without a readable name."""


class MemberUsers:
    """Searches for users over one connection, and remembers those that were looked up by DN."""

    def __init__(self, session: SearchSession, users: UserKind, listing: MemberListing) -> None:
        """`listing` counts the searches, and limits what they may find."""
        self._session = session
        self._kind = users
        self._listing = listing
        self._names: dict[NormalizedDn, tuple[str, ...]] = {}
        """User names by DN; empty for entries that are not users."""
        self._unnamed: dict[NormalizedDn, str] = {}
        """The DNs of users without a readable name."""

    def knows(self, key: NormalizedDn) -> bool:
        """Return whether a DN has been looked up and belongs to a user with a readable name."""
        return bool(self._names.get(key))

    async def at(self, dns: Mapping[NormalizedDn, ParsedDn]) -> FoundUsers:
        """Return the users among the given DNs."""
        new = {
            key: dn
            for key, dn in dns.items()
            if key not in self._names and self._kind.base.contains(key)
        }
        if new:
            self._names.update(dict.fromkeys(new, ()))
            for entry in await self._search(any_rdn(new.values())):
                parsed = parse_dn(entry.dn)
                if parsed and (key := normalize(parsed)) in new:
                    self._names[key] = self._kind.names(entry)
                    if not self._kind.has_names(entry):
                        self._unnamed[key] = entry.dn
        names = tuple(name for key in dns for name in self._names.get(key, ()))
        return FoundUsers(names, {key: self._unnamed[key] for key in dns if key in self._unnamed})

    async def matching(self, filter_text: str) -> FoundUsers:
        """Return the users that match a filter."""
        users = self._kind
        entries = await self._search(filter_text)
        names = tuple(name for entry in entries for name in users.names(entry))
        unnamed = {key_of(entry.dn): entry.dn for entry in entries if not users.has_names(entry)}
        return FoundUsers(names, unnamed)

    def why_unnamed(self, found: Iterable[FoundUsers]) -> str:
        """Return why users without a readable name are missing; "" if there are none."""
        unnamed = {key: dn for each in found for key, dn in each.unnamed.items()}
        if not unnamed:
            return ""
        names = " or ".join(self._kind.filter.attributes)
        members = "1 member has" if len(unnamed) == 1 else f"{len(unnamed)} members have"
        example = next(iter(unnamed.values()))
        return (
            f"{members} no readable {names}, such as {example[:_MAX_DN_CHARS]!r}: grant the bind "
            "account read access"
        )

    async def _search(self, filter_text: str) -> list[LdapEntry]:
        users = self._kind
        for _ in users.base.dns:
            self._listing.count_search()
        entries = await self._session.search_below(
            "member search",
            users.base,
            all_of(users.filter.for_anyone(), filter_text),
            users.filter.attributes,
            limit=max(self._listing.room, 1),
            advice=ADVICE,
        )
        return [
            entry
            async for entry in self._session.in_steps(entries)
            if users.base.contains_entry(entry.dn)
        ]


def distinct_names(found: Iterable[FoundUsers]) -> tuple[str, ...]:
    """Return the distinct names of users, in order."""
    return tuple(dict.fromkeys(name for each in found for name in each.names))


def any_rdn(dns: Iterable[ParsedDn]) -> str:
    """Return a filter for entries with the first component of any of the given DNs."""
    return f"(|{''.join(map(rdn_filter, dns))})"


def key_of(dn: str) -> NormalizedDn:
    """Return a DN from the directory in normalized form."""
    return normalize(parse_dn(dn) or [])
