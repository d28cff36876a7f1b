"""Determines whose groups may have changed when the entry of a group or a user changes.

Every group is kept with its members, because the directory sends only the new state of a changed
entry, and former members are known only from its earlier state.

A group may have hundreds of thousands of members. Therefore, methods that look at all of them are
generators, which yield where a step may end. The caller must finish one generator before it calls
another method.
"""

import sys
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain, filterfalse, islice
from typing import Final, NamedTuple

import ldap

from queuegate_server.identity.resolvers.ldap.entries import (
    GroupKind,
    LdapEntry,
    SearchBase,
    decode_value,
    dn_key,
    normalize,
    parse_dn,
)
from queuegate_server.identity.resolvers.ldap.filters import POSIX_GROUPS
from queuegate_server.identity.resolvers.ldap.group_lookup import user_attributes
from queuegate_server.identity.resolvers.ldap.ldap_connection import SearchQuery
from queuegate_server.identity.resolvers.ldap.ldap_faults import SetupFault
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.user_lookup import UserKind

MAX_CONTENT_BYTES: Final = 256 * 2**20
"""The maximum memory that all followers of the process may use for the entries that they keep and
the messages that they are reading, in bytes."""
READING_FACTOR: Final = 3
"""The memory that a long message takes while it is read, as a multiple of its size, because its
values are stored in addition to its bytes.
"""
MAX_AFFECTED: Final = 1_000
"""The maximum number of affected users. If there are more, all users count as affected."""
MAX_VISITED: Final = 5_000
"""The maximum number of members of nested groups that are looked at, each of which takes the event
loop about 10 µs. If there are more, all users are affected."""
_STEP_MEMBERS: Final = 1_000
"""The number of members that are looked at in one step, which takes a few tenths of a millisecond.
"""
_ENTRY_BYTES: Final = 512
_ALLOCATION_BYTES: Final = 16
"""The memory overhead, in bytes, of an entry (including its places in dictionaries that have just
grown) and of an allocation.
"""
_MAX_REMOVED: Final = 10_000
"""The maximum number of removed users whose names are kept for the groups that still list them."""
_GID: Final = "gidNumber"
_NO_ATTRIBUTES: Final = "1.1"


@dataclass(slots=True)
class AffectedUsers:
    """Users whose groups may have changed."""

    dns: dict[str, str] = field(default_factory=dict)
    """DNs below the users' base, by `dn_key`."""
    listed: set[str] = field(default_factory=set)
    """Names as listed in groups."""
    names: set[str] = field(default_factory=set)
    """Names as used in requests."""
    is_all: bool = False
    """Whether any user may be affected."""

    def __bool__(self) -> bool:
        return bool(self.is_all or self.dns or self.listed or self.names)

    def add(self, other: "AffectedUsers") -> None:
        """Add the users of another change."""
        self.dns |= other.dns
        self.listed |= other.listed
        self.names |= other.names
        count = len(self.dns) + len(self.listed) + len(self.names)
        self.is_all |= other.is_all or count > MAX_AFFECTED
        if self.is_all:
            self.dns, self.listed, self.names = {}, set(), set()


class _Group(NamedTuple):
    key: str
    """The `dn_key` of its DN."""
    facts: int
    """A hash of the DN, the names and the number. If it changes, all members are affected."""
    members: set[bytes]
    """The values that list members."""
    size: int
    """The memory that the group takes, in bytes."""


class _User(NamedTuple):
    key: str
    names: tuple[str, ...]
    facts: int
    """A hash of the attributes from which names and groups are derived."""

    @property
    def size(self) -> int:
        """The memory that the user takes, in bytes."""
        return _ENTRY_BYTES + _size([self.key, self.names, *self.names])


def _size(objects: Sequence[object]) -> int:
    return sum(map(sys.getsizeof, objects)) + _ALLOCATION_BYTES * len(objects)


class _KeptMemory:
    """The memory that all followers of the process take together, because they share its limit."""

    size = 0
    """The bytes that are kept."""
    reading = 0
    """The additional memory taken by messages that are being read, in bytes."""


