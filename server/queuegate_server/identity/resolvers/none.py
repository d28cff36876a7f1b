"""No directory: every user exists, with one group of the same name."""

from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import Found, Outcome


class NoResolver:
    """Resolves as YuniKorn does without a resolver: the primary group has the user's name."""

    Options = ResolverOptions
    is_local = True

    def __init__(self, _options: ResolverOptions) -> None:
        """Ignore the options."""

    async def open(self) -> None:
        """Do nothing."""

    async def resolve(self, user: str) -> Outcome:
        """Return one group, named as the user."""
        return Found((user,))

    async def close(self) -> None:
        """Do nothing."""
