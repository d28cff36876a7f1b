"""The resolver `ldap`."""

import logging
import os
from typing import TYPE_CHECKING

from queuegate_server.identity.resolver import CouldNotAsk, Outcome
from queuegate_server.identity.resolvers.ldap.instrumentation import Observer, Statistics, Step
from queuegate_server.identity.resolvers.ldap.options import LdapOptions

if TYPE_CHECKING:
    from queuegate_server.identity.resolvers.ldap.directory import Directory

_LOG = logging.getLogger("queuegate_server.identity.ldap")


class LdapResolver:
    """Answers from an LDAP directory. Used from one event loop."""

    Options = LdapOptions

    def __init__(self, options: LdapOptions, observe: Observer | None = None) -> None:
        """Take who is told of every step besides the statistics."""
        self._options = options
        self._observe = observe
        self._directory: Directory | None = None
        self._missing = "the resolver is not open"
        self.statistics = Statistics()

    async def open(self) -> None:
        """Load the driver and begin to connect; a directory that is down is no fault."""
        # Otherwise libldap would take settings from ~/.ldaprc and from the working folder.
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
            from queuegate_server.identity.resolvers.ldap.directory import (  # noqa: PLC0415 - as said
                Directory,
            )
        except ImportError as error:
            self._missing = (
                f"the LDAP driver cannot be loaded ({error}): pip install 'queuegate[ldap]'"
            )
            _LOG.error("%s", self._missing)
            return
        self._directory = Directory(options, self.statistics, self._take_note)
        await self._directory.open()

    async def resolve(self, user: str) -> Outcome:
        """Look up one user."""
        if self._directory is None:
            return CouldNotAsk(self._missing)
        return await self._directory.resolve(user)

    async def close(self) -> None:
        """Close all connections."""
        directory, self._directory = self._directory, None
        self._missing = "the resolver is closed"
        if directory is not None:
            await directory.close()

    def _take_note(self, taken: Step) -> None:
        self.statistics.count(taken)
        if self._observe is not None:
            self._observe(taken)
