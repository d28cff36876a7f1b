"""Lists the users who may use a queue: expands the groups in its ACLs, and checks each user.

Users denied by the check are omitted, and users who cannot be checked are listed as unconfirmed.
"""

import asyncio
import base64
import binascii
import bisect
import contextlib
import hashlib
import heapq
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from cachetools import TTLCache

from queuegate.policy.decide import evaluated_instead
from queuegate.policy.decision import NO_MATCH, Access, Decision
from queuegate.policy.named_grants import SYSTEM, NamedGrants
from queuegate.policy.reach import EffectiveAcl, Grant, SubjectKind, effective_acl
from queuegate.v1 import access_pb2
from queuegate_server.engine import Engine, GroupsUnavailable, Query, Snapshot
from queuegate_server.identity.members import MemberListing
from queuegate_server.reloads import SnapshotListener
from queuegate_server.rpc.batch import for_each
from queuegate_server.rpc.errors import InvalidRequest
from queuegate_server.rpc.load_shedding import Slot
from queuegate_server.rpc.messages import grant_message, timestamp
from queuegate_server.rpc.validation import UsersQuery, is_valid_user_name

T = TypeVar("T")

DEFAULT_PAGE_SIZE: Final = 500
MAX_PAGE_SIZE: Final = 1_000
MAX_GRANTS: Final = 10
"""The maximum number of ACL entries listed per user."""
CONFIRM_SECONDS: Final = 10.0
"""The time limit for checking the users on a page."""
CACHE_SECONDS: Final = 60.0
"""How long group members are cached for later pages."""
MAX_CACHED: Final = 200_000
"""The maximum number of cached memberships."""
_CHUNK: Final = 500
"""The number of names processed between pauses."""
_HASH_BYTES: Final = 8
_MAX_TOKEN: Final = 4_096
_MAX_REASONS: Final = 10


class _UserGrant(NamedTuple):
    """An ACL entry that grants access to a user."""

    grant: Grant
    nested: tuple[str, ...]
    """The groups between the granted group and the user; see GroupMembers."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The users listed in a queue's ACLs by name, and the members of the listed groups."""

    names: Sequence[str]
    """The users' names, sorted."""
    groups: dict[str, list[str]]
    """For each user, the user's groups that the ACLs list."""
    members: MemberListing
    expanded_at: float | None
    """When the groups were expanded, in Unix seconds; None if there were no groups."""

    def grants(self, user: str, acl: EffectiveAcl) -> list[_UserGrant]:
        """Return the ACL entries that grant access to a user."""
        grants = [
            _UserGrant(acl.grant(SubjectKind.GROUP, group), self.members.groups[group].users[user])
            for group in self.groups.get(user, ())
        ]
        if user in acl.users:
            grants.append(_UserGrant(acl.grant(SubjectKind.USER, user), ()))
        return grants

    def __len__(self) -> int:
        return len(self.names) + sum(len(each.users) for each in self.members.groups.values())