class FollowedContent:
    """The groups, and perhaps the users, of a directory."""

    def __init__(self, options: LdapOptions, users: UserKind, kinds: Sequence[GroupKind]) -> None:
        """Start without entries."""
        self.options = options
        self.users = users
        self.groups = [GroupEntries(self, kind, is_first=not n) for n, kind in enumerate(kinds)]
        self.people = (
            [UserEntries(self, base) for base in users.base.dns] if options.changes_of_users else []
        )
        self.is_loading = True
        """Whether the entries are being read, so that nobody is affected yet."""
        self.size = 0
        """The memory that the entries take, in bytes."""
        self._reading = 0

    @property
    def watched(self) -> "Sequence[GroupEntries | UserEntries]":
        """The parts of the directory to follow."""
        return [*self.people, *self.groups]

    def resize(self, change: int) -> None:
        """Record that the entries take more memory. Raises SetupFault if their total is too
        large.
        """
        self.size += change
        _KeptMemory.size += change
        if _KeptMemory.size > MAX_CONTENT_BYTES:
            raise SetupFault(
                f"the groups and users to follow take more than {MAX_CONTENT_BYTES >> 20} MiB of "
                "memory",
                "narrow group_base and group_filter, or set changes_of_users: false",
            )

    def expect(self, size: int) -> None:
        """Record that a message of `size` bytes is about to be read, or, if 0, that it has been
        read.

        Raises SetupFault if it does not fit in the memory that is left.
        """
        _KeptMemory.reading += READING_FACTOR * size - self._reading
        self._reading = READING_FACTOR * size
        if size and _KeptMemory.size + _KeptMemory.reading > MAX_CONTENT_BYTES:
            raise SetupFault(
                "the groups and users to follow, and the entry that is being read, take more than "
                f"{MAX_CONTENT_BYTES >> 20} MiB of memory",
                "narrow group_base and group_filter, split the group, or set changes_of_users: "
                "false",
            )

    def clear(self) -> Iterator[None]:
        """Forget all entries, so that the next follower may keep as much."""
        self.expect(0)
        _KeptMemory.size -= self.size
        self.size = 0
        for part in self.watched:
            yield from part.clear()

    def affected(
        self, members: Iterable[bytes], *, is_complete: bool
    ) -> Generator[None, None, AffectedUsers]:
        """Return the users among the given members, and the members of groups among them.

        `is_complete` states whether only the followed groups contain groups.
        """
        affected = AffectedUsers()
        seen: set[str] = set()
        pending = [*islice(members, MAX_VISITED + 1)]
        visited = 0
        while pending and not affected.is_all:
            if visited + len(pending) > MAX_VISITED:
                affected.is_all = True
                break
            visited += 1
            yield
            value = decode_value(pending.pop())
            parsed = None if value is None else parse_dn(value)
            if value is None or not parsed:
                affected.is_all = True
                continue
            normalized = normalize(parsed)
            key = dn_key(normalized)
            if key in seen:
                continue
            seen.add(key)
            nested = [group for part in self.groups for group in part.at(key)]
            for group in nested:
                pending += islice(group.members, MAX_VISITED + 1)
            if nested:
                continue
            if self.users.base.contains(normalized):
                affected.dns[key] = value
            elif not is_complete:
                affected.is_all = True
            affected.is_all |= len(affected.dns) > MAX_AFFECTED
        return affected

    def names_at(self, key: str) -> tuple[str, ...]:
        """Return the names of a followed user by `dn_key`; empty if unknown."""
        return tuple(name for part in self.people for name in part.names_at(key))


class GroupEntries:
    """The entries of one kind of group."""

    def __init__(self, content: FollowedContent, kind: GroupKind, *, is_first: bool) -> None:
        """Start without entries."""
        options = content.options
        self._content = content
        self._kind = kind
        self._has_names = kind.options.groups_from == "member_uid"
        self._is_primary = is_first and options.primary_group in ("gid_number", "active_directory")
        self._is_complete = kind.options.groups_from == "member_dn" and options.nested != "in_chain"
        self._by_uuid: dict[bytes, _Group] = {}
        self._by_key: dict[str, dict[bytes, _Group]] = {}
        filter_text = kind.options.group_filter
        if self._is_primary and not self._has_names:
            filter_text = f"(|{filter_text}{POSIX_GROUPS})"
        names = [each for each in kind.attributes if each != _NO_ATTRIBUTES]
        self._facts = (*names, _GID) if self._is_primary else tuple(names)
        attributes = (*self._facts, *kind.options.member_attribute)
        self.query = SearchQuery(kind.options.group_base or "", filter_text, attributes)

    def at(self, key: str) -> Iterable[_Group]:
        """Return the groups by `dn_key`."""
        return () if self._has_names else self._by_key.get(key, {}).values()

    def clear(self) -> Iterator[None]:
        """Forget all entries."""
        while self._by_key:
            self._by_key.popitem()
            yield
        while self._by_uuid:
            yield from _free(self._by_uuid.popitem()[1].members)
            yield

    def put(self, uuid: bytes, entry: LdapEntry) -> Generator[None, None, AffectedUsers]:
        """Add or replace an entry; return the affected users. Raises SetupFault."""
        before = self._by_uuid[uuid].members if uuid in self._by_uuid else set()
        members: set[bytes] = set()
        added: set[bytes] = set()
        size = _ENTRY_BYTES
        for attribute in self._kind.options.member_attribute:
            entry.check_options(attribute)
            for some in _in_parts(entry.values(attribute)):
                members.update(some)
                added.update(filterfalse(before.__contains__, some))
                size += _size(some)
                yield
        parsed = parse_dn(entry.dn) or []
        facts = yield from _facts(entry, self._facts)
        key = dn_key(normalize(parsed))
        size += _size([key, {None: None}, members])
        new = _Group(key, facts, members, size)
        self._content.resize(new.size)
        old = self._pop(uuid)
        self._by_uuid[uuid] = new
        self._by_key.setdefault(new.key, {})[uuid] = new
        if self._content.is_loading:
            return AffectedUsers()
        removed: set[bytes] = set()
        if len(members) - len(added) < len(before):
            for some in _in_parts(before):
                removed.update(filterfalse(members.__contains__, some))
                yield
        if old is not None and old.facts == new.facts:
            affected = yield from self._affected(added, removed)
        else:
            affected = yield from self._affected(members, removed)
            affected.is_all |= self._is_primary
        yield from _free(before)
        return affected

    def remove(self, uuid: bytes) -> Generator[None, None, AffectedUsers]:
        """Remove an entry; return the affected users."""
        old = self._by_uuid.get(uuid)
        if old is None:
            return AffectedUsers()
        # Determine the affected users first, because a group may contain itself.
        affected = yield from self._affected(old.members)
        affected.is_all |= self._is_primary
        self._pop(uuid)
        yield from _free(old.members)
        return affected

    def _affected(self, *members: AbstractSet[bytes]) -> Generator[None, None, AffectedUsers]:
        if not self._has_names:
            return (
                yield from self._content.affected(
                    chain.from_iterable(members), is_complete=self._is_complete
                )
            )
        if sum(map(len, members)) > MAX_AFFECTED:
            return AffectedUsers(is_all=True)
        values = map(decode_value, chain.from_iterable(members))
        return AffectedUsers(listed=set(filter(None, values)))

    def _pop(self, uuid: bytes) -> _Group | None:
        old = self._by_uuid.pop(uuid, None)
        if old is not None:
            self._content.resize(-old.size)
            same = self._by_key[old.key]
            del same[uuid]
            if not same:
                del self._by_key[old.key]
        return old


