"""Decides the checks of a review in the webhook's own process."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from queuegate.policy.decision import Decision
from queuegate.policy.names import CONTROL_CHARACTER
from queuegate_server.admission.queues.model import Outcome, RequiredCheck
from queuegate_server.admission.queues.strangers import StrangerLookups, TooManyStrangers
from queuegate_server.engine import (
    Engine,
    GroupsUnavailable,
    Query,
    ServedPartition,
    TooManyLookups,
)
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.settings.admission import GroupSource

MAX_NAME_BYTES: Final = 1_024
"""The maximum size of a user name or group name, as in gRPC requests."""
_MAX_SHORT: Final = 256
"""Printable names of up to this length are valid. Nearly all names are."""

INVALID_FIELD: Final = "invalid_field"
"""The reason in audit records of a request that cannot be decided, as in gRPC errors."""
_REASONS: Final[dict[type[Exception], str]] = {
    GroupsUnavailable: "resolver_unavailable",
    TooManyLookups: "overloaded",
    TooManyStrangers: "overloaded",
    TimeoutError: "deadline_exceeded",
}
"""The reasons for errors in audit records, as in gRPC errors."""


class Requester(NamedTuple):
    """A user on whose behalf checks are decided."""

    user: str
    groups: Sequence[str]
    """The groups according to the API server."""
    verified: bool
    """Whether the caller presented a certificate that the settings accept."""


class Decisions(NamedTuple):
    """The outcomes of checks."""

    outcomes: list[Outcome]
    """Each check with its decision, or the reason for its error."""
    failure: str
    """The message of the first error; empty if all checks were decided."""


class Decider:
    """Decides checks with the engine.

    Args:
        engine: The engine that serves the policy.
        groups: Where requesters' groups come from.
        strangers: The budget for lookups of users never seen, if the caller is not verified.
    """

    def __init__(self, engine: Engine, groups: GroupSource, strangers: StrangerLookups) -> None:
        self._engine = engine
        self._groups = groups
        self._strangers = strangers

    async def decide(
        self,
        checks: Sequence[RequiredCheck],
        served: ServedPartition,
        requester: Requester,
        deadline: float,
    ) -> Decisions:
        """Decide checks. An error in one check does not keep the others from being decided.

        Args:
            checks: The checks.
            served: The partition.
            requester: The requester.
            deadline: When the decisions must be ready, as for `asyncio.timeout_at`.
        """
        invalid = _fault(requester.user, served, has_groups=self._uses_request)
        if invalid:
            return Decisions([(check, INVALID_FIELD) for check in checks], invalid)
        groups = list(filter(_is_name, requester.groups)) if self._uses_request else None
        requester = requester._replace(groups=groups or ())
        outcomes: list[Outcome] = []
        failure: Exception | None = None
        for check in checks:
            try:
                decision = self._decide_with_known_groups(check, served, requester)
                if decision is None:
                    if failure is not None:
                        raise failure  # a further lookup would fail as well, possibly slowly
                    async with asyncio.timeout_at(deadline):
                        decision = await self._look_up_and_decide(check, served, requester)
            except (GroupsUnavailable, TooManyStrangers, TimeoutError) as error:
                failure = failure or error
                outcomes.append((check, _REASONS[type(error)]))
            else:
                outcomes.append((check, decision))
        return Decisions(outcomes, "" if failure is None else _message(failure))

    def known_groups(self, served: ServedPartition, requester: Requester) -> list[str]:
        """Return the groups that are known without a lookup."""
        known: list[str] = []
        if self._uses_request:
            known += filter(_is_name, requester.groups)
        if self._groups is not GroupSource.KUBERNETES:
            entry = served.groups.known(requester.user)
            if entry is not None and isinstance(entry.outcome, KnownUser):
                known += entry.outcome.groups
        return known

    @property
    def _uses_request(self) -> bool:
        return self._groups is not GroupSource.DIRECTORY

    def _decide_with_known_groups(
        self, check: RequiredCheck, served: ServedPartition, requester: Requester
    ) -> Decision | None:
        """Return the decision; None if groups must be looked up first. Raises GroupsUnavailable."""
        query = Query(requester.user, None, served, check.path, check.access)
        if self._uses_request:
            # ACLs only grant access, so either source of groups suffices for a grant.
            verdict = self._engine.check(query._replace(groups=requester.groups))
            if verdict is not None and (
                verdict.decision.allowed or self._groups is GroupSource.KUBERNETES
            ):
                return verdict.decision
        verdict = self._engine.check(query)
        return None if verdict is None else verdict.decision

    async def _look_up_and_decide(
        self, check: RequiredCheck, served: ServedPartition, requester: Requester
    ) -> Decision:
        query = Query(requester.user, None, served, check.path, check.access)
        if requester.verified or served.groups.has_seen(requester.user):
            return (await self._engine.resolve_and_check(query)).decision
        async with self._strangers.slot():
            return (await self._engine.resolve_and_check(query)).decision


def _is_name(text: str) -> bool:
    if len(text) <= _MAX_SHORT and text.isprintable():
        return bool(text)
    return len(
        text.encode("utf-8", "surrogatepass")
    ) <= MAX_NAME_BYTES and not CONTROL_CHARACTER.search(text)


def _fault(user: str, served: ServedPartition, *, has_groups: bool) -> str:
    """Return why a user name cannot be decided about; empty if it can."""
    if not _is_name(user):
        return (
            f"request.userInfo.username has more than {MAX_NAME_BYTES} bytes, or a control"
            " character"
        )
    if has_groups and not served.partition.accepts_user(user):
        return (
            "request.userInfo.username is not a user name that YuniKorn accepts with groups: set"
            f" partitions.{served.partition.name}.acl_names to any in the settings, or"
            " admission.queues.groups to directory"
        )
    return ""


def _message(failure: Exception) -> str:
    if isinstance(failure, TimeoutError):
        return "groups are needed, and the resolver did not answer in time; see the server's log"
    return str(failure)
