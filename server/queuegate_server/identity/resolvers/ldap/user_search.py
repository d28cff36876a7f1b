"""The users of a directory: where their entries are, and by which filter they are found."""

from collections.abc import Iterator, Sequence

import ldap

from queuegate_server.identity.resolvers.ldap.dn import SearchBase, normalize, parse_dn
from queuegate_server.identity.resolvers.ldap.filters import UserFilter
from queuegate_server.identity.resolvers.ldap.group_kind import decode_value
from queuegate_server.identity.resolvers.ldap.instrumentation import StepName
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.search import (
    LdapEntry,
    LimitExceeded,
    SearchSession,
    gather,
)


class UserSearch:
    """Searches for the entries of users below all DNs of `user_base`."""

    def __init__(self, options: LdapOptions) -> None:
        self._options = options
        self.filter = UserFilter(options.user_filter)
        self.base = SearchBase(options.user_base, options.user_scope)
        is_deep = options.user_scope == "sub"
        self._scope = ldap.SCOPE_SUBTREE if is_deep else ldap.SCOPE_ONELEVEL

    @property
    def requests(self) -> int:
        """How many requests one search takes, without further pages."""
        return len(self._options.user_base)

    async def search(
        self,
        session: SearchSession,
        step_name: StepName,
        filter_text: str,
        attributes: Sequence[str],
        *,
        limit: int,
        advice: str,
    ) -> list[LdapEntry]:
        """Return the entries that match a filter, each once; also those that the server sent
        although they are not below `user_base`. Raises LdapFault.
        """
        results = await gather(
            [
                session.search(
                    step_name,
                    base,
                    filter_text,
                    attributes,
                    limit=limit,
                    scope=self._scope,
                    advice=advice,
                )
                for base in self._options.user_base
            ],
            self._options.max_in_flight,
        )
        if len(results) == 1:
            return results[0]
        # One of the DNs may be below another.
        entries: dict[object, LdapEntry] = {}
        async with session.slices() as slices:
            for entry in (entry for result in results for entry in result):
                parsed = parse_dn(entry.dn)
                entries.setdefault(normalize(parsed) if parsed else entry.dn, entry)
                await slices.pause_when_due()
        if len(entries) > limit:
            raise LimitExceeded(limit, advice)
        return [*entries.values()]

    def names(self, entry: LdapEntry) -> tuple[str, ...]:
        """Return the names that a request may give the user of an entry."""

        def texts(attribute: str) -> Iterator[str]:
            return filter(None, map(decode_value, entry.values(attribute)))

        return self.filter.users(texts, fold=self._options.user_match == "casefold")
