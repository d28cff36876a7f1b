"""Authorization: whether a caller has the role that a call needs, and keeps to its rate."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from queuegate_server.rpc.access_log import AccessLog
from queuegate_server.rpc.authentication import (
    Authenticator,
    Principal,
    set_current_principal,
)
from queuegate_server.rpc.errors import Draining, RateLimited
from queuegate_server.rpc.interceptors import Context, Stream, Unary
from queuegate_server.settings.callers import Role
from queuegate_server.throttling import TokenBucket

_ACCESS: Final = "queuegate.v1.AccessService."
_POLICY: Final = "queuegate.v1.PolicyService."
_USER_GROUPS: Final = "queuegate.v1.UserGroupService."

ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {
        f"{_ACCESS}CheckQueueAccess": Role.CHECK,
        f"{_ACCESS}BatchCheckQueueAccess": Role.CHECK,
        f"{_ACCESS}CheckQueueAccessColumns": Role.CHECK,
        f"{_ACCESS}CheckApplicationAccess": Role.CHECK,
        f"{_ACCESS}BatchCheckApplicationAccess": Role.CHECK,
        f"{_ACCESS}ExplainQueueAccess": Role.READ,
        f"{_ACCESS}ExplainApplicationAccess": Role.READ,
        f"{_ACCESS}ListQueues": Role.READ,
        f"{_ACCESS}ListUsers": Role.READ,
        f"{_USER_GROUPS}ResolveUserGroups": Role.READ,
        f"{_POLICY}GetPolicy": Role.READ,
        f"{_POLICY}ValidatePolicy": Role.READ,
        f"{_POLICY}GetFleet": Role.READ,
        f"{_USER_GROUPS}InvalidateUserGroups": Role.ADMIN,
        f"{_POLICY}ReloadPolicy": Role.ADMIN,
        "queuegate.v1.SyncService.Sync": Role.SYNC,
    }
)
"""The role that each call needs, by the full name of its method; a method without a role cannot
be served. The health service is open to everyone and not listed.
"""


# The methods of servicers: they take what a caller sent, and in `trusted` whether the groups that
# the caller asserts are used.
UnaryMethod = Callable[..., Awaitable[bytes]]
StreamMethod = Callable[..., AsyncIterator[bytes]]


class RateLimiter:
    """Two token buckets for each caller, of whom there are as many as the settings name: one for
    its calls, and one for the decisions that its gates report. A gate that catches up after an
    outage can still ask.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        """Start with full buckets.

        Args:
            rate: Calls per second that a caller may make.
            burst: Calls that a caller may make at once after a pause.
            clock: A monotonic clock, in seconds.
        """
        self._buckets: defaultdict[str, TokenBucket] = defaultdict(
            lambda: TokenBucket(rate, burst, clock)
        )
        self._reports: defaultdict[str, TokenBucket] = defaultdict(
            lambda: TokenBucket(rate, burst, clock)
        )

    def acquire(self, caller: str) -> None:
        """Count a call of a caller; raise RateLimited instead if it exceeds the rate."""
        bucket = self._buckets[caller]
        if (delay := bucket.wait()) > 0:
            raise RateLimited(delay)
        bucket.charge()

    def wait(self, caller: str) -> float:
        """Return the seconds until a caller may make the next call; 0 if that is now."""
        return self._buckets[caller].wait()

    def charge(self, caller: str) -> None:
        """Count a call that has been made, whether or not it exceeds the rate."""
        self._buckets[caller].charge()

    def wait_to_report(self, caller: str) -> float:
        """Return the seconds until the next report of a caller may be recorded; 0 if that is
        now.
        """
        return self._reports[caller].wait()

    def charge_report(self, caller: str, decisions: int) -> None:
        """Count the decisions of a report. A report is recorded as a whole, and the next one waits
        for as long as all its decisions may take.
        """
        self._reports[caller].charge(decisions)


class Authorizer:
    """Lets permitted calls through to the servicers."""

    def __init__(self, authenticator: Authenticator, rates: RateLimiter | None = None) -> None:
        """Use what identifies callers, and their rate limits if there are any."""
        self._authenticator = authenticator
        self._rates = rates

    def unary(self, method: str, serve: UnaryMethod) -> Unary:
        """Guard a unary method. Raises KeyError if it has no role."""
        role = ROLES[method]

        async def guarded(data: bytes, context: Context) -> bytes:
            principal = self._admit(role, context)
            if self._rates is not None:
                self._rates.acquire(principal.name)
            if role is Role.ADMIN:
                AccessLog(method, context).log_admin_call()
            return await serve(data, trusted=principal.rights.assert_groups)

        return guarded

    def stream(self, method: str, serve: StreamMethod) -> Stream:
        """Guard a streaming method, whose opening counts as a call.

        A stream ends with its next message once the rights of its caller have changed, or its
        certificate has expired.
        """
        role = ROLES[method]

        async def guarded(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            version = self._authenticator.version
            principal = self._admit(role, context)
            expiry = self._authenticator.certificate_expiry(context)
            if self._rates is not None:
                self._rates.acquire(principal.name)

            def check_rights() -> None:
                nonlocal version
                if version == self._authenticator.version and not self._authenticator.is_past(
                    expiry
                ):
                    return
                version = self._authenticator.version
                if self._admit(role, context) != principal:
                    raise Draining("the rights of the caller have changed: open a new stream")

            requests = _checked(requests, check_rights)
            async for response in serve(requests, trusted=principal.rights.assert_groups):
                yield response

        return guarded

    async def admit_or_abort(self, method: str, role: Role, context: Context) -> None:
        """Guard a servicer of a library, whose errors nobody else turns into a status."""
        try:
            self._admit(role, context)
        except Exception as error:  # the boundary: every error becomes a status
            await AccessLog(method, context).abort(error)

    def _admit(self, role: Role, context: Context) -> Principal:
        """Return the caller, which becomes the current principal, if it has the role.

        Raises Unauthenticated and PermissionDenied.
        """
        principal = self._authenticator.identify(context)
        set_current_principal(principal)
        principal.require(role)
        return principal


async def _checked(
    requests: AsyncIterator[bytes], check: Callable[[], None]
) -> AsyncIterator[bytes]:
    async for request in requests:
        check()
        yield request
        del request  # which may be large, before the wait for the next
