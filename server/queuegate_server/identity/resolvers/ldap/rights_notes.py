"""Notes for `source-check` on entries that searches miss: what the bind account cannot read,
filters that do not match, and groups that list no members. Also warns of accounts whose state is
not visible.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import ldap

from queuegate_server.identity.resolvers.ldap.account_state import (
    ACTIVE_DIRECTORY_ATTRIBUTES,
    account_attributes,
)
from queuegate_server.identity.resolvers.ldap.entries import (
    GroupKind,
    LdapEntry,
    SearchBase,
    decode_value,
)
from queuegate_server.identity.resolvers.ldap.filter_syntax import assertions
from queuegate_server.identity.resolvers.ldap.filters import escape, member_filters
from queuegate_server.identity.resolvers.ldap.ldap_faults import NoSuchEntry, UnusableData
from queuegate_server.identity.resolvers.ldap.schema import known_attributes
from queuegate_server.identity.resolvers.ldap.search import LimitExceeded, SearchSession, gather
from queuegate_server.identity.resolvers.ldap.timed_steps import StepName
from queuegate_server.identity.resolvers.ldap.user_lookup import UserLookup

_MAX_ENTRIES: Final = 20
_MAX_CHARS: Final = 200
_OBJECT_CLASS: Final = "objectClass"
_MEMBER_URL: Final = "memberURL"
"""The attribute from which OpenLDAP and 389 Directory Server compute the members of a group."""
_READ: Final = "grant the bind account read access"


class RightsNotes:
    """Finds out what a lookup's searches missed, and why."""

    def __init__(self, session: SearchSession, lookup: UserLookup) -> None:
        """Create notes on a lookup; `session` makes the additional searches."""
        self._session = session
        self._lookup = lookup
        self._options = session.options

    async def about_name(self, user: str) -> AsyncIterator[str]:
        """Yield the reasons why `user_filter` does not match entries that have the user's name."""
        users = self._lookup.users
        pairs = users.filter.expected(user)
        name = "".join(f"({attribute}={escape(value)})" for attribute, value in pairs)
        entries = await self._session.search_below(
            "user search",
            users.base,
            f"(|{name})",
            (*users.filter.attributes, _OBJECT_CLASS),
            limit=_MAX_ENTRIES,
            advice="",
        )
        for entry in entries:
            if users.base.contains_entry(entry.dn) and users.spelling(entry, user):
                yield _unmatched(entry, "has this name", "user_filter", self._options.user_filter)

    async def about_account(self, user: LdapEntry) -> AsyncIterator[str]:
        """Yield the attributes that tell whether the account is disabled, but are not visible."""
        wanted = account_attributes(self._options)
        known = await known_attributes(self._session.connection)
        if await self._session.is_active_directory():
            # Every user has these attributes.
            expected: Sequence[str] = ACTIVE_DIRECTORY_ATTRIBUTES
        else:
            expected = [each for each in wanted if not known or each.lower() in known]
        if not expected:
            yield (
                f"the directory's schema has no attribute {' or '.join(wanted)}, so "
                "disabled_users: refuse has no effect"
            )
            return
        unseen = [each for each in expected if not user.values(each)]
        if expected is not ACTIVE_DIRECTORY_ATTRIBUTES:
            unseen = [each for each in unseen if not await self._lacks(user, each)]
        if unseen:
            yield (
                f"no value of {' or '.join(unseen)} of the user is visible: if the bind account "
                "has no permission to read them, disabled accounts keep their groups"
            )

    async def _lacks(self, user: LdapEntry, attribute: str) -> bool:
        """Return whether the bind account sees that the entry has no value of an attribute.

        If the account may not search for the attribute, its presence is undefined, and so is its
        absence (RFC 4511, 4.5.1.7).
        """
        base = SearchBase(user.dn, "base")
        return await self._exists("user search", base, f"(!({attribute}=*))")

    async def about_groups(self, kind: GroupKind, member: str) -> AsyncIterator[str]:
        """Yield the reasons why a search may have missed groups that list a member (a DN or a
        name).
        """
        lists = "".join(member_filters(kind.options.member_attribute, [member]))
        matching = await self._groups(kind, f"(&{kind.options.group_filter}(|{lists}))")
        missed = (await self._groups(kind, f"(|{lists})")).keys() - matching
        if missed:
            # One note of each kind, because neither explains the other.
            visible = await self._groups(kind, f"(&({_OBJECT_CLASS}=*)(|{lists}))")
            for dns in (missed - visible.keys(), missed & visible.keys()):
                if dns:
                    dn = min(dns)
                    entry = await self._group(kind, dn, (_OBJECT_CLASS,)) or LdapEntry(dn, {})
                    setting = kind.options.group_filter
                    yield _unmatched(entry, "lists the user", "group_filter", setting)
        elif not matching:
            async for note in self._about_all_groups(kind):
                yield note

    async def about_lists(self, kind: GroupKind, member: str) -> AsyncIterator[str]:
        """Yield a note if the bind account may search for members, but not read them."""
        lists = "".join(member_filters(kind.options.member_attribute, [member]))
        matching = await self._groups(kind, f"(&{kind.options.group_filter}(|{lists}))")
        if not matching:
            return
        try:
            entry = await self._group(kind, min(matching), kind.options.member_attribute)
        except UnusableData:
            # The members are visible, but there are more of them than one response may hold.
            return
        if entry is not None and not _has_values(entry, kind.options.member_attribute):
            yield (
                f"the bind account may search for {_members(kind)}, but not read it: lists of "
                f"members, such as those of who-can, and changes need it; {_READ}"
            )

    async def _about_all_groups(self, kind: GroupKind) -> AsyncIterator[str]:
        """Yield the reasons why searches by members may find no group below the base."""
        present = "".join(f"({each}=*)" for each in kind.options.member_attribute)
        if await self._exists_group(kind, f"(&{kind.options.group_filter}(|{present}))"):
            return
        if await self._exists_group(kind, kind.options.group_filter):
            yield (
                f"no group below group_base has a value of {_members(kind)} that is visible: if "
                "groups have members, the bind account has no permission to read this attribute; "
                f"{_READ}"
            )
        elif await self._exists_group(kind, f"({kind.options.group_name_attribute}=*)"):
            yield (
                f"group_filter matches no entry below group_base, but some have a value of "
                f"{kind.options.group_name_attribute}: correct group_filter, or {_READ} to the "
                f"attributes in it, such as {_OBJECT_CLASS}"
            )

    async def about_member_of(self, kind: GroupKind, user: LdapEntry) -> AsyncIterator[str]:
        """Yield notes on the groups in the user's memberOf that are missed because they are
        dynamic.
        """
        options = kind.options
        attribute = options.member_of_attribute
        listed = await self._session.all_values(user, attribute)
        parsed = ((dn, kind.parse(dn)) for dn in filter(None, map(decode_value, listed)))
        groups = {dn: group.key for dn, group in parsed if group and group.is_below_base}
        lists = "".join(member_filters(kind.options.member_attribute, [user.dn]))
        of_kind = await self._groups(kind, f"(&{options.group_filter}(|{lists}))")
        found = {group.key for group in map(kind.parse, of_kind) if group}
        if options.groups_from != "member_of":
            missed = [dn for dn, key in groups.items() if key not in found]
            if dynamic := await self._dynamic(kind, missed):
                yield (
                    f"{attribute} lists {_description(kind, dynamic)}: if these are dynamic "
                    "groups, set groups_from: member_of to count them"
                )
            groups = {dn: key for dn, key in groups.items() if key in found}
        if self._options.changes != "none" and (dynamic := await self._dynamic(kind, [*groups])):
            yield (
                f"{attribute} lists {_description(kind, dynamic)}: if these are dynamic groups, "
                "the setting changes does not report who joins or leaves them; such changes apply "
                "when cached groups expire"
            )

    async def _dynamic(self, kind: GroupKind, dns: Sequence[str]) -> list[str]:
        """Return the groups whose members the server may compute."""
        checks = [self._is_dynamic(kind, dn) for dn in dns]
        flags = await gather(checks, self._options.max_in_flight) if checks else []
        return [dn for dn, is_dynamic in zip(dns, flags, strict=True) if is_dynamic]

    async def _is_dynamic(self, kind: GroupKind, dn: str) -> bool:
        # The members are not read, because a group may have many.
        present = "".join(f"({each}=*)" for each in kind.options.member_attribute)
        entry = await self._group(kind, dn, (_MEMBER_URL,), f"(|{present})")
        if entry is None:
            return await self._group(kind, dn, (_MEMBER_URL,)) is not None
        return bool(entry.values(_MEMBER_URL))

    async def _groups(self, kind: GroupKind, filter_text: str) -> dict[str, None]:
        """Return the DNs of the groups that match a filter, at most as many as a user may have."""
        base = kind.options.group_base or ""
        limit = self._options.max_groups
        found = await self._session.search("group search", base, filter_text, ("1.1",), limit=limit)
        return dict.fromkeys(entry.dn for entry in found)

    async def _group(
        self, kind: GroupKind, dn: str, attributes: Sequence[str], filter_text: str = ""
    ) -> LdapEntry | None:
        """Return the group's entry; None if it is not visible or does not match the filter."""
        # The bind account may not see the object classes, which are the usual filter.
        visible = f"(|({_OBJECT_CLASS}=*)({kind.options.group_name_attribute}=*))"
        try:
            found = await self._session.search(
                "group search",
                dn,
                filter_text or visible,
                attributes,
                limit=1,
                scope=ldap.SCOPE_BASE,
            )
        except NoSuchEntry:
            return None
        return found[0] if found else None

    async def _exists_group(self, kind: GroupKind, filter_text: str) -> bool:
        base = SearchBase(kind.options.group_base or "")
        return await self._exists("group search", base, filter_text)

    async def _exists(self, step: StepName, base: SearchBase, filter_text: str) -> bool:
        try:
            found = await self._session.search_below(
                step, base, filter_text, ("1.1",), limit=1, advice=""
            )
        except LimitExceeded:
            return True
        return bool(found)