class UserEntries:
    """The entries of users below one base."""

    def __init__(self, content: FollowedContent, base: str) -> None:
        """Start without entries."""
        options = content.options
        self._content = content
        self._base = SearchBase(base, options.user_scope)
        self._by_uuid: dict[bytes, _User] = {}
        self._by_key: dict[str, _User] = {}
        self._removed: OrderedDict[str, _User] = OrderedDict()
        attributes = (*content.users.filter.attributes, *user_attributes(options))
        scope = ldap.SCOPE_SUBTREE if options.user_scope == "sub" else ldap.SCOPE_ONELEVEL
        self.query = SearchQuery(base, content.users.filter.for_anyone(), attributes, scope)

    def names_at(self, key: str) -> tuple[str, ...]:
        """Return a user's present or last names by `dn_key`; empty if unknown."""
        found = (self._by_key.get(key), self._removed.get(key))
        return tuple(name for user in found if user for name in user.names)

    def clear(self) -> Iterator[None]:
        """Forget all entries."""
        for users in (self._by_key, self._removed, self._by_uuid):
            while users:
                users.popitem()
                yield

    def put(self, uuid: bytes, entry: LdapEntry) -> Generator[None, None, AffectedUsers]:
        """Add or replace an entry; return the affected users. Raises SetupFault."""
        facts = yield from _facts(entry, self.query.attributes)
        key = entry.key
        new = _User(key, self._content.users.few_names(entry), facts)
        self._content.resize(new.size)
        old = self._pop(uuid)
        self._by_uuid[uuid] = self._by_key[key] = new
        if self._content.is_loading or (old is not None and old.facts == new.facts):
            return AffectedUsers()
        return AffectedUsers(names={*new.names, *(old.names if old else ())})

    def remove(self, uuid: bytes) -> Generator[None, None, AffectedUsers]:
        """Remove an entry; return the affected users."""
        yield
        old = self._pop(uuid)
        return AffectedUsers(names=set(old.names)) if old else AffectedUsers()

    def _pop(self, uuid: bytes) -> _User | None:
        old = self._by_uuid.pop(uuid, None)
        if old is not None:
            if self._by_key.get(old.key) is old:
                del self._by_key[old.key]
            self._forget(self._removed.pop(old.key, None))
            self._removed[old.key] = old
            if len(self._removed) > _MAX_REMOVED:
                self._forget(self._removed.popitem(last=False)[1])
        return old

    def _forget(self, removed: _User | None) -> None:
        if removed is not None:
            self._content.resize(-removed.size)


def _in_parts(values: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield the values in parts, each small enough for one step."""
    left = iter(values)
    while part := tuple(islice(left, _STEP_MEMBERS)):
        yield part


def _facts(entry: LdapEntry, attributes: Iterable[str]) -> Generator[None, None, int]:
    """Return a hash of the DN and the values of attributes, whose order does not matter."""
    facts: list[object] = [entry.dn]
    for attribute in attributes:
        total = 0
        for some in _in_parts(entry.values(attribute)):
            total += sum(map(hash, some))
            yield
        facts.append(total)
    yield
    return hash(tuple(facts))


def _free(values: set[bytes]) -> Iterator[None]:
    """Remove all values."""
    while values:
        for _ in range(min(len(values), _STEP_MEMBERS)):
            values.pop()
        yield
