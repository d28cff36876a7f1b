"""YuniKorn's fixed table of users, for trials and tests.

The users and ids are those of the resolver `test` in YuniKorn's
`pkg/common/security/usergroup_test_resolver.go`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import CouldNotAsk, Found, NoSuchUser, Outcome

_FIRST_NAMED_ID: Final = 1000


class _Account(NamedTuple):
    primary: str
    others: tuple[str, ...] | None
    """Group ids; None if asking for them fails."""


_ACCOUNTS: Final[Mapping[str, _Account]] = {
    "testuser1": _Account("1000", ("1001",)),
    "testuser2": _Account("100", ("1001", "1002")),
    "testuser3": _Account("1001", ("1002", "1001", "1003", "1004")),
    "testuser4": _Account("901", ("901", "902")),
    "testuser5": _Account("1001", None),
    "invalid-gid-user": _Account("1_001", None),
}


class StaticTableResolver:
    """Resolves the users of the table."""

    Options = ResolverOptions
    is_local = True

    def __init__(self, _options: ResolverOptions) -> None:
        """Ignore the options."""

    async def open(self) -> None:
        """Do nothing."""

    async def resolve(self, user: str) -> Outcome:
        """Return the groups in the table; CouldNotAsk for the user whose group list fails."""
        account = _ACCOUNTS.get(user)
        if account is None:
            return NoSuchUser("the user is not in the test table")
        if account.others is None:
            return CouldNotAsk("the test table has no group list for the user")
        ids = [account.primary, *(gid for gid in account.others if gid != account.primary)]
        return Found(tuple(map(_group_name, ids)))

    async def close(self) -> None:
        """Do nothing."""


def _group_name(gid: str) -> str:
    """Return the name of a group, or its id if no group has it."""
    return f"group{gid}" if int(gid) >= _FIRST_NAMED_ID else gid