class UserLister:
    """Lists the users who may use a queue, one page at a time."""

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        """Create a lister with an empty cache. `clock` returns monotonic seconds."""
        self._engine = engine
        self._cache: TTLCache[tuple[int, str, str, Access], _Candidates] = TTLCache(
            MAX_CACHED, CACHE_SECONDS, timer=clock, getsizeof=len
        )
        engine.on_swap(SnapshotListener.USER_LISTS, lambda _: self._cache.clear())

    async def page(
        self, query: UsersQuery, snapshot: Snapshot, slot: Slot
    ) -> access_pb2.ListUsersResponse:
        """Return a page of the users who may use a queue. `slot` is released during lookups.

        Raises InvalidRequest if the page token was issued for another policy or request.
        """
        partition, path, access = query.served.partition, query.path, query.access
        after = _after(query, snapshot)
        acl = effective_acl(partition, path, access)
        response = access_pb2.ListUsersResponse(
            complete=True,
            policy_revision=snapshot.policy.revision,
            evaluated_queue=evaluated_instead(
                partition, path, partition.chain(path, access).otherwise or NO_MATCH
            ),
        )
        if (everyone := acl.everyone) is not None:
            response.everyone = True
            response.everyone_via.CopyFrom(grant_message(everyone))
            return response
        response.proxies.extend(
            grant_message(acl.grant(SubjectKind.PROXY, name)) for name in sorted(acl.proxies)
        )
        response.groups_may_be_asserted = bool(acl.groups and query.served.trust_provided_groups)
        candidates = await self._candidates(query, acl, snapshot.policy.revision, slot)
        _note_missing(response, acl, candidates.members)
        if candidates.expanded_at is not None:
            response.directory_as_of.CopyFrom(timestamp(candidates.expanded_at))
        start = bisect.bisect_right(candidates.names, after) if query.page_token else 0
        size = min(query.page_size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
        names = candidates.names[start : start + size]
        has_more = start + size < len(candidates.names)
        grants: dict[str, list[_UserGrant]] = {}
        for name in names:
            grants[name] = candidates.grants(name, acl)
            await slot.pause_if_due()
        # The candidates may be large. Free them before the checks, which may take a long time.
        del candidates
        slot.release()
        decided = await self._decide(query, names, slot)
        await slot.reacquire()
        for name in names:
            outcome = decided.get(name, _NOT_DECIDED)
            if isinstance(outcome, str) or outcome.allowed:
                response.users.append(_user(name, outcome, grants[name]))
            await slot.pause_if_due()
        if has_more:
            token = _fingerprint(query, snapshot) + names[-1].encode()
            response.next_page_token = base64.urlsafe_b64encode(token).decode()
        return response

    async def _candidates(
        self, query: UsersQuery, acl: EffectiveAcl, revision: int, slot: Slot
    ) -> _Candidates:
        """Look up the candidates. Later pages use the candidates cached for the first page, if
        possible.
        """
        key = revision, query.served.partition.name, query.path, query.access
        if query.page_token and (cached := self._cache.get(key)) is not None:
            return cached
        members = MemberListing(acl.groups)
        expanded_at = None
        if acl.groups:
            expanded_at = time.time()
            grants = query.served.partition.named_grants
            asked = members if grants is None else MemberListing(_of_directory(acl.groups, grants))
            slot.release()
            await query.served.groups.members(asked)
            await slot.reacquire()
            if grants is not None:
                await _rename(asked, members, grants, slot)
        groups: dict[str, list[str]] = {}
        for group, listed in members.groups.items():
            async for user in _with_pauses(listed.users, slot):
                groups.setdefault(user, []).append(group)
        names = await _sorted(groups.keys() | acl.users.keys(), slot)
        candidates = _Candidates(names, groups, members, expanded_at)
        if len(candidates) <= MAX_CACHED:
            self._cache[key] = candidates
        return candidates

    async def _decide(
        self, query: UsersQuery, names: Sequence[str], slot: Slot
    ) -> dict[str, Decision | str]:
        """Check users. Return a decision or a failure's reason for each user checked in time."""
        decided: dict[str, Decision | str] = {}

        async def decide(name: str) -> None:
            if not is_valid_user_name(name):
                decided[name] = NO_MATCH
                return
            check = Query(name, None, query.served, query.path, query.access)
            try:
                verdict = self._engine.check(check) or await self._engine.resolve_and_check(check)
                decided[name] = verdict.decision
            except GroupsUnavailable as error:
                decided[name] = str(error)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONFIRM_SECONDS):
                await for_each(names, decide, slot.pause_if_due)
        return decided


_NOT_DECIDED: Final = f"not all users on the page were checked within {CONFIRM_SECONDS:g} s"


def _of_directory(groups: Iterable[str], grants: NamedGrants) -> Iterator[str]:
    """Yield the names that a directory has for groups of the API server."""
    for group in groups:
        if grants.is_in_directory(group):
            yield group.removeprefix(grants.groups_prefix)


