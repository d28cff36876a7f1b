"""The `ldap` resolver. It imports modules that require the driver only when they are needed."""

import logging
import os
import unicodedata
from functools import partial
from typing import TYPE_CHECKING, Final

from queuegate_server.files.safe_open import PUBLIC, warn_of_mode
from queuegate_server.identity.members import CannotListUsers, MemberListing, UserListing
from queuegate_server.identity.resolver import (
    CannotFollow,
    ChangeSink,
    Following,
    LookupFailure,
    NoSuchUser,
    Outcome,
)
from queuegate_server.identity.resolvers.ldap.ldap_faults import (
    LdapFault,
    TooManyRequests,
    UnusableData,
)
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_statistics import LdapStatistics
from queuegate_server.runtime.threads import AbandonableThreadPool

if TYPE_CHECKING:
    from queuegate_server.identity.resolvers.ldap.pool import ServerPool
    from queuegate_server.identity.resolvers.ldap.user_lookup import UserLookup

_LOG = logging.getLogger("queuegate_server.identity.ldap")

THREADS: Final = 4
"""The number of threads for calls that may hang: reading files and resolving host names."""
_MAX_NAME_CHARS: Final = 256
IMPOSSIBLE_NAME: Final = NoSuchUser("no user can have this name", source_asked=False)
_NOT_OPEN: Final = "the resolver is not open"


class LdapResolver:
    """Resolves groups from an LDAP directory, queried through a pool of its servers."""

    Options = LdapOptions

    def __init__(self, options: LdapOptions) -> None:
        self._options = options
        self._threads = AbandonableThreadPool(THREADS, "ldap")
        self.pool: ServerPool | None = None
        """The connections to the servers; None unless the resolver is open."""
        self._lookup: UserLookup | None = None
        self.statistics = LdapStatistics()
        self.changes: Following | None = None if options.changes == "none" else self._follow

    async def open(self) -> None:
        """Start connecting. Does not fail if the directory is down."""
        # Prevent libldap from reading ~/.ldaprc and ./ldaprc.
        os.environ.setdefault("LDAPNOINIT", "1")
        options = self._options
        if not options.verify_certificate:
            _LOG.warning(
                "verify_certificate is off: anyone on the network path can impersonate the "
                "directory and supply groups"
            )
        if options.bind == "simple" and options.allow_plaintext_bind:
            _LOG.warning("allow_plaintext_bind is on: the password may be sent without encryption")
        for contradiction, _ in options.contradictions().values():
            _LOG.warning("%s", contradiction)
        for path in (options.bind_password_file, options.key_file, options.keytab_file):
            if path is not None:
                warn_of_mode(path, PUBLIC)
        from queuegate_server.identity.resolvers.ldap.bind import Connector  # noqa: PLC0415
        from queuegate_server.identity.resolvers.ldap.pool import ServerPool  # noqa: PLC0415
        from queuegate_server.identity.resolvers.ldap.user_lookup import UserLookup  # noqa: PLC0415

        self._lookup = UserLookup(options, self.statistics)
        connector = Connector(options, self._threads, self.statistics.steps.count)
        self.pool = ServerPool(connector, self.statistics)
        await self.pool.open()

    async def resolve(self, user: str) -> Outcome:
        """Look up a user."""
        if self.pool is None or self._lookup is None:
            return LookupFailure(_NOT_OPEN)
        if not is_possible_name(user):
            return IMPOSSIBLE_NAME
        try:
            return await self.pool.run(partial(self._lookup.look_up, user))
        except LdapFault as fault:
            return LookupFailure(
                fault.text,
                too_many=isinstance(fault, TooManyRequests),
                source_works=isinstance(fault, UnusableData),
            )

    async def members(self, listing: MemberListing) -> None:
        """List group members. Raises ListingLimit."""
        if self.pool is None or self._lookup is None:
            listing.give_up(_NOT_OPEN)
            return
        from queuegate_server.identity.resolvers.ldap.member_lookup import (  # noqa: PLC0415
            list_members,
        )

        try:
            await self.pool.run(partial(list_members, listing, self._lookup))
        except LdapFault as fault:
            listing.give_up(fault.text)

    async def all_users(self, limit: int) -> UserListing:
        """Return all users. Raises CannotListUsers if there are more than `limit`."""
        if self.pool is None or self._lookup is None:
            raise CannotListUsers(_NOT_OPEN)
        try:
            return await self.pool.run(partial(self._lookup.list_users, limit))
        except LdapFault as fault:
            raise CannotListUsers(fault.text) from None

    async def _follow(self, sink: ChangeSink) -> None:
        """Follow the directory's changes; see `Following`."""
        if self.pool is None or self._lookup is None:
            raise CannotFollow(_NOT_OPEN)
        from queuegate_server.identity.resolvers.ldap.dirsync_follower import (  # noqa: PLC0415
            DirSyncFollower,
        )
        from queuegate_server.identity.resolvers.ldap.sync_follower import (  # noqa: PLC0415
            SyncFollower,
        )

        follower = DirSyncFollower if self._options.changes == "dirsync" else SyncFollower
        try:
            await follower(self._options, self.pool, self._lookup, sink).run()
        except LdapFault as fault:
            raise CannotFollow(fault.text) from None

    async def close(self) -> None:
        """Close all connections."""
        pool, self.pool = self.pool, None
        if pool is not None:
            await pool.close()
        self._threads.close()


def is_possible_name(user: str) -> bool:
    """Return whether a directory may have a user with this name, so that a query is worthwhile."""
    return (
        0 < len(user) <= _MAX_NAME_CHARS
        # Reject control characters, lone surrogates and unassigned code points.
        and not any(unicodedata.category(char) in ("Cc", "Cs", "Cn") for char in user)
    )
