"""The resolver `ldap`. The driver is imported when it is opened."""

import logging
import os
from typing import TYPE_CHECKING

from queuegate_server.identity.resolver import LookupFailed, Outcome
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics
from queuegate_server.identity.resolvers.ldap.options import LdapOptions

if TYPE_CHECKING:
    from queuegate_server.identity.resolvers.ldap.directory import Directory

_LOG = logging.getLogger("queuegate_server.identity.ldap")


class LdapResolver:
    """Returns groups from an LDAP directory."""

    Options = LdapOptions

    def __init__(self, options: LdapOptions) -> None:
        self._options = options
        self._unavailable = "the resolver is not open"
        self.directory: Directory | None = None
        self.statistics = LdapStatistics()

    async def open(self) -> None:
        """Load the driver and begin to connect; does not fail if the directory is down."""
        # Otherwise libldap would read ~/.ldaprc and ./ldaprc.
        os.environ.setdefault("LDAPNOINIT", "1")
        options = self._options
        if not options.verify_certificate:
            _LOG.warning(
                "verify_certificate is off: anyone on the way can pose as the directory and "
                "hand out groups"
            )
        if options.bind == "simple" and options.allow_plaintext_bind:
            _LOG.warning("allow_plaintext_bind is on: the password may travel without encryption")
        try:
            from queuegate_server.identity.resolvers.ldap.directory import (  # noqa: PLC0415
                Directory,
            )
        except ImportError as error:
            self._unavailable = (
                f"the LDAP driver cannot be loaded ({error}): pip install 'queuegate[ldap]'"
            )
            _LOG.error("%s", self._unavailable)
            return
        self.directory = Directory(options, self.statistics)
        await self.directory.pool.open()

    async def resolve(self, user: str) -> Outcome:
        """Look up one user."""
        if self.directory is None:
            return LookupFailed(self._unavailable)
        return await self.directory.resolve(user)

    async def close(self) -> None:
        """Close all connections."""
        directory, self.directory = self.directory, None
        self._unavailable = "the resolver is closed"
        if directory is not None:
            await directory.close()