def _unmatched(entry: LdapEntry, what: str, setting: str, filter_text: str) -> str:
    """Return a note on an entry that a filter does not match."""
    compared = {each.attribute.lower() for each in assertions(filter_text)}
    classes = [each.decode(errors="replace") for each in entry.values(_OBJECT_CLASS)]
    text = f"the entry {entry.dn[:_MAX_CHARS]!r} {what}, but {setting} does not match it"
    if _OBJECT_CLASS.lower() in compared and not classes:
        return f"{text}: the bind account has no permission to read its {_OBJECT_CLASS}; {_READ}"
    return f"{text}: it has the object classes {', '.join(classes)[:_MAX_CHARS]}"


def _description(kind: GroupKind, dns: Sequence[str]) -> str:
    """Describe groups whose members the server may compute."""
    groups = "1 group" if len(dns) == 1 else f"{len(dns)} groups"
    return (
        f"{groups} with {_MEMBER_URL} or without a visible {_members(kind)}, such as "
        f"{dns[0][:_MAX_CHARS]!r}"
    )


def _has_values(entry: LdapEntry, attributes: Sequence[str]) -> bool:
    return any(entry.values(each) or entry.value_range(each) for each in attributes)


def _members(kind: GroupKind) -> str:
    return " or ".join(kind.options.member_attribute)
