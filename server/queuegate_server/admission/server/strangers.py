"""Limits group lookups that callers without a verified certificate can cause.

Any pod may be able to reach the webhook's port and post reviews in the name of nonexistent users,
each of which would cause a lookup. Lookups of users that the cache has never contained therefore
have their own budget, so that they cannot occupy the resolver, which other users' lookups share.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from queuegate_server.admission.server.webhook_limits import (
    MAX_STRANGERS_RUNNING,
    MAX_STRANGERS_WAITING,
)


class TooManyStrangers(Exception):
    """Raised if too many lookups of unknown users are in progress."""

    def __init__(self) -> None:
        super().__init__(
            "groups are needed, but too many users are being looked up for the first time; retry"
            " later, or set admission.tls.client_ca_file so that clients are verified"
        )


class StrangerLookups:
    """The budget for lookups of users that the cache has never contained."""

    def __init__(self) -> None:
        self._running = asyncio.Semaphore(MAX_STRANGERS_RUNNING)
        self._reviews = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot for a lookup. Raises TooManyStrangers."""
        if self._reviews >= MAX_STRANGERS_RUNNING + MAX_STRANGERS_WAITING:
            raise TooManyStrangers
        self._reviews += 1
        try:
            async with self._running:
                yield
        finally:
            self._reviews -= 1
