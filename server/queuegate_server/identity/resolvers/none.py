"""No directory: every user exists, with one group of the same name."""

from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import Found, Outcome


class NoResolver:
    """Answers as YuniKorn does without a resolver: the primary group is named as the user."""

    Options = ResolverOptions

    def __init__(self, _options: ResolverOptions) -> None:
        """Need nothing."""

    async def open(self) -> None:
        """Do nothing."""

    async def resolve(self, user: str) -> Outcome:
        """Return the group named as the user; never fails."""
        return self.resolve_now(user)

    def resolve_now(self, user: str) -> Outcome:
        """Do the same at once."""
        return Found((user,))

    async def close(self) -> None:
        """Do nothing."""
