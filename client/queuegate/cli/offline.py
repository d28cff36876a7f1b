"""A client without a running server. The server's code runs in this process instead.

In the client, only this module and `offline_files` import the server's code, which the `server`
extra installs.
"""

# ruff: noqa: PLC0415 - the server's code is imported on first use

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self, cast

from queuegate import _errors
from queuegate._address import parse
from queuegate._calls import BlockingCalls
from queuegate._channel import ChannelPlan
from queuegate._methods.client import ClientMethods
from queuegate.exceptions import DeadlineExceeded, GroupsUnavailable

if TYPE_CHECKING:
    import grpc

    from queuegate_server.identity.members import MemberListing
    from queuegate_server.identity.resolver import Outcome
    from queuegate_server.server.offline import Substitute
    from queuegate_server.settings.model import Settings

_TIMEOUT: Final = 30.0
"""The time limit for a call, in seconds. Directory lookups have their own limits."""
_NO_MEMBERS: Final = "pass the server's settings with --config"


class OfflineClient(ClientMethods):
    """A client that runs the server's code in this process instead of calling a server."""

    def __init__(
        self,
        settings: "Settings",
        substitute: "Substitute",
        timeout: float | None = None,
        *,
        without_groups: str = "",
    ) -> None:
        """Load the policy.

        Args:
            settings: The server's settings.
            substitute: Given a resolver type, returns the resolver to use instead, or None to use
                the configured resolver.
            timeout: The time limit for a call, in seconds.
            without_groups: The error message if a user's groups are required but unknown. Defaults
                to the server's.

        Raises:
            CannotServe: The policy is invalid.
        """
        channel = _InProcessChannel(settings, substitute, without_groups)
        self.snapshot: Final = channel.snapshot
        """The loaded policy."""
        plan = ChannelPlan(parse("unix:/offline"), None, [], timeout or _TIMEOUT)
        super().__init__(BlockingCalls(plan, cast("grpc.Channel", channel)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._calls.close()


class StaticDirectory:
    """A resolver that calls a function instead of querying a directory."""

    is_local = True

    def __init__(self, outcome_of: "Callable[[str], Outcome]") -> None:
        """Create a resolver whose outcome for each user is `outcome_of(user)`."""
        self._outcome_of = outcome_of

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    async def resolve(self, user: str) -> "Outcome":
        """Return the outcome for a user."""
        return self._outcome_of(user)

    async def members(self, listing: "MemberListing") -> None:
        """Report that group members are unknown."""
        listing.give_up(_NO_MEMBERS)


class _InProcessChannel:
    """An in-process substitute for `grpc.Channel` that supports only unary calls."""

    def __init__(self, settings: "Settings", substitute: "Substitute", without_groups: str) -> None:
        """Load the policy. Raises CannotServe if it is invalid."""
        from queuegate_server.server.offline import OfflineServices

        self._runner = asyncio.Runner()
        self._without_groups = without_groups
        self._services = OfflineServices(settings, substitute)
        try:
            self.snapshot = self._runner.run(self._services.load())
        except BaseException:
            self.close()
            raise

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: object,
    ) -> Callable[..., Any]:
        """Return a function that calls the given method."""
        name = method.rpartition("/")[2]

        def call(request: Any, *, timeout: float, **_: object) -> Any:
            answer = self._answer(name, request_serializer(request), timeout)
            return response_deserializer(self._runner.run(answer))

        return call

    def stream_stream(self, *_: object, **__: object) -> None:
        """Do nothing, since commands do not use streams."""

    def close(self) -> None:
        """Close connections to directories."""
        self._runner.run(self._services.close())
        self._runner.close()

    async def _answer(self, method: str, data: bytes, seconds: float) -> bytes:
        """Call a method with a serialized request and return the serialized response. Raises
        QueuegateError if the call fails.
        """
        from queuegate_server.rpc.errors import to_status

        try:
            async with asyncio.timeout(seconds):
                return await self._services.call(method, data)
        except TimeoutError:
            raise DeadlineExceeded(f"no response within {seconds:g} s") from None
        except Exception as error:
            failure = _errors.from_item(to_status(error).proto)
        if isinstance(failure, GroupsUnavailable) and self._without_groups:
            raise GroupsUnavailable(self._without_groups, code=failure.code, reason=failure.reason)
        raise failure
