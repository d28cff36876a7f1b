"""The `ldap` resolver. It imports modules that require the driver only when it is opened."""

import logging
import os
from typing import TYPE_CHECKING

from queuegate_server.files.safe_open import PUBLIC, warn_of_mode
from queuegate_server.identity.members import CannotListUsers, MemberListing, UserListing
from queuegate_server.identity.resolver import (
    CannotFollow,
    ChangeSink,
    Following,
    LookupFailure,
    Outcome,
)
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics
from queuegate_server.identity.resolvers.ldap.options import LdapOptions

if TYPE_CHECKING:
    from queuegate_server.identity.resolvers.ldap.directory import Directory

_LOG = logging.getLogger("queuegate_server.identity.ldap")


class LdapResolver:
    """Resolves groups from an LDAP directory."""

    Options = LdapOptions

    def __init__(self, options: LdapOptions) -> None:
        self._options = options
        self.directory: Directory | None = None
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
        from queuegate_server.identity.resolvers.ldap.directory import Directory  # noqa: PLC0415

        self.directory = Directory(options, self.statistics)
        await self.directory.pool.open()

    async def resolve(self, user: str) -> Outcome:
        """Look up a user."""
        if self.directory is None:
            return LookupFailure("the resolver is not open")
        return await self.directory.resolve(user)

    async def members(self, listing: MemberListing) -> None:
        """List group members."""
        if self.directory is None:
            listing.give_up("the resolver is not open")
        else:
            await self.directory.members(listing)

    async def all_users(self, limit: int) -> UserListing:
        """Return all users. Raises CannotListUsers if there are more than `limit`."""
        if self.directory is None:
            raise CannotListUsers("the resolver is not open")
        return await self.directory.all_users(limit)

    async def _follow(self, sink: ChangeSink) -> None:
        """Follow the directory's changes; see `Following`."""
        if self.directory is None:
            raise CannotFollow("the resolver is not open")
        await self.directory.follow(sink)

    async def close(self) -> None:
        """Close all connections."""
        directory, self.directory = self.directory, None
        if directory is not None:
            await directory.close()