async def _rename(
    asked: MemberListing, members: MemberListing, grants: NamedGrants, slot: Slot
) -> None:
    """Replace the names of a directory's users and groups with the API server's names."""
    for group, listed in members.groups.items():
        if group.removeprefix(grants.groups_prefix).startswith(SYSTEM):
            members.done(group, "only Kubernetes knows the members of its own groups")
            continue
        if not group.startswith(grants.groups_prefix):
            members.done(group, f"no directory has a group without {grants.groups_prefix}")
            continue
        found = asked.groups[group.removeprefix(grants.groups_prefix)]
        async for user in _with_pauses(found.users, slot):
            listed.users[grants.user(user)] = found.users[user]
        members.done(group, found.missing)


def _user(
    name: str, outcome: Decision | str, grants: Sequence[_UserGrant]
) -> access_pb2.ListedUser:
    """Return a listed user with sorted grants.

    The grant to the user by name comes first, then the grant to the group matched by the decision,
    then the others, longest queue path first.
    """
    decisive, detail = ("", outcome) if isinstance(outcome, str) else (outcome.matched_subject, "")
    ordered = sorted(
        grants,
        key=lambda each: (
            each.grant.kind is not SubjectKind.USER,
            each.grant.name != decisive,
            -len(each.grant.queue),
            each.grant.name,
        ),
    )
    return access_pb2.ListedUser(
        user=name,
        via=[grant_message(each.grant, each.nested) for each in ordered[:MAX_GRANTS]],
        further=max(0, len(grants) - MAX_GRANTS),
        confirmed=isinstance(outcome, Decision),
        detail=detail,
    )


def _note_missing(
    response: access_pb2.ListUsersResponse, acl: EffectiveAcl, members: MemberListing
) -> None:
    """List in the response the groups whose members may be missing, with the reasons."""
    missing = {name: group.missing for name, group in members.groups.items() if group.missing}
    response.complete = not missing
    for name, reason in sorted(missing.items()):
        response.unexpanded_groups.add(
            grant=grant_message(acl.grant(SubjectKind.GROUP, name)), detail=reason
        )
    reasons = dict.fromkeys(missing.values())
    response.incomplete.extend(list(reasons)[:_MAX_REASONS])
    if len(reasons) > _MAX_REASONS:
        response.incomplete.append(f"and {len(reasons) - _MAX_REASONS} more reasons")


def _after(query: UsersQuery, snapshot: Snapshot) -> str:
    """Return the last user of the previous page, "" for the first page. Raises InvalidRequest."""
    if not query.page_token:
        return ""
    try:
        data = base64.b64decode(query.page_token[:_MAX_TOKEN], altchars=b"-_", validate=True)
        after = data[2 * _HASH_BYTES :].decode()
    except (ValueError, binascii.Error):
        raise InvalidRequest([("page_token", "is not a page token")]) from None
    expected = _fingerprint(query, snapshot)
    if data[:_HASH_BYTES] != expected[:_HASH_BYTES]:
        text = "belongs to another policy: the policy has changed; start again without page_token"
        raise InvalidRequest([("page_token", text)])
    if data[_HASH_BYTES : 2 * _HASH_BYTES] != expected[_HASH_BYTES:]:
        text = "belongs to another request: repeat its partition, queue and access"
        raise InvalidRequest([("page_token", text)])
    return after


def _fingerprint(query: UsersQuery, snapshot: Snapshot) -> bytes:
    """Return the joined hashes of the policy and the request. They are the same on all replicas."""
    request = f"{query.served.partition.name}\0{query.path}\0{query.access}"
    return b"".join(
        hashlib.sha256(text.encode()).digest()[:_HASH_BYTES]
        for text in (snapshot.policy.checksum, request)
    )


async def _with_pauses(items: Iterable[T], slot: Slot) -> AsyncIterator[T]:
    for number, item in enumerate(items, 1):
        yield item
        if not number % _CHUNK:
            await slot.pause_if_due()


async def _sorted(names: Iterable[str], slot: Slot) -> list[str]:
    """Sort names in chunks with pauses, because sorting 100,000 at once would block other calls."""
    unsorted = list(names)
    runs: list[list[str]] = []
    for start in range(0, len(unsorted), _CHUNK):
        runs.append(sorted(unsorted[start : start + _CHUNK]))
        await slot.pause_if_due()
    return [name async for name in _with_pauses(heapq.merge(*runs), slot)]
