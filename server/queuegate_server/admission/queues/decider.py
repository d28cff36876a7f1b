"""Decides the checks of a review in the webhook's own process."""

import time
from collections.abc import Sequence
from typing import Final

from queuegate.policy.decide import usable
from queuegate.policy.decision import Access, Decision
from queuegate.policy.names import CONTROL_CHARACTER
from queuegate_server.admission.queues.model import Outcome, RequiredCheck
from queuegate_server.engine import Engine, Query, ServedPartition
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.settings.admission import GroupSource

MAX_USER_BYTES: Final = 1_024
"""The maximum size of a user name or group name, as in gRPC requests."""

USABLE_SECONDS: Final = 0.01
"""How long the search for usable queues may take; it blocks other reviews meanwhile."""
_CHUNK: Final = 100


class InvalidUser(ValueError):
    """Raised for a requester whose name cannot be decided about. The message says why."""


class Decider:
    """Decides checks with the engine."""

    def __init__(self, engine: Engine, groups: GroupSource) -> None:
        """Create a decider.

        Args:
            engine: The engine that serves the policy.
            groups: Where the requester's groups come from.
        """
        self._engine = engine
        self._groups = groups

    async def decide(
        self,
        checks: Sequence[RequiredCheck],
        served: ServedPartition,
        user: str,
        groups: Sequence[str],
    ) -> list[Outcome]:
        """Decide checks for a requester.

        Args:
            checks: The checks.
            served: The partition.
            user: The requester's name.
            groups: The requester's groups according to the API server.

        Raises:
            GroupsUnavailable: A decision depends on groups that cannot be looked up.
            InvalidUser: The user name is too long, contains control characters, or is not allowed
                in a request with groups.
        """
        _check_user(user, served, has_groups=self._groups is not GroupSource.DIRECTORY)
        return [(check, await self._decide(check, served, user, groups)) for check in checks]

    def usable(
        self, served: ServedPartition, user: str, groups: Sequence[str], limit: int
    ) -> list[str]:
        """Return up to `limit` paths of queues to which a requester may submit.

        Looks up no groups, and stops after USABLE_SECONDS with the queues found until then.
        """
        own: Sequence[str] = ()
        if self._groups is not GroupSource.DIRECTORY:
            own = groups
        if self._groups is not GroupSource.KUBERNETES:
            entry = served.groups.known(user)
            if entry is not None and isinstance(entry.outcome, KnownUser):
                own = (*own, *entry.outcome.groups)
        found: list[str] = []
        paths = served.partition.paths
        end = time.monotonic() + USABLE_SECONDS
        for start in range(0, len(paths), _CHUNK):
            chunk = paths[start : start + _CHUNK]
            allowed = usable(served.partition, chunk, Access.SUBMIT, user, own)
            found += [path for path, _ in allowed or ()]
            if len(found) >= limit or time.monotonic() > end:
                break
        return found[:limit]

    async def _decide(
        self, check: RequiredCheck, served: ServedPartition, user: str, groups: Sequence[str]
    ) -> Decision:
        own: Sequence[str] | None = None
        if self._groups is not GroupSource.DIRECTORY:
            own = [group for group in groups if _is_name(group)]
        query = Query(user, own, served, check.path, check.access)
        if own is not None:
            verdict = self._engine.check(query)
            if verdict is not None and (
                verdict.decision.allowed or self._groups is GroupSource.KUBERNETES
            ):
                return verdict.decision
            query = query._replace(groups=None)
        verdict = self._engine.check(query)
        if verdict is None:
            verdict = await self._engine.resolve_and_check(query)
        return verdict.decision


def _is_name(text: str) -> bool:
    return (
        bool(text)
        and len(text.encode("utf-8", "surrogatepass")) <= MAX_USER_BYTES
        and not CONTROL_CHARACTER.search(text)
    )


def _check_user(user: str, served: ServedPartition, *, has_groups: bool) -> None:
    if not _is_name(user):
        raise InvalidUser(
            f"request.userInfo.username has more than {MAX_USER_BYTES} bytes, or control characters"
        )
    if has_groups and not served.partition.accepts_user(user):
        raise InvalidUser(
            "request.userInfo.username is not a user name that YuniKorn accepts with groups; set"
            f" partitions.{served.partition.name}.acl_names to any in the settings"
        )
