"""Reports changes in a directory by the names of the affected users."""

from collections.abc import Callable
from functools import partial
from typing import Final

from queuegate_server.identity.repeated_reports import RepeatedReports
from queuegate_server.identity.resolver import ChangeSink
from queuegate_server.identity.resolvers.ldap.entries import parse_dn, rdn_filter
from queuegate_server.identity.resolvers.ldap.filters import all_of
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.pending import Allowance
from queuegate_server.identity.resolvers.ldap.pool import ServerPool
from queuegate_server.identity.resolvers.ldap.search import SearchSession
from queuegate_server.identity.resolvers.ldap.sync_changes import MAX_AFFECTED, AffectedUsers
from queuegate_server.identity.resolvers.ldap.user_lookup import UserKind
from queuegate_server.runtime.pacing import in_steps

_CHUNK: Final = 100
"""The number of DNs or names per search."""
_MAX_FOUND: Final = 10 * MAX_AFFECTED
"""The maximum number of users that a search may find. There may be more of them than affected
users, because users in other subtrees may have the same RDNs.
"""


def _no_names(_key: str) -> tuple[str, ...]:
    return ()


class ChangeReporter:
    """Reports the changes that a follower of the directory has found."""

    def __init__(
        self,
        options: LdapOptions,
        users: UserKind,
        sink: ChangeSink,
        pool: ServerPool,
        names_at: Callable[[str], tuple[str, ...]] = _no_names,
    ) -> None:
        """Create a reporter.

        Args:
            options: The settings.
            users: The search base and filter for users.
            sink: Receives the reports.
            pool: The connections for searches of users' names.
            names_at: Returns the names of a user by `dn_key`; none if they must be searched.
        """
        self.reports: Final = RepeatedReports(sink, options.repeat_after)
        self._names_at = names_at
        self._options = options
        self._users = users
        self._pool = pool

    async def report(self, affected: AffectedUsers, position: bytes) -> None:
        """Report the affected users. `position` is the newest position that the report covers.

        Raises LdapFault.
        """
        users = None if self._is_all(affected) else await self._names(affected)
        self.reports.report(users, position)

    def _is_all(self, affected: AffectedUsers) -> bool:
        """Return whether all users must be invalidated.

        With `casefold`, callers may spell names in any case. With in-chain searches, groups
        anywhere in the directory may be nested.
        """
        options = self._options
        cannot_name_users = options.user_match == "casefold" or options.nested == "in_chain"
        return bool(affected) and (affected.is_all or cannot_name_users)

    async def _names(self, affected: AffectedUsers) -> frozenset[str] | None:
        """Return the names of affected users as used in requests; None if some are unknown."""
        names = {*affected.names, *affected.listed}
        filters = [self._users.filter.for_user(name) for name in sorted(affected.listed)]
        unknown: set[str] = set()
        async for key, dn in in_steps(affected.dns.items()):
            followed = self._names_at(key)
            names.update(followed)
            if not followed:
                unknown.add(key)
                filters.append(rdn_filter(parse_dn(dn) or []))
        if not all(filters):
            return None  # no search finds an entry whose RDN is binary
        for start in range(0, len(filters), _CHUNK):
            text = f"(|{''.join(filters[start : start + _CHUNK])})"
            found = await self._pool.run(partial(self._search, text))
            unknown -= found.keys()
            names.update(*found.values())
        return None if unknown else frozenset(names)

    async def _search(
        self, filter_text: str, connection: LdapConnection
    ) -> dict[str, tuple[str, ...]]:
        """Return the names of the users that match, by the keys of their DNs."""
        users = self._users
        with SearchSession(
            connection, lambda: Allowance(MAX_AFFECTED, is_for_listing=True)
        ) as session:
            entries = await session.search_below(
                "member search",
                users.base,
                all_of(users.filter.for_anyone(), filter_text),
                users.filter.attributes,
                limit=_MAX_FOUND,
                advice="narrow user_base or user_filter",
            )
            return {entry.key: users.names(entry) async for entry in session.in_steps(entries)}
