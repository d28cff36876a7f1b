"""The groups of one user while they are being gathered."""

import logging
from collections.abc import Iterable

from queuegate_server.identity.resolvers.ldap.errors import SetupFault
from queuegate_server.identity.resolvers.ldap.instrumentation import Statistics
from queuegate_server.identity.resolvers.ldap.names import GroupDn, GroupDns, NotADn
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.search import Entry

_LOG = logging.getLogger("queuegate_server.identity.ldap")


class GroupList:
    """Names in the order of their coming, each group once, never more than allowed."""

    def __init__(self, options: LdapOptions, statistics: Statistics, dns: GroupDns) -> None:
        self._options = options
        self._statistics = statistics
        self._dns = dns
        self._seen: set[str] = set()
        self._names: dict[str, None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names so far."""
        return tuple(self._names)

    def add_name(self, name: str | None, what: str) -> None:
        """Add a name; a group without one is skipped, noted and counted.

        No access list could name it, so that leaving it out changes no answer.
        """
        if name:
            self._names.setdefault(name)
            if len(self._names) > self._options.max_groups + 1:
                raise too_many(self._options)
        else:
            self.skip(what)

    def skip(self, what: str) -> None:
        """Note a group whose name cannot be known."""
        self._statistics.skipped_names += 1
        _LOG.warning("a group has no name that can be read: %.200r", what)

    def add_entries(self, entries: Iterable[Entry]) -> list[str]:
        """Add groups that were read; return the DNs of those that are new."""
        new: list[str] = []
        for entry in entries:
            group = self.new(entry.dn)
            if group is not None:
                new.append(entry.dn)
                self.add_name(group.name or self._dns.name_of(entry), entry.dn)
        return new

    def new(self, dn: str) -> GroupDn | None:
        """Return a group that was not seen before and counts, else None; it is seen from now on."""
        try:
            group = self._dns.of(dn)
        except NotADn:
            self.skip(dn)
            return None
        if not group.counts or group.key in self._seen:
            return None
        self._seen.add(group.key)
        if len(self._seen) > self._options.max_groups:
            raise too_many(self._options)
        return group


def too_many(options: LdapOptions) -> SetupFault:
    """Return the fault for a user with more groups than allowed."""
    return SetupFault(
        f"the user is in more than {options.max_groups} groups", "raise max_groups if that is right"
    )
