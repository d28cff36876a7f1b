"""Looks up the requester's groups for the user info annotation, as set in admission.user_info."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from queuegate.user_info import ANNOTATION
from queuegate_server.admission.annotations.rules import AdmissionRequest, OwnGroups
from queuegate_server.admission.annotations.usable_groups import (
    RecentGroups,
    Selection,
    UsableGroups,
)
from queuegate_server.admission.server.strangers import StrangerLookups, TooManyStrangers
from queuegate_server.admission.server.user_names import name_fault
from queuegate_server.engine import Engine, NotReady, ServedPartition, UnknownPartition
from queuegate_server.formats.diagnostics import quoted
from queuegate_server.identity.resolver import KnownUser, LookupFailure
from queuegate_server.observe.metric_families import registered
from queuegate_server.policy_age import PolicyTooOld
from queuegate_server.settings.admission import GroupSource, UserInfoAnnotation

_LOG = logging.getLogger("queuegate_server.admission")
MAX_LOGGED_NAMES: Final = 1_000
"""The maximum number of omitted names to log. Each is logged once."""


class CannotResolve(Exception):
    """Raised if the requester's groups cannot be looked up. The message says why."""


class RequesterGroups:
    """The requesters' groups that the annotation may contain."""

    def __init__(
        self,
        engine: Engine,
        settings: UserInfoAnnotation,
        lifetime: Callable[[], float],
        registry: CollectorRegistry,
        *,
        clock: Callable[[], float] = time.monotonic,
        strangers: StrangerLookups | None = None,
    ) -> None:
        """Register the metrics.

        Args:
            engine: The engine that serves the policy.
            settings: Which groups to write.
            lifetime: Returns how long the resolver's groups are cached, in seconds.
            registry: The webhook's metrics.
            clock: A monotonic clock in seconds.
            strangers: The budget for lookups that unverified callers cause.
        """
        self._strangers = strangers or StrangerLookups()
        self._engine = engine
        self._settings = settings
        self._lifetime = lifetime
        self._recent = RecentGroups(clock)
        self._usable: tuple[tuple[int, str], asyncio.Task[UsableGroups]] | None = None
        self._logged: set[str] = set()
        self._omitted = registered(Counter, "queuegate_admission_groups_omitted", registry)
        self._unavailable = registered(Counter, "queuegate_admission_groups_unavailable", registry)

    async def of(
        self, request: AdmissionRequest, *, writes: bool, verified: bool, deadline: float
    ) -> OwnGroups:
        """Return the groups of the user who sent a request.

        Args:
            request: The request.
            writes: Whether the groups are written into the annotation, rather than compared with
                it. Groups that the user had recently are enough for a comparison.
            verified: Whether the caller presented a certificate that the settings accept.
            deadline: When the groups must be known, as for `asyncio.timeout_at`.

        Raises:
            CannotResolve: The groups cannot be looked up.
        """
        settings = self._settings
        served, usable = await self._policy()
        stated = usable.select(request.groups)
        directory = await self._directory(served, request.user, deadline, verified=verified)
        if isinstance(directory, str):
            return self._without_directory(request.user, stated, directory, writes=writes)
        is_both = settings.groups is GroupSource.BOTH
        selection = usable.select((*directory, *request.groups) if is_both else directory)
        written = selection.groups
        if writes:
            self._note_omitted(selection.refused)
        self._recent.add(request.user, written, self._lifetime())
        accepted = {written, *(self._recent.find(request.user) or ())}
        if settings.on_outage == "kubernetes":
            # Another process may have written these groups while the directory was not responding.
            accepted.add(stated.groups)
        return OwnGroups(written, frozenset(accepted))

    def _without_directory(
        self, user: str, stated: Selection, reason: str, *, writes: bool
    ) -> OwnGroups:
        recent = None if writes else self._recent.find(user)
        if self._settings.on_outage == "kubernetes":
            self._unavailable.labels("kubernetes").inc()
            if writes:
                self._note_omitted(stated.refused)
            return OwnGroups(stated.groups, frozenset({stated.groups, *(recent or ())}))
        if recent is not None:
            self._unavailable.labels("recent").inc()
            return OwnGroups((), recent)
        self._unavailable.labels("refused").inc()
        raise CannotResolve(
            f"the groups of user {quoted(user)} for the annotation {ANNOTATION} cannot be looked"
            f" up: {reason}"
        )

    async def _policy(self) -> tuple[ServedPartition, UsableGroups]:
        """Return the partition, and its usable groups. Raises CannotResolve."""
        try:
            snapshot = self._engine.snapshot
            served = snapshot.find(self._settings.partition)
        except (NotReady, PolicyTooOld, UnknownPartition) as error:
            raise CannotResolve(f"admission.user_info.partition: {error}") from None
        if served.partition.cluster is not None:
            raise CannotResolve(
                f"admission.user_info.partition: {quoted(served.partition.name)} is a YARN cluster;"
                " name a partition of a YuniKorn policy"
            )
        # Use the revision, because a reference to the partition would keep a replaced policy in
        # memory.
        key = (snapshot.policy.revision, served.partition.name)
        if self._usable is None or self._usable[0] != key or _has_failed(self._usable[1]):
            collecting = asyncio.create_task(asyncio.to_thread(UsableGroups, served.partition))
            self._usable = key, collecting
        return served, await asyncio.shield(self._usable[1])

    async def _directory(
        self, served: ServedPartition, user: str, deadline: float, *, verified: bool
    ) -> Sequence[str] | str:
        """Return a user's groups from the resolver, or a string that says why they are unknown."""
        if fault := name_fault(user):
            return f"the user name {fault}"
        groups = served.groups
        entry = groups.known(user)
        if entry is None:
            is_known = verified or groups.has_seen(user)
            try:
                async with (
                    asyncio.timeout_at(deadline),
                    contextlib.nullcontext() if is_known else self._strangers.slot(),
                ):
                    entry = (await groups.resolve(user)).entry
            except TimeoutError:
                return f"resolver {groups.resolver_name!r} did not answer in time"
            except TooManyStrangers as error:
                return str(error)
        outcome = entry.outcome
        if isinstance(outcome, LookupFailure):
            return f"resolver {groups.resolver_name!r} is unavailable; see the webhook's log"
        return outcome.groups if isinstance(outcome, KnownUser) else ()

    def _note_omitted(self, names: Sequence[str]) -> None:
        """Count and log the groups that are left out because the parser would reject them."""
        self._omitted.inc(len(names))
        for name in names:
            if name not in self._logged and len(self._logged) < MAX_LOGGED_NAMES:
                self._logged.add(name)
                _LOG.warning(
                    "a group is left out of the annotation, because YuniKorn would refuse users"
                    " in a group with this name: rename the group, or remove it from the policy",
                    extra={"group": quoted(name)},
                )


def _has_failed(task: "asyncio.Task[UsableGroups]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
