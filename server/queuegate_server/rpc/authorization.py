"""Authorization: enforces each call's required role and the callers' rate limits."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from queuegate_server.rpc import access_log
from queuegate_server.rpc.authentication import Authenticator, Principal, set_current_principal
from queuegate_server.rpc.errors import Draining, RateLimited
from queuegate_server.rpc.interceptors import Context, StreamMethod, UnaryMethod
from queuegate_server.settings.callers import Role
from queuegate_server.throttling.token_bucket import TokenBucket

ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {
        f"queuegate.v1.{method}": role
        for role, methods in {
            Role.CHECK: (
                "AccessService.CheckQueueAccess",
                "AccessService.BatchCheckQueueAccess",
                "AccessService.CheckQueueAccessColumns",
                "AccessService.CheckApplicationAccess",
                "AccessService.BatchCheckApplicationAccess",
            ),
            Role.READ: (
                "AccessService.ExplainQueueAccess",
                "AccessService.ExplainApplicationAccess",
                "AccessService.ListQueues",
                "AccessService.ListUsers",
                "UserGroupService.ResolveUserGroups",
                "PolicyService.GetPolicy",
                "PolicyService.ValidatePolicy",
                "PolicyService.GetFleet",
            ),
            Role.ADMIN: ("UserGroupService.InvalidateUserGroups", "PolicyService.ReloadPolicy"),
            Role.SYNC: ("SyncService.Sync",),
        }.items()
        for method in methods
    }
)
"""The role required by each method. Methods without a role cannot be registered; the health service
is registered separately and is open to everyone."""


# Servicer methods. Their parameter `trusted` specifies whether to use the caller's asserted groups.
ServicerMethod = Callable[..., Awaitable[bytes]]
ServicerStream = Callable[..., AsyncIterator[bytes]]


class RateLimiter:
    """A token bucket for each caller."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        """Allow `rate` calls per second and bursts of `burst`. `clock` is monotonic, in seconds."""
        full = partial(TokenBucket, rate, burst, clock)
        self._buckets: defaultdict[str, TokenBucket] = defaultdict(full)

    def acquire(self, caller: str) -> None:
        """Charge a caller for one call. Raises RateLimited if the caller has exceeded its rate."""
        bucket = self._buckets[caller]
        if (delay := bucket.wait()) > 0:
            raise RateLimited(delay)
        bucket.charge()


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Wraps servicers' methods so that only permitted calls reach them."""

    authenticator: Authenticator
    rates: RateLimiter | None = None

    def unary(self, method: str, serve: ServicerMethod) -> UnaryMethod:
        """Add role and rate checks to a unary method. Raises KeyError if the method has no role."""
        role = ROLES[method]

        async def guarded(data: bytes, context: Context) -> bytes:
            principal = self._admit(role, context)
            if self.rates is not None:
                self.rates.acquire(principal.name)
            if role is Role.ADMIN:
                access_log.log_admin_call(method, context)
            return await serve(data, trusted=principal.rights.assert_groups)

        return guarded

    def stream(self, method: str, serve: ServicerStream) -> StreamMethod:
        """Add role and rate checks to a streaming method. Raises KeyError if it has no role.

        Opening a stream counts as a call. If a message arrives after the caller's rights have
        changed or its certificate has expired, the stream is closed.
        """
        role = ROLES[method]

        async def guarded(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            version = self.authenticator.version
            principal = self._admit(role, context)
            expiry = self.authenticator.certificate_expiry(context)
            if self.rates is not None:
                self.rates.acquire(principal.name)

            def check_rights() -> None:
                nonlocal version
                now = self.authenticator.version
                if version != now or self.authenticator.is_past(expiry):
                    version = now
                    if self._admit(role, context) != principal:
                        raise Draining("the rights of the caller have changed: open a new stream")

            requests = _check_each(requests, check_rights)
            async for response in serve(requests, trusted=principal.rights.assert_groups):
                yield response

        return guarded

    async def admit_or_abort(
        self, method: str, role: Role, context: Context, *, is_charged: bool = False
    ) -> None:
        """Abort a call that none of our own methods answers if the caller lacks the role.

        `method` is the method's name, or the path of an HTTP endpoint. If `is_charged` is set, the
        call counts toward the caller's rate.
        """
        try:
            principal = self._admit(role, context)
            if is_charged and self.rates is not None:
                self.rates.acquire(principal.name)
        except Exception as error:  # at this boundary, every error becomes a status
            await access_log.abort(method, context, error)

    def _admit(self, role: Role, context: Context) -> Principal:
        """Identify the caller, make it the current principal, and check its role. Raises
        Unauthenticated and PermissionDenied.
        """
        principal = self.authenticator.identify(context)
        set_current_principal(principal)
        principal.require(role)
        return principal


async def _check_each(
    requests: AsyncIterator[bytes], check: Callable[[], None]
) -> AsyncIterator[bytes]:
    async for request in requests:
        check()
        yield request
        del request  # may be large; free it before waiting for the next message
