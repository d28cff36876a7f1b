"""Decides the checks of a review in the webhook's own process."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from queuegate.policy.decision import Access, Decision
from queuegate_server.admin.bodies import RequestRefusal
from queuegate_server.admission.queues.model import Outcome, RequiredCheck
from queuegate_server.admission.server.strangers import StrangerLookups, TooManyStrangers
from queuegate_server.admission.server.user_names import name_fault
from queuegate_server.engine import (
    Engine,
    GroupsUnavailable,
    NotReady,
    Query,
    ServedPartition,
    TooManyLookups,
    UnknownPartition,
)
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.policy_age import PolicyTooOld
from queuegate_server.settings.admission import Authorization, GroupSource

INVALID_FIELD: Final = "invalid_field"
"""The reason in the audit records for a request that cannot be decided, as in gRPC errors."""
_REASONS: Final[dict[type[Exception], str]] = {
    GroupsUnavailable: "resolver_unavailable",
    TooManyLookups: "overloaded",
    TooManyStrangers: "overloaded",
    TimeoutError: "deadline_exceeded",
}
"""The reasons for errors in audit records, as in gRPC errors."""


class CannotDecide(RequestRefusal):
    """Raised if a request cannot be decided. The API server gets an HTTP error with the message,
    and applies the failurePolicy.
    """

    def __init__(self, message: str) -> None:
        super().__init__(500, "failed", message)


class Requester(NamedTuple):
    """A user on whose behalf checks are decided."""

    user: str
    groups: Sequence[str]
    """The groups according to the API server."""
    strangers: StrangerLookups | None
    """The budget for lookups of unseen users; None if the caller is verified."""


class Decisions(NamedTuple):
    """The outcomes of checks."""

    outcomes: list[Outcome]
    """Each check with its decision, or the reason for its error."""
    failure: str
    """The message of the first error; empty if all checks were decided."""


class ReviewDecider:
    """Decides checks with the engine.

    Args:
        engine: The engine that serves the policy.
        settings: The partition, and where users' groups come from.
    """

    def __init__(self, engine: Engine, settings: Authorization) -> None:
        self._engine = engine
        self._settings = settings

    def served(self) -> ServedPartition:
        """Return the partition. Raises CannotDecide."""
        try:
            return self._engine.snapshot.find(self._settings.partition)
        except (NotReady, PolicyTooOld, UnknownPartition) as error:
            raise CannotDecide(f"{self._settings.key}.partition: {error}") from None

    async def decide(
        self,
        checks: Sequence[RequiredCheck],
        served: ServedPartition,
        requester: Requester,
        deadline: float,
    ) -> Decisions:
        """Decide checks. An error in one check does not affect the others.

        Args:
            checks: The checks.
            served: The partition.
            requester: The requester.
            deadline: When the decisions must be ready, as for `asyncio.timeout_at`.
        """
        invalid = self._fault(requester.user, served)
        if invalid:
            return Decisions([(check, INVALID_FIELD) for check in checks], invalid)
        uses_request = self._uses_request(served)
        groups = list(filter(_is_name, requester.groups)) if uses_request else None
        requester = requester._replace(groups=groups or ())
        outcomes: list[Outcome] = []
        failure: Exception | None = None
        for check in checks:
            try:
                decision = self._decide_with_known_groups(check, served, requester)
                if decision is None:
                    if failure is not None:
                        raise failure  # another lookup would also fail, possibly slowly
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
        if self._uses_request(served):
            known += filter(_is_name, requester.groups)
        if self._settings.source_of_groups(served.partition) is not GroupSource.KUBERNETES:
            partition = served.partition
            own = partition.counting_groups(requester.user, None)
            entry = None
            if own is None:
                entry = served.groups.known(served.directory_name(requester.user))
            if entry is not None and isinstance(entry.outcome, KnownUser):
                own = partition.counting_groups(requester.user, entry.outcome.groups)
            known += own or ()
        return known

    def _uses_request(self, served: ServedPartition) -> bool:
        source = self._settings.source_of_groups(served.partition)
        return source is not GroupSource.DIRECTORY

    def _decide_with_known_groups(
        self, check: RequiredCheck, served: ServedPartition, requester: Requester
    ) -> Decision | None:
        """Return the decision; None if groups must be looked up first. Raises GroupsUnavailable."""
        query = _query(check, served, requester)
        source = self._settings.source_of_groups(served.partition)
        if source is not GroupSource.DIRECTORY:
            # ACLs only grant access, so either source of groups suffices for a grant.
            verdict = self._engine.check(query._replace(groups=requester.groups))
            if verdict is not None and (
                verdict.decision.allowed or source is GroupSource.KUBERNETES
            ):
                return verdict.decision
        verdict = self._engine.check(query)
        return None if verdict is None else verdict.decision

    async def _look_up_and_decide(
        self, check: RequiredCheck, served: ServedPartition, requester: Requester
    ) -> Decision:
        query = _query(check, served, requester)
        name = served.directory_name(requester.user)
        if requester.strangers is None or served.groups.has_seen(name):
            return (await self._engine.resolve_and_check(query)).decision
        async with requester.strangers.slot():
            return (await self._engine.resolve_and_check(query)).decision

    def _fault(self, user: str, served: ServedPartition) -> str:
        """Return why a user name makes a decision impossible; empty if it does not."""
        if fault := name_fault(user):
            return f"the user name {fault}"
        if self._uses_request(served) and not served.partition.accepts_user(user):
            return (
                "the user name is not one that YuniKorn accepts with groups: set"
                f" partitions.{served.partition.name}.acl_names to any in the settings, or"
                f" {self._settings.key}.groups to directory"
            )
        return ""


def access_of(check: RequiredCheck, served: ServedPartition) -> Access:
    """Return the kind of access to decide. Under Kubernetes RBAC, one verb grants all use of a
    queue.
    """
    return check.access if served.partition.named_grants is None else Access.SUBMIT


def _query(check: RequiredCheck, served: ServedPartition, requester: Requester) -> Query:
    # Directories are not queried about service accounts, or about users that they cannot contain.
    groups = served.partition.counting_groups(requester.user, None)
    return Query(requester.user, groups, served, check.path, access_of(check, served))


def _is_name(text: str) -> bool:
    return not name_fault(text)


def _message(failure: Exception) -> str:
    if isinstance(failure, TimeoutError):
        return "groups are needed, and the resolver did not answer in time; see the server's log"
    return str(failure)
