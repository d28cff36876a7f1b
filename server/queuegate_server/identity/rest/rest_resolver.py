"""The part of a resolver that does not depend on the provider: opening, closing and faults."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from queuegate_server.files.safe_open import PUBLIC, warn_of_mode
from queuegate_server.identity.members import CannotListUsers, MemberListing
from queuegate_server.identity.resolver import (
    CannotFollow,
    ChangeSink,
    Following,
    LookupFailure,
    NoSuchUser,
    Outcome,
)
from queuegate_server.identity.rest.faults import (
    BadRequest,
    RequestFault,
    Throttled,
    UnusableAnswer,
)
from queuegate_server.identity.rest.provider import Provider
from queuegate_server.identity.rest.provider_names import requested_name
from queuegate_server.identity.rest.provider_options import RestOptions
from queuegate_server.identity.rest.request_statistics import (
    RequestStatistics,
    RequestStep,
    StepObserver,
)
from queuegate_server.identity.rest.rest_client import RestClient

_LOG = logging.getLogger("queuegate_server.identity.rest")

O = TypeVar("O", bound=RestOptions)  # noqa: E741


class RestResolver(ABC, Generic[O]):
    """Resolves groups from an identity provider with a REST API.

    Args:
        options: The settings.
        clock: A monotonic clock, in seconds.
        observe: Called with each request that was sent.
    """

    def __init__(
        self,
        options: O,
        clock: Callable[[], float] = time.monotonic,
        observe: StepObserver | None = None,
    ) -> None:
        self.options = options
        self.statistics = RequestStatistics()
        self._clock = clock
        self._observe = observe
        self._client: RestClient | None = None
        self._provider: Provider | None = None
        self.changes: Following | None = self._follow if options.follows else None

    @abstractmethod
    def connect(self, client: RestClient, clock: Callable[[], float]) -> Provider:
        """Return the provider behind a client."""

    async def open(self) -> None:
        """Prepare for lookups, without sending requests."""
        for contradiction, _ in self.options.contradictions().values():
            _LOG.warning("%s", contradiction)
        for key in self.options.private_files:
            if (file := getattr(self.options, key)) is not None:
                warn_of_mode(file, PUBLIC)
        self._client = RestClient(self.options, self._clock, self._note)
        await self._client.open()
        self._provider = self.connect(self._client, self._clock)

    async def close(self) -> None:
        """Close all connections."""
        provider, self._provider = self._provider, None
        client, self._client = self._client, None
        if provider is not None:
            await provider.close()
        if client is not None:
            await client.close()

    def _note(self, step: RequestStep) -> None:
        self.statistics.count(step)
        if self._observe is not None:
            self._observe(step)

    async def resolve(self, user: str) -> Outcome:
        """Look up a user."""
        if self._provider is None:
            return LookupFailure("the resolver is not open")
        name = requested_name(user, self.options)
        if isinstance(name, NoSuchUser):
            return name
        try:
            return await self._provider.look_up(name)
        except RequestFault as fault:
            return LookupFailure(
                fault.text,
                too_many=isinstance(fault, Throttled),
                # Requests for lookups differ only in names and ids, so a name or an id is at fault.
                source_works=isinstance(fault, UnusableAnswer | BadRequest),
            )

    async def notes(self, user: str) -> Collection[str]:
        """Return what `source-check` should tell an administrator about a user who has just been
        looked up.
        """
        name = requested_name(user, self.options)
        if self._provider is None or isinstance(name, NoSuchUser):
            return ()
        return await self._provider.notes(name)

    async def members(self, listing: MemberListing) -> None:
        """List group members. May raise ListingLimit."""
        if self._provider is None:
            listing.give_up("the resolver is not open")
            return
        try:
            await self._provider.members(listing)
        except RequestFault as fault:
            listing.give_up(fault.text)

    async def all_users(self, limit: int) -> Collection[str]:
        """Return all user names. Raises CannotListUsers if there are more than `limit`."""
        if self._provider is None:
            raise CannotListUsers("the resolver is not open")
        try:
            return await self._provider.users(limit)
        except RequestFault as fault:
            raise CannotListUsers(fault.text) from None

    async def _follow(self, sink: ChangeSink) -> None:
        """Follow the provider's changes; see `Following`."""
        if self._provider is None:
            raise CannotFollow("the resolver is not open")
        await self._provider.follow(sink)
